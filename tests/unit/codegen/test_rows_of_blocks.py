"""Rows in blocks that are read twice prefetch what is further on, and a few rows need no loop."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Fold, For, Index, Kernel
from symgrad.codegen.loops.next_rows import next_of_blocks
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.schedule.prefetch_rows import prefetch_rows
from symgrad.codegen.schedule.reasons import schedule_reasons
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native

TARGET = target_named("x86-64-v4")
BLOCKS = """kernel @k(in x: f32[8388608], in w: f32[1024], out y: f32[8192], out g: f32[1024]) {
  for i in 0..1024 ordered {
    for r in 0..8 {
      fold s: f32 = 0.0 for k in 0..1024 lanes(32) {
        a: f32 = x[8192*i + 1024*r + k]
        b: f32 = w[k]
        c: f32 = mul(a, b)
        yield c
      } combine (d) (e) {
        f: f32 = add(d, e)
        yield f
      }
      y[8*i + r] = s
    }
    for j in 0..1024 vector(64) {
      fold t: f32 = 0.0 for l in 0..8 {
        h: f32 = x[8192*i + j + 1024*l]
        m: f32 = y[8*i + l]
        n: f32 = mul(h, m)
        yield n
      } combine (o) (p) {
        q: f32 = add(o, p)
        yield q
      }
      u: f32 = g[j]
      v: f32 = add(u, t)
      g[j] = v
    }
  }
}""".replace("out g", "inout g").replace("out y", "inout y")


def prefetching(kernel: Kernel) -> tuple[For, For, Fold]:
    """Return the loop over blocks, that over rows, and the fold in it."""
    (blocks,) = kernel.body
    assert isinstance(blocks, For)
    rows = blocks.body[0]
    assert isinstance(rows, For)
    fold = rows.body[0]
    assert isinstance(fold, Fold)
    return blocks, rows, fold


def test_a_fold_prefetches_rows_further_on_while_its_block_is_read_again():
    kernel = prefetch_rows(parse_kernel(BLOCKS), TARGET)
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert "for k in 0..1024 lanes(32) prefetches {" in text
    assert text.count("prefetches") == 1
    assert print_kernel(parse_kernel(text)) == text
    blocks, rows, fold = prefetching(kernel)
    place = ("x", Index(4096, (("i", 8192), ("r", 1024), ("k", 1))))  # of 16 KB further on
    assert next_of_blocks(blocks, rows, fold, {"x": 4, "w": 4}) == [place]
    (reason,) = (r for r in schedule_reasons(kernel, TARGET) if "prefetches" in r)
    assert "16,384 bytes further on in 1 buffers" in reason
    assert "8 rows of 1024 elements" in reason


def test_no_further_than_the_next_block():
    text = (
        BLOCKS.replace("1024*", "256*")
        .replace("8192*", "2048*")
        .replace("k in 0..1024", "k in 0..256")
    )
    text = text.replace("j in 0..1024", "j in 0..256").replace("i in 0..1024", "i in 0..4096")
    kernel = prefetch_rows(parse_kernel(text.replace("y: f32[8192]", "y: f32[32768]")), TARGET)
    blocks, rows, fold = prefetching(kernel)
    assert fold.prefetches
    ((_, index),) = next_of_blocks(blocks, rows, fold, {"x": 4, "w": 4})
    assert index.const == 2048


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("8388608", "1048576"),  # in a shared cache
        ("h: f32 = x[8192*i + j + 1024*l]", "h: f32 = w[j]"),  # read once
        ("8192*i + 1024*r + k", "8192*i + k"),  # one row for all
        ("a: f32 = x", "a: f32 = z"),  # of another buffer than is read again
        ("in x", "inout x"),
    ],
)
def test_other_rows_are_not_prefetched_for(what, by):
    text = BLOCKS.replace(what, by)
    if by == "1048576":
        text = text.replace("i in 0..1024", "i in 0..128")
    if by.endswith("z"):
        text = text.replace("(in x", "(in z: f32[8388608], in x")
    if "inout" in by:
        text = text.replace("      g[j] = v", "      g[j] = v\n      x[8192*i + j] = v")
    assert prefetch_rows(parse_kernel(text), TARGET) == parse_kernel(text)


def squares(rows: int, columns: int) -> Graph:
    x, w, y = (sg.placeholder(shape) for shape in ((rows, columns), (columns,), (rows,)))
    residual = x @ w - y
    return Graph(sg.gradients(sg.sum(residual * residual), [w]), [x, w, y])


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
def test_what_is_prefetched_changes_no_bit(threads):
    rows, columns = 4109, 1040  # more than 16 MB, and no whole number of blocks
    random = np.random.default_rng(0)
    shapes = (rows, columns), (columns,), (rows,)
    arrays = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    found = []
    for skip in ([], ["prefetch-rows"]):
        options = CompileOptions(target_named("native"), 1, False, False, threads)
        executable = Executable(squares(rows, columns), options, passes=Options(skip=skip))
        text = "".join(print_kernel(kernel) for kernel in executable.program.kernels)
        assert (" prefetches {" in text) == (not skip)
        found.append(run_native(executable, arrays).outputs[0])
    prefetching, plain = found
    np.testing.assert_array_equal(prefetching, plain)


def loads_of_rows(inputs: Sequence[Tensor], y: Tensor) -> int:
    """Return how many vectors of four registers an iteration of a loop reads at most."""
    text = sg.compile(inputs, y, target="x86-64-v4").ir("llvm")
    return max(block.count("= load <64 x float>") for block in re.split(r"\n(?=\S+:\n)", text))


def test_a_few_rows_from_memory_need_no_loop():
    x = sg.placeholder((2048, 4096))
    assert loads_of_rows([x], sg.sum(x, axis=0)) == 9  # eight rows and the running sums


def test_remarks_say_that_rows_are_written_out():
    x = sg.placeholder((2048, 4096))
    (kernel,) = Executable(
        Graph([sg.sum(x, axis=0)], [x]), CompileOptions(TARGET, 1, False, False, ONE_THREAD)
    ).program.kernels
    (reason,) = (r for r in schedule_reasons(kernel, TARGET) if "written out" in r)
    assert "flops for each of 8 rows: 1;" in reason


def test_other_folds_are_loops():
    x = sg.placeholder((2048, 4096))
    assert loads_of_rows([x], sg.sum(sg.exp(x), axis=0)) <= 2  # much is computed of each element
    graph = squares(8192, 1024)
    assert (
        loads_of_rows(graph.inputs, graph.outputs[0]) <= 2
    )  # the rows have been read, and are near


@pytest.mark.parametrize("target", ["x86-64-v3", "native"])
@pytest.mark.parametrize("fold", [sg.sum, sg.max, sg.prod, sg.var])
def test_columns_of_few_rows_at_a_time_are_what_numpy_has(target, fold):
    random = np.random.default_rng(1)
    x = random.uniform(0.99, 1.01, size=(83, 1100)).astype(np.float32)
    given = sg.placeholder(x.shape)
    step = sg.compile([given], fold(given, axis=0), target=target)
    expected = getattr(np, fold.__name__)(x.astype(np.float64), axis=0)
    np.testing.assert_allclose(step(x), expected, rtol=2e-5, atol=1e-7)
