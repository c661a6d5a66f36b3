"""What functions capture: when that makes results tensors, and where a trace is used again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.node import Tensor
from symgrad.passes.calls.callees import graphs_within
from tests.support.control_programs import keep

POINT = np.array([0.9, -0.8, 1.1])


def capture(tensor: Any) -> Any:
    """Return a function of no arguments, and of arrays, that uses `tensor`."""
    return sg.function(lambda *arrays: tensor * tensor * sum(arrays, 1.0))


# ---------------------------------------------------------------------- tensors from outside


def test_a_captured_variable_is_differentiated_by():
    w = sg.variable(POINT)
    for arrays in ((), (POINT,)):
        y = capture(w)(*arrays)
        assert isinstance(y, Tensor)
        (g,) = sg.gradients(y, w)
        assert g is not None
        found = sg.run([y, g])
        np.testing.assert_allclose(found[0], POINT**2 * sum(arrays, 1.0))
        np.testing.assert_allclose(found[1], 2 * POINT * sum(arrays, 1.0))


def test_a_captured_constant_is_differentiated_by():
    c = sg.constant(POINT)
    y = capture(c)()
    assert isinstance(y, Tensor)
    (g,) = sg.gradients(y, c)
    assert g is not None
    np.testing.assert_allclose(sg.run(g), 2 * POINT)


def test_what_an_inner_function_captures_is_captured():
    w = sg.variable(POINT)
    inner = sg.function(lambda a: a * w)
    outer = sg.function(lambda a: inner(a) + inner(a * 2.0))
    y = outer(POINT)
    (g,) = sg.gradients(y, w)
    assert g is not None
    np.testing.assert_allclose(sg.run(g), 3 * POINT)


def test_the_second_call_is_like_the_first():
    calls: list[Any] = []
    w = sg.variable(POINT)
    f = sg.function(lambda a: keep(calls, a) * w)
    first, second = f(POINT), f(POINT * 2.0)
    np.testing.assert_allclose(sg.run(second), 2 * sg.run(first))
    assert len(calls) == 1


def test_a_captured_variable_is_read_at_each_run():
    w = sg.variable(POINT)
    step = sg.compile([], capture(w)())
    np.testing.assert_allclose(step(), POINT * POINT)
    w.value = POINT * 0
    np.testing.assert_array_equal(step(), POINT * 0)


def test_arrays_and_numbers_from_outside_are_no_tensors():
    f = sg.function(lambda a: a * POINT * sg.constant(2.0) + sg.ones(3, "float64"))
    assert isinstance(f(POINT), np.ndarray)


def test_the_state_of_a_generator_does_not_count():
    rng = sg.random.Generator(0)
    folded = rng.fold(3)
    drawn = rng.normal((3,), dtype="float64")
    noisy = sg.function(lambda a: a + rng.normal((3,), dtype="float64") * folded.uniform(()))
    nested = sg.function(lambda a: noisy(a) * 2.0)
    first = noisy(POINT)
    assert isinstance(first, np.ndarray)
    np.testing.assert_array_equal(first, noisy(POINT))
    np.testing.assert_allclose(nested(POINT), 2 * first)
    # A draw from outside is a tensor like any other, and so is the state where a user reads it.
    assert isinstance(sg.function(lambda a: a + drawn)(POINT), Tensor)
    shown = sg.function(lambda: sg.cond(sg.constant(True), lambda: noisy(POINT), lambda: POINT))
    assert isinstance(shown(), np.ndarray)


def test_derivatives_of_functions_of_arrays_read_variables_and_give_arrays():
    w = sg.variable(POINT)
    found = sg.value_and_grad(lambda a: (a * w).sum())(POINT)
    assert [type(leaf) for leaf in found] == [np.ndarray, np.ndarray]
    w.value = POINT * 2
    np.testing.assert_allclose(sg.grad(lambda a: (a * w).sum())(POINT), POINT * 2)


# ----------------------------------------------------------------------- traces in regions


def test_a_region_traces_a_function_once_for_each_signature():
    calls: list[Any] = []
    f = sg.function(lambda a: keep(calls, a * 2.0))
    x = sg.placeholder((3,), "float64")
    y = sg.cond(x.sum() > 0.0, lambda: f(f(x)), lambda: f(x)[:2].sum() + f(x))
    f(x)
    assert len(calls) == 1
    np.testing.assert_array_equal(sg.run(y, {x: POINT}), POINT * 4)


def test_a_function_that_uses_a_tensor_of_a_branch_is_traced_in_each():
    calls: list[Any] = []
    x = sg.placeholder((3,), "float64", name="x")
    around: list[Tensor] = []
    f = sg.function(lambda a: keep(calls, a * around[-1]))

    def branch(scale: float) -> Any:
        around.append(x * scale)
        return f(x) + f(x * 2.0)

    y = sg.cond(x.sum() > 0.0, lambda: branch(3.0), lambda: branch(5.0))
    assert len(calls) == 2
    for sign, scale in ((1, 3), (-1, 5)):
        np.testing.assert_allclose(sg.run(y, {x: POINT * sign}), 3 * scale * POINT**2)


def test_a_trace_captures_the_tensor_around_from_wherever_it_is_used():
    w = sg.variable(POINT)
    x = sg.placeholder((3,), "float64")
    f = sg.function(lambda a: sg.sin(a) * w)
    body = lambda _i, a: sg.cond(a.sum() > 0.0, lambda: f(a), lambda: f(f(a)))  # noqa: E731
    y = sg.fori_loop(0, 2, body, x) + f(x)
    dw, dx = sg.gradients(y, [w, x])
    assert dw is not None
    assert dx is not None

    def value(weights: Any) -> Any:
        a = POINT
        for _ in range(2):
            positive = a.sum() > 0
            a = np.sin(a) * weights
            a = a if positive else np.sin(a) * weights
        return a + np.sin(POINT) * weights

    np.testing.assert_allclose(sg.run(y, {x: POINT}), value(POINT))
    step = 1e-6
    difference = (value(POINT + step) - value(POINT - step)) / (2 * step)
    np.testing.assert_allclose(sg.run(dw, {x: POINT}), difference, rtol=1e-6)
    callees = {g for g in graphs_within(sg.Graph(y)) if g.name == "<lambda>"}
    assert len(callees) == 1


def test_a_trace_in_which_arrays_do_not_grow_yet_is_not_used_where_they_do():
    f = sg.function(
        lambda kept, i: kept.write(0, 1.0) if isinstance(i, int) else kept.write(i, 1.0)
    )

    def body(i: Tensor, kept: Any) -> Any:
        return f(kept, 0).write(i, 2.0)

    filled = sg.fori_loop(0, 3, body, sg.TensorArray(0, (), dynamic_size=True))
    np.testing.assert_array_equal(sg.run(filled.stack()), [1, 2, 2])


def test_an_overridden_gradient_is_not_that_of_a_trace_made_before():
    key = "times seven, in a function"
    sg.register_gradient(key)(lambda node, g: g * 7.0)
    x = sg.placeholder((), "float64")
    f = sg.function(sg.sin)
    plain = f(x)
    with sg.gradient_override_map({"sin": key}):
        overridden = f(x)
    grads = sg.gradients(plain, x) + sg.gradients(overridden, x)
    np.testing.assert_allclose(sg.run(grads, {x: 0.5}), [np.cos(0.5), 7.0])


@pytest.mark.parametrize("count", [1, 3])
def test_traces_of_a_region_go_with_it(count):
    x = sg.placeholder((3,), "float64")
    f = sg.function(lambda a: a * x)
    for _ in range(count):
        sg.cond(x.sum() > 0.0, lambda: f(x), lambda: x)
    assert len(f._traces) == 1
