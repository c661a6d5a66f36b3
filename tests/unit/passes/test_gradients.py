"""The walk from ys to xs: which ops are differentiated, how often, with what and in what time.

A number in the name of a test is that of the rule it holds the pass to.
"""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.errors import ShapeError
from symgrad.graph.leaf import placeholder, variable_node
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.arithmetic import add, multiply, negative, square
from symgrad.graph.ops.marks import prevent_gradient
from symgrad.graph.ops.slicing import concat, slice_axes
from symgrad.graph.ops.structure import reduce_sum
from symgrad.graph.ops.transcendental import cos, exp, sin, tanh
from symgrad.graph.types import State
from symgrad.passes.gradients.reverse_mode import gradients
from tests.support.gradient_programs import (
    VECTOR,
    calls_made,
    gradient_of,
    made_node,
    ops_below,
    value_of,
)


@pytest.fixture
def x() -> Tensor:
    return placeholder((3,), name="x")


def test_r4_1_a_tensor_beside_an_x_that_is_another_output_of_its_node_is_not_reached(x):
    called: list[Node] = []

    def grad(node: Node, *gs: Tensor) -> Tensor:
        called.append(node)
        return gs[0]

    node = made_node(x, gives=(x.type, x.type), grad=grad)
    beside = prevent_gradient(node.outputs[1], "it is not upstream of the x")
    assert gradients(beside, node.outputs[0]) == [None]
    assert not called


def test_r4_2_what_is_reached_but_leads_to_no_y_is_not_differentiated(x):
    prevent_gradient(x, "nothing uses this")
    g = gradient_of(square(x), x)
    np.testing.assert_array_equal(value_of(g, {x: VECTOR}), 2 * VECTOR)


def test_r4_3_a_y_that_no_x_reaches_is_dropped(x):
    g = gradient_of([square(x), square(placeholder(()))], x)
    np.testing.assert_array_equal(value_of(g, {x: VECTOR}), 2 * VECTOR)


def test_r4_4_every_input_slot_counts(x):
    g = gradient_of(concat([x, x, x]), x, np.arange(9, dtype=np.float32))
    np.testing.assert_array_equal(value_of(g), [9, 12, 15])


def test_r4_5_a_y_that_feeds_another_y_waits_for_it(x):
    calls: list[Node] = []

    def grad(node: Node, g: Tensor) -> Tensor:
        calls.append(node)
        return g

    inner = made_node(x, gives=(x.type,), grad=grad)
    outer = multiply(inner.output, 3.0)
    for ys in ([inner.output, outer], [outer, inner.output]):
        g = gradient_of(ys, x)
        np.testing.assert_array_equal(value_of(g), np.full(3, 4.0))
    assert calls == [inner.output.node] * 2


def test_r4_6_an_x_below_all_others_is_not_differentiated_through(x):
    y = prevent_gradient(x, "this is above the x")
    g = gradient_of(square(y), y)
    np.testing.assert_array_equal(value_of(g, {x: VECTOR}), 2 * VECTOR)


def test_r4_7_derivatives_are_total(x):
    a = multiply(x, 2.0)
    b = multiply(a, x)
    of_x, of_a, of_b = gradients(add(add(x, a), b), [x, a, b])
    np.testing.assert_array_equal(value_of(of_b), np.ones(3))
    np.testing.assert_array_equal(value_of(of_a, {x: VECTOR}), 1 + VECTOR)
    np.testing.assert_array_equal(value_of(of_x, {x: VECTOR}), 3 + 4 * VECTOR)


def test_r4_8_derivatives_are_partial_with_the_xs_as_stops(x):
    a = multiply(x, 2.0)
    b = multiply(a, x)
    of_x, of_a, of_b = gradients(add(add(x, a), b), [x, a, b], stop_gradients=[x, a, b])
    for g in (of_x, of_a, of_b):
        np.testing.assert_array_equal(value_of(g), np.ones(3))


def test_r4_9_a_stop_stops_one_output_and_not_its_node(x):
    def grad(_node: Node, left: Tensor, right: Tensor) -> Tensor:
        return add(multiply(left, 10.0), right)

    left, right = made_node(x, gives=(x.type, x.type), grad=grad).outputs
    g = gradient_of(add(left, right), x, stop_gradients=left)
    np.testing.assert_array_equal(value_of(g), np.ones(3))
    g = gradient_of(add(left, right), x, stop_gradients=right)
    np.testing.assert_array_equal(value_of(g), np.full(3, 10.0))
    assert gradients(add(left, right), x, stop_gradients=[left, right]) == [None]


def test_r4_9_an_x_that_is_stopped_collects_and_passes_nothing_on(x):
    def grad(_node: Node, left: Tensor, right: Tensor) -> Tensor:
        return add(multiply(left, 10.0), right)

    left, right = made_node(x, gives=(x.type, x.type), grad=grad).outputs
    scaled = multiply(left, 5.0)
    for y in (add(scaled, right), add(right, scaled)):
        of_x, of_left = gradients(y, [x, left], stop_gradients=left)
        np.testing.assert_array_equal(value_of(of_left), np.full(3, 5.0))
        np.testing.assert_array_equal(value_of(of_x), np.ones(3))


