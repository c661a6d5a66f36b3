"""What is costly, and computed once a row, for many rows at a time: the same bits as in rows."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.distribute_scalars import distribute_scalars
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native

TARGET = target_named("x86-64-v4")
BUFFERS = {"x": 65536, "w": 512, "sums": 512, "loss": 512, "y": 65536}

LOSS = """kernel @loss(in x: f32[65536], in w: f32[512], out sums: f32[512], out loss: f32[512],
                       out y: f32[65536]) {
  for i in 0..512 {
    t9: f32 = w[i]
    fold s: f32 = 0.0 for j in 0..128 lanes(32) {
      a: f32 = x[128*i + j]
      yield a
    } combine (b) (c) {
      d: f32 = add(b, c)
      yield d
    }
    sums[i] = s
    t0: f32 = log(s)
    t1: f32 = x[128*i + 3]
    t2: f32 = sub(t0, t1)
    t3: f32 = mul(t2, t9)
    loss[i] = t3
    for k in 0..128 vector(16) {
      e: f32 = x[128*i + k]
      f: f32 = div(e, s)
      y[128*i + k] = f
    }
  }
}"""


def _run(kernel: Kernel) -> dict[str, Array]:
    buffers = {name: np.ones(count, np.float32) for name, count in BUFFERS.items()}
    buffers["x"] += np.linspace(0, 1, 65536, dtype=np.float32)
    buffers["w"] += np.arange(512, dtype=np.float32)
    run_kernel(kernel, buffers)
    return buffers


def test_a_logarithm_of_each_row_is_one_of_vectors_behind_them():
    plain = parse_kernel(LOSS)
    apart = distribute_scalars(plain, TARGET)
    verify_kernel(apart)
    rows, behind = print_kernel(apart).split("  for i.late in 0..512 vector(16) {\n")
    assert "log" not in rows
    assert "    loss[i] = t1\n" in rows  # what is stored nowhere waits where the result will be
    for read in ("s.late: f32 = sums[i.late]", "t9.late: f32 = w[i.late]", "loss[i.late]"):
        assert read in behind
    wanted = _run(plain)
    for name, found in _run(apart).items():
        np.testing.assert_array_equal(found, wanted[name])


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("div(e, s)", "div(e, t0)"),  # a loop over the row needs it
        ("log(s)", "sqrt(s)"),  # an instruction
        ("sums[i] = s", "sums[i] = t9"),  # two values are stored nowhere, and there is one place
        ("loss[i] = t3", "loss[0] = t3"),  # no place for each row
        ("512", "8"),  # soon over
    ],
)
def test_other_values_stay_in_their_row(what, by):
    text = LOSS.replace(what, by)
    if by == "loss[0] = t3":
        text = text.replace("0..512 {", "0..512 ordered {")
    assert distribute_scalars(parse_kernel(text), TARGET) == parse_kernel(text)


def test_what_is_written_besides_stays():
    text = LOSS.replace("sums[i] = s", "sums[i] = s\n    loss[i] = s")
    text = text.replace("0..512 {", "0..512 ordered {")
    assert distribute_scalars(parse_kernel(text), TARGET) == parse_kernel(text)


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
@pytest.mark.parametrize("shape", [(512, 256), (1030, 100)])
def test_a_loss_of_each_row_has_the_same_bits(shape, threads):
    x, g = sg.placeholder(shape, name="x"), sg.placeholder(shape[:1], name="g")
    labels = np.arange(shape[0]) % shape[1]
    y = sg.nn.cross_entropy(x, labels, reduction="none")
    graph = Graph([y, *sg.gradients(y, [x], grad_ys=g)], [x, g])
    random = np.random.default_rng(0)
    arrays = [random.normal(size=size).astype(np.float32) for size in (shape, shape[:1])]
    options = CompileOptions(target_named("native"), 1, False, False, threads)
    apart = Executable(graph, options)
    plain = Executable(graph, options, passes=Options(skip=["distribute-scalars"]))
    texts = ["".join(map(print_kernel, e.program.kernels)) for e in (apart, plain)]
    assert texts[0] != texts[1]
    wanted = run_native(plain, arrays).outputs
    for found, other in zip(run_native(apart, arrays).outputs, wanted, strict=True):
        np.testing.assert_array_equal(found, other)


def test_a_kernel_says_what_is_computed_behind_its_rows():
    x, g = sg.placeholder((1024, 256)), sg.placeholder((1024,))
    y = sg.nn.cross_entropy(x, np.zeros(1024, np.int64), reduction="none")
    step = sg.compile([x, g], [y, *sg.gradients(y, [x], grad_ys=g)], target="x86-64-v4")
    reasons = [reason for kernel in step.kernels for reason in kernel.reasons]
    assert any(
        "is apart: 16 operations that cost as much for 16 rows as for one" in reason
        for reason in reasons
    )
