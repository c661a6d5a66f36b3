"""What becomes a float16 or bfloat16 is rounded once, on every floor, by an exact oracle."""

from __future__ import annotations

import bisect
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.run import run_program
from symgrad.graph.dtypes import REAL, DType, bfloat16, float16
from symgrad.graph.graph import Graph
from symgrad.graph.reference import evaluate
from tests.support.floors import TARGETS, compile_for, program_for, run_native

_SOURCES = [d for d in REAL if not d.is_half]
_HALVES = (float16, bfloat16)
Array = np.ndarray[Any, Any]


@cache
def _halves(half: DType) -> list[Fraction]:
    """Return all halves from 0 up, the last of which stands for infinity, as exact numbers."""
    codes = np.arange(0x7C00 if half == float16 else 0x7F80, dtype=np.uint16)
    limit = 2**16 if half == float16 else 2**128
    return [*map(Fraction, codes.view(half.numpy).astype(float).tolist()), Fraction(limit)]


def _code(value: float | int, half: DType) -> int:
    """Return the bits of the half nearest to `value`; of two, those of the even one."""
    table = _halves(half)
    size = min(abs(Fraction(value)), table[-1])
    above = bisect.bisect_left(table, size)
    below = max(above - 1, 0)
    middle = (table[below] + table[above]) / 2
    is_up = size > middle or (size == middle and above % 2 == 0)
    return (above if is_up else below) | (0x8000 if value < 0 else 0)


def _ties(half: DType) -> list[Fraction]:
    table = _halves(half)
    return [(a + b) / 2 for a, b in zip(table[:-1:37], table[1::37], strict=True)]


def _near_ties(source: DType, half: DType) -> Array:
    """Return numbers of `source` that are ties, that lie beside one, and some of any size."""
    if source.is_bool:
        return np.array([False, True])
    if source.is_float:
        ties = np.array([float(tie) for tie in _ties(half)], source.numpy)
        near = [ties, np.nextafter(ties, 0), np.nextafter(ties, np.array(np.inf, source.numpy))]
        found: Array = np.concatenate([*near, *(-x for x in near)])
        return found[np.isfinite(found)]
    limits = np.iinfo(source.numpy)
    whole = [int(tie) for tie in _ties(half) if tie.denominator == 1]
    steps = (0, 1, -1, 2, 1 << 11, -(1 << 11), (1 << 20) + 1)
    near = [sign * (tie + step) for tie in whole for step in steps for sign in (1, -1)]
    near += [sign * ((1 << k) + step) for k in range(65) for step in steps for sign in (1, -1)]
    near += [limits.min, limits.max, limits.max // 3]
    return np.array([n for n in near if limits.min <= n <= limits.max], source.numpy)


@pytest.mark.parametrize("half", _HALVES, ids=str)
@pytest.mark.parametrize("source", _SOURCES, ids=str)
def test_a_number_that_becomes_a_half_is_rounded_once_on_every_floor(source, half):
    given = _near_ties(source, half)
    wanted = np.array([_code(value, half) for value in given.tolist()], np.uint16)
    x = sg.placeholder(given.shape, source)
    graph = Graph([sg.astype(x, half)], [x])
    found = {
        "reference": evaluate(graph, [given])[0],
        "loops": run_program(program_for(graph), [given]).outputs,
    }
    for target in TARGETS:
        found[target] = run_native(compile_for(graph, target), [given]).outputs
    for floor, (array,) in found.items():
        wrong = given[array.view(np.uint16) != wanted]
        assert not wrong.size, f"{floor}: {wrong[:4]}"


@pytest.mark.parametrize("half", _HALVES, ids=str)
def test_a_constant_that_becomes_a_half_is_rounded_once(half):
    for value in _near_ties(sg.float64, half)[::50].tolist():
        (found,), _ = evaluate(Graph([sg.constant(value, half)], []), [])
        assert found.view(np.uint16) == _code(value, half)


@pytest.mark.parametrize("half", _HALVES, ids=str)
def test_what_is_no_number_stays_none(half):
    x = sg.placeholder((4,), sg.float64)
    graph = Graph([sg.astype(x, half)], [x])
    given = np.array([np.nan, np.inf, -np.inf, -0.0])
    (found,), _ = evaluate(graph, [given])
    np.testing.assert_array_equal(found.astype(float), given)
    assert np.signbit(found[3])
    for target in TARGETS:
        (native,) = run_native(compile_for(graph, target), [given]).outputs
        np.testing.assert_array_equal(native.astype(float), given)