def test_r4_10_none_passes_without_a_call_of_the_rule(x):
    def refuse(_node: Node, _g: Tensor) -> Tensor:
        raise AssertionError("no gradient arrived")

    below = made_node(x, gives=(x.type,), grad=refuse).output
    above = made_node(below, x, gives=(x.type,), grad=lambda _node, g: (None, g)).output
    g = gradient_of(above, x)
    np.testing.assert_array_equal(value_of(g), np.ones(3))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_r4_11_a_rule_that_returns_another_number_of_results_is_refused(x, count):
    node = made_node(x, x, gives=(x.type,), grad=lambda _node, g: (g,) * count)
    with pytest.raises(ValueError, match=f"returned {count} results for 2 inputs"):
        gradients(node.output, x)


@pytest.mark.parametrize("single", [None, placeholder((3,))])
def test_r4_11_one_result_does_not_serve_an_op_of_two_inputs(x, single):
    node = made_node(x, x, gives=(x.type,), grad=lambda _node, _g: single)
    with pytest.raises(ValueError, match="returned 1 results for 2 inputs"):
        gradients(node.output, x)


def test_r4_11_one_tensor_or_none_or_a_list_serves_an_op_of_one_input(x):
    def made_with(grad: object) -> Tensor:
        return made_node(x, gives=(x.type,), grad=grad).output

    seed = placeholder((3,))
    assert gradients(made_with(lambda _node, _g: None), x) == [None]
    assert gradients(made_with(lambda _node, g: g), x, seed)[0] is seed
    assert gradients(made_with(lambda _node, g: [g]), x, seed)[0] is seed


@pytest.mark.parametrize("shape", [(4,), (1, 3), ()])
def test_r4_12_a_gradient_of_another_shape_than_its_input_is_refused(x, shape):
    node = made_node(x, gives=(x.type,), grad=lambda _n, _g: placeholder(shape))
    with pytest.raises(ShapeError) as caught:
        gradients(node.output, x)
    for part in ("made", "input 0: f32[3]", "result 0", "gradient_programs.py"):
        assert part in str(caught.value)


def test_r4_12_a_gradient_takes_the_static_shape_of_its_input_which_the_call_checks(x):
    returned = placeholder((None,))
    node = made_node(x, gives=(x.type,), grad=lambda _node, _g: returned)
    g = gradient_of(node.output, x)
    assert g.type == x.type
    np.testing.assert_array_equal(value_of(g, {returned: VECTOR}), VECTOR)
    for wrong in (np.ones(4), np.ones(1)):
        with pytest.raises(ShapeError, match="match_shape"):
            value_of(g, {returned: wrong})


def test_r4_13_only_an_op_that_a_gradient_arrives_at_is_asked_for_it(x):
    forbidden = prevent_gradient(x, "")
    dead = made_node(forbidden, x, gives=(x.type,), grad=lambda _n, g: (None, g)).output
    g = gradient_of(dead, x)
    np.testing.assert_array_equal(value_of(g), np.ones(3))
    with pytest.raises(LookupError):
        gradients(add(dead, forbidden), x)


def test_r4_14_a_node_without_inputs_needs_no_rule():
    v = variable_node(State(VECTOR, name="v", trainable=True), "v")
    g = gradient_of(square(v), v)
    np.testing.assert_array_equal(value_of(g), 2 * VECTOR)


def chain(x: Tensor, length: int) -> Tensor:
    for _ in range(length):
        x = negative(x)
    return x


def test_r4_16_the_work_is_linear_in_the_ancestors_of_y(x):
    short, long = chain(x, 100), chain(x, 200)
    nothing = calls_made(lambda: gradients(x, x))
    work = calls_made(lambda: gradients(short, x)) - nothing
    assert calls_made(lambda: gradients(long, x)) - nothing <= 2.02 * work


def test_r4_16_the_work_is_linear_in_the_edges(x):
    def grid(columns: int) -> list[Tensor]:
        level = [x] * 8
        for _ in range(columns):
            level = [add(a, b) for a, b in zip(level, [*level[1:], level[0]], strict=True)]
        return level

    small, large = grid(20), grid(40)
    work = calls_made(lambda: gradients(small, x))
    assert calls_made(lambda: gradients(large, x)) <= 2.05 * work


def test_r4_16_what_does_not_lead_to_y_costs_nothing(x):
    y = square(x)
    before = calls_made(lambda: gradients(y, x))
    chain(y, 300)
    assert calls_made(lambda: gradients(y, x)) == before


@pytest.mark.parametrize("length", [1, 300])
def test_r4_16_what_lies_below_a_stop_costs_nothing(x, length):
    leaf, stop = placeholder((3,)), chain(x, length)
    alone, above = multiply(leaf, x), multiply(stop, x)
    expected = calls_made(lambda: gradients(alone, x, stop_gradients=leaf))
    assert calls_made(lambda: gradients(above, x, stop_gradients=stop)) == expected


