"""The arguments of `gradients`: conversion, dtypes, seeds.

A number in the name of a test is that of the rule it holds the pass to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError, ShapeError
from symgrad.graph import dtypes
from symgrad.graph.build import name_scope
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import multiply, negative, square
from symgrad.graph.ops.conversion import astype, identity
from symgrad.graph.ops.structure import reduce_sum
from symgrad.graph.ops.transcendental import sin, tanh
from symgrad.graph.traverse import topological
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


# 1. The arguments


def test_r1_1_the_result_is_a_list_with_one_entry_an_x_in_their_order(x):
    y = multiply(x, 2.0)
    assert isinstance(gradients(y, x), list)
    of_y, of_x, of_other = gradients(square(y), [y, x, placeholder(())])
    np.testing.assert_array_equal(value_of(of_y, {x: VECTOR}), 4 * VECTOR)
    np.testing.assert_array_equal(value_of(of_x, {x: VECTOR}), 8 * VECTOR)
    assert of_other is None


def test_r1_2_lists_tuples_and_single_tensors_are_taken(x):
    y, seed = square(x), constant(np.ones(3, np.float32))
    for wrap in (lambda t: t, lambda t: [t], lambda t: (t,)):
        g = gradient_of(wrap(y), wrap(x), wrap(seed), stop_gradients=wrap(constant(1.0)))
        np.testing.assert_array_equal(value_of(g, {x: VECTOR}), 2 * VECTOR)


def test_r1_3_a_number_becomes_a_constant_and_is_unconnected(x):
    assert gradients(square(x), [2.0, np.ones(3)]) == [None, None]
    assert gradients([2.0, 3], x) == [None]
    assert gradient_of(constant(2.0), 2.0, unconnected_gradients="zero").shape == ()


def test_r1_3_what_is_no_tensor_and_no_number_is_refused(x):
    for xs in ("x", [object()], {"x": object()}):
        with pytest.raises(DTypeError):
            gradients(square(x), xs)


@pytest.mark.parametrize("mode", ["nothing", "NONE", None, 0])
def test_r1_5_another_mode_is_refused_and_quoted(x, mode):
    with pytest.raises(ValueError, match=f"unconnected_gradients is {mode!r}"):
        gradients(object(), x, unconnected_gradients=mode)


@pytest.mark.parametrize("mode", [UnconnectedGradients.NONE, "none"])
def test_r1_5_modes_are_strings_or_members(x, mode):
    assert gradients(constant(1.0), x, unconnected_gradients=mode) == [None]


def test_r1_6_too_few_or_too_many_seeds_are_refused_with_both_counts(x):
    with pytest.raises(GraphError, match="2 grad_ys for 1 ys"):
        gradients(square(x), x, grad_ys=[x, x])
    with pytest.raises(GraphError, match="1 grad_ys for 2 ys"):
        gradients([x, x], x, grad_ys=x)


@pytest.mark.parametrize("method", [3, "tree", [1]])
def test_r1_7_another_aggregation_method_is_refused_even_where_nothing_is_added(x, method):
    with pytest.raises(ValueError, match="aggregation_method is "):
        gradients(constant(1.0), x, aggregation_method=method)


def test_r1_8_no_xs_give_no_gradients_and_no_ys_leave_all_unconnected(x):
    assert gradients(square(x), []) == []
    assert gradients([], [x, x]) == [None, None]
    zeros = gradient_of([], x, unconnected_gradients="zero")
    np.testing.assert_array_equal(value_of(zeros), np.zeros(3))


@pytest.mark.parametrize("option", ["gate_gradients", "colocate_gradients_with_ops"])
def test_r1_9_and_r1_10_gating_and_colocation_change_no_value(x, option):
    g = gradient_of(multiply(sin(x), x), x, **{option: True})
    expected = np.cos(VECTOR) * VECTOR + np.sin(VECTOR)
    np.testing.assert_allclose(value_of(g, {x: VECTOR}), expected, rtol=1e-6)


def test_r1_11_new_nodes_remember_the_forward_node_and_its_line(x):
    y = tanh(x)
    g = gradient_of(y, x)
    new = [n for n in topological([g]) if n not in topological([y])]
    assert {n.origin for n in new} == {y.node}
    assert {n.source for n in new} == {y.node.source}


def test_r1_11_names_given_by_a_rule_are_below_the_scope_and_the_forward_node(x):
    def named(_node: Node, g: Tensor) -> tuple[Tensor]:
        return (identity(g, name="inner"),)

    with name_scope("outer"):
        g = gradient_of(made_node(x, gives=(x.type,), grad=named).output, x, name="back")
    assert g.name == "outer/back/made_grad/inner"


def test_r1_12_a_stop_that_is_on_no_path_is_harmless(x):
    g = gradient_of(square(x), x, stop_gradients=[placeholder(()), tanh(x)])
    np.testing.assert_array_equal(value_of(g, {x: VECTOR}), 2 * VECTOR)


# 2. Dtypes


def test_r2_1_an_integer_or_a_bool_cuts_the_path(x):
    for dtype in ("int32", "bool"):
        assert gradients(astype(astype(x, dtype), "float32"), x) == [None]


def test_r2_2_a_rule_gets_zeros_for_floats_without_gradient_and_none_for_integers(x):
    received: list[Any] = []

    def grad(_node: Node, *gs: Any) -> Any:
        received.extend(gs)
        return gs[1]

    gives = (x.type, x.type, x.type.with_dtype(dtypes.int32))
    node = made_node(x, gives=gives, grad=grad)
    g = gradient_of(node.outputs[1], x)
    zeros, ones, none = received
    assert none is None
    np.testing.assert_array_equal(value_of(zeros), np.zeros(3))
    np.testing.assert_array_equal(value_of(ones), np.ones(3))
    assert g is ones


def test_r2_3_an_integer_x_is_unconnected(x):
    n = placeholder((2,), "int32")
    assert gradients(n, n) == [None]
    assert gradients(multiply(n, n), n) == [None]
    zeros = gradient_of(n, n, unconnected_gradients="zero")
    assert zeros.type == n.type
    np.testing.assert_array_equal(value_of(zeros), [0, 0])


def test_r2_3_what_a_rule_returns_for_an_integer_is_not_used(x):
    n = placeholder((3,), "int32")
    for returned in (placeholder((3,)), placeholder((3,), "int32")):
        node = made_node(n, x, gives=(x.type,), grad=lambda _node, g, n=returned: (n, g))
        of_n, of_x = gradients(node.output, [n, x])
        assert of_n is None
        np.testing.assert_array_equal(value_of(of_x), np.ones(3))


def test_r2_4_casts_between_floats_carry_gradients_and_others_do_not(x):
    g = gradient_of(square(astype(x, "float64")), x)
    assert g.dtype == dtypes.float32
    np.testing.assert_array_equal(value_of(g, {x: VECTOR}), 2 * VECTOR)
    assert gradients(astype(astype(x, "int64"), "float64"), x) == [None]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_r2_5_a_gradient_has_the_dtype_of_its_x(dtype):
    x = placeholder((2,), dtype)
    connected = gradient_of(square(x), x)
    unconnected = gradient_of([], x, unconnected_gradients="zero")
    assert connected.type == unconnected.type == x.type


def test_r2_5_a_rule_that_returns_another_dtype_is_refused(x):
    node = made_node(x, gives=(x.type,), grad=lambda _node, g: astype(g, "float64"))
    with pytest.raises(DTypeError, match=r"dtypes differ: result 0: f64\[3\], input 0: f32\[3\]"):
        gradients(node.output, x)


# 3. Seeds


def test_r3_1_a_missing_seed_is_ones_also_as_one_element(x):
    for seeds in (None, [None, None]):
        g = gradient_of([multiply(x, 2.0), multiply(x, 3.0)], x, seeds)
        np.testing.assert_array_equal(value_of(g, {x: VECTOR}), np.full(3, 5.0))
    g = gradient_of([multiply(x, 2.0), multiply(x, 3.0)], x, [None, np.zeros(3, np.float32)])
    np.testing.assert_array_equal(value_of(g, {x: VECTOR}), np.full(3, 2.0))


def test_r3_1_ones_have_the_unknown_sizes_of_y():
    x = placeholder((None, 2))
    g = gradient_of(x, x)
    assert g.type == x.type


def test_r3_2_a_y_of_many_elements_is_summed(x):
    g = gradient_of(multiply(x, reduce_sum(x, (0,))), x)
    np.testing.assert_allclose(value_of(g, {x: VECTOR}), np.full(3, 2 * VECTOR.sum()))


@pytest.mark.parametrize(
    "seed", [np.ones(3, np.float64), np.ones(3, np.int32), [[True, False, True]], [["a"]]]
)
def test_r3_3_a_seed_of_another_dtype_is_refused(x, seed):
    with pytest.raises(TypeError):
        gradients(square(x), x, seed)


def test_r3_3_an_integer_y_takes_no_seed_of_floats():
    n = placeholder((), "int32")
    with pytest.raises(DTypeError, match=r"f32\[\] is given for ys\[0\]: i32\[\]"):
        gradients(n, n, 1.5)
    assert gradients(n, n, 1) == [None]


def test_r3_4_a_bool_y_takes_no_seed_and_is_unconnected_without(x):
    is_positive = astype(x, "bool")
    with pytest.raises(DTypeError, match=r"grad_ys\[0\]: a seed is given for bool\[3\]"):
        gradients(is_positive, x, np.ones(3, np.float32))
    assert gradients(is_positive, x) == [None]


def test_r3_8_a_seed_of_another_shape_is_refused_at_the_call(x):
    for seed in (1.0, np.ones(4, np.float32), np.ones((1, 3), np.float32)):
        with pytest.raises(ShapeError, match=r"ys\[0\]: f32\[3\]"):
            gradients(square(x), x, seed)


def test_r3_8_unknown_sizes_of_a_seed_are_checked_when_they_are_known(x):
    seed = placeholder(("n",))
    g = gradient_of(negative(x), x, seed)
    assert g.type == x.type
    np.testing.assert_array_equal(value_of(g, {seed: VECTOR}), -VECTOR)
    for wrong in (np.ones(4), np.ones(1)):
        with pytest.raises(ShapeError):
            value_of(g, {seed: wrong})


def test_r3_8_a_seed_of_unknown_size_takes_the_shape_of_a_y_that_is_an_x(x):
    assert gradient_of(x, x, placeholder(("n",))).type == x.type


def test_r3_10_seeds_are_converted_from_numbers_and_arrays(x):
    for seed in ([[1, 2, 3]], [[1.0, 2.0, 3.0]], np.array([1, 2, 3], np.float32)):
        g = gradient_of(multiply(x, 2.0), x, seed)
        np.testing.assert_array_equal(value_of(g), [2, 4, 6])


def test_gradients_of_a_nest_are_in_that_nest(x):
    w, b = sg.variable(2.0), sg.variable(1.0)
    y = w * x.sum() + b
    found = sg.gradients(y, {"layer": {"w": w, "b": b, "scale": None}, "xs": [x, (b,)]})
    plain = sg.gradients(y, [w, b, x])
    assert found.keys() == {"layer", "xs"}
    assert found["layer"]["scale"] is None
    dx, (db,) = found["xs"]
    for g, same in zip([found["layer"]["w"], db, dx], plain, strict=True):
        np.testing.assert_array_equal(value_of(g, {x: VECTOR}), value_of(same, {x: VECTOR}))
    assert db is found["layer"]["b"]


def test_gradients_of_a_list_a_tuple_or_a_tensor_are_a_list(x):
    y = square(x)
    for xs in (x, [x], (x,)):
        found = sg.gradients(y, xs)
        assert isinstance(found, list)
        assert len(found) == 1
    assert sg.gradients(y, []) == []
    with pytest.raises(TypeError, match=r"^gradients: xs is None"):
        sg.gradients(y, None)


def test_gradients_of_a_container_are_one_with_none_where_unconnected(x):
    w, unused = sg.variable(2.0), sg.variable(1.0)
    xs = sg.Container(w=w, unused=unused)
    found = sg.gradients(w * x, xs)
    assert isinstance(found, sg.Container)
    assert found.unused is None
    assert sg.gradients(w * x, xs, stop_gradients=xs).w is not None
    assert sg.gradients(w * x, xs, unconnected_gradients="zero").unused is not None
