"""Lowering: the plain kernel of each structure, and that every kernel is well formed."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import (
    Check,
    Fold,
    For,
    Kernel,
    Let,
    Load,
    Op,
    Ref,
    Stmt,
    Store,
)
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph, Update
from symgrad.passes.fusion.buffers import assign_buffers
from symgrad.passes.fusion.fuse import fuse
from tests.support.programs import kernel_from, lines_of, lowered_from, program_from
from tests.support.strategies import random_graph

X = sg.placeholder((3, 4), name="x")
Y = sg.placeholder((3, 4), name="y")


Kind = TypeVar("Kind", bound=Stmt)


def found(kernel: Kernel, kind: type[Kind]) -> list[Kind]:
    return [s for s in statements(kernel.body) if isinstance(s, kind)]


def assert_in_order(lines: list[str], *wanted: str) -> None:
    """Assert that the lines of a kernel have `wanted` among them, in this order."""
    rest = iter(lines)
    for line in wanted:
        assert any(line == text for text in rest), f"{line!r} is not next in:\n" + "\n".join(lines)


# ----------------------------------------------------------------------------------------- Map


def test_a_map_is_a_loop_for_each_axis():
    assert lines_of(kernel_from(X + Y)) == [
        "kernel @k(in b0: f32[12], in b1: f32[12], out b2: f32[12]) {",
        "for i0 in 0..3 {",
        "for i1 in 0..4 {",
        "t0: f32 = b0[4*i0 + i1]",
        "t1: f32 = b1[4*i0 + i1]",
        "t2: f32 = add(t0, t1)",
        "b2[4*i0 + i1] = t2",
        "}",
        "}",
        "}",
    ]


def test_a_scalar_takes_no_loop():
    kernel = kernel_from(sg.tanh(sg.placeholder(())))
    assert not found(kernel, For)
    assert_in_order(lines_of(kernel), "t0: f32 = b0[0]", "t1: f32 = tanh(t0)", "b1[0] = t1")


def test_a_value_used_twice_is_computed_once():
    y = sg.tanh(X)
    assert str(lines_of(kernel_from(y * y))).count("tanh") == 1


def test_equal_expressions_are_computed_once():
    assert str(lines_of(kernel_from(sg.tanh(X) * sg.tanh(X)))).count("tanh") == 1


def test_a_16_bit_float_is_computed_in_float32_and_rounded_after_each_operation():
    h = sg.placeholder((4,), "bfloat16")
    assert_in_order(
        lines_of(kernel_from(h * h + h)),
        "t1: f32 = f32(t0)",
        "t2: f32 = mul(t1, t1)",
        "t3: bf16 = bf16(t2)",
        "t4: f32 = f32(t3)",
        "t5: f32 = add(t4, t1)",
        "t6: bf16 = bf16(t5)",
        "b1[i0] = t6",
    )


def test_a_constant_of_one_element_is_written_out_and_a_larger_one_is_a_buffer():
    (lowered,) = lowered_from(X * sg.constant(np.arange(4, dtype=np.float32)) + 0.5)
    assert_in_order(lines_of(lowered.kernel), "t1: f32 = b1[i1]", "t3: f32 = add(t2, 0.5)")
    assert [str(b) for b in lowered.arguments] == ["input0", "constant0", "output0"]


def test_a_position_is_a_value_of_its_index():
    assert_in_order(
        lines_of(kernel_from(sg.arange(6) * 2)), "t0: i64 = index(i0)", "t1: i64 = mul(t0, 2)"
    )


# ---------------------------------------------------------------------------------------- Views


@pytest.mark.parametrize(
    ("view", "load"),
    [
        (sg.broadcast_to(sg.placeholder((4,)), (3, 4)), "b0[i1]"),
        (X.T, "b0[i0 + 4*i1]"),
        (sg.flip(X), "b0[-4*i0 - i1 + 11]"),
        (X[1:, ::2], "b0[4*i0 + 2*i1 + 4]"),
        (X[::-1, 3:0:-2], "b0[-4*i0 - 2*i1 + 11]"),
        (X[1], "b0[i0 + 4]"),
        (sg.permute_dims(sg.placeholder((2, 3, 4)), (2, 0, 1)), "b0[i0 + 12*i1 + 4*i2]"),
    ],
)
def test_a_view_is_an_affine_index(view, load):
    assert f"t0: f32 = {load}" in lines_of(kernel_from(sg.tanh(view)))


def test_a_reshape_that_splits_an_axis_leaves_no_division():
    x = sg.placeholder((3, 8))
    (lowered,) = lowered_from(sg.reshape(x * 2, (3, 2, 4)) + sg.placeholder((2, 1)))
    text = str(lines_of(lowered.kernel))
    assert "b0[8*i0 + 4*i1 + i2]" in text
    assert "//" not in text


def test_a_reshape_that_merges_axes_of_a_transpose_leaves_no_division():
    lines = lines_of(kernel_from(sg.reshape(X.T, (12,)) + 1))
    assert_in_order(lines, "t0: f32 = b0[i0 + 4*i1]", "b1[3*i0 + i1] = t1")


# --------------------------------------------------------------------------------------- Reduce


def test_a_reduction_is_a_fold_with_what_comes_before_and_after_it():
    kernel = kernel_from(sg.exp(sg.sum(sg.tanh(X), axis=1)))
    assert_in_order(
        lines_of(kernel),
        "for i0 in 0..3 {",
        "fold t3: f32 = 0.0 for i1 in 0..4 {",
        "t1: f32 = tanh(t0)",
        "yield t1",
        "} combine (t4) (t5) {",
        "t6: f32 = add(t4, t5)",
        "yield t6",
        "t7: f32 = exp(t3)",
        "b1[i0] = t7",
    )


def test_a_reduction_over_several_axes_is_a_fold_in_a_fold():
    kernel = kernel_from(sg.sum(sg.placeholder((2, 3, 4)), axis=(0, 2)))
    outer, inner = found(kernel, Fold)
    assert (outer.extent, inner.extent) == (2, 4)
    (total,) = inner.accumulators
    assert outer.items == (Ref(total.name, total.identity.dtype),)


def test_argmax_carries_the_value_and_its_position():
    (fold,) = found(kernel_from(sg.argmax(X, axis=1)), Fold)
    assert [(a.identity.value, a.identity.dtype) for a in fold.accumulators] == [
        (-np.inf, dtypes.float32),
        (2**63 - 1, dtypes.int64),
    ]


def test_the_position_in_a_reduction_over_all_axes_is_row_major():
    kernel = kernel_from(sg.argmax(X))
    assert "t1: i64 = index(4*i0 + i1)" in lines_of(kernel)


def test_a_reduction_of_nothing_is_its_identity():
    (fold,) = found(kernel_from(sg.sum(sg.placeholder((0, 4)), axis=0)), Fold)
    assert fold.extent == 0


# ------------------------------------------------------------------------- Gather, Scatter


def test_an_index_that_is_data_is_checked_and_reports_the_number_of_its_node():
    i = sg.placeholder((5,), "int64")
    y = sg.take(X, i, axis=0)
    (lowered,) = lowered_from(y)
    (check,) = found(lowered.kernel, Check)
    graph = Graph([y])
    assert check.extent == 3
    assert check.status == [n.op for n in graph.nodes].index(y.node.op) + 1
    assert lowered.kernel.can_fail


def test_an_index_that_is_a_position_is_not_checked():
    rows = sg.placeholder((3, 2), "int64")
    checks = found(kernel_from(sg.take_along_axis(X, rows, axis=1)), Check)
    assert len(checks) == 1, "the positions along the other axis are in range"


def test_a_position_that_may_be_out_of_range_is_checked():
    kernel = kernel_from(sg.take(X, sg.arange(5) - 1, axis=0))
    assert len(found(kernel, Check)) == 1


def test_rows_are_added_one_after_another():
    i = sg.placeholder((5,), "int64")
    kernel = kernel_from(sg.scatter_add(X, i, sg.placeholder((5, 4))))
    copy, add = kernel.body
    assert isinstance(copy, For)
    assert isinstance(add, For)
    assert (copy.extent, copy.ordered) == (3, False)
    assert (add.extent, add.ordered) == (5, True)
    (columns,) = add.body
    assert isinstance(columns, For)
    assert not columns.ordered
    # What is there is loaded after the check of each row, since another row may have changed it.
    check, *_, old, total, store = columns.body
    assert isinstance(check, Let | Check)
    assert isinstance(old, Let)
    assert isinstance(old.value, Load)
    assert isinstance(store, Store)
    assert (store.buffer, store.index) == (old.value.buffer, old.value.index)
    assert isinstance(total, Let)
    assert isinstance(total.value, Op)
    assert total.value.name == "add"
    assert store.value == Ref(total.name, total.value.dtype)


# ---------------------------------------------------------------------------------------- Place


def test_a_concatenation_is_a_nest_for_each_part():
    kernel = kernel_from(sg.concat([X, Y * 2], axis=1))
    lines = lines_of(kernel)
    assert_in_order(lines, "b1[8*i0 + i1] = t0", "t2: f32 = mul(t1, 2.0)", "b1[8*i2 + i3 + 4] = t2")


def test_a_pad_fills_its_borders_and_then_places():
    lines = lines_of(kernel_from(sg.pad(X, ((1, 0), (0, 2)), constant_values=3)))
    stores = "b0[i1] = 3.0", "b0[6*i2 + i3 + 10] = 3.0", "b0[6*i4 + i5 + 6] = t0"
    assert_in_order(lines, "for i0 in 0..1 {", *stores)


# ------------------------------------------------------------------------------------ results


def test_a_result_wanted_in_several_places_is_stored_to_each():
    t = X * 2
    w = sg.variable(np.zeros((3, 4), np.float32))
    (lowered,) = lowered_from(t, t, updates=[Update(w, t)])
    assert [str(b) for b in lowered.arguments] == ["input0", "output0", "output1", "variable0"]
    assert [p.mode for p in lowered.kernel.params] == ["in", "out", "out", "out"]


def test_all_results_are_computed_before_the_first_is_stored():
    w = sg.variable(np.zeros((3, 4), np.float32))
    (lowered,) = lowered_from(w * 2, w * 3, updates=[Update(w, w * 4)])[-1:]
    kinds = [type(s).__name__ for s in statements(lowered.kernel.body) if not isinstance(s, For)]
    assert kinds == sorted(kinds, key=["Let", "Store"].index)


def test_a_new_value_over_the_old_one_makes_the_buffer_inout():
    w = sg.variable(np.zeros((3, 4), np.float32))
    (lowered,) = lowered_from(updates=[Update(w, w * 0.5 + X)])
    assert [p.mode for p in lowered.kernel.params] == ["inout", "in"]
    assert [str(b) for b in lowered.arguments] == ["variable0", "input0"]


def test_a_leaf_that_is_a_result_is_copied():
    lowered = lowered_from(X, sg.constant(2.0))
    arguments = [[str(b) for b in kernel.arguments] for kernel in lowered]
    assert sorted(arguments) == [["input0", "output0"], ["output1"]]


# ----------------------------------------------------------------------------------- in general


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(b, marks=pytest.mark.slow) for b in range(10, 120, 10))]
)
def test_every_kernel_of_random_graphs_is_well_formed(block):
    kinds = (dtypes.float32, dtypes.int32, dtypes.float64, dtypes.bfloat16, dtypes.uint8)
    for seed in range(block, block + 10):
        rng = np.random.default_rng(seed)
        graph, _ = random_graph(rng, dtype=kinds[seed % len(kinds)], size=int(rng.integers(1, 20)))
        for lowered in lowered_from(*graph.outputs, updates=graph.updates):
            verify_kernel(lowered.kernel)
        for target in ("x86-64-v4", "x86-64"):
            for kernel in program_from(
                *graph.outputs, updates=graph.updates, target=target
            ).kernels:
                verify_kernel(kernel)


def test_a_chain_of_thousands_of_ops_takes_no_recursion():
    y = X
    for _ in range(3000):
        y = sg.tanh(y) + X
    partition = fuse(Graph([y]))
    assert assign_buffers(partition).temporaries == len(partition.groups) - 1
    for kernel in program_from(y).kernels:
        verify_kernel(kernel)
