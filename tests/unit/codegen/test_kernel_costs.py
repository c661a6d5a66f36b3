"""Flops and bytes of kernels, compared with what counting by hand gives."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

F32 = np.float32


def variable(shape: tuple[int, ...], dtype: str = "float32") -> sg.Variable:
    return sg.variable(np.ones(shape, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [(30, 50, 40), (3, 5, 2), (128, 1, 64), (1, 7, 3)])
def test_a_product_multiplies_and_adds(dtype: str, size: tuple[int, int, int]) -> None:
    m, n, k = size
    a, b = sg.placeholder((m, k), dtype), sg.placeholder((k, n), dtype)
    (record,) = sg.compile([a, b], a @ b).kernels
    assert record.flops == 2 * m * n * k
    assert record.bytes == (m * k + k * n + m * n) * np.dtype(dtype).itemsize


def test_the_epilogue_of_a_product_is_counted():
    a, b, c = sg.placeholder((30, 40)), sg.placeholder((40, 50)), sg.placeholder((50,))
    (record,) = sg.compile([a, b, c], sg.maximum(a @ b + c, 0.0)).kernels
    assert record.flops == 2 * 30 * 50 * 40 + 2 * 30 * 50
    assert record.bytes == 4 * (30 * 40 + 40 * 50 + 50 + 30 * 50)


def test_an_update_of_adam_has_thirteen_operations_an_element():
    """m: 3 operations, v: 4, w: 6; and per step the two corrections, of which v's is 1 / sqrt."""
    n = 3000
    w, g = variable((n,)), sg.placeholder((n,))
    kernels = sg.compile([g], [], sg.optim.Adam(0.1).apply_gradients([(g, w)])).kernels
    powers = 1 + 2 * 40  # t + 1, beta1**t and beta2**t: a power counts as 40
    corrections = 5  # 1 - beta1**t, lr / it, 1 - beta2**t, sqrt of it, 1 / it
    assert sum(r.flops for r in kernels) == 13 * n + powers + corrections
    # g, m, v and w are read and the last three written; beside them two float64 scalars.
    assert max(r.bytes for r in kernels) == 4 * n * 7 + 2 * 8


def test_the_gradient_of_a_layer_and_its_update_are_one_kernel():
    x, w = sg.placeholder((32, 64)), variable((64, 128))
    loss = sg.sum(sg.square(x @ w))
    step = sg.compile([x], [], sg.optim.SGD(0.1).minimize(loss))
    record = next(r for r in step.kernels if {"einsum", "subtract"} <= set(r.ops))
    # 2 * dy is a product's operand; then lr * g and w - that.
    assert record.flops == 2 * 64 * 128 * 32 + 2 * 64 * 128
    assert record.bytes == 4 * (32 * 64 + 32 * 128 + 2 * 64 * 128)


def test_of_a_table_only_the_rows_that_are_used_are_counted():
    i = sg.placeholder((5,), "int64")
    table, rows = variable((1000, 8)), sg.placeholder((5, 8))
    (gathered,) = sg.compile([i], sg.take(table, i, axis=0)).kernels
    assert gathered.bytes == 5 * 8 * 4 * 2 + 5 * 8
    update = sg.Update(table, table - sg.scatter_add(sg.zeros((1000, 8)), i, rows))
    kernels = sg.compile([i, rows], [], [update]).kernels
    assert sum(k.bytes for k in kernels) < table.value.nbytes / 10


def test_a_small_table_is_counted_once_however_often_it_is_read():
    i = sg.placeholder((100,), "int64")
    (gathered,) = sg.compile([i], sg.take(variable((3,)), i)).kernels
    assert gathered.bytes == 100 * 4 + 3 * 4 + 100 * 8
