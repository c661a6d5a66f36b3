"""Random branches and loops: their gradients beside central differences of what they compute.

Other random programs compare floors of the compiler, which all run what `gradients` built; here
the oracle knows nothing of it. A seed is a program and its inputs, and `complaint(seed)` says what
is wrong with it.
"""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.graph import dtypes
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import multiply
from symgrad.graph.ops.reduction import sum as sum_of
from symgrad.graph.ops.transcendental import tanh
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from symgrad.passes.gradients.reverse_mode import gradients
from tests.support.strategies import random_graph

SEEDS = range(1_560_000, 1_560_016)
MORE_SEEDS = range(1_560_016, 1_560_316)
_BLOCK = 50
_STEPS = (1e-5, 1e-6)
_TOLERANCE = 1e-4  # relative, of differences with such steps in float64


def complaint(seed: int) -> str:
    """Return what is wrong with first and second derivatives of the program of a seed, '' if not.

    Where differences with two steps disagree, as beside a kink, they say nothing.
    """
    graph, arrays, rng = _program(seed)
    xs = list(graph.inputs)
    first = _total(graph.outputs)
    slopes = gradients(first, xs, unconnected_gradients="zero")
    second = _total(slopes)
    curvatures = gradients(second, xs, unconnected_gradients="zero")
    totals = Graph([first, second], xs)
    found, _ = evaluate(Graph([*slopes, *curvatures], xs), arrays)
    for position, array in enumerate(arrays):
        direction = rng.normal(size=array.shape)
        differences = [_difference(totals, arrays, position, direction * h) / h for h in _STEPS]
        for order, (rough, fine) in enumerate(zip(*differences, strict=True)):
            slope = float(np.sum(found[position + order * len(xs)] * direction))
            allowed = _TOLERANCE * (1 + abs(rough))
            if abs(rough - fine) <= allowed < abs(slope - rough):
                return f"seed {seed}: order {order + 1}, x{position}: {slope}, not {rough}\n{graph}"
    return ""


def _program(seed: int) -> tuple[Graph, list[Array], np.random.Generator]:
    """Return a graph of branches and loops that depends on its inputs, these, and what draws on."""
    rng = np.random.default_rng(seed)
    while True:
        size = int(rng.integers(2, 6))
        found, arrays = random_graph(
            rng, dtype=dtypes.float64, size=size, smooth=True, control=True
        )
        is_connected = any(g is not None for g in gradients(list(found.outputs), found.inputs))
        # Users do not build these, which have no gradient: what they are a part of has one.
        if is_connected and "_columns " not in str(found):
            return found, arrays, rng


def _total(tensors: tuple[Tensor, ...] | list[Tensor]) -> Tensor:
    """Return a number that depends on all of `tensors`, on each in another way, and is bounded."""
    parts = [sum_of(tanh(multiply(t, 0.3 + 0.2 * i))) for i, t in enumerate(tensors)]
    return sum(parts[1:], parts[0])


def _difference(totals: Graph, arrays: list[Array], position: int, step: Array) -> Array:
    """Return half of how the totals differ between both sides of one of the arrays."""
    ends = []
    for end in (arrays[position] + step, arrays[position] - step):
        values, _ = evaluate(totals, [*arrays[:position], end, *arrays[position + 1 :]])
        ends.append(np.asarray(values))
    return np.asarray((ends[0] - ends[1]) / 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_are_those_of_differences(seed):
    assert not complaint(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(MORE_SEEDS.start, MORE_SEEDS.stop, _BLOCK))
def test_gradients_of_many_more_are_those_of_differences(first):
    complaints = [complaint(seed) for seed in range(first, first + _BLOCK)]
    assert not any(complaints), "\n".join(filter(None, complaints))
