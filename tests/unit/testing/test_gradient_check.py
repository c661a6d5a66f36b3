"""The numerical check of gradients: it passes right ones, and finds wrong ones of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.errors import GraphError
from symgrad.graph.build import gradient_keys
from symgrad.graph.gradient_registry import register_gradient
from symgrad.graph.leaf import placeholder, variable_node
from symgrad.graph.ops.arithmetic import multiply, square
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.conversion import astype, stop_gradient
from symgrad.graph.ops.indexing import take
from symgrad.graph.ops.reduction import sum as sum_
from symgrad.graph.ops.transcendental import exp, tanh
from symgrad.graph.ops.whole_numbers import floor
from symgrad.graph.types import State
from symgrad.testing import check_gradients


@register_gradient("test.gradient_check.twice")
def _twice_the_gradient(node, g):
    return multiply(2.0, g)


@register_gradient("test.gradient_check.first_order_only")
def _right_value_wrong_derivative(node, g):
    return multiply(g, stop_gradient(node.output))


def test_a_function_of_arrays_is_checked_to_the_second_order():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3)), rng.standard_normal((3, 2)).astype(np.float32)
    check_gradients(lambda x, w: tanh(matmul(x, w)), [x, w], order=2)


def test_tensors_of_float32_are_checked_in_float64():
    x = placeholder((3, 4), name="x")
    w = variable_node(
        State(np.random.default_rng(1).standard_normal(4).astype(np.float32), name="w",
              trainable=True), "w",
    )  # fmt: skip
    check_gradients([sum_(exp(multiply(x, w))), square(w)], [x, w], order=2, rtol=1e-6)
    half = placeholder((3,), "float16")
    check_gradients(astype(tanh(astype(half, "float32")), "float16"), half, rtol=1e-7)


def test_sizes_come_from_what_is_fed():
    x, index = placeholder((None, 2)), placeholder((None,), "int64")
    feed = {x: np.ones((4, 2)), index: np.array([3, 0, 3])}
    check_gradients(tanh(take(x, index, axis=0)), x, feed)


def test_integer_arrays_of_a_function_are_not_differentiated():
    check_gradients(lambda x, i: take(exp(x), i, axis=0), [np.ones(3), np.array([2, 2])])


def test_no_gradient_is_right_where_the_function_is_constant():
    check_gradients(lambda x: floor(x), np.array([0.5, 1.5]))


def test_a_gradient_of_twice_the_size_is_found():
    def wrong(x):
        with gradient_keys({"tanh": "test.gradient_check.twice"}):
            return tanh(x)

    with pytest.raises(AssertionError, match=r"gradient 1 with respect to .*differences give"):
        check_gradients(wrong, np.array([0.3, 0.4]))


def test_a_missing_gradient_is_found():
    w = variable_node(State(np.array([0.5]), name="w", trainable=True), "w")

    def wrong(x):
        with gradient_keys({"tanh": "floor"}):
            return multiply(tanh(x), w)

    with pytest.raises(AssertionError, match=r": 0\.0 along a direction"):
        check_gradients(wrong, np.array([0.3]))


def test_a_second_derivative_that_is_wrong_is_found_by_the_second_order_only():
    def wrong(x):
        with gradient_keys({"exp": "test.gradient_check.first_order_only"}):
            return exp(x)

    point = np.array([0.25, 0.5])
    check_gradients(wrong, point)
    with pytest.raises(AssertionError, match="gradient 2 with respect to"):
        check_gradients(wrong, point, order=2)


def test_what_cannot_be_moved_is_refused():
    x = placeholder((2,))
    with pytest.raises(GraphError, match="is no float placeholder or variable"):
        check_gradients(exp(tanh(x)), tanh(x))
    with pytest.raises(GraphError, match="must be fed"):
        check_gradients(x, placeholder((None,)))
