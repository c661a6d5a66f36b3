"""What is left over of a short loop of vectors is narrower vectors."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import For
from symgrad.cost_model import WORTH_NARROW


def _widths(extent: int, vector: int) -> tuple[int, ...]:
    return For("i", extent, (), vector).widths


def test_a_short_loop_has_a_vector_for_each_power_of_two():
    assert _widths(14, 8) == (8, 4, 2, 1)
    assert _widths(31, 16) == (16, 8, 4, 2, 1)
    assert _widths(12, 8) == (8, 4, 1)


def test_a_long_loop_takes_a_few_one_by_one():
    assert _widths(8 * (6 * WORTH_NARROW + 1) + 6, 8) == (8, 1)
    assert _widths(8 * (6 * WORTH_NARROW + 1) + 4, 8) == (8, 4, 1)


@pytest.mark.parametrize("n", [3, 6, 7, 11, 14, 15, 29])
def test_loops_in_registers_of_any_size_are_right(n):
    x, w = sg.placeholder((n,), "float64"), sg.placeholder((n,), "float64")
    y = sg.fori_loop(0, 20, lambda _, a: sg.sin(a * w) + sg.roll(a, 1) * 0.25, x)
    outputs = [y, *sg.gradients((y * y).sum(), [x, w])]
    random = np.random.default_rng(n)
    given = random.random(n), random.random(n)
    found = sg.compile([x, w], outputs, opt_level=1)(*given)
    wanted = sg.testing.interpret(outputs, {x: given[0], w: given[1]})
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
