"""Gradients through `where`: what the side that is not taken does must not matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.build import apply
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.ops import masks
from symgrad.graph.ops.masks import read_mask
from symgrad.graph.reference import evaluate

Function = Callable[[Any], Any]

# A function, where it is regular, and its derivative there.
_SINGULAR: tuple[tuple[str, Function, Function, Function], ...] = (
    ("log", sg.log, lambda x: x > 0.0, lambda x: 1 / x),
    ("sqrt", sg.sqrt, lambda x: x > 0.0, lambda x: 0.5 / np.sqrt(x)),
    ("rsqrt", sg.rsqrt, lambda x: x > 0.0, lambda x: -0.5 * x**-1.5),
    ("reciprocal", lambda x: 1.0 / x, lambda x: x != 0.0, lambda x: -(x**-2.0)),
    ("power", lambda x: x**1.5, lambda x: x > 0.0, lambda x: 1.5 * np.sqrt(x)),
    ("log1p", sg.log1p, lambda x: x > -1.0, lambda x: 1 / (1 + x)),
    ("exp", lambda x: sg.exp(800.0 * x), lambda x: x < 0.5, lambda x: 800 * np.exp(800 * x)),
)  # fmt: skip

# A function around the masked part, and its derivative.
_OUTER: tuple[tuple[Function, Function], ...] = (
    (lambda y: y, np.ones_like),
    (lambda y: y * y, lambda y: 2 * y),
    (sg.sin, np.cos),
    (lambda y: 3.0 - y, lambda y: -np.ones_like(y)),
)


@pytest.mark.parametrize("seed", range(50))
def test_a_side_that_is_not_taken_never_reaches_a_gradient(seed):
    rng = np.random.default_rng(seed)
    _, function, regular, derivative = _SINGULAR[seed % len(_SINGULAR)]
    outer, outer_derivative = _OUTER[rng.integers(len(_OUTER))]
    scale = float(rng.uniform(0.5, 2.0))
    x = sg.placeholder((8,), "float64")
    inside = x * scale
    y = outer(sg.where(regular(inside), function(inside), 0.25))
    (g,) = sg.gradients(y, x)
    assert g is not None
    point = np.concatenate([[0.0, -1.0 / scale, 1.0, -2.0], rng.uniform(-1.5, 1.0, 4)])
    step = sg.compile([x], g)
    with np.errstate(all="ignore"):
        at = point * scale
        value = np.where(regular(at), _value(function, at), 0.25)
        wanted = np.where(regular(at), scale * derivative(at) * outer_derivative(value), 0.0)
    np.testing.assert_allclose(step(point), wanted, rtol=1e-12)
    (reference,), _ = evaluate(Graph([g], [x]), [point])
    np.testing.assert_allclose(reference, wanted, rtol=1e-12)


def _value(function: Function, at: np.ndarray[Any, Any]) -> Any:
    x = sg.placeholder(at.shape, "float64")
    return sg.run(function(x), {x: at})


def test_second_derivatives_are_masked_too():
    x = sg.placeholder((3,), "float64")
    y = sg.where(x > 0.0, sg.log(x), 0.0)
    (first,) = sg.gradients(y, x)
    (second,) = sg.gradients(first, x)
    found = sg.run(second, {x: np.array([0.0, -1.0, 2.0])})
    np.testing.assert_allclose(found, [0.0, 0.0, -0.25])


def test_the_other_side_may_be_the_singular_one():
    x = sg.placeholder((3,), "float64")
    y = sg.where(x <= 0.0, 1.0, sg.sqrt(x))
    (g,) = sg.gradients(y, x)
    found = sg.run(g, {x: np.array([0.0, -1.0, 4.0])})
    np.testing.assert_allclose(found, [0.0, 0.0, 0.25])


def test_a_gradient_that_is_only_handed_on_gets_no_second_mask():
    x, b = sg.placeholder((3,)), sg.placeholder((3,))
    (gx, gb) = sg.gradients(sg.nn.relu(x + b), [x, b])
    assert gx is gb
    assert read_mask(gx) is not None
    inner = read_mask(gx)
    assert inner is not None
    assert read_mask(inner[1]) is None


def test_a_gradient_without_a_mask_is_as_before():
    x = sg.placeholder((3,))
    (g,) = sg.gradients(sg.log(x), x)
    assert read_mask(g) is None


def test_masks_of_a_long_chain_are_made_one_condition(monkeypatch):
    applied = []

    def counted(*args: Any, **attrs: Any) -> Tensor:
        applied.append(args[0])
        return apply(*args, **attrs)

    monkeypatch.setattr(masks, "apply", counted)
    x = sg.placeholder((4,), "float64")
    y, generator = x, sg.random.Generator(0)
    for _ in range(100):
        y = sg.nn.dropout(y, 0.01, generator)
    (g,) = sg.gradients(sg.sum(sg.where(x > 0, sg.log(y), 0.0)), [x])
    assert g is not None
    assert len(applied) < 20 * 100  # all literals again at each op are 20,000
    point = np.array([0.0, -1.0, 1.0, 2.0])
    gradient, kept = sg.compile([x], [g, y])(point)
    np.testing.assert_allclose(gradient[2:], np.where(kept[2:] != 0, 1 / point[2:], 0))
    assert not gradient[:2].any()
