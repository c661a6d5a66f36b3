"""What ends a gradient, and whether None, zeros or an error is left of it.

A number in the name of a test is that of the rule it holds the pass to.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from symgrad.errors import NoGradientError
from symgrad.graph import dtypes
from symgrad.graph.leaf import placeholder, variable_node
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, multiply, square
from symgrad.graph.ops.conversion import identity, stop_gradient
from symgrad.graph.ops.marks import prevent_gradient
from symgrad.graph.ops.transcendental import sin
from symgrad.graph.ops.whole_numbers import floor
from symgrad.graph.traverse import topological
from symgrad.graph.types import State
from symgrad.passes.gradients.arguments import UnconnectedGradients
from symgrad.passes.gradients.reverse_mode import gradients
from tests.support.gradient_programs import (
    VECTOR,
    gradient_of,
    made_node,
    value_of,
)


@pytest.fixture
def x() -> Tensor:
    return placeholder((3,), name="x")


def test_r7_1_without_gradient_the_result_is_none_or_zeros_of_the_type_of_x():
    x = placeholder(("n", 2), "float64")
    (none,) = gradients(constant(1.0), x)
    zeros = gradient_of(constant(1.0), x, unconnected_gradients=UnconnectedGradients.ZERO)
    assert none is None
    assert zeros.type == x.type


def test_r7_2_zeros_for_one_x_leave_the_others_alone(x):
    other = placeholder((2,))
    of_x, of_other = gradients(square(x), [x, other], unconnected_gradients="zero")
    np.testing.assert_array_equal(value_of(of_x, {x: VECTOR}), 2 * VECTOR)
    np.testing.assert_array_equal(value_of(of_other), np.zeros(2))


def test_r7_3_an_x_beside_an_output_with_a_gradient_is_zeros(x):
    left, right = made_node(x, gives=(x.type, x.type), grad="none").outputs
    of_left, of_right = gradients(left, [left, right], unconnected_gradients="zero")
    np.testing.assert_array_equal(value_of(of_left), np.ones(3))
    np.testing.assert_array_equal(value_of(of_right), np.zeros(3))


def test_r7_4_zeros_of_a_variable_have_its_dtype_and_shape():
    v = variable_node(State(np.ones((2, 2)), name="v", trainable=True), "v")
    zeros = gradient_of([], v, unconnected_gradients="zero")
    np.testing.assert_array_equal(value_of(zeros), np.zeros((2, 2)))
    assert zeros.dtype == dtypes.float64


def test_r7_5_and_r8_1_a_stop_gives_none_and_leaves_no_trace(x):
    assert gradients(square(stop_gradient(x)), x) == [None]
    g = gradient_of(multiply(x, stop_gradient(square(x))), x)
    np.testing.assert_array_equal(value_of(g, {x: VECTOR}), VECTOR**2)
    new = [n for n in topological([g]) if n.origin is not None]
    assert "stop_gradient" not in [n.op for n in new]


def test_r7_6_an_op_that_is_not_differentiable_gives_none(x):
    assert gradients(floor(x), x) == [None]
    g = gradient_of(add(floor(x), x), x)
    np.testing.assert_array_equal(value_of(g), np.ones(3))


def test_r7_6_a_result_that_is_not_differentiable_has_a_gradient_as_an_x(x):
    whole = floor(x)
    of_x, of_whole = gradients(square(whole), [x, whole])
    assert of_x is None
    np.testing.assert_array_equal(value_of(of_whole, {x: VECTOR}), 2 * np.floor(VECTOR))


def test_r7_11_none_contributions_alone_are_none(x):
    node = made_node(x, x, gives=(x.type,), grad=lambda _n, _g: (None, None))
    assert gradients(node.output, x) == [None]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_r8_2_a_stop_op_and_a_stop_argument_are_equivalent(x, position):
    def program(cut: Callable[[Tensor], Tensor]) -> tuple[Tensor, list[Tensor]]:
        def at(place: int, t: Tensor) -> Tensor:
            return cut(t) if place == position else t

        a = at(0, sin(x))
        b = at(1, multiply(a, x))
        c = at(2, add(a, b))
        return multiply(c, add(b, x)), [a, b, c]

    cut_y, _ = program(stop_gradient)
    y, intermediates = program(identity)
    (by_op,) = gradients(cut_y, x)
    (by_argument,) = gradients(y, x, stop_gradients=intermediates[position])
    np.testing.assert_array_equal(value_of(by_op, {x: VECTOR}), value_of(by_argument, {x: VECTOR}))


def test_r8_2_what_lies_above_a_stop_is_not_asked_for_a_gradient(x):
    left, right = made_node(x, gives=(x.type, x.type), grad=lambda _node, _l, r: r).outputs
    above = prevent_gradient(left, "it lies above a stop")
    for y in (add(above, right), add(right, above)):
        (g,) = gradients(y, x, stop_gradients=left)
        np.testing.assert_array_equal(value_of(g), np.ones(3))
    (g,) = gradients(add(x, prevent_gradient(stop_gradient(x))), x)
    np.testing.assert_array_equal(value_of(g), np.ones(3))


def test_r8_3_a_prevented_gradient_is_a_lookup_error_that_says_so(x):
    y = prevent_gradient(x, "labels are not trained")
    np.testing.assert_array_equal(value_of(y, {x: VECTOR}), VECTOR)
    with pytest.raises(LookupError, match="disabled on purpose: labels are not trained") as caught:
        gradients(square(y), x)
    assert isinstance(caught.value, NoGradientError)
    assert "test_unconnected_gradients.py" in str(caught.value)
