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
from symgrad.codegen.schedule.prefetch_rows import prefetch_rows, prefetch_stages
from symgrad.codegen.schedule.reasons import schedule_reasons
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.passes.table import Options
from symgrad.records import replace
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


STAGES = """kernel @k(in x: f32[N], in g: f32[N], inout s: f32[8192], out y: f32[N]) {
  for i in 0..2048 ordered {
    for r in 0..4 {
      fold t: f32 = 0.0 for j in 0..128 lanes(32) {
        a: f32 = x[512*i + 128*r + j]
        yield a
      } combine (b) (c) {
        d: f32 = add(b, c)
        yield d
      }
      s[4*i + r] = t
    }
    for q in 0..4 {
      fold u: f32 = 0.0 for k in 0..128 lanes(32) {
        e: f32 = x[512*i + 128*q + k]
        f: f32 = g[512*i + 128*q + k]
        h: f32 = mul(e, f)
        yield h
      } combine (m) (n) {
        o: f32 = add(m, n)
        yield o
      }
      s[4*i + q] = u
    }
    for p in 0..4 {
      v: f32 = s[4*i + p]
      for l in 0..128 vector(8) {
        w: f32 = x[512*i + 128*p + l]
        z: f32 = g[512*i + 128*p + l]
        aa: f32 = mul(w, z)
        ab: f32 = add(aa, v)
        y[512*i + 128*p + l] = ab
      }
    }
  }
}""".replace("[N]", "[1048576]")
AVX2 = target_named("x86-64-v3")


def test_the_first_stage_that_reads_an_array_prefetches_the_next_rows():
    kernel = prefetch_stages(parse_kernel(STAGES), AVX2)
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert print_kernel(parse_kernel(text)) == text
    (blocks,) = kernel.body
    assert isinstance(blocks, For)
    found = {}
    for stage in blocks.body:
        assert isinstance(stage, For)
        loop = next(s for s in stage.body if isinstance(s, For | Fold))
        assert loop.prefetches
        found[loop.var] = next_of_blocks(blocks, stage, loop, {"x": 4, "g": 4, "s": 4, "y": 4})
    assert found == {
        "j": [("x", Index(512, (("i", 512), ("r", 128), ("j", 1))))],
        "k": [("g", Index(512, (("i", 512), ("q", 128), ("k", 1))))],
        "l": [],  # which has them near, and prefetches what it writes
    }
    reasons = [r for r in schedule_reasons(kernel, AVX2) if "prefetches" in r]
    assert sorted(r.split(" in ")[0] for r in reasons) == [
        "j prefetches what is 2,048 bytes further on",
        "k prefetches what is 2,048 bytes further on",
        "l prefetches what it writes 1,024 bytes further on",
    ]


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("0..2048", "0..32"),  # in the caches of a core as a whole
        ("vector(8)", "vector(8) prefetches"),  # chosen already
        ("0..4 {", "0..16 {"),  # blocks that are no stages
    ],
)
def test_other_stages_prefetch_nothing_more(what, by):
    text = STAGES.replace(what, by)
    if by == "0..32":
        text = text.replace("1048576", "16384").replace("f32[8192]", "f32[128]")
    if by == "0..16 {":
        text = text.replace("512*i", "2048*i").replace("0..2048", "0..512").replace("4*i", "16*i")
    assert prefetch_stages(parse_kernel(text), AVX2) == parse_kernel(text)
    follows = replace(AVX2, follows_pages=True)
    assert prefetch_stages(parse_kernel(STAGES), follows) == parse_kernel(STAGES)


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
def test_what_stages_prefetch_changes_no_bit(threads):
    shape = (1024, 128)
    x, g = (sg.placeholder(shape, name=name) for name in "xg")
    y = sg.nn.softmax(x)
    graph = Graph([y, *sg.gradients(y, [x], grad_ys=g)], [x, g])
    random = np.random.default_rng(0)
    arrays = [random.normal(size=shape).astype(np.float32) for _ in range(2)]
    options = CompileOptions(target_named("native"), 1, False, False, threads)
    found = []
    for skip in (["pipeline-rows"], ["pipeline-rows", "prefetch-pages"]):
        executable = Executable(graph, options, passes=Options(skip=skip))
        found.append(run_native(executable, arrays).outputs)
    for prefetching, plain in zip(*found, strict=True):
        np.testing.assert_array_equal(prefetching, plain)
