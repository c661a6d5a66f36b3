"""Windows that a fold reads where they lie: it prefetches the row that is read next."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Fold, For, Index, Stmt
from symgrad.codegen.loops.next_rows import next_of_windows
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.prefetch_windows import prefetch_windows
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native

TARGET = target_named("x86-64-v4")
WINDOWS = """kernel @windows(in x: f32[1024000], in g: f32[1024000], out y: f32[15872]) {
  for i in 0..124 {
    for c in 0..128 vector(32) {
      fold s: f32 = 0.0 for k in 0..62 {
        a: f32 = x[8192*i + 128*k + c]
        b: f32 = x[8192*i + 128*k + c + 8192]
        d: f32 = g[8192*i + 128*k + c]
        e: f32 = mul(a, d)
        f: f32 = mul(b, e)
        yield f
      } combine (l) (r) {
        t: f32 = add(l, r)
        yield t
      }
      y[128*i + c] = s
    }
  }
}"""


def test_a_fold_prefetches_the_row_that_is_new_and_for_what_goes_along_with_it():
    kernel = prefetch_windows(parse_kernel(WINDOWS), TARGET)
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert "for k in 0..62 prefetches {" in text
    assert print_kernel(parse_kernel(text)) == text
    (rows,) = kernel.body
    assert isinstance(rows, For)
    terms = ("i", 8192), ("k", 128), ("c", 1)
    prefetched = next_of_windows(rows, "c", _fold_of(rows))
    assert sorted(prefetched) == [("g", Index(8192, terms)), ("x", Index(16384, terms))]


def _fold_of(statement: Stmt) -> Fold:
    while isinstance(statement, For):
        statement = statement.body[0]
    assert isinstance(statement, Fold)
    return statement


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("+ c + 8192]", "+ c + 128]"),  # of one row alone
        ("1024000", "102400"),  # in a cache as a whole
        ("8192", "81920"),  # rows that no near cache has room for
        ("128*k + c", "32*k + c"),  # steps beside each other, which a processor follows
        ("in x", "inout x"),
    ],
)
def test_other_folds_do_not_prefetch(what, by):
    text = WINDOWS.replace(what, by)
    if by == "102400":
        text = text.replace("0..124", "0..11")
    if by == "81920":
        text = text.replace("0..124", "0..11")
    if "inout" in by:
        text = text.replace("y[128*i + c] = s", "y[128*i + c] = s\n      x[8192*i + c] = s")
    assert prefetch_windows(parse_kernel(text), TARGET) == parse_kernel(text)


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
def test_what_is_prefetched_changes_no_bit(threads):
    shape = (2, 68, 67, 128)
    x, kernel, g = sg.placeholder(shape), sg.placeholder((3, 3, 1, 128)), sg.placeholder(shape)
    y = sg.nn.conv2d(x, kernel, padding="SAME", groups=128)
    graph = Graph(sg.gradients(y, [kernel], grad_ys=g), [x, g])
    random = np.random.default_rng(0)
    arrays = [random.normal(size=shape).astype(np.float32) for _ in range(2)]
    options = CompileOptions(target_named("native"), 1, False, False, threads)
    found = []
    for skip in ([], ["prefetch-rows"]):
        executable = Executable(graph, options, passes=Options(skip=skip))
        prefetches = any(
            "prefetches" in print_kernel(kernel) for kernel in executable.program.kernels
        )
        assert prefetches == (not skip)
        found.append(run_native(executable, arrays).outputs[0])
    prefetching, plain = found
    np.testing.assert_array_equal(prefetching, plain)
