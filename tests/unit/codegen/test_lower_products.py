"""Lowering of contractions: which are products, over which axes, and what becomes of the others."""

from __future__ import annotations

import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Fold, For, Product
from symgrad.codegen.loops.rewrite import statements
from symgrad.graph import dtypes
from tests.support.programs import kernel_from, lines_of
from tests.unit.codegen.test_lower import assert_in_order, found


def product_of(*outputs: sg.Tensor) -> Product:
    kernel = kernel_from(*outputs)
    (product,) = (s for s in statements(kernel.body) if isinstance(s, Product))
    return product


A = sg.placeholder((16, 24))
B = sg.placeholder((24, 8))


def test_a_matrix_product_is_a_product_with_its_epilogue_inside():
    assert_in_order(
        lines_of(kernel_from(sg.tanh(A @ B))),
        "product t0: f32 for (i0 in 0..16) (i2 in 0..8) (i1 in 0..24)",
        "b0[0] by (24, 1) * b1[0] by (8, 1) tile(1, 1) block(1, 1, 1) pack() along(n) {",
        "t1: f32 = tanh(t0)",
        "b2[8*i0 + i2] = t1",
    )


@pytest.mark.parametrize(
    ("lhs", "rhs", "strides"),
    [
        (A, sg.placeholder((8, 24)).T, ((24, 1), (1, 24))),
        (sg.placeholder((24, 16)).T, B, ((1, 16), (8, 1))),
        (A, sg.placeholder((24, 16))[:, ::2], ((24, 1), (16, 2))),
        (A, sg.flip(B, 0), ((24, 1), (-8, 1))),
        (A, sg.broadcast_to(sg.placeholder((8,)), (24, 8)), ((24, 1), (0, 1))),
    ],
    ids=["rhs transposed", "lhs transposed", "every other column", "flipped", "one row"],
)
def test_an_affine_view_of_an_operand_becomes_its_strides(lhs, rhs, strides):
    product = product_of(lhs @ rhs)
    left, right = product.lhs, product.rhs
    assert ((left.rows, left.columns), (right.rows, right.columns)) == strides


def test_the_first_element_of_a_flipped_operand_is_its_last_row():
    assert product_of(A @ sg.flip(B, 0)).rhs.index.const == 23 * 8


def test_a_batch_is_a_loop_around_the_product():
    kernel = kernel_from(sg.placeholder((2, 16, 24)) @ sg.placeholder((2, 24, 8)))
    (loop,) = kernel.body
    assert isinstance(loop, For)
    assert loop.extent == 2
    (product,) = loop.body
    assert isinstance(product, Product)


def test_axes_that_walk_on_together_are_one_axis_of_the_product():
    product = product_of(sg.tensordot(sg.placeholder((2, 16, 24)), B, axes=1))
    assert (product.rows[1], product.columns[1], product.inner[1]) == (32, 8, 24)
    product = product_of(
        sg.tensordot(sg.placeholder((16, 4, 6)), sg.placeholder((4, 6, 8)), axes=2)
    )
    assert (product.rows[1], product.columns[1], product.inner[1]) == (16, 8, 24)


@pytest.mark.parametrize("panels", [4, 32, 64])
def test_columns_that_lie_side_by_side_are_those_of_the_product_however_many_panels_there_are(
    panels,
):
    x, w = sg.placeholder((16, 24)), sg.placeholder((panels, 24, 32))
    product = product_of(sg.einsum("bk,nkp->bnp", x, w))
    assert (product.columns[1], product.rhs.columns) == (32, 1)
    # Also too few for a panel, as long as they lie side by side in the result.
    short = product_of(sg.einsum("bk,nkp->bnp", x, sg.placeholder((64, 24, 16))))
    assert (short.columns[1], short.rhs.columns) == (16, 1)


def test_axes_that_do_not_walk_on_are_loops_around_the_product():
    x = sg.permute_dims(sg.placeholder((16, 2, 24)), (1, 0, 2))
    kernel = kernel_from(sg.tensordot(x, B, axes=1))
    assert [type(s) for s in statements(kernel.body)][:2] == [For, Product]


@pytest.mark.parametrize(
    ("lhs", "rhs"), [((3, 4), (4, 2)), ((64, 64), (64,)), ((1, 64), (64, 64)), ((64, 64), (64, 1))]
)
def test_a_small_product_and_one_with_a_vector_are_folds(lhs, rhs):
    kernel = kernel_from(sg.placeholder(lhs) @ sg.placeholder(rhs))
    assert len(found(kernel, Fold)) == 1
    assert not found(kernel, Product)


def test_the_labels_that_are_summed_and_make_no_one_axis_are_folds():
    lhs = sg.placeholder((16, 4, 6))
    rhs = sg.permute_dims(sg.placeholder((6, 4, 8)), (1, 0, 2))
    kernel = kernel_from(sg.tensordot(lhs, rhs, axes=2))
    assert not found(kernel, Product)
    assert len(found(kernel, Fold)) == 2


def test_a_product_of_16_bit_floats_is_summed_in_float32():
    h = sg.placeholder((16, 16), "float16")
    product = product_of(h @ h)
    assert (product.element, product.dtype) == (dtypes.float16, dtypes.float32)


def test_few_columns_of_a_large_result_are_digits_of_one_axis():
    x = sg.placeholder((8192, 22))
    product = product_of(sg.einsum("bk,pkn->bnp", x, sg.placeholder((26, 22, 12))))
    assert product.columns[1] == 12 * 26
    assert (product.rhs.columns, product.rhs.column_digits) == (22 * 12, ((26, 1),))
    # Those of a small result are columns of a product each, as is a panel however large it is.
    assert (
        product_of(sg.einsum("bk,pkn->bnp", x[:64], sg.placeholder((26, 22, 12)))).columns[1] == 26
    )
    assert product_of(sg.einsum("bk,nkp->bnp", x, sg.placeholder((12, 22, 32)))).columns[1] == 32


def test_columns_that_an_epilogue_does_not_walk_on_through_are_loops():
    x, w, b = sg.placeholder((8192, 22)), sg.placeholder((26, 22, 12)), sg.placeholder((12, 26))
    y = sg.einsum("bk,pkn->bnp", x, w)
    assert product_of(y + b).columns[1] == 12 * 26
    assert product_of(y + b[:, :1]).columns[1] == 26
