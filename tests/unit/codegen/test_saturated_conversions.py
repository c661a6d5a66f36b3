"""Conversions of vectors of floats to integers: limits and nan, and which instruction converts."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from tests.support.evaluators import evaluate_reference
from tests.support.floors import run_everywhere

_INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_no_integer_holds_becomes_the_nearest_limit_and_nan_becomes_0(dtype):
    powers = 2.0 ** np.array([7, 8, 15, 16, 31, 32, 63, 64, 100])
    sizes = np.concatenate(
        [[0, 0.5, 1.5, np.inf], powers, powers - 1, powers + 1, powers * (1 - 2.0**-24)]
    )
    given = np.concatenate([[np.nan], sizes, -sizes]).astype(dtype)
    x = sg.placeholder(given.shape, dtype)
    graph = Graph([x.astype(name) for name in _INTEGERS], [x])
    assert run_everywhere(graph, [given]) is None
    for name, found in zip(_INTEGERS, evaluate_reference(graph, [given]), strict=True):
        limits = np.iinfo(name)
        wanted = [0 if np.isnan(v) else _clipped(v, limits) for v in given.tolist()]
        assert found.tolist() == wanted, name


def _clipped(number: float, limits: np.iinfo) -> int:
    if np.isinf(number):
        return int(limits.max if number > 0 else limits.min)
    return min(max(int(number), int(limits.min)), int(limits.max))


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_lanes_of_a_vector_are_converted_together(target):
    x = sg.placeholder((64,))
    for name in ("int8", "int32", "uint32", *(("int64", "uint64") if target[-1] == "4" else ())):
        text = sg.compile([x], x.astype(name), target=target).ir("asm")
        assert "cvttss2" not in text, name
