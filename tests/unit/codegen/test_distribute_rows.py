"""Short rows some at a time, stage by stage: the same bits as one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.distribute_rows import distribute_rows
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import target_named
from symgrad.cost_model import ROWS_A_STAGE
from symgrad.graph.types import Array
from tests.support.row_programs import ROW_FUNCTIONS, assert_same_bits, compiled_rows, row_program

TARGET = target_named("x86-64-v4")
BUFFERS = {"x": 65536, "w": 512, "most": 512, "e": 128, "y": 65536, "z": 512}

ROWS = """kernel @rows(in x: f32[65536], in w: f32[512], out most: f32[512], scratch e: f32[128],
                       out y: f32[65536], out z: f32[512]) {
  for i in 0..512 ordered {
    t9: f32 = w[i]
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
      g: f32 = sub(f, t0)
      e[k] = g
    }
    fold u: f32 = 0.0 for l in 0..128 lanes(32) {
      h: f32 = e[l]
      yield h
    } combine (m) (n) {
      o: f32 = add(m, n)
      yield o
    }
    z[i] = u
    t1: f32 = z[i]
    t2: f32 = mul(t1, t9)
    for p in 0..128 vector(16) {
      q: f32 = e[p]
      r: f32 = mul(q, t2)
      y[128*i + p] = r
    }
  }
}"""


def _run(kernel: Kernel) -> dict[str, Array]:
    sizes = BUFFERS | {param.name: param.count for param in kernel.params}
    buffers = {name: np.ones(count, np.float32) for name, count in sizes.items()}
    buffers["x"] += np.linspace(0, 1, 65536, dtype=np.float32)
    buffers["w"] += np.arange(512, dtype=np.float32)
    run_kernel(kernel, buffers)
    return buffers


def test_what_waits_for_a_fold_begins_a_stage_of_several_rows():
    plain = parse_kernel(ROWS)
    stages = distribute_rows(plain, TARGET)
    verify_kernel(stages)
    text = print_kernel(stages)
    assert "for i in 0..64 ordered {" in text
    assert text.count("for i.row in 0..8 {") == 3
    assert "scratch e: f32[1024]" in text
    assert "e[128*i.row + k] = g" in text
    assert text.count("t9: f32 = w[8*i + i.row]") == 2  # read again where it is needed
    wanted = _run(plain)
    for name, found in _run(stages).items():
        if name != "e":
            np.testing.assert_array_equal(found, wanted[name])


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("i in 0..512", "i in 0..511"),  # an odd number of rows
        ("t0: f32 = most[i]", "t0: f32 = sub(s, 1.0)"),  # a fold's result crosses in no memory
        ("out z: f32[512]", "inout z: f32[512]"),
    ],
)
def test_the_stages_that_there_are(what, by):
    text = ROWS.replace(what, by).replace("z[i] = u", "z[0] = u" if "inout" in by else "z[i] = u")
    text = text.replace("t1: f32 = z[i]", "t1: f32 = z[0]" if "inout" in by else "t1: f32 = z[i]")
    found = print_kernel(distribute_rows(parse_kernel(text), TARGET))
    assert found.count("for i.row in") == (2 if "sub(s" in by else 0)


def test_scratch_memory_that_is_read_before_it_is_written_keeps_rows_one_by_one():
    text = ROWS.replace("x[128*i + k]", "e[k]", 1)
    kernel = parse_kernel(text.replace("scratch e", "inout e"))
    assert distribute_rows(kernel, TARGET) == kernel


def test_as_many_rows_are_taken_as_the_nearest_cache_holds():
    kernel = parse_kernel(ROWS)
    rows = {}
    for l1_bytes in (2 << 10, 8 << 10, 16 << 10, 1 << 20):
        target = replace(TARGET, memory=replace(TARGET.memory, l1_bytes=l1_bytes))
        text = print_kernel(distribute_rows(kernel, target))
        rows[l1_bytes] = 512 // int(text.split("for i in 0..")[1].split()[0])
    assert list(rows.values()) == [1, 2, 4, ROWS_A_STAGE]


def test_rows_that_come_from_memory_are_taken_one_by_one():
    kernel = parse_kernel(ROWS)
    near = replace(TARGET, memory=replace(TARGET.memory, shared_bytes=65536 * 4))
    far = replace(TARGET, memory=replace(TARGET.memory, shared_bytes=65535 * 4))
    assert distribute_rows(kernel, near) != kernel
    assert distribute_rows(kernel, far) == kernel
    computed = parse_kernel(ROWS.replace("sub(f, t0)", "exp(f)"))
    assert distribute_rows(computed, far) != computed


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2, least_cycles=0)])
@pytest.mark.parametrize("function", ROW_FUNCTIONS)
def test_a_function_of_short_rows_has_the_same_bits(function, threads):
    graph = row_program(function, 2048)
    stages = compiled_rows(graph, threads, "pipeline-rows")
    plain = compiled_rows(graph, threads, "distribute-rows", "pipeline-rows")
    texts = ["".join(map(print_kernel, e.program.kernels)) for e in (stages, plain)]
    assert texts[0] != texts[1]
    assert_same_bits(stages, plain, 2048)


def test_a_kernel_says_how_many_rows_it_takes_at_a_time():
    x, g = sg.placeholder((2048, 128)), sg.placeholder((2048, 128))
    y = sg.nn.softmax(x)
    step = sg.compile([x, g], [y, *sg.gradients(y, [x], grad_ys=g)], target="x86-64-v3")
    reasons = [reason for kernel in step.kernels for reason in kernel.reasons]
    assert any("takes 4 rows at a time, in 4 stages" in reason for reason in reasons)
