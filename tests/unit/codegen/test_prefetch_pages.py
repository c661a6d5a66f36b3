"""Long elementwise loops: each prefetches the next page of what it goes through."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import For, Index
from symgrad.codegen.loops.next_pages import lines_written, rows_written, walks
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.prefetch_pages import prefetch_pages
from symgrad.codegen.target import Target, target_named
from symgrad.compiler import CompileOptions, lower_graph
from symgrad.graph.graph import Graph
from symgrad.passes.table import Options
from symgrad.records import replace
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.kernels import describe_kernels
from tests.support.floors import run_native

MACHINE = target_named("native")
# As if the machine followed no walk across pages: then loops prefetch, and else not.
NATIVE = replace(MACHINE, follows_pages=False)
FOLLOWS = replace(MACHINE, follows_pages=True)
LONG = """kernel @move(in g: f32[1048581], inout w: f32[1048576], in s: f32[1]) {
  for i in 0..1048576 vector(16) {
    a: f32 = g[i + 5]
    b: f32 = s[0]
    c: f32 = mul(a, b)
    d: f32 = w[i]
    e: f32 = sub(d, c)
    w[i] = e
  }
}"""


def test_a_long_loop_prefetches_the_next_page_of_what_it_goes_through():
    kernel = prefetch_pages(parse_kernel(LONG), NATIVE)
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert "for i in 0..1048576 vector(16) prefetches {" in text
    assert print_kernel(parse_kernel(text)) == text
    (loop,) = (loop for loop in kernel.body if isinstance(loop, For))
    assert walks(loop) == [("g", Index(5, (("i", 1),))), ("w", Index(0, (("i", 1),)))]


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("1048576 vector(16)", "32768 vector(16)"),  # in a cache as a whole
        ("1048576 vector(16)", "1048576"),  # no vectors
        ("1048576 vector(16)", "349525 vector(16)"),  # elements that lie apart
    ],
)
def test_other_loops_do_not_prefetch(what, by):
    text = LONG.replace(what, by)
    if "349525" in by:
        text = text.replace("g[i + 5]", "g[3*i]").replace("w[i]", "w[3*i]")
    assert prefetch_pages(parse_kernel(text), NATIVE) == parse_kernel(text)


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
@pytest.mark.parametrize("count", [1 << 20, 1_000_003])
def test_what_is_prefetched_changes_no_bit(count, threads):
    w, m = (sg.variable(np.full(count, start, "float32"), name=f"w{start}") for start in (0.5, 2))
    x = sg.placeholder((count,), name="x")
    h = sg.astype(x, sg.bfloat16)
    moved = sg.sqrt(w * w + m) / (x + 3.0) + sg.astype(h, sg.float32)
    graph = Graph([moved, h], [x])
    arrays = [np.random.default_rng(0).random(count, np.float32)]
    options = CompileOptions(NATIVE, 1, False, False, threads)
    prefetching = Executable(graph, options)
    assert "prefetches" in "".join(map(print_kernel, prefetching.program.kernels))
    assert "llvm.prefetch" in prefetching.optimized_llvm
    plain = Executable(graph, options, passes=Options(skip=["prefetch-pages"]))
    assert "prefetches" not in "".join(map(print_kernel, plain.program.kernels))
    wanted = run_native(plain, arrays).outputs
    for found, other in zip(run_native(prefetching, arrays).outputs, wanted, strict=True):
        np.testing.assert_array_equal(found, other)


def test_a_kernel_says_why_it_prefetches_pages():
    x = sg.placeholder((1 << 20,))
    options = CompileOptions(NATIVE, 1, False, False, ONE_THREAD)
    (kernel,) = describe_kernels(Executable(Graph([sg.sqrt(x)], [x]), options))
    assert any("prefetches the next page of 2 buffers" in reason for reason in kernel.reasons)


SELECTING = """kernel @gate(in x: f32[1048576], in g: f32[1048576], out w: f32[1048576]) {
  for i in 0..1048576 vector(16) {
    a: f32 = x[i]
    b: bool = gt(a, 0.0:f32)
    c: f32 = g[i]
    d: f32 = select(b, c, 0.0)
    w[i] = d
  }
}"""
ROWS = """kernel @rows(in g: f64[260000], in p: i64[100000], out w: f64[2800000]) {
  for i in 0..100000 {
    a: i64 = p[i]
    check j = a in 10000 else 1
    for k in 0..2 vector(2) {
      w[28*i + k] = 0.0
    }
    for k in 0..26 vector(8) {
      b: f64 = g[26*j + k]
      w[28*i + k + 2] = b
    }
  }
}"""


def test_a_loop_that_gathers_rows_prefetches_those_it_writes():
    kernel = prefetch_pages(parse_kernel(ROWS), NATIVE)
    verify_kernel(kernel)
    assert "for i in 0..100000 prefetches {" in print_kernel(kernel)
    assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    (loop,) = (loop for loop in kernel.body if isinstance(loop, For))
    assert rows_written(loop) == {"w": 28}


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("100000", "1000"),  # in a cache as a whole
        ("check j = a in 10000 else 1", "c: i64 = add(a, 1)"),  # what is read is fetched ahead
        ("w[28*i + k + 2]", "w[28*i + k + 3]"),  # an iteration writes where the next one does
    ],
)
def test_loops_over_other_rows_do_not_prefetch(what, by):
    text = ROWS.replace(what, by)
    if "check" in what:
        text = text.replace("26*j", "26*i")
    assert prefetch_pages(parse_kernel(text), NATIVE) == parse_kernel(text)


@pytest.mark.parametrize(("row", "prefetches"), [(10_000, True), (4_000_000, False)])
def test_rows_are_prefetched_that_a_cache_holds(row, prefetches):
    text = f"""kernel @rows(in g: f64[{10 * row}], in p: i64[10000], out w: f64[{10_000 * row}]) {{
      for i in 0..10000 {{
        a: i64 = p[i]
        check j = a in 10 else 1
        for k in 0..{row} vector(8) {{
          b: f64 = g[{row}*j + k]
          w[{row}*i + k] = b
        }}
      }}
    }}"""
    assert (prefetch_pages(parse_kernel(text), NATIVE) != parse_kernel(text)) == prefetches


def test_images_that_are_shuffled_are_no_thousand_instructions_each():
    images = sg.placeholder((256, 64, 64, 3), name="images")
    order = sg.placeholder((1024,), "int64", name="order")
    graph = Graph([images[order]], [images, order])
    made = Executable(graph, CompileOptions(NATIVE, 1, False, False))
    assert str(made.llvm).count("@llvm.prefetch") < 80


@pytest.mark.parametrize("text", [LONG, ROWS])
def test_no_loop_prefetches_pages_where_walks_are_followed_across_them(text):
    kernel = parse_kernel(text)
    assert prefetch_pages(kernel, NATIVE) != kernel
    assert prefetch_pages(kernel, FOLLOWS) == kernel


@pytest.mark.parametrize("last", ["w[i] = d", "e: f32 = add(d, c)\n    w[i] = e", "w[i] = c"])
def test_a_loop_that_selects_what_it_loads_prefetches_on_any_processor(last):
    kernel = parse_kernel(SELECTING.replace("w[i] = d", last))
    is_marked = prefetch_pages(kernel, FOLLOWS) != kernel
    assert is_marked == (last == "w[i] = d")  # what is used again is loaded without a mask


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
def test_rows_that_are_prefetched_change_no_bit(threads):
    table = sg.placeholder((1000, 26), "float64", name="table")
    places = sg.placeholder((100_000, 2), "int64", name="places")
    rows = [sg.take(table, places[:, i], axis=0) for i in range(2)]
    graph = Graph([rows[0] * 2.0 + rows[1]], [table, places])
    random = np.random.default_rng(0)
    arrays = [random.random((1000, 26)), random.integers(0, 1000, (100_000, 2))]
    prefetching = Executable(graph, CompileOptions(NATIVE, 1, False, False, threads))
    assert "prefetches" in "".join(map(print_kernel, prefetching.program.kernels))
    (found,) = run_native(prefetching, arrays).outputs
    wanted = arrays[0][arrays[1][:, 0]] * 2.0 + arrays[0][arrays[1][:, 1]]
    np.testing.assert_array_equal(found, wanted)


def cholesky_of(count: int, dtype: str = "float64", rows: int = 16) -> Graph:
    x = sg.placeholder((count, rows, rows), dtype, name="x")
    return Graph([sg.linalg.cholesky(x)], [x])


def symmetric(count: int, dtype: str = "float64") -> np.ndarray:
    x = np.random.default_rng(count).standard_normal((count, 16, 16))
    return (x @ x.swapaxes(-1, -2) + 16 * np.eye(16)).astype(dtype)


def prefetching_loops(graph: Graph, target: Target) -> list[For]:
    options = CompileOptions(target, 0, False, False, ONE_THREAD)
    kernels = lower_graph(graph, options).program.kernels
    loops = (loop for kernel in kernels for loop in kernel.body if isinstance(loop, For))
    return [loop for loop in loops if loop.prefetches]


def test_a_loop_over_small_matrices_prefetches_the_lines_of_its_results():
    (loop,) = prefetching_loops(cholesky_of(1000), target_named("x86-64-v4"))
    lines = lines_written(loop, {"b1": 8}, 64, 1024)
    assert lines == [("b1", Index(8 * n, ((loop.var, 256),))) for n in range(32)]


@pytest.mark.parametrize(
    ("count", "rows", "target"),
    [
        (64, 16, "x86-64-v4"),  # results that a near cache holds
        (10_000, 4, "x86-64-v4"),  # results that lie near each other
        (1000, 16, "x86-64"),  # no wide registers by which values could be held up
        (1000, 16, "aarch64"),
    ],
)
def test_other_loops_over_small_matrices_do_not_prefetch(count, rows, target):
    assert prefetching_loops(cholesky_of(count, rows=rows), target_named(target)) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
def test_lines_that_are_prefetched_change_no_bit(dtype, threads):
    # Matrices that are left over are taken by narrower vectors.
    graph, arrays = cholesky_of(2015, dtype), [symmetric(2015, dtype)]
    options = CompileOptions(NATIVE, 1, False, False, threads)
    prefetching = Executable(graph, options)
    plain = Executable(graph, options, passes=Options(skip=["prefetch-pages"]))
    (found,), (wanted,) = (run_native(e, arrays).outputs for e in (prefetching, plain))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.isa("avx512f")
def test_a_kernel_says_why_it_prefetches_lines():
    x = sg.placeholder((1000, 16, 16), "float64")
    (kernel,) = sg.compile([x], sg.linalg.cholesky(x)).kernels
    assert any("prefetches the lines that it writes" in reason for reason in kernel.reasons)
