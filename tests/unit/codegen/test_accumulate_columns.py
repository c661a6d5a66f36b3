"""Sums down columns in the loop over rows before them: the same bits as behind it."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import For, Kernel, Store
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.accumulate_columns import (
    accumulate_columns,
    accumulators,
    begin_with_cleared,
)
from symgrad.codegen.schedule.distribute_rows import distribute_rows
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import target_named
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from tests.support.floors import run_native
from tests.support.row_programs import compiled_rows, run_on_ones

TARGET = target_named("x86-64-v4")

COLUMNS = """kernel @columns(in x: f32[65536], out most: f32[512], out y: f32[65536],
                             out sums: f32[128], out greatest: f32[128]) {
  for i in 0..512 {
    fold s: f32 = 0.0 for j in 0..128 lanes(32) {
      a: f32 = x[128*i + j]
      yield a
    } combine (b) (c) {
      d: f32 = add(b, c)
      yield d
    }
    most[i] = s
    t0: f32 = most[i]
    for k in 0..128 vector(16) {
      f: f32 = x[128*i + k]
      g: f32 = mul(f, t0)
      y[128*i + k] = g
    }
  }
  for l in 0..128 vector(64) {
    fold u: f32 = 0.0, v: f32 = -inf for m in 0..512 {
      n: f32 = x[l + 128*m]
      o: f32 = most[m]
      p: f32 = mul(n, o)
      yield p, n
    } combine (q, r) (t, w) {
      z: f32 = add(q, t)
      e: f32 = max(r, w)
      yield z, e
    }
    sums[l] = u
    greatest[l] = v
  }
}"""


def _run(kernel: Kernel) -> dict[str, Array]:
    x = np.sin(np.arange(65536, dtype=np.float32))
    x[::128] = -0.0
    return run_on_ones(kernel, x=x)


def _assert_same(kernel: Kernel) -> None:
    verify_kernel(kernel)
    wanted = _run(parse_kernel(COLUMNS))
    for name, found in _run(kernel).items():
        np.testing.assert_array_equal(found, wanted[name])
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted[name]))


def test_each_row_is_added_up_as_it_is_in_the_nearest_cache():
    kernel = accumulate_columns(parse_kernel(COLUMNS), TARGET)
    cleared, loop = kernel.body
    assert isinstance(cleared, For)
    assert [type(s) for s in cleared.body] == [Store, Store]
    assert isinstance(loop, For)
    assert loop.ordered
    assert accumulators(loop) == {"sums", "greatest"}
    text = print_kernel(kernel)
    assert "select(m.first, 0.0, q.before)" in text
    assert "o: f32 = most[i]\n    for l in 0..128 vector(16)" in text  # once a row
    _assert_same(kernel)


@pytest.mark.parametrize("pipelines", [True, False])
def test_the_last_stage_of_rows_adds_them_up(pipelines):
    summed = accumulate_columns(parse_kernel(COLUMNS), TARGET)
    kernel = distribute_rows(summed, TARGET, pipelines=pipelines)
    text = print_kernel(kernel)
    assert ("for i in 0..514 ordered" if pipelines else "for i.row in 0..8 ordered") in text
    _assert_same(kernel)


def test_the_first_row_adds_to_what_has_been_stored():
    kernel = begin_with_cleared(accumulate_columns(parse_kernel(COLUMNS), TARGET))
    text = print_kernel(kernel)
    assert "select" not in text
    assert "eq(" not in text
    _assert_same(kernel)


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("sums[l.clear] = 0.0", "sums[l.clear] = 1.0"),
        ("sums[l.clear] = 0.0", "most[l.clear] = 0.0"),
        ("for l.clear in 0..128", "for l.clear in 0..64"),
    ],
)
def test_what_has_not_been_stored_is_chosen(what, by):
    text = print_kernel(accumulate_columns(parse_kernel(COLUMNS), TARGET))
    assert what in text
    kernel = parse_kernel(text.replace(what, by))
    assert "select(m.first, 0.0, q.before)" in print_kernel(begin_with_cleared(kernel))


def test_a_pipeline_goes_on_choosing_what_its_first_row_adds_to():
    summed = accumulate_columns(parse_kernel(COLUMNS), TARGET)
    kernel = distribute_rows(summed, TARGET, pipelines=True)
    assert print_kernel(begin_with_cleared(kernel)) == print_kernel(kernel)


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("for m in 0..512", "for m in 0..256"),  # other rows
        ("x[l + 128*m]", "x[l + 128*m - 128]"),  # the row before
        ("o: f32 = most[m]", "o: f32 = most[511]"),  # which only the last row knows
        ("most[i] = s", "most[i] = s\n sums[i] = s"),  # the loop over rows uses it
    ],
)
def test_what_is_no_sum_of_the_same_rows(what, by):
    text = COLUMNS.replace(what, by).replace("sums: f32[128]", "sums: f32[512]")
    assert text != COLUMNS
    kernel = parse_kernel(text)
    assert accumulate_columns(kernel, TARGET) == kernel


def test_rows_that_are_in_the_nearest_cache_anyway():
    few = parse_kernel(COLUMNS.replace("0..512", "0..16"))
    assert accumulate_columns(few, TARGET) == few


def test_an_accumulator_begins_with_the_first_row():
    kernel = accumulate_columns(parse_kernel(COLUMNS), TARGET)
    _, loop = parse_kernel(print_kernel(kernel).replace("0:i64)", "1:i64)")).body
    assert isinstance(loop, For)
    assert accumulators(loop) == set()


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
@pytest.mark.parametrize("shape", [(256, 1024), (2048, 128)])
def test_gradients_of_a_norm_have_the_same_bits(shape, threads):
    x, g = (sg.placeholder(shape, name=name) for name in "xg")
    scale, shift = (sg.placeholder(shape[1:], name=name) for name in ("scale", "shift"))
    y = sg.nn.layer_norm(x, scale, shift)
    given = [x, scale, shift]
    graph = Graph([y, *sg.gradients(y, given, grad_ys=g)], [*given, g])
    random = np.random.default_rng(0)
    arrays = [random.normal(size=t.shape).astype(np.float32) for t in (*given, g)]
    summed = compiled_rows(graph, threads)
    plain = compiled_rows(graph, threads, "accumulate-columns")
    texts = ["".join(map(print_kernel, e.program.kernels)) for e in (summed, plain)]
    assert texts[0] != texts[1]
    wanted = run_native(plain, arrays).outputs
    for found, other in zip(run_native(summed, arrays).outputs, wanted, strict=True):
        np.testing.assert_array_equal(found, other)
