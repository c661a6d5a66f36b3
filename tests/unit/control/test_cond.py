"""Branches on a condition. A number in the name of a test is that of the rule it holds cond to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError, IndexOutOfRangeError, ShapeError
from symgrad.graph.node import Tensor
from symgrad.graph.traverse import topological
from symgrad.runtime.function import compile
from tests.support.control_programs import check_derivatives, gradient, keep, run, value

POINT = np.array([0.1, -0.2, 0.3])


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


@pytest.fixture
def p() -> Tensor:
    return sg.placeholder((), "bool", name="p")


def test_r11_1_a_bool_of_python_is_no_pred(x):
    with pytest.raises(DTypeError, match=r"pred is True, not a tensor[\s\S]*test_cond") as raised:
        sg.cond(True, lambda: x, lambda: x)
    assert isinstance(raised.value, TypeError)


def test_r11_1_a_pred_is_a_bool(x):
    with pytest.raises(TypeError, match=r"pred is i32\[\], not bool"):
        sg.cond(sg.constant(1), lambda: x, lambda: x)


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_r11_1_a_pred_of_one_element_is_squeezed(x, shape):
    pred = sg.placeholder(shape, "bool")
    y = sg.cond(pred, lambda: x, lambda: -x)
    np.testing.assert_array_equal(value(y, {x: POINT, pred: np.zeros(shape)}), -POINT)


def test_r11_1_a_pred_of_more_elements_is_refused(x):
    with pytest.raises(ShapeError, match=r"pred is bool\[3\], not a single element"):
        sg.cond(sg.less(x, 0.0), lambda: x, lambda: x)


def test_r11_1_branches_are_functions(x, p):
    not_a_function: Any = 3
    with pytest.raises(TypeError, match=r"true_fn is .* not a function"):
        sg.cond(p, x, lambda: x)
    with pytest.raises(TypeError, match="false_fn is 3, not a function"):
        sg.cond(p, lambda: x, not_a_function)


def test_r11_2_each_branch_is_traced_once(x, p):
    calls: list[str] = []

    def branch(label: str) -> Any:
        calls.append(label)
        return x

    y = sg.cond(p, lambda: branch("true"), lambda: branch("false"))
    value(y, {x: POINT, p: True})
    gradient(y, x)
    assert calls == ["true", "false"]


def test_r11_2_operands_are_the_captures_of_both_without_repeats(x, p):
    z = sg.placeholder((3,), "float64")
    y = sg.cond(p, lambda: x * x + z, lambda: x)
    assert len(y.node.inputs) == 3
    assert y.node.inputs[1] is x
    assert y.node.inputs[2] is z


def test_r11_3_branches_that_return_other_nests_are_refused(x, p):
    with pytest.raises(TypeError, match=r"true_fn returns .* and false_fn"):
        sg.cond(p, lambda: [x, x], lambda: (x, x))
    with pytest.raises(TypeError, match=r"true_fn returns .* and false_fn"):
        sg.cond(p, lambda: {"a": x}, lambda: {"b": x})


def test_r11_3_branches_that_return_other_dtypes_are_refused(x, p):
    with pytest.raises(DTypeError, match=r"^cond: output 0 is f64\[3\] in true_fn and f32\[3\]"):
        sg.cond(p, lambda: x, lambda: x.astype("float32"))


def test_r11_3_branches_that_return_other_numbers_of_tensors_are_refused(x, p):
    with pytest.raises(GraphError, match="true_fn returns 1 tensors and false_fn 2"):
        sg.cond(p, lambda: [x], lambda: [x, x])


def test_r11_3_branches_that_return_other_shapes_are_refused_with_a_way_out(x, p):
    with pytest.raises(ShapeError, match=r"output 0 is f64\[3\][\s\S]*TensorArray"):
        sg.cond(p, lambda: x, lambda: x[:2])


def test_r11_3_the_shape_is_the_more_specific_one(x, p):
    unknown = sg.placeholder((None,), "float64")
    y = sg.cond(p, lambda: unknown, lambda: x)
    assert y.shape == (3,)
    np.testing.assert_array_equal(value(y, {unknown: -POINT, x: POINT, p: True}), -POINT)


def test_r11_3_none_in_the_same_places_is_legal(x, p):
    y = sg.cond(p, lambda: {"a": None, "b": x}, lambda: {"a": None, "b": -x})
    assert y["a"] is None
    np.testing.assert_array_equal(value(y["b"], {x: POINT, p: False}), -POINT)
    assert sg.cond(p, lambda: None, lambda: None) is None
    with pytest.raises(ValueError, match="returns 0 tensors and false_fn 1"):
        sg.cond(p, lambda: None, lambda: x)


def test_a_number_of_python_takes_the_dtype_of_the_other_branch(x, p):
    y = sg.cond(p, lambda: 0, lambda: x.sum())
    assert y.dtype == sg.float64
    assert value(y, {x: POINT, p: True}) == 0


def test_r11_5_a_tensor_of_the_other_branch_is_refused_with_both_named(x, p):
    kept: list[Tensor] = []

    def first() -> Any:
        return keep(kept, x * 2.0)

    with pytest.raises(ValueError, match="of region 'true_fn', used in region 'false_fn'"):
        sg.cond(p, first, lambda: kept[0] + 1.0)
    with pytest.raises(ValueError, match="of region 'true_fn', used in region 'false_fn'"):
        sg.cond(p, first, lambda: kept[-1])


def test_r10_15_a_tensor_of_a_branch_is_refused_outside(x, p):
    kept: list[Tensor] = []
    sg.cond(p, lambda: keep(kept, x * 2.0), lambda: x)
    with pytest.raises(ValueError, match="of region 'true_fn', used in the top level"):
        kept[0] + 1.0


def test_r11_6_only_the_branch_taken_runs(x, p):
    i = sg.placeholder((), "int64")
    step = compile([x, i, p], sg.cond(p, lambda: x[i], lambda: x.sum()))
    assert step(POINT, np.asarray(7), np.asarray(False)) == pytest.approx(POINT.sum())
    with pytest.raises(IndexOutOfRangeError):
        step(POINT, np.asarray(7), np.asarray(True))


def test_r11_7_the_gradient_is_that_of_the_branch_taken(x, p):
    y = sg.cond(p, lambda: sg.sin(x) * 2.0, lambda: x * x * x)
    check_derivatives(y, x, {x: POINT, p: True}, {x: POINT, p: False})
    (of_branches, _) = gradient(y, x).node.inputs
    assert of_branches.node.op == "switch"


def test_r11_7_pred_has_no_gradient(p):
    z = sg.placeholder((), "float64")
    assert sg.gradients(sg.cond(sg.less(z, 1.0), lambda: 1.0, lambda: 2.0), z) == [None]
    assert sg.gradients(sg.cond(p, lambda: 1.0, lambda: 2.0), p) == [None]


def test_r11_8_integer_results_do_not_disturb_the_gradient(x, p):
    ys = sg.cond(p, lambda: (sg.argmax(x), x * x), lambda: (sg.constant(0, "int64"), x))
    g = gradient(list(ys), x)
    np.testing.assert_allclose(value(g, {x: POINT, p: True}), 2 * POINT)


def test_r11_9_an_input_of_one_branch_has_zeros_for_the_other(x, p):
    z = sg.placeholder((3,), "float64")
    y = sg.cond(p, lambda: z * 3.0, lambda: x)
    g = gradient(y, z)
    np.testing.assert_array_equal(value(g, {z: POINT, x: POINT, p: True}), np.full(3, 3.0))
    np.testing.assert_array_equal(value(g, {z: POINT, x: POINT, p: False}), np.zeros(3))


def test_r7_7_what_no_branch_differentiates_has_no_gradient(x, p):
    z = sg.placeholder((3,), "float64")
    y = sg.cond(p, lambda: x * sg.stop_gradient(z), lambda: x + sg.floor(z))
    assert sg.gradients(y, z) == [None]
    assert sg.gradients(sg.cond(p, lambda: x, lambda: x * 2.0), z) == [None]


def test_r11_12_constants_of_a_branch_are_no_operands(x, p):
    y = sg.cond(p, lambda: x * 2.0, lambda: x)
    assert len(y.node.inputs) == 2


def test_a_constant_from_around_is_an_operand_and_has_a_gradient(p):
    two = sg.constant(2.0, "float64")
    g = gradient(sg.cond(p, lambda: two * two, lambda: two), two)
    assert value(g, {p: True}) == 4


def test_r11_14_conds_nest_with_independent_preds(x, p):
    q = sg.placeholder((), "bool")
    y = sg.cond(
        p,
        lambda: sg.cond(q, lambda: x * x, lambda: sg.sin(x)) * x,
        lambda: sg.cond(q, lambda: sg.exp(x), lambda: x) + x,
    )
    check_derivatives(y, x, *({x: POINT, p: a, q: b} for a in (0, 1) for b in (0, 1)))


def test_r11_15_any_order_of_derivatives(x, p):
    y = sg.cond(p, lambda: sg.cos(x), lambda: x * x)
    for expected in (-np.sin(POINT), -np.cos(POINT), np.sin(POINT), np.cos(POINT)):
        y = gradient(y, x)
        np.testing.assert_allclose(value(y, {x: POINT, p: True}), expected)


def test_r11_15_a_first_derivative_that_is_constant_gives_zeros(x, p):
    g = gradient(sg.cond(p, lambda: x * 2.0, lambda: x * x), x)
    h = gradient(g, x)
    np.testing.assert_array_equal(value(h, {x: POINT, p: True}), np.zeros(3))


def test_r11_18_the_gradient_reaches_variables(p):
    w = sg.variable(POINT, name="w")
    y = sg.cond(p, lambda: (w * w).sum(), lambda: sg.constant(0.0, "float64"))
    g = gradient(y, w)
    np.testing.assert_allclose(value(g, {p: True}), 2 * POINT)
    np.testing.assert_array_equal(value(g, {p: False}), np.zeros(3))


def test_r11_20_a_loop_in_a_branch(x, p):
    def powers() -> Any:
        return sg.fori_loop(0, 3, lambda _i, v: v * x, x)

    y = sg.cond(p, powers, lambda: x)
    check_derivatives(y, x, {x: POINT, p: True}, {x: POINT, p: False})


def test_r11_21_a_gradient_built_after_a_run_is_right(x, p):
    y = sg.cond(p, lambda: x * x, lambda: x)
    value(y, {x: POINT, p: True})
    np.testing.assert_allclose(value(gradient(y, x), {x: POINT, p: True}), 2 * POINT)


def test_r13_30_a_variable_is_not_made_in_a_branch(x, p):
    with pytest.raises(ValueError, match=r"variable .* is made inside"):
        sg.cond(p, lambda: x + sg.variable(POINT), lambda: x)


def test_the_name_is_that_of_the_results(x, p):
    assert sg.cond(p, lambda: x, lambda: x, name="choice").name == "choice"


def test_a_step_runs_conds_beside_other_ops(x, p):
    y, z = sg.cond(p, lambda: (x + 1.0, x.sum()), lambda: (x, x.sum() * 0.0))
    found = run([y * 2.0 + z, sg.exp(x)], {x: POINT, p: True})
    np.testing.assert_allclose(found[0], (POINT + 1) * 2 + POINT.sum())
    assert [n.op for n in topological([y])].count("switch") == 1


@pytest.mark.parametrize("order", [1, 2])
def test_a_derivative_of_a_linear_branch_is_zeros_and_not_none(order):
    x, p = sg.placeholder((3,), "float64"), sg.placeholder((), "bool")
    y = sg.cond(p, lambda: 2.0 * x, lambda: x**order * 3.0)
    first = gradient(y, x)
    second = gradient(first, x)
    for holds in (True, False):
        found = run([first, second], {p: holds, x: POINT})
        np.testing.assert_array_equal(
            found[0], [2.0] * 3 if holds else 3.0 * order * POINT ** (order - 1)
        )
        np.testing.assert_array_equal(found[1], [0.0] * 3 if holds or order == 1 else [6.0] * 3)


def test_what_no_branch_differentiates_is_still_none():
    x, p = sg.placeholder((3,), "float64"), sg.placeholder((), "bool")
    y = sg.cond(p, lambda: sg.floor(x), lambda: sg.sign(x))
    assert sg.gradients(y, x) == [None]


def test_nothing_of_a_linear_branch_is_left_for_its_second_derivative():
    x, p = sg.placeholder((3,), "float64"), sg.placeholder((), "bool")
    g = gradient(sg.cond(p, lambda: 2.0 * x, lambda: 3.0 * x), x)
    assert "linear_in" not in sg.compile([p, x], g).ir("optimized")
