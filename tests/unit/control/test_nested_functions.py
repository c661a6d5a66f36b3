"""Functions in functions in functions: what is built once is worked on once, whatever calls it.

In a diamond each level calls the level below twice, so there are 2 ** depth ways to the leaf.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.cost_model import FUSED_FUNCTION
from symgrad.graph.compare import structurally_equal
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.verify import verify
from symgrad.passes.calls.callees import graphs_within
from symgrad.passes.calls.inline_calls import inline_calls
from tests.support.control_programs import keep
from tests.support.floors import run_everywhere

DEPTH = 20
WEIGHTS = np.random.default_rng(3).normal(size=(4, 4)) * 0.4
POINT = np.linspace(-0.5, 0.7, 8).reshape(2, 4)
SECONDS = 20.0  # for what takes one or two on a machine of its own, and 2 ** 20 of anything else


def elementwise(a: Any) -> Any:
    return sg.tanh(a)


def product(a: Any) -> Any:
    return sg.tanh(a @ sg.constant(WEIGHTS))


def same(f: Any, a: Any) -> Any:
    """Call the level below twice on the same tensor."""
    return f(a) * 0.5 + f(a) * 0.25


def different(f: Any, a: Any) -> Any:
    """Call the level below on two tensors."""
    return f(a * 0.9) * 0.5 + f(a + 0.1) * 0.25


def diamond(
    leaf: Callable[[Any], Any], join: Any, depth: int, calls: list[Any] | None = None
) -> Any:
    """Return a function of `depth` levels above `leaf`, which notes its traces in `calls`."""
    noted = [] if calls is None else calls
    f = sg.function(lambda a: keep(noted, leaf(a)))
    for _ in range(depth):
        f = sg.function(lambda a, below=f: join(below, a))
    return f


def plain(leaf: Callable[[Any], Any], join: Any, depth: int) -> Any:
    """Return the same function, without any that is traced."""
    f: Any = leaf
    for _ in range(depth):
        f = partial(join, f)
    return f


@contextmanager
def in_time() -> Iterator[None]:
    start = time.perf_counter()
    yield
    assert time.perf_counter() - start < SECONDS


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((2, 4), "float64", name="x")


def test_the_leaf_is_traced_once_in_diamonds_and_in_steps_of_two(x):
    calls: list[Any] = []
    diamond(product, different, DEPTH, calls)(x)
    assert len(calls) == 1
    first = sg.function(lambda a: keep(calls, a * 2.0))
    levels = [first, sg.function(lambda a: first(a) + 1.0)]
    for _ in range(DEPTH):
        pair = levels[-2], levels[-1]
        levels.append(sg.function(lambda a, pair=pair: pair[0](a) + pair[1](a)))
    with in_time():
        levels[-1](x)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("leaf", "join"),
    [(elementwise, same), pytest.param(product, different, marks=pytest.mark.slow)],
)
def test_a_deep_diamond_is_differentiated_and_compiled_in_time(x, leaf, join):
    with in_time():
        y = diamond(leaf, join, DEPTH)(x)
        (g,) = sg.gradients(y, x)
        assert g is not None
        step = sg.compile([x], [y, g])
    assert all(np.isfinite(found).all() for found in step(POINT))


@pytest.mark.slow
@pytest.mark.parametrize("leaf", [elementwise, product])
@pytest.mark.parametrize("join", [same, different])
def test_other_derivatives_of_a_deep_diamond_are_compiled_in_time(x, leaf, join):
    with in_time():
        y = diamond(leaf, join, DEPTH)(x)
        (g,) = sg.gradients(y, x)
        assert g is not None
        (h,) = sg.gradients(g, x)
        assert h is not None
        sg.compile([x], [y, g, h])
    with in_time():
        sg.compile([x], [*sg.jvp(y, x, sg.ones_like(x)), sg.jacobian(y[0, 0], x)])


def test_what_is_asked_of_a_deep_diamond_is_answered_in_time(x):
    f = diamond(elementwise, same, DEPTH)
    with in_time():
        graphs = [Graph([f(x)], [x]) for _ in range(2)]
        again = [Graph([diamond(elementwise, same, DEPTH)(x)], [x]) for _ in range(2)]
        assert structurally_equal(*graphs)
        assert structurally_equal(*again)
        verify(graphs[0])
        graphs[0].to_networkx()
        (found,) = sg.testing.interpret(graphs[0], [POINT])
        np.testing.assert_allclose(found, np.tanh(POINT) * 0.75**DEPTH)
        n = sg.placeholder(("n", 4), "float64")
        np.testing.assert_allclose(sg.run(f(n), {n: POINT}), found)
        np.testing.assert_allclose(f(POINT), found)


@pytest.mark.parametrize("leaf", [elementwise, product])
@pytest.mark.parametrize("join", [same, pytest.param(different, marks=pytest.mark.slow)])
def test_a_diamond_gives_what_the_functions_of_python_give(x, leaf, join):
    depth = 5
    grads: list[list[Tensor]] = []
    for f in (diamond(leaf, join, depth), plain(leaf, join, depth)):
        y = f(x)
        (g,) = sg.gradients(y, x)
        assert g is not None
        (h,) = sg.gradients(g, x)
        assert h is not None
        grads.append([y, g, h, *sg.jvp(y, x, sg.ones_like(x)), sg.jacobian(y.sum(), x)])
    results = [sg.compile([x], outputs, opt_level=1)(POINT) for outputs in grads]
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert run_everywhere(Graph(grads[0][:2], [x]), [POINT], targets=("native",)) is None


def test_inlining_counts_the_ways_to_call_and_stops(x):
    graph = inline_calls(Graph([diamond(elementwise, different, DEPTH)(x)], [x]))
    verify(graph)
    within = graphs_within(graph)
    assert len(within) > 1
    assert max(len(g.nodes) for g in within) < 4 * FUSED_FUNCTION
    # Equal calls are one, and nothing is left of the functions.
    merged = inline_calls(Graph([diamond(elementwise, same, DEPTH)(x)], [x]))
    assert len(graphs_within(merged)) == 1
    assert len(merged.nodes) < 8 * DEPTH


def test_what_is_kept_for_gradients_does_not_double_with_each_level(x):
    graphs = graphs_within(Graph([diamond(product, different, DEPTH)(x)], [x]))
    assert max(len(g.outputs) for g in graphs) < 100
