"""What the tests of branches and loops share: programs run by both, and finite differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from symgrad.runtime.function import compile
from symgrad.runtime.step import Step

_STEP = 1e-5


Kept = TypeVar("Kept")


def keep(kept: list[Kept], value: Kept) -> Kept:
    """Return `value`, and keep it in a list: a statement where an expression is needed."""
    kept.append(value)
    return value


def arrays(given: Mapping[Tensor, Any]) -> list[Array]:
    return [np.asarray(value, tensor.dtype.numpy) for tensor, value in given.items()]


def run(outputs: Sequence[Tensor], given: Mapping[Tensor, Any]) -> list[Array]:
    """Return `outputs` as the machine computes them; the reference must agree."""
    return run_step(compile(list(given), list(outputs), opt_level=1), outputs, given)


def run_step(step: Step, outputs: Sequence[Tensor], given: Mapping[Tensor, Any]) -> list[Array]:
    """Do what `run` does with a step that is compiled."""
    found = step(*arrays(given))
    expected, _updates = evaluate(Graph(list(outputs), list(given)), arrays(given))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    return list(found)


def value(output: Tensor, given: Mapping[Tensor, Any]) -> Array:
    """Return the one output of `run`."""
    return run([output], given)[0]


def gradient(ys: Any, x: Tensor, *arguments: Any, **options: Any) -> Tensor:
    """Return the gradient with respect to one x, which must be there."""
    found: list[sg.Tensor | None] = sg.gradients(ys, x, *arguments, **options)
    (g,) = found
    assert g is not None, f"{x!r} has no gradient"
    return g


def check_derivatives(y: Tensor, x: Tensor, *givens: Mapping[Tensor, Any]) -> None:
    """Hold the first and second derivative of `y` in float64 to central differences of it."""
    total = (y * _weights(y)).sum()
    first = gradient(total, x)
    # Where the first derivative is constant the second one is None, or zeros.
    (second,) = sg.gradients((first * _weights(first)).sum(), x, unconnected_gradients="zero")
    assert second is not None
    outputs = [total, first, second]
    step = compile(list(givens[0]), outputs, opt_level=1)
    for given in givens:
        _total, found, again = run_step(step, outputs, given)
        np.testing.assert_allclose(found, _difference(total, x, given), rtol=1e-6, atol=1e-8)
        weighted = (first * _weights(first)).sum()
        np.testing.assert_allclose(again, _difference(weighted, x, given), rtol=1e-6, atol=1e-8)


def _weights(t: Tensor) -> Array:
    weights: Array = 0.5 + np.cos(np.arange(float(t.type.count)))
    return weights.reshape(t.type.static_shape)


def _difference(y: Tensor, x: Tensor, given: Mapping[Tensor, Any]) -> Array:
    """Return the derivative of the scalar `y` with respect to `x` by central differences."""
    graph = Graph(y, list(given))
    point = np.asarray(given[x], np.float64)
    slope = np.zeros_like(point)
    for index in np.ndindex(point.shape):
        ends = []
        for sign in (1, -1):
            moved = point.copy()
            moved[index] += sign * _STEP
            ends.append(evaluate(graph, arrays({**given, x: moved}))[0][0])
        slope[index] = (ends[0] - ends[1]) / (2 * _STEP)
    return slope
