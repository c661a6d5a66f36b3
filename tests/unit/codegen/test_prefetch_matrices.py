"""Batches with much to do for each matrix: loops over rows prefetch the next one."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract.plans.prefetching_matrices import steps_of_tiles
from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.kernel_costs import schedule_text
from symgrad.codegen.loops.language import For, Index, Kernel, Product
from symgrad.codegen.loops.next_matrices import (
    next_matrices,
    prefetched_by,
    prefetched_by_product,
    prefetching_loops,
    products_run_once,
)
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.prefetch_matrices import prefetch_matrices
from symgrad.codegen.schedule.reasons import schedule_reasons
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.passes.table import Options
from symgrad.records import replace
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native

TARGET = target_named("x86-64-v3")
LINE = TARGET.memory.line_bytes
SCALED = """kernel @scaled(in x: f32[1048576], in w: f32[1048576], out y: f32[1048576], \
scratch p: f32[8192]) {
  for b in 0..128 ordered {
    product s: f32 for (i in 0..128) (j in 0..64) (k in 0..64)
        x[8192*b] by (64, 1) * w[8192*b] by (64, 1) tile(1, 1) block(1, 1, 1) pack() along(n) {
      p[64*i + j] = s
    }
    for r in 0..1 ordered {
      for m in 0..128 {
        for n in 0..64 vector(16) {
          t: f32 = p[64*m + n]
          u: f32 = exp(t)
          y[8192*b + 64*m + n] = u
        }
      }
    }
  }
}"""


def only_loop(kernel: Kernel) -> For:
    (loop,) = kernel.body
    assert isinstance(loop, For)
    return loop


def test_rows_prefetch_the_next_matrix_of_all_that_is_touched():
    kernel = prefetch_matrices(parse_kernel(SCALED), TARGET)
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert text.count("prefetches") == 1
    assert "for m in 0..128 prefetches {" in text
    assert print_kernel(parse_kernel(text)) == text
    loop = only_loop(kernel)
    assert next_matrices(loop) == dict.fromkeys(("x", "w", "y"), Index(8192, (("b", 8192),)))
    (rows,) = prefetching_loops(loop)
    prefetched = list(prefetched_by(loop, rows, {"x": 4, "w": 4, "y": 4}, LINE))
    place = Index(8192, (("b", 8192), ("m", 64)))
    assert prefetched == [(buffer, place, 64) for buffer in ("x", "w", "y")]


def test_loops_share_the_next_matrix():
    end = SCALED.rindex("  }\n}")
    more = """    for v in 0..64 {
      for z in 0..64 vector(16) {
        a: f32 = p[64*v + z]
        y[8192*b + 64*v + z] = a
      }
    }
"""
    both = prefetch_matrices(parse_kernel(SCALED[:end] + more + SCALED[end:]), TARGET)
    verify_kernel(both)
    loop = only_loop(both)
    sizes = dict.fromkeys(("x", "w", "y"), 4)
    prefetched = [next(prefetched_by(loop, rows, sizes, LINE)) for rows in prefetching_loops(loop)]
    # 512 lines of each buffer by 192 rows are three with each.
    assert prefetched == [
        ("x", Index(8192, (("b", 8192), ("m", 48))), 48),
        ("x", Index(8192 + 128 * 48, (("b", 8192), ("v", 48))), 48),
    ]


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("128 ordered", "2 ordered"),  # all matrices are in a cache
        ("(k in 0..64)", "(k in 0..1024)"),  # products take much longer than memory
        ("b in 0..128 ordered", "b in 0..128"),  # threads may take any
        ("x[8192*b]", "x[0]"),  # the only other operand, and y below
        ("for m in 0..128 {", "for m in 0..128 vector(8) {"),
    ],
)
def test_other_loops_prefetch_nothing(what, by):
    text = SCALED.replace(what, by)
    if by == "x[0]":
        text = text.replace("w[8192*b]", "w[0]").replace("y[8192*b + ", "y[")
    if by.startswith("2"):
        text = text.replace("1048576", "16384")
    kernel = parse_kernel(text)
    assert prefetch_matrices(kernel, TARGET) == kernel


def test_no_loop_prefetches_more_than_the_next_matrix():
    end = SCALED.rindex("  }\n}")
    more = """    for v in 0..512 {
      for z in 0..64 vector(16) {
        a: f32 = p[z]
        y[8192*b + z] = a
      }
    }
