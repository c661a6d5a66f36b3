"""Schedules: which loops are merged, ordered and marked, and which are left alone.

Kernels are written as text, so that a case shows what goes in and what comes out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Check, Fold, For, Kernel, Loop, Prefix, Stmt
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.graph import dtypes
from tests.support.programs import kernel_from, lines_of, lowered_from, schedule_kernel
from tests.support.strategies import random_graph

AVX512, AVX2, SSE = 64, 32, 16


def scheduled(text: str, vector_bytes: int = AVX512) -> Kernel:
    kernel = schedule_kernel(parse_kernel(text), vector_bytes)
    verify_kernel(kernel)
    return kernel


def loops(kernel: Kernel) -> list[tuple[int, int]]:
    """Return extent and vector width of each loop."""
    return [(s.extent, s.vector) for s in statements(kernel.body) if isinstance(s, For)]


def folds(kernel: Kernel) -> list[tuple[int, int]]:
    """Return extent and lanes of each fold."""
    return [(s.extent, s.lanes) for s in statements(kernel.body) if isinstance(s, Fold)]


def of(*outputs: sg.Tensor, vector_bytes: int = AVX512) -> Kernel:
    kernel = schedule_kernel(kernel_from(*outputs), vector_bytes)
    verify_kernel(kernel)
    return kernel


# --------------------------------------------------------------------------- loops of extent 1


def test_a_loop_that_runs_once_is_replaced_by_its_body():
    kernel = scheduled(
        """
        kernel @k(in x: f32[5], out y: f32[5]) {
          for i in 0..1 {
            for j in 0..5 {
              t: f32 = x[5*i + j]
              y[5*i + j] = t
            }
          }
        }
        """
    )
    assert loops(kernel) == [(5, 4)]
    assert "t: f32 = x[j]" in lines_of(kernel)


def test_a_fold_that_runs_once_stays():
    # Its accumulator starts at the identity, which is not always neutral: nan, -0.0.
    assert folds(of(sg.sum(sg.placeholder((5, 1)), axis=1))) == [(1, 1)]


# ------------------------------------------------------------------------------- merging loops


def test_loops_that_walk_on_are_one():
    assert loops(of(sg.tanh(sg.placeholder((2, 3, 8))))) == [(48, 16)]


def test_loops_are_merged_where_all_buffers_walk_on_and_no_further():
    x, row = sg.placeholder((2, 3, 8)), sg.placeholder((3, 8))
    assert loops(of(x + row)) == [(2, 1), (24, 16)]
    column = sg.placeholder((2, 3, 1))
    assert loops(of(x + column)) == [(6, 1), (8, 8)]


def test_a_transpose_is_not_merged():
    extents = [extent for extent, _ in loops(of(sg.tanh(sg.placeholder((6, 8)).T)))]
    assert sorted(extents) == [6, 8]


def test_loops_whose_order_matters_are_merged_only_with_their_like():
    i = sg.placeholder((6,), "int64")
    kernel = of(sg.scatter_add(sg.placeholder((4, 8)), i, sg.placeholder((6, 8))))
    ordered = [s.ordered for s in statements(kernel.body) if isinstance(s, For)]
    assert ordered == [False, True, False]


_PREFIX_SUMS = """
    kernel @k(inout y: f32[64]) {
      for i in 0..7 ordered {
        for j in 0..8 ORDERED {
          t0: f32 = y[8*i + j]
          t1: f32 = y[8*i + j + 8]
          t2: f32 = add(t0, t1)
          y[8*i + j + 8] = t2
        }
      }
    }
    """


def test_a_loop_whose_order_matters_is_not_merged_with_one_whose_order_does_not():
    # Row i is added to row i + 1: within a row the order is free, from row to row it is not.
    assert loops(scheduled(_PREFIX_SUMS.replace("ORDERED", ""))) == [(7, 1), (8, 8)]


def test_loops_whose_order_matters_are_merged_in_order_and_are_no_vector():
    kernel = scheduled(_PREFIX_SUMS.replace("ORDERED", "ordered"))
    assert loops(kernel) == [(56, 1)]
    assert all(s.ordered for s in statements(kernel.body) if isinstance(s, For))


def test_an_index_that_is_divided_keeps_its_loops():
    kernel = scheduled(
        """
        kernel @k(in x: f32[24], out y: f32[24]) {
          for i in 0..4 {
            for j in 0..6 {
              t: f32 = x[6*i + (j + 1) % 6]
              y[6*i + j] = t
            }
          }
        }
        """
    )
    assert [extent for extent, _ in loops(kernel)] == [4, 6]


def test_folds_that_walk_on_are_one():
    assert folds(of(sg.sum(sg.placeholder((4, 8))))) == [(32, 32)]


def test_folds_that_do_not_walk_on_are_ordered_by_stride():
    # The axes of the operand are (32, 64); the one of size 32 lies side by side.
    kernel = of(sg.sum(sg.placeholder((64, 5, 32))[:, 0, :].T))
    assert [extent for extent, _ in folds(kernel)] == [64, 32]


# -------------------------------------------------------------------------------------- vectors


@pytest.mark.parametrize(
    ("dtype", "vector_bytes", "width"),
    [
        ("float32", AVX512, 16),
        ("float32", AVX2, 8),
        ("float32", SSE, 4),
        ("float64", AVX512, 8),
        ("float16", AVX512, 32),
        ("int8", AVX2, 32),
    ],
)
def test_the_width_is_what_fits_a_register(dtype, vector_bytes, width):
    x = sg.placeholder((1000,), dtype)
    assert loops(of(x + x, vector_bytes=vector_bytes)) == [(1000, width)]


@pytest.mark.parametrize(("count", "width"), [(1, None), (2, 2), (3, 2), (7, 4), (15, 8), (16, 16)])
def test_a_short_loop_takes_the_greatest_power_of_two_in_it(count, width):
    x = sg.placeholder((count,))
    assert loops(of(x + x)) == ([] if width is None else [(count, width)])


def test_a_loop_along_which_memory_jumps_is_not_the_vector():
    x, y = sg.placeholder((64, 32)), sg.placeholder((32, 64))
    # The store and one of two loads are side by side along the last axis.
    assert loops(of(x + y.T)) == [(64, 1), (32, 16)]


def test_rows_that_are_all_far_apart_are_not_vectors():
    x = sg.placeholder((32, 64, 2))
    kernel = of(sg.tanh(x[:, :, 0]).sum(1))
    assert all(width == 1 or extent == 32 for extent, width in loops(kernel))


def test_elements_at_indices_that_are_data_are_gathered_in_vectors():
    x, i = sg.placeholder((9,)), sg.placeholder((64,), "int64")
    assert loops(of(sg.take(x, i, axis=0))) == [(64, 16)]


def test_what_does_not_depend_on_the_checked_index_is_still_a_vector():
    x, i = sg.placeholder((9, 64)), sg.placeholder((5,), "int64")
    assert loops(of(sg.take(x, i, axis=0))) == [(5, 1), (64, 16)]


def test_a_loop_whose_iterations_depend_on_each_other_is_not_a_vector():
    i = sg.placeholder((64,), "int64")
    kernel = of(sg.scatter_add(sg.placeholder((9,)), i, sg.placeholder((64,))))
    assert loops(kernel) == [(9, 8), (64, 1)]


# ---------------------------------------------------------------------------------------- folds


def test_a_fold_along_memory_has_lanes():
    kernel = of(sg.sum(sg.placeholder((8, 784)), axis=1))
    assert loops(kernel) == [(8, 1)]
    assert folds(kernel) == [(784, 32)]


def test_a_fold_across_memory_has_vectors_around_it():
    kernel = of(sg.sum(sg.placeholder((784, 640)), axis=0))
    assert loops(kernel) == [(640, 128)]
    assert folds(kernel) == [(784, 1)]


@pytest.mark.parametrize(
    ("columns", "vector_bytes", "width"),
    [
        (256, AVX512, 256),
        (256, AVX2, 64),
        (256, SSE, 32),
        (512, AVX512, 256),
        (100, AVX512, 32),  # of 64 more would be left, which run one by one
        (1000, AVX512, 32),
        (10, AVX512, 8),
        (1024, AVX512, 64),  # each row lies on another page
    ],
)
def test_columns_beside_each_other_hide_latency_and_leave_few_over(columns, vector_bytes, width):
    x = sg.placeholder((64, columns))
    assert loops(of(sg.max(x, axis=0), vector_bytes=vector_bytes)) == [(columns, width)]


def test_long_bodies_and_several_accumulators_fill_the_registers_by_themselves():
    x = sg.placeholder((64, 256))
    assert loops(of(sg.sum(sg.tanh(sg.exp(x) + 1) * x, axis=0))) == [(256, 64)]
    assert loops(of(sg.argmax(x, axis=0))) == [(256, 32)]


@pytest.mark.parametrize("vector_bytes", [AVX512, AVX2, SSE])
@pytest.mark.parametrize(
    ("dtype", "extent", "lanes"),
    [("float32", 784, 32), ("float64", 784, 16), ("float32", 40, 8), ("float32", 3, 1)],
)
def test_the_lanes_of_a_fold_follow_from_its_shape_and_not_from_the_machine(
    dtype, extent, lanes, vector_bytes
):
    kernel = of(sg.sum(sg.placeholder((extent,), dtype)), vector_bytes=vector_bytes)
    assert folds(kernel) == [(extent, lanes)]


def test_a_fold_over_indices_that_are_data_has_lanes():
    x, i = sg.placeholder((9,)), sg.placeholder((63,), "int64")
    kernel = of(sg.sum(sg.take(x, i % 9, axis=0)))
    assert folds(kernel) == [(63, 8)]


def test_a_product_is_left_to_its_generator():
    product = sg.placeholder((3, 16, 24)) @ sg.placeholder((3, 24, 8))
    assert loops(of(product)) == [(3, 1)]


# ----------------------------------------------------------------------------------- dead code


def test_what_nothing_needs_is_dropped_and_a_check_never_is():
    kernel = scheduled(
        """
        kernel @k(in i: i64[4], in x: f32[4], out y: f32[4]) {
          for j in 0..4 {
            r0: i64 = i[j]
            check r = r0 in 7 else 2
            t0: f32 = x[j]
            t1: f32 = tanh(t0)
            t2: f32 = exp(t0)
            y[j] = t2
          }
        }
        """
    )
    text = "\n".join(lines_of(kernel))
    assert "tanh" not in text
    assert "exp" in text
    assert "check r = r0 in 7 else 2" in text


# -------------------------------------------------------------------------------- same meaning


def run_on_random(kernel: Kernel, seed: int) -> tuple[int, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    drawn = {p.name: rng.integers(0, 2, p.count).astype(p.dtype.numpy) for p in kernel.params}
    return run_kernel(replace(kernel, body=clamped(kernel.body)), drawn), drawn


def clamped(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Return statements that take the nearest of indices that are known of other data."""
    found = []
    for statement in body:
        if isinstance(statement, Check) and statement.bound == "known":
            statement = replace(statement, bound="clamp")
        if isinstance(statement, Prefix):
            statement = replace(statement, each=clamped(statement.each))
        if isinstance(statement, Loop):
            statement = replace(statement, body=clamped(statement.body))
        found.append(statement)
    return tuple(found)


