"""Loops of one stage of a row in one loop, where they read the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from symgrad.codegen.loops.language import Fold, For, Kernel, Stmt
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.distribute_rows import distribute_rows
from symgrad.codegen.schedule.join_stages import join_stage
from symgrad.codegen.target import target_named
from symgrad.graph.types import Array
from tests.support.row_programs import run_on_ones

TARGET = target_named("x86-64-v4")

ROWS = """kernel @rows(in x: f32[65536], in g: f32[65536], out y: f32[65536], out z: f32[64],
                       out w: f32[65536], out most: f32[64]) {
  for i in 0..64 {
    fold s: f32 = 0.0 for j in 0..1024 lanes(32) {
      a: f32 = x[1024*i + j]
      yield a
    } combine (b) (c) {
      d: f32 = add(b, c)
      yield d
    }
    most[i] = s
    t0: f32 = most[i]
    for k in 0..1024 vector(16) {
      f: f32 = x[1024*i + k]
      h: f32 = sub(f, t0)
      y[1024*i + k] = h
    }
    fold u: f32 = 0.0 for l in 0..1024 lanes(32) {
      m: f32 = x[1024*i + l]
      n: f32 = sub(m, t0)
      o: f32 = g[1024*i + l]
      p: f32 = mul(n, o)
      yield p
    } combine (q) (r) {
      t: f32 = add(q, r)
      yield t
    }
    z[i] = u
    t1: f32 = z[i]
    for v in 0..1024 vector(16) prefetches {
      e: f32 = x[1024*i + v]
      aa: f32 = mul(e, t1)
      w[1024*i + v] = aa
    }
  }
}"""


def _run(kernel: Kernel) -> dict[str, Array]:
    places = np.arange(65536, dtype=np.float32)
    return run_on_ones(kernel, x=np.sin(places), g=np.cos(places))


def test_a_row_is_read_once_a_stage():
    kernel = distribute_rows(parse_kernel(ROWS), TARGET)
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert text.count(" x[") == 3
    assert text.count("prefetches") == 1
    wanted = _run(parse_kernel(ROWS))
    for name, found in _run(kernel).items():
        np.testing.assert_array_equal(found, wanted[name])


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("for k in 0..1024", "for k in 0..512"),
        ("m: f32 = x[1024*i + l]", "m: f32 = g[1024*i + l]"),  # nothing in common
        ("m: f32 = x[1024*i + l]", "m: f32 = y[1024*i - l + 1023]"),
    ],
)
def test_what_stays_as_it_is(what, by):
    kernel = parse_kernel(ROWS.replace(what, by))
    assert distribute_rows(kernel, TARGET) == kernel


def test_registers_hold_what_a_loop_carries():
    (loop,) = parse_kernel(ROWS).body
    assert isinstance(loop, For)
    stage = loop.body[2:6]
    assert len(join_stage(stage, "i", 1, TARGET)) == 3
    sums = (_renamed(loop.body[4], f"u{number}") for number in range(6))
    many = (*stage[:2], *sums)
    assert len(join_stage(many, "i", 1, TARGET)) == 2
    assert join_stage(many, "i", 1, target_named("x86-64-v3")) == many


def _renamed(fold: Stmt, name: str) -> Stmt:
    """Return a fold under another name."""
    assert isinstance(fold, Fold)
    (accumulator,) = fold.accumulators
    return replace(fold, accumulators=(replace(accumulator, name=name),))