@pytest.mark.parametrize("length", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_r4_16_a_long_chain_is_differentiated(x, length):
    g = gradient_of(chain(x, length), x)
    assert ops_below(g).count("negative") == length


def test_r4_17_a_second_call_builds_another_graph_of_the_same_form_and_value(x):
    y = multiply(sin(x), exp(x))
    first, second = gradient_of(y, x), gradient_of(y, x)
    assert first is not second
    assert ops_below(first) == ops_below(second)
    np.testing.assert_array_equal(value_of(first, {x: VECTOR}), value_of(second, {x: VECTOR}))


def test_r4_18_and_r15_5_derivatives_of_derivatives_alternate(x):
    y = cos(x)
    for expected in (-np.sin(VECTOR), -np.cos(VECTOR), np.sin(VECTOR), np.cos(VECTOR)):
        y = gradient_of(y, x)
        np.testing.assert_allclose(value_of(y, {x: VECTOR}), expected, rtol=1e-5)


def test_r4_18_a_mixed_second_derivative(x):
    w = placeholder((3,))
    (of_x,) = gradients(multiply(square(x), w), x)
    (mixed,) = gradients(of_x, w)
    np.testing.assert_array_equal(value_of(mixed, {x: VECTOR, w: VECTOR}), 2 * VECTOR)


def test_a_gradient_of_many_ops_agrees_with_central_differences(x):
    x = placeholder((4,), "float64")
    a = multiply(sin(x), exp(negative(x)))
    b = tanh(add(a, square(x)))
    y = reduce_sum(multiply(add(a, b), slice_axes(b, [3], [4], [-1])), (0,))
    point, step = np.linspace(-1, 1.3, 4), 1e-6
    expected = [
        (value_of(y, {x: point + h}) - value_of(y, {x: point - h})) / (2 * step)
        for h in step * np.eye(4)
    ]
    np.testing.assert_allclose(value_of(gradient_of(y, x), {x: point}), expected, rtol=1e-7)


def test_r4_19_each_output_of_a_node_has_its_own_gradient(x):
    left, right = made_node(x, gives=(x.type, x.type), grad="none").outputs
    of_left, of_right = gradients(multiply(left, 2.0), [left, right])
    np.testing.assert_array_equal(value_of(of_left), np.full(3, 2.0))
    assert of_right is None


@pytest.mark.parametrize("mode", ["none", "zero"])
def test_r4_20_duplicate_xs_get_the_same_tensor(x, mode):
    y = add(square(x), x)
    first, second = gradients(y, [x, x], unconnected_gradients=mode)
    assert first is second
    np.testing.assert_array_equal(value_of(first, {x: VECTOR}), 2 * VECTOR + 1)
    first, second = gradients([], [x, x], unconnected_gradients=mode)
    assert first is second


def test_r4_21_a_y_given_twice_counts_twice(x):
    y = square(x)
    g = gradient_of([y, y], x)
    np.testing.assert_array_equal(value_of(g, {x: VECTOR}), 4 * VECTOR)


def test_r4_22_a_y_among_the_xs_has_its_seed(x):
    y = square(x)
    g = gradient_of(y, y)
    np.testing.assert_array_equal(value_of(g), np.ones(3))
    g = gradient_of([y, multiply(y, 2.0)], y, [np.full(3, 5, np.float32), None])
    np.testing.assert_array_equal(value_of(g), np.full(3, 7.0))


def test_r4_22_a_y_that_is_stopped_and_an_x_has_its_seed(x):
    y = square(x)
    of_y, of_x = gradients(y, [y, x], stop_gradients=y)
    np.testing.assert_array_equal(value_of(of_y), np.ones(3))
    assert of_x is None


def test_r4_23_a_tensor_made_of_x_that_y_does_not_use_is_unconnected(x):
    y = square(x)
    assert gradients(y, slice_axes(x, [0], [2], [1])) == [None]


def test_r8_8_an_error_of_a_rule_comes_out_unchanged_with_a_note(x):
    error = ZeroDivisionError("in the rule")

    def grad(_node: Node, _g: Tensor) -> Tensor:
        raise error

    node = made_node(x, gives=(x.type,), grad=grad)
    with pytest.raises(ZeroDivisionError) as caught:
        gradients(node.output, x)
    assert caught.value is error
    (note,) = error.__notes__
    assert note.startswith("while building the gradient of made (gradient_programs.py:")


def test_r8_9_a_rule_is_called_once_and_sees_the_forward_node(x):
    seen: list[Node] = []

    def grad(node: Node, g: Tensor) -> Tensor:
        seen.append(node)
        return multiply(g, node.output)

    node = made_node(x, gives=(x.type,), grad=grad)
    gradients([square(node.output), sin(node.output), node.output], [x, node.output])
    assert seen == [node]