"""
    text = (SCALED[:end] + more.replace("v", "u") + more + SCALED[end:]).replace("uector", "vector")
    loop = only_loop(prefetch_matrices(parse_kernel(text), TARGET))
    sizes = dict.fromkeys(("x", "w", "y"), 4)
    prefetched = [list(prefetched_by(loop, rows, sizes, LINE)) for rows in prefetching_loops(loop)]
    # 512 lines by 1,152 rows are one with each: the first 640 rows have prefetched all of them.
    assert [len(places) for places in prefetched] == [3, 3, 0]


@pytest.mark.parametrize(("count", "prefetches"), [(8192, True), (1 << 18, False)])
def test_scratch_memory_has_room_beside_results(count, prefetches):
    """As many results as operands, in a cache of 512 KB: 128 KB of both, and scratch memory."""
    text = SCALED.replace("w[8192*b]", "w[0]").replace("p: f32[8192]", f"p: f32[{count}]")
    assert (
        " prefetches {" in print_kernel(prefetch_matrices(parse_kernel(text), TARGET))
    ) == prefetches
    more = SCALED.replace("p: f32[8192]", f"p: f32[{count}]")  # a third are results
    assert " prefetches {" in print_kernel(prefetch_matrices(parse_kernel(more), TARGET))


def test_a_matrix_that_reaches_into_the_next_one_is_not_prefetched_for():
    loop = only_loop(parse_kernel(SCALED.replace("x[8192*b]", "x[4096*b]")))
    assert set(next_matrices(loop)) == {"w", "y"}


def test_rows_outside_of_matrices_do_not_prefetch():
    text = print_kernel(prefetch_matrices(parse_kernel(SCALED), TARGET))
    with pytest.raises(AssertionError, match="m prefetches no vectors, rows or matrices"):
        verify_kernel(parse_kernel(text.replace("b in 0..128 ordered", "b in 0..1 ordered")))


CORES = replace(TARGET, meets_products_late=True)


def prefetching_products(text: str) -> tuple[Kernel, list[Product]]:
    kernel = prefetch_matrices(parse_kernel(text), CORES)
    verify_kernel(kernel)
    return kernel, [p for p in products_run_once(only_loop(kernel).body) if p.prefetches]


def test_products_prefetch_where_a_processor_meets_matrices_late():
    kernel, (product,) = prefetching_products(SCALED)
    text = print_kernel(kernel)
    assert print_kernel(parse_kernel(text)) == text
    part = product.prefetches
    assert part is not None
    assert part.first == 0
    # Of three matrices with 512 lines each it prefetches whole ones, as many as it has time for.
    tiles = product_plan(product, CORES)
    most = steps_of_tiles(tiles) // part.steps
    assert part.lines == 512 * min(3, most // 512) > 0
    loop = only_loop(kernel)
    sizes = {"x": 4, "w": 4, "y": 4}
    prefetched = list(prefetched_by_product(loop, part, sizes, LINE))
    wanted = [("x", 0, 512), ("w", 512, 1024), ("y", 1024, 1536)][: part.lines // 512]
    assert [(buffer, begin, end) for buffer, _, begin, end in prefetched] == wanted
    assert prefetched[0][1] == Index(8192, (("b", 8192),))
    # What products do not prefetch is left to the rows.
    (rows,) = prefetching_loops(loop)
    left = [buffer for buffer, _, _ in prefetched_by(loop, rows, sizes, LINE)]
    assert left == ["x", "w", "y"][len(wanted) :]


def test_products_share_what_is_prefetched_for():
    product = SCALED[SCALED.index("    product") : SCALED.index("    for r")]
    second = product.replace("product s", "product v").replace("= s", "= v")
    second = second.replace("(i ", "(e ").replace("(j ", "(f ").replace("(k ", "(h ")
    text = SCALED.replace(product, product + second.replace("[64*i + j]", "[64*e + f]"))
    kernel, products = prefetching_products(text)
    parts = [p.prefetches for p in products]
    assert len(parts) == 2
    assert parts[0] is not None
    assert parts[1] is not None
    assert parts[1].first == parts[0].lines
    assert (parts[0].lines + parts[1].lines) % 512 == 0
    places = list(prefetched_by_product(only_loop(kernel), parts[1], dict.fromkeys("xwy", 4), LINE))
    # Line 0 of a part that begins within a matrix is within it.
    buffer, first, begin, end = places[0]
    number = "xwy".index(buffer)
    assert first == Index(8192 + 16 * (parts[1].first - 512 * number), (("b", 8192),))
    assert (begin, parts[1].first + end) == (0, 512 * (number + 1))


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("128 ordered", "2 ordered"),
        ("(k in 0..64)", "(k in 0..1024)"),
        ("b in 0..128 ordered", "b in 0..128"),
        ("scratch p: f32[8192]", "scratch p: f32[262144]"),  # no room beside them
        ("x[8192*b]", "x[0]"),  # the only other operand: nothing waits for what is written
    ],
)
def test_other_products_prefetch_nothing(what, by):
    text = SCALED.replace(what, by)
    if by == "x[0]":
        text = text.replace("w[8192*b]", "w[0]")
    if by.startswith("2"):
        text = text.replace("1048576", "16384")
    assert "prefetches(" not in print_kernel(prefetch_matrices(parse_kernel(text), CORES))


def test_products_outside_of_matrices_do_not_prefetch():
    text = print_kernel(prefetching_products(SCALED)[0])
    with pytest.raises(AssertionError, match="prefetches no"):
        verify_kernel(parse_kernel(text.replace("b in 0..128 ordered", "b in 0..1 ordered")))


def test_steps_of_a_triangle_are_those_that_tiles_take():
    zeros = SCALED.replace(" tile(1", " border(1, 128, -1)(1, 64, 1)(-63, 1) tile(1")
    (product,) = products_run_once(only_loop(parse_kernel(zeros)).body)
    plan = product_plan(product, CORES)
    assert plan.diagonal is not None
    whole = replace(plan, diagonal=None)
    assert 0 < steps_of_tiles(plan) < steps_of_tiles(whole)
    assert steps_of_tiles(whole) == plan.row_tiles * plan.panels * 64


def attention(heads: int, length: int) -> tuple[Graph, list[np.ndarray]]:
    q, k, v = (sg.placeholder((heads, length, 64), name=name) for name in "qkv")
    graph = Graph([sg.nn.scaled_dot_product_attention(q, k, v, causal=True)], [q, k, v])
    random = np.random.default_rng(0)
    return graph, [random.normal(size=(heads, length, 64)).astype(np.float32) for _ in range(3)]


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
def test_what_is_prefetched_changes_no_bit(threads, is_late):
    graph, arrays = attention(64, 128)
    target = replace(target_named("native"), meets_products_late=is_late)
    options = CompileOptions(target, 1, False, False, threads)
    prefetching = Executable(graph, options)
    assert any(" prefetches {" in print_kernel(kernel) for kernel in prefetching.program.kernels)
    plain = Executable(graph, options, passes=Options(skip=["prefetch-pages"]))
    wanted = run_native(plain, arrays).outputs
    for found, other in zip(run_native(prefetching, arrays).outputs, wanted, strict=True):
        np.testing.assert_array_equal(found, other)


def test_a_kernel_says_why_its_rows_prefetch():
    graph, _ = attention(64, 128)
    step = sg.compile(graph.inputs, graph.outputs, target="x86-64-v3", threads=1)
    reasons = [reason for kernel in step.kernels for reason in kernel.reasons]
    assert any("prefetch the next of 64 matrices, " in reason for reason in reasons)


def test_a_kernel_says_why_its_products_prefetch():
    (loop,) = prefetching_products(SCALED)[0].body
    kernel = replace(parse_kernel(SCALED), body=(loop,))
    assert "tile(1x1) prefetches" in schedule_text(kernel)
    reasons = schedule_reasons(kernel, CORES)
    assert any("lines of the next of 128 matrices, one in " in reason for reason in reasons)


def test_rows_of_128_keys_with_gradients_do_not_prefetch():
    q, k, v, g = (sg.placeholder((128, 128, 64), "float32") for _ in range(4))
    y = sg.nn.scaled_dot_product_attention(q, k, v)
    step = sg.compile([q, k, v, g], [y, *sg.gradients(y, [q, k, v], grad_ys=g)], threads=1)
    assert " prefetches {" not in step.ir("loops")


def test_attention_of_256_keys_prefetches_the_next_head():
    q, k, v = (sg.placeholder((32, 256, 64), "float32") for _ in range(3))
    step = sg.compile([q, k, v], sg.nn.scaled_dot_product_attention(q, k, v), threads=1)
    assert " prefetches {" in step.ir("loops")
