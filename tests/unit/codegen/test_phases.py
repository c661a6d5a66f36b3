"""Where arrays begin in a cache line: such that the vectors of loops are stored within lines."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.program.language import Launch
from symgrad.codegen.program.phases import phases_of
from symgrad.graph.aligned import ALIGNMENT
from symgrad.graph.dtypes import float64
from symgrad.graph.types import TensorType
from symgrad.passes.fusion.buffers import Buffer

KERNEL = """kernel @k(in b0: f64[1000], out b1: f64[1000]) {
  for i0 in 0..990 vector(8) {
    t0: f64 = b0[i0 + %d]
    b1[i0 + %d] = t0
  }
}"""


def phases(read: int, written: int, starts: tuple[int, int] = (0, 0)) -> list[int]:
    """Return in which phase two temporaries are, of which one is copied to the other."""
    kernel = parse_kernel(KERNEL % (read, written))
    buffers = [Buffer("temporary", n, TensorType(float64, (1000,))) for n in range(2)]
    found = phases_of([Launch("copy", kernel, tuple(buffers), starts, ())])
    return [found.get(buffer, 0) for buffer in buffers]


@pytest.mark.parametrize(("shift", "phase"), [(0, 0), (1, 56), (3, 40), (8, 0), (9, 56)])
def test_vectors_that_are_shifted_begin_at_a_line(shift, phase):
    assert phases(shift, 0) == [phase, 0]
    assert phases(0, shift) == [0, phase]


def test_where_a_launch_begins_is_a_shift_too():
    assert phases(1, 2, (7, 3)) == [0, 24]


def test_where_accesses_differ_the_stores_are_within_lines():
    first, second = (parse_kernel(KERNEL % shifts) for shifts in ((0, 1), (0, 0)))
    a, b, c = (Buffer("temporary", n, TensorType(float64, (1000,))) for n in range(3))
    made = Launch("copy", first, (a, b), (0, 0), ())
    read = Launch("copy", second, (b, c), (0, 0), ())
    assert phases_of([made, read]) == {b: 56}
    # Four loads of vectors cost as much as a store.
    assert phases_of([made, *[read] * 5]) == {}


def test_only_large_temporaries_of_even_slices_are_moved():
    kernel = parse_kernel(KERNEL % (1, 1))
    output = Buffer("output", 0, TensorType(float64, (1000,)))
    small = Buffer("temporary", 0, TensorType(float64, (100,)))
    assert phases_of([Launch("copy", kernel, (small, output), (0, 0), ())]) == {}


def test_a_loop_of_shifted_arrays_stores_within_lines_and_is_right():
    x = sg.placeholder((5000,), "float64")

    def body(_, y):
        shifted = sg.concat([sg.ones((1,), "float64"), y[:-1]])
        again = sg.concat([sg.ones((1,), "float64"), (x * shifted)[:-1]])
        return y + x * again

    y = sg.fori_loop(0, 3, body, sg.zeros_like(x))
    step = sg.compile([x], y)
    given = np.random.default_rng(1).normal(size=5000)
    wanted = np.zeros(5000)
    for _ in range(3):
        shifted = np.concatenate([[1.0], wanted[:-1]])
        wanted = wanted + given * np.concatenate([[1.0], (given * shifted)[:-1]])
    np.testing.assert_allclose(step(given), wanted, rtol=1e-12)
    starts = [int(start) for start in re.findall(r" at (\d+) alive", step.ir("loops"))]
    assert any(start % ALIGNMENT for start in starts)
    assert all(start % 8 == 0 for start in starts)
