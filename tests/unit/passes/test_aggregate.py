"""Sums of contributions to one gradient: what is added, in which order and form.

A number in the name of a test is that of the rule it holds the pass to.
"""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.arithmetic import add, multiply, negative, square
from symgrad.graph.ops.conversion import identity
from symgrad.graph.ops.transcendental import exp, sin, tanh
from symgrad.graph.traverse import topological
from symgrad.passes.gradients.aggregate import AggregationMethod
from symgrad.passes.gradients.reverse_mode import gradients
from tests.support.gradient_programs import (
    gradient_of,
    made_node,
    ops_below,
    value_of,
)


@pytest.fixture
def x() -> Tensor:
    return placeholder((3,), name="x")


METHODS = [None, *AggregationMethod, 0, 1, 2]


def test_r5_1_one_contribution_is_used_as_it_is(x):
    seed = placeholder((3,))
    assert gradients(identity(x), x, seed)[0] is seed
    assert gradients(x, x, seed)[0] is seed


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [2, 3, 8, 13])
def test_r5_2_every_method_adds_all_contributions(x, method, count):
    ys = [multiply(x, float(factor)) for factor in range(1, count + 1)]
    g = gradient_of(ys, x, aggregation_method=method)
    np.testing.assert_array_equal(value_of(g), np.full(3, count * (count + 1) / 2))
    assert ops_below(g).count("add") == count - 1


def depth(tensor: Tensor) -> int:
    found: dict[Node, int] = {}
    for node in topological([tensor]):
        below = max((found[t.node] for t in node.inputs), default=0)
        found[node] = below + (node.op == "add")
    return found[tensor.node]


def test_r5_2_the_default_adds_from_the_left_and_a_tree_in_pairs(x):
    ys = [multiply(x, 2.0) for _ in range(16)]
    assert depth(gradient_of(ys, x)) == 15
    assert depth(gradient_of(ys, x, aggregation_method=1)) == 4


@pytest.mark.parametrize("method", AggregationMethod)
def test_r5_2_a_wide_sum_is_linear_and_needs_no_recursion(x, method):
    ys = [negative(x) for _ in range(2_000)]
    g = gradient_of(ys, x, aggregation_method=method)
    assert ops_below(g).count("add") == 1_999


@pytest.mark.parametrize("junk", [2.0, np.ones(3, np.float32), "g"])
def test_r5_3_a_contribution_that_is_no_tensor_is_refused(x, junk):
    node = made_node(x, gives=(x.type,), grad=lambda _n, _g: junk)
    with pytest.raises(TypeError, match="not a tensor or None"):
        gradients(node.output, x)


def test_r5_7_none_beside_a_tensor_adds_nothing(x):
    seed = placeholder((3,))
    node = made_node(x, x, gives=(x.type,), grad=lambda _n, g: (None, g))
    assert gradients(node.output, x, seed)[0] is seed


def test_r5_8_the_order_of_the_terms_is_fixed_by_the_graph(x):
    y = add(add(sin(x), exp(x)), add(square(x), tanh(x)))
    orders = {tuple(ops_below(gradient_of(y, x))) for _ in range(3)}
    assert len(orders) == 1
