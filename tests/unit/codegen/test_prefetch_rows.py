"""Rows that are swept several times: the loop that computes most prefetches the next row."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Fold, For, Index
from symgrad.codegen.loops.next_rows import changed_next, next_rows, rows_ahead, rows_behind
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.prefetch_rows import prefetch_rows
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.passes.table import Options
from symgrad.records import replace
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native

TARGET = target_named("x86-64-v4")
SOFTMAX = """kernel @softmax(in x: f32[262144], scratch e: f32[1024], out y: f32[262144]) {
  for i in 0..256 ordered {
    fold m: f32 = -inf for j in 0..1024 lanes(32) {
      a: f32 = x[1024*i + j]
      yield a
    } combine (b) (c) {
      d: f32 = max(b, c)
      yield d
    }
    for k in 0..1024 vector(16) {
      f: f32 = x[1024*i + k]
      g: f32 = sub(f, m)
      h: f32 = exp(g)
      e[k] = h
    }
    for l in 0..1024 vector(16) {
      o: f32 = e[l]
      y[1024*i + l] = o
    }
  }
}"""


def test_the_loop_that_computes_most_prefetches_rows_that_are_read():
    kernel = prefetch_rows(parse_kernel(SOFTMAX), TARGET)
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert "for k in 0..1024 vector(16) prefetches {" in text
    assert text.count("prefetches") == 1
    assert print_kernel(parse_kernel(text)) == text
    (rows,) = (loop for loop in kernel.body if isinstance(loop, For))
    (prefetching,) = (loop for loop in rows.body if isinstance(loop, For) and loop.prefetches)
    assert next_rows(rows, prefetching) == [("x", Index(1024, (("i", 1024), ("k", 1))))]


SUM = """    fold q: f32 = 0.0 for r in 0..1024 lanes(32) {
      s: f32 = w[1024*i + r]
      yield s
    } combine (u) (v) {
      z: f32 = add(u, v)
      yield z
    }
