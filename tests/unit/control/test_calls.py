"""Calls of functions and their gradients. A number in the name of a test is that of the rule.

Each program is run with its functions kept as routines and with all of them inlined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import GraphError, IndexOutOfRangeError
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.calls import call_op, callee_of
from symgrad.graph.traverse import topological
from symgrad.runtime.function import compile
from tests.support.call_programs import run_both
from tests.support.control_programs import check_derivatives, gradient, run, value

POINT = np.array([0.9, -0.8, 1.1])
MATRIX = np.array([[0.5, -0.2, 0.1], [0.3, 0.4, -0.6], [-0.1, 0.2, 0.7]])


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


@pytest.fixture
def n() -> Tensor:
    return sg.placeholder((), "int64", name="n")


def calls_of(*tensors: Tensor | None) -> list[Node]:
    found = topological([t for t in tensors if t is not None])
    return [node for node in found if node.definition is call_op]


def mixed(a: Tensor) -> Tensor:
    """Return what needs a product, a sum and elementwise ops, kept and computed again."""
    h: Tensor = sg.tanh(a @ sg.constant(MATRIX))
    return h * sg.exp(a).sum() + a


# ------------------------------------------------------------------------------ what is built


def test_a_call_is_one_node_and_its_source_is_that_of_the_call(x):
    y = sg.function(mixed)(x)
    assert y.node.op == "call"
    assert callee_of(y.node).name == "mixed"
    assert "test_calls.py" in str(y.node.source)


def test_all_calls_share_a_graph_and_all_their_gradients_another(x):
    f = sg.function(mixed)
    y = f(f(f(x)))
    (g,) = sg.gradients(y.sum(), x)
    forward: list[Graph] = []
    backward: list[Graph] = []
    for node in calls_of(y, g):
        (forward if callee_of(node).name == "mixed" else backward).append(callee_of(node))
    assert (len(forward), len(set(forward))) == (3, 1)
    assert (len(backward), len(set(backward))) == (3, 1)
    assert backward[0].name == "mixed_grad"


def test_signatures_are_functions_of_their_own(x):
    f = sg.function(lambda a: a * 2.0)
    callees = [callee_of(node) for node in calls_of(f(x), f(x[:2]), f(sg.astype(x, "float32")))]
    assert len(set(callees)) == 3


def test_r10_8_what_is_costly_is_kept_once_and_what_is_not_is_computed_again(x):
    f = sg.function(mixed)
    y = f(x)
    # Beside the result, the product and its tanh, the exponential and its sum.
    assert [t.node.op for t in callee_of(y.node).outputs[1:]] == ["einsum", "tanh", "exp", "sum"]
    (g,) = sg.gradients((y * y).sum(), x)
    ops = [node.op for node in callee_of(calls_of(g)[-1]).nodes]
    assert ops.count("einsum") == 1  # that of the gradient
    assert not {"tanh", "exp"} & set(ops)
    squared = sg.function(lambda a: (a * a + 1.0) * (a - 1.0))(x)
    assert len(squared.node.outputs) == 1
    (g,) = sg.gradients(squared.sum(), x)
    (again,) = [node for node in callee_of(calls_of(g)[-1]).nodes if node.op == "subtract"]
    assert again.inputs[0].node.op == "placeholder"


def test_r10_8_seeds_are_made_for_results_that_have_one(x):
    f = sg.function(lambda a: (mixed(a), sg.sin(a), sg.argmax(a)))
    first, second, _ = f(x)
    (one,) = sg.gradients(second.sum(), x)
    (both,) = sg.gradients(first.sum() + second.sum(), x)
    given = [callee_of(calls_of(g)[-1]).inputs for g in (one, both)]
    # Of sin only what is differentiated and its seed; of both, two seeds and what is kept.
    assert [len(inputs) for inputs in given] == [2, 6]


def test_r10_8_none_is_restored_for_the_caller(x):
    other = sg.placeholder((3,), "float64")
    f = sg.function(lambda a, b: (mixed(a), sg.sin(b)))
    first, _ = f(x, other)
    grads = sg.gradients(first.sum(), [x, other])
    assert grads[0] is not None
    assert grads[1] is None


def test_a_gradient_of_zeros_that_was_given_is_one(x):
    y = sg.function(mixed)(x)
    (g,) = sg.gradients(y, x, grad_ys=np.zeros(3))
    assert g is not None
    np.testing.assert_array_equal(value(g, {x: POINT}), np.zeros(3))


# -------------------------------------------------------------------------------- derivatives


def _in_function(f: Callable[..., Any], x: Tensor, _n: Tensor) -> Tensor:
    g = sg.function(lambda a: f(a) * f(a * 0.5))
    result: Tensor = g(x) + g(x * 2.0)
    return result


def _in_branch(f: Callable[..., Any], x: Tensor, n: Tensor) -> Tensor:
    result: Tensor = sg.cond(n > 1, lambda: f(x) * 2.0, lambda: f(f(x)))
    return result


def _in_case(f: Callable[..., Any], x: Tensor, n: Tensor) -> Tensor:
    result: Tensor = sg.switch_case(n, [lambda: f(x), lambda: f(x * x), lambda: f(f(x))])
    return result


def _in_while(f: Callable[..., Any], x: Tensor, n: Tensor) -> Tensor:
    start = (sg.constant(0, "int64"), x)
    result: Tensor = sg.while_loop(
        lambda i, _v: i < n, lambda i, v: (i + 1, f(v) * 0.3), start, maximum_iterations=3
    )[1]
    return result


def _in_checkpoints(f: Callable[..., Any], x: Tensor, n: Tensor) -> Tensor:
    start = (sg.constant(0, "int64"), x)
    result: Tensor = sg.while_loop(
        lambda i, _v: i < n,
        lambda i, v: (i + 1, f(v) * 0.3),
        start,
        maximum_iterations=3,
        checkpoint=2,
    )[1]
    return result


def _in_scan(f: Callable[..., Any], x: Tensor, _n: Tensor) -> Tensor:
    rows = sg.stack([x, x * 0.5])
    last, ys = sg.scan(lambda c, row: (f(c) * 0.3 + row, f(row)), x, rows)
    result: Tensor = last + ys.sum(axis=0)
    return result


def _in_map(f: Callable[..., Any], x: Tensor, _n: Tensor) -> Tensor:
    result: Tensor = sg.map(f, sg.stack([x, x * x]))
    return result


def _with_loop_inside(f: Callable[..., Any], x: Tensor, n: Tensor) -> Tensor:
    g = sg.function(lambda a: _in_while(f, a, n) + a)
    result: Tensor = g(x) + g(x * x)
    return result


def _with_unbounded_loop_inside(f: Callable[..., Any], x: Tensor, n: Tensor) -> Tensor:
    def repeated(a: Tensor) -> Any:
        start = (sg.constant(0, "int64"), a)
        return sg.while_loop(lambda i, _v: i < n, lambda i, v: (i + 1, f(v) * 0.3), start)[1]

    g = sg.function(repeated)
    result: Tensor = g(x) + g(g(x * x))
    return result


def _recomputed(f: Callable[..., Any], x: Tensor, _n: Tensor) -> Tensor:
    g = sg.function(sg.recompute_grad(lambda a: f(a) * sg.sin(a)))
    result: Tensor = g(x) + g(x * x)
    return result


PLACES = [
    _in_function,
    _in_branch,
    _in_case,
    _in_while,
    _in_checkpoints,
    _in_scan,
    _in_map,
    _with_loop_inside,
    _with_unbounded_loop_inside,
    _recomputed,
]


def _by_default(*places: Callable[..., Any]) -> Any:
    """Parametrize a test by all places, of which those that are not named are slow."""
    return pytest.mark.parametrize(
        "place", [pytest.param(p, marks=[] if p in places else [pytest.mark.slow]) for p in PLACES]
    )


@_by_default(_in_function, _in_case, _in_scan, _recomputed)
def test_r10_12_functions_nest_anywhere_to_second_order(place, x, n):
    y = place(sg.function(mixed), x, n)
    check_derivatives(y, x, {x: POINT * 0.3, n: 2}, {x: POINT * 0.3, n: 0})


@_by_default(_in_branch, _in_while, _in_map, _with_loop_inside)
def test_r10_12_routines_give_what_inlined_functions_give(place, x, n, monkeypatch):
    y = place(sg.function(mixed), x, n)
    g = gradient(y.sum(), x)
    run_both([y, g, gradient((g * g).sum(), x)], {x: POINT * 0.3, n: 2}, monkeypatch)


@pytest.mark.slow
def test_r10_12_third_order(x, monkeypatch):
    f = sg.function(mixed)
    plain, called = mixed(mixed(x)), f(f(x))
    found = []
    for y in (plain, called):
        outputs = []
        for _ in range(3):
            y = gradient((y * y).sum() * 0.1, x)
            outputs.append(y)
        found.append(outputs)
    given = {x: POINT * 0.2}
    wanted = run(found[0], given)
    for a, b in zip(run_both(found[1], given, monkeypatch), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_r15_5_derivatives_of_cos_alternate_through_functions(x):
    y = sg.function(sg.cos)(x)
    for wanted in (lambda a: -np.sin(a), lambda a: -np.cos(a), np.sin, np.cos):
        y = gradient(y.sum(), x)
        np.testing.assert_allclose(value(y, {x: POINT}), wanted(POINT), rtol=1e-12)


def test_r10_1_and_r10_2_a_capture_stands_for_the_tensor_from_outside(x):
    h = sg.sin(x)
    f = sg.function(lambda a: a * h + h)
    y = f(h)
    # Of h, as the argument and as what the function captures, and of x by way of it.
    np.testing.assert_allclose(value(gradient(y.sum(), h), {x: POINT}), 2 * np.sin(POINT) + 1)
    check_derivatives(y, x, {x: POINT})


def test_r10_4_a_captured_array_is_a_constant_and_the_gradients_line_up(x, monkeypatch):
    offset, scale = np.array([1.0, 2.0, 3.0]), sg.placeholder((3,), "float64")
    f = sg.function(lambda a: sg.tanh(a * offset) * scale + offset.sum())
    outputs = [g for g in sg.gradients(f(x).sum(), [x, scale]) if g is not None]
    found = run_both(outputs, {x: POINT, scale: POINT * 2.0}, monkeypatch)
    np.testing.assert_allclose(found[0], offset * 2 * POINT / np.cosh(POINT * offset) ** 2)
    np.testing.assert_allclose(found[1], np.tanh(POINT * offset))


def test_r10_3_gradients_are_taken_inside_of_tensors_outside(x, monkeypatch):
    y = (x * x * x).sum()
    f = sg.function(lambda a: a * gradient(y, x))
    outputs = [f(x), gradient(f(x).sum(), x)]
    found = run_both(outputs, {x: POINT}, monkeypatch)
    np.testing.assert_allclose(found, [3 * POINT**3, 9 * POINT**2])


def test_gradients_and_stops_inside_are_those_of_the_inside(x, monkeypatch):
    def inner(a: Tensor) -> Tensor:
        h = a * a
        (g,) = sg.gradients((h * a).sum(), a, stop_gradients=[h])
        assert g is not None
        return g

    f = sg.function(inner)
    outputs = [f(x), gradient(f(x).sum(), x)]
    found = run_both(outputs, {x: POINT}, monkeypatch)
    np.testing.assert_allclose(found, [POINT**2, 2 * POINT])


def test_r10_14_each_call_has_its_own_seed(x, monkeypatch):
    f = sg.function(mixed)
    y, z = f(x), f(x * 2.0)
    g = gradient([y, z], x, [np.ones(3), np.full(3, 5.0)])
    apart = gradient(y.sum(), x) + 5.0 * gradient(z.sum(), x)
    a, b = run_both([g, apart], {x: POINT}, monkeypatch)
    np.testing.assert_allclose(a, b)


def test_r10_9_integer_operands_and_results_pass(x, n, monkeypatch):
    f = sg.function(lambda a, i: (mixed(a) * sg.astype(i, "float64"), i + 1, sg.argmax(a)))
    y, following, place = f(x, n)
    z, _, _ = f(y, following)
    found = run_both([gradient(z.sum(), x), following, place], {x: POINT, n: 2}, monkeypatch)
    assert (int(found[1]), int(found[2])) == (3, 2)


def test_methods_with_variables_have_gradients(x, monkeypatch):
    class Layer:
        def __init__(self) -> None:
            self.w = sg.variable(MATRIX)

        @sg.function
        def apply(self, a: Tensor) -> Tensor:
            return sg.tanh(a @ self.w)

    layer = Layer()
    y = layer.apply(layer.apply(x)).sum()
    plain = sg.tanh(sg.tanh(x @ layer.w) @ layer.w).sum()
    outputs = [*sg.gradients(y, [x, layer.w]), *sg.gradients(plain, [x, layer.w])]
    found = run_both([g for g in outputs if g is not None], {x: POINT}, monkeypatch)
    np.testing.assert_allclose(found[0], found[2])
    np.testing.assert_allclose(found[1], found[3])


def test_a_custom_gradient_that_uses_tensors_from_outside(x):
    scale = sg.placeholder((), "float64")

    @sg.custom_gradient
    def own(a: Tensor) -> Any:
        return sg.sin(a), lambda g: g * scale

    f = sg.function(lambda a: own(a) * 2.0)
    y = f(x) + f(x * 3.0)
    found = value(gradient(y.sum(), x), {x: POINT, scale: 7.0})
    np.testing.assert_allclose(found, np.full(3, 2 * 7.0 + 6 * 7.0))


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_tangents_and_jacobians_pass_a_call(order, x, monkeypatch):
    f = sg.function(mixed)
    tangent = np.array([1.0, -2.0, 0.5])
    outputs = []
    for y in (f(f(x)), mixed(mixed(x))):
        if order == 1:
            outputs += [sg.jvp(y, x, tangent)[0], sg.jacobian(y, x)]
        else:
            outputs += [sg.hvp(y.sum(), x, tangent)[0], sg.hessians(y.sum(), x)[0]]
    found = run_both(outputs, {x: POINT * 0.3}, monkeypatch)
    for called, plain in zip(found[:2], found[2:], strict=True):
        np.testing.assert_allclose(called, plain, rtol=1e-10)


def test_a_tangent_of_what_a_call_does_not_depend_on_is_none(x):
    other = sg.placeholder((3,), "float64")
    first, second = sg.function(lambda a, b: (mixed(a), sg.sin(b)))(x, other)
    zeros, moved = sg.jvp([first, second], other, np.ones(3))
    given = {x: POINT, other: POINT}
    np.testing.assert_array_equal(value(zeros, given), np.zeros(3))
    np.testing.assert_allclose(value(moved, given), np.cos(POINT))


def test_sizes_may_be_unknown_in_a_function_and_its_gradient():
    a = sg.placeholder(("rows", 3), "float64")
    f = sg.function(mixed)
    y = f(f(a * 0.1))
    step = compile([a], [y, gradient(y.sum(), a)])
    plain = mixed(mixed(a * 0.1))
    wanted = compile([a], [plain, gradient(plain.sum(), a)])
    for count in (1, 4):
        given = np.linspace(-1.0, 1.0, 3 * count).reshape(count, 3)
        for found, b in zip(step(given), wanted(given), strict=True):
            np.testing.assert_allclose(found, b)


def test_the_text_of_a_program_with_calls_round_trips(x):
    f = sg.function(mixed)
    y = f(f(x))
    text = str(Graph([y, gradient(y.sum(), x)], [x]))
    assert str(Graph.parse(text)) == text


# --------------------------------------------------------------------------------- what is wrong


def test_a_function_that_calls_itself_for_ever_is_refused(x):
    @sg.function
    def endless(a: Any) -> Any:
        return endless(a * 2.0)

    for given in (x, POINT):
        with pytest.raises(GraphError, match="endless: the function calls itself"):
            endless(given)
    # What was open is open no more.
    with pytest.raises(GraphError, match=r"(?s)--> test_calls.py:\d+ in endless.*sg.while_loop"):
        endless(x)


def test_functions_that_call_each_other_for_ever_are_refused(x):
    functions: list[Any] = []
    even = sg.function(lambda a: functions[1](a))
    odd = sg.function(lambda a: functions[0](a))
    functions += [even, odd]
    with pytest.raises(GraphError, match="tracing it would not end"):
        even(x)


def test_an_error_of_a_run_names_the_line_in_the_function(x):
    i = sg.placeholder((), "int64")

    @sg.function
    def picked(a: Tensor, place: Tensor) -> Tensor:
        return sg.take(mixed(mixed(a)), place)

    y = sg.stack([picked(x * float(k), i) for k in range(12)])
    step = compile([x, i], y)
    assert "routine @picked" in step.ir("loops")
    assert step(POINT, np.int64(2)).shape == (12,)
    with pytest.raises(IndexOutOfRangeError, match=r"test_calls.py:\d+ in picked"):
        step(POINT, np.int64(3))


def test_explain_none_looks_into_a_function(x):
    f = sg.function(lambda a: (sg.stop_gradient(mixed(a)) + 1.0, mixed(a)))
    cut, whole = f(x)
    assert "in <lambda>, stop_gradient ends it" in sg.explain_none(cut, x)
    assert sg.explain_none(whole, x).endswith("is not None")