def _is_exact(body: tuple[Stmt, ...]) -> bool:
    return not any(isinstance(s, Fold) for s in statements(body))


def assert_equal_arrays(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("vector_bytes", [AVX512, SSE])
@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.float32], ids=str)
def test_a_schedule_changes_no_result(dtype, vector_bytes):
    compared = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        graph, _ = random_graph(rng, dtype=dtype, size=8)
        for lowered in lowered_from(*graph.outputs, updates=graph.updates):
            plain = lowered.kernel
            after = schedule_kernel(plain, vector_bytes)
            # Sums of floats are taken in another order, which the loops state.
            if not (dtype.is_integer or _is_exact(plain.body)):
                continue
            wanted, found = run_on_random(plain, seed), run_on_random(after, seed)
            assert found[0] == wanted[0]
            if wanted[0] == 0:
                assert_equal_arrays(found[1], wanted[1])
                compared += 1
    assert compared > 30


def test_a_scalar_of_a_wider_dtype_does_not_make_vectors_narrower():
    kernel = scheduled("""
        kernel @k(in x: f32[64], in r: f64[1], out y: f32[64]) {
          for i in 0..64 {
            t0: f64 = r[0]
            t1: f32 = f32(t0)
            t2: f32 = x[i]
            t3: f32 = mul(t1, t2)
            y[i] = t3
          }
        }
    """)
    assert loops(kernel) == [(64, 16)]


def test_a_sum_down_the_columns_has_vectors_along_the_rows_whatever_follows_it():
    """What is done to a sum costs once; the sum costs once for each of its elements."""
    x, *state = sg.placeholder((32, 128)), *(sg.placeholder((128,)) for _ in range(4))
    total = sg.sum(x, axis=0)
    for other in state:
        total = sg.sqrt(total * other) + other
    step = sg.compile([x, *state], total, target="x86-64-v3")
    (kernel,) = step.executable.program.kernels
    assert loops(kernel) == [(128, 64)]
    assert folds(kernel) == [(32, 1)]