"""
WEIGHTED = (
    SOFTMAX.replace("(in x", "(in w: f32[262144], in x")
    .replace("sub(f, m)", "sub(f, q)")
    .replace("    for k in", SUM + "    for k in")
)


def test_a_fold_prefetches_what_is_read_before_the_loop_that_prefetches():
    kernel = prefetch_rows(parse_kernel(WEIGHTED), TARGET)
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert "for j in 0..1024 lanes(32) prefetches {" in text
    assert "for k in 0..1024 vector(16) prefetches {" in text
    assert text.count("prefetches") == 2
    assert print_kernel(parse_kernel(text)) == text
    (rows,) = (loop for loop in kernel.body if isinstance(loop, For))
    first, second, exp = rows.body[:3]
    assert isinstance(first, Fold)
    assert isinstance(second, Fold)
    assert rows_behind(rows, first) == [("w", Index(0, (("i", 1024), ("j", 1))))]
    assert rows_behind(rows, second) == []
    assert isinstance(exp, For)
    assert [buffer for buffer, _ in next_rows(rows, exp)] == ["x"]  # the fold prefetches the other


def test_what_is_read_behind_the_loop_that_prefetches_it_prefetches_itself():
    text = WEIGHTED.replace("sub(f, q)", "sub(f, m)").replace(
        "o: f32 = e[l]", "o: f32 = w[1024*i + l]"
    )
    prefetched = prefetch_rows(
        parse_kernel(text.replace("s: f32 = w[1024*i + r]", "s: f32 = x[1024*i + r]")),
        TARGET,
    )
    assert print_kernel(prefetched).count("prefetches") == 1
    (rows,) = (loop for loop in prefetched.body if isinstance(loop, For))
    (prefetching,) = (loop for loop in rows.body if isinstance(loop, For) and loop.prefetches)
    assert {buffer for buffer, _ in next_rows(rows, prefetching)} == {"w", "x"}


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("[1024*i + j]", "[j]"),  # the same for all rows
        ("in x: f32[262144]", "inout x: f32[262144]"),  # and written below
        ("1024", "32"),  # short rows
        ("262144", "2048"),  # in a cache as a whole
    ],
)
def test_other_rows_are_not_prefetched_for(what, by):
    text = SOFTMAX.replace(what, by)
    if "[j]" in by:
        text = text.replace("x[1024*i + k]", "x[k]")
    if "inout" in by:
        text = text.replace("e[k] = h", "x[1024*i + k] = h")
    if by == "2048":
        text = text.replace("0..256", "0..2")
    assert prefetch_rows(parse_kernel(text), TARGET) == parse_kernel(text)


def test_short_rows_are_prefetched_where_a_function_of_one_array_is_computed():
    text = SOFTMAX.replace("1024", "128")
    assert "prefetches" in print_kernel(prefetch_rows(parse_kernel(text), TARGET))
    two = text.replace("(in x", "(in w: f32[262144], in x").replace(
        "      h: f32 = exp(g)\n", "      v: f32 = w[128*i + k]\n      h: f32 = mul(g, v)\n"
    )
    assert prefetch_rows(parse_kernel(two), TARGET) == parse_kernel(two)
    cheap = text.replace("exp(g)", "abs(g)")
    assert prefetch_rows(parse_kernel(cheap), TARGET) == parse_kernel(cheap)


@pytest.mark.parametrize(("nbytes", "rows"), [(256, 8), (512, 4), (1000, 3), (2048, 1), (8192, 1)])
def test_the_row_that_is_prefetched_is_far_enough_away(nbytes, rows):
    assert rows_ahead(nbytes) == rows


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
@pytest.mark.parametrize("shape", [(80, 1024), (67, 1003)])
def test_what_is_prefetched_changes_no_bit(shape, threads):
    x, g = (sg.placeholder(shape, name=name) for name in "xg")
    y = sg.nn.softmax(x)
    graph = Graph([y, *sg.gradients(y, [x], grad_ys=g)], [x, g])
    random = np.random.default_rng(0)
    arrays = [random.normal(size=shape).astype(np.float32) for _ in range(2)]
    options = CompileOptions(target_named("native"), 1, False, False, threads)
    prefetching = Executable(graph, options, passes=Options(skip=["pipeline-rows"]))
    assert any("prefetches" in print_kernel(kernel) for kernel in prefetching.program.kernels)
    plain = Executable(graph, options, passes=Options(skip=["prefetch-rows", "pipeline-rows"]))
    assert not any("prefetches" in print_kernel(kernel) for kernel in plain.program.kernels)
    wanted = run_native(plain, arrays).outputs
    for found, other in zip(run_native(prefetching, arrays).outputs, wanted, strict=True):
        np.testing.assert_array_equal(found, other)


def test_a_kernel_says_why_it_prefetches():
    x = sg.placeholder((256, 1024))
    y = sg.nn.softmax(x)
    step = sg.compile([x], [y, *sg.gradients(y, [x], grad_ys=x)], target="x86-64-v3")
    (kernel,) = (k for k in step.kernels if "prefetches" in k.schedule)
    assert any("prefetches the next row of 1024 elements" in reason for reason in kernel.reasons)


SCORES = """kernel @scores(inout s: f32[266240], out y: f32[256]) {
  for i in 0..256 ordered {
    fold m: f32 = -inf for j in 0..1024 lanes(32) {
      a: f32 = s[1040*i + j]
      yield a
    } combine (b) (c) {
      d: f32 = max(b, c)
      yield d
    }
    for k in 0..1024 vector(16) {
      e: f32 = s[1040*i + k]
      f: f32 = sub(e, m)
      g: f32 = exp(f)
      s[1040*i + k] = g
    }
    y[i] = m
  }
}"""
SLOW = replace(TARGET, shares_slowly=True)


def test_rows_that_a_loop_changes_where_they_are_are_prefetched_where_they_come_back_slowly():
    kernel = prefetch_rows(parse_kernel(SCORES), SLOW)
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert "for k in 0..1024 vector(16) prefetches {" in text
    assert text.count("prefetches") == 1
    (rows,) = (loop for loop in kernel.body if isinstance(loop, For))
    (prefetching,) = (loop for loop in rows.body if isinstance(loop, For) and loop.prefetches)
    assert next_rows(rows, prefetching) == []
    assert changed_next(rows, prefetching) == [("s", Index(1040, (("i", 1040), ("k", 1))))]


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("266240", "131072"),  # which a near cache has
        ("1040*i", "512*i"),  # rows that overlap
        ("s[1040*i + k] = g", "y[k] = g"),  # and such as it does not change
    ],
)
def test_other_rows_that_a_loop_changes_are_not_prefetched_for(what, by):
    text = SCORES.replace(what, by)
    assert prefetch_rows(parse_kernel(text), SLOW) == parse_kernel(text)
    assert prefetch_rows(parse_kernel(SCORES), TARGET) == parse_kernel(SCORES)
