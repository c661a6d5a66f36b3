"""Derivatives compared with central differences, in float64 along random directions.

The first check is of a weighted sum of the result. The next is of the directional derivative that
the first one computed, so a second order derivative is a first order one of a longer graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.graph.dtypes import float64
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.passes.gradients.reverse_mode import gradients
from tests.support.evaluators import Evaluator, evaluate_reference

Array = np.ndarray[Any, Any]

_STEP = 1e-5


def check_derivatives(
    build: Callable[..., Tensor],
    xs: Sequence[Tensor],
    arrays: Sequence[Array],
    *,
    order: int = 2,
    rtol: float = 1e-5,
    seed: int = 0,
    evaluator: Evaluator = evaluate_reference,
) -> None:
    """Assert that the derivatives of `build(*xs)` to its float inputs are right up to `order`."""
    rng = np.random.default_rng(seed)
    result = build(*xs)
    (shape,) = (a.shape for a in evaluator(Graph(result, xs), arrays))
    scalar = sum_over(multiply(result, constant(rng.uniform(0.5, 1.5, shape))))
    smooth = [place for place, x in enumerate(xs) if x.dtype == float64]
    for level in range(1, order + 1):
        directions = {p: np.asarray(rng.uniform(-1, 1, arrays[p].shape)) for p in smooth}
        derivative = _directional(scalar, xs, directions)
        if derivative is None:
            derivative = constant(0.0, float64)
        (found,) = evaluator(Graph(derivative, xs), arrays)
        expected = _difference(scalar, xs, arrays, directions, evaluator)
        message = f"derivative of order {level}"
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol, err_msg=message)
        scalar = derivative


def _directional(
    scalar: Tensor, xs: Sequence[Tensor], directions: dict[int, Array]
) -> Tensor | None:
    """Return the derivative of `scalar` along the directions, None if nothing is connected."""
    total: Tensor | None = None
    for place, g in zip(directions, gradients(scalar, [xs[p] for p in directions]), strict=True):
        if g is None:
            continue
        assert g.dtype == xs[place].dtype, f"gradient {g.type} of input {xs[place].type}"
        term = sum_over(multiply(g, constant(directions[place])))
        total = term if total is None else add(total, term)
    return total


def _difference(
    scalar: Tensor,
    xs: Sequence[Tensor],
    arrays: Sequence[Array],
    directions: dict[int, Array],
    evaluator: Evaluator,
) -> Array:
    graph = Graph(scalar, xs)
    ends = []
    for sign in (1, -1):
        moved = [
            a + sign * _STEP * directions[place] if place in directions else a
            for place, a in enumerate(arrays)
        ]
        ends.append(evaluator(graph, moved)[0])
    return np.asarray((ends[0] - ends[1]) / (2 * _STEP))
