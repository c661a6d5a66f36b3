"""Functions with a gradient of their own in the bodies of loops and in branches: rule R9.13."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.node import Tensor
from tests.support.control_programs import check_derivatives, gradient, keep, run
from tests.support.custom_gradients import exponential, softplus

POINT = np.array([0.9, -0.8, 1.1])


@pytest.fixture
def x() -> Tensor:
    return sg.placeholder((3,), "float64", name="x")


@pytest.fixture
def n() -> Tensor:
    return sg.placeholder((), "int64", name="n")


@pytest.mark.parametrize("bound", [None, 4])
@pytest.mark.parametrize("function", [softplus, exponential], ids=["softplus", "exponential"])
def test_r9_13_in_the_body_of_a_loop(x, n, bound, function):
    y = sg.while_loop(
        lambda i, _v: i < n,
        lambda i, v: (i + 1, function(v * x) * 0.5),
        [0, x],
        maximum_iterations=bound,
    )[1]
    check_derivatives(y, x, {x: POINT, n: 3}, {x: POINT, n: 0})


def test_r9_13_what_only_the_gradient_uses(x):
    w = sg.placeholder((3,), "float64")

    def body(i, v):
        unused = sg.sin(w) * sg.astype(i, "float64")

        @sg.custom_gradient
        def f(a):
            return a, lambda dy: dy * w * (1.0 + unused)

        return f(v)

    y = sg.fori_loop(0, 3, body, x)
    g = gradient(y, x)
    second = gradient(g, w)
    found = run([g, second], {x: POINT, w: POINT})
    factors = [POINT * (1.0 + i * np.sin(POINT)) for i in range(3)]
    slopes = [1.0 + i * (np.sin(POINT) + POINT * np.cos(POINT)) for i in range(3)]
    expected = sum(slopes[i] * factors[i - 1] * factors[i - 2] for i in range(3))
    np.testing.assert_allclose(found[0], np.prod(factors, axis=0))
    np.testing.assert_allclose(found[1], expected)


@pytest.mark.slow
def test_r9_13_in_loops_and_branches_in_one_another(x, n):
    def inner(i: Tensor, j: Tensor, v: Tensor) -> Any:
        scaled = v * (1.0 + sg.astype(i, "float64"))
        return sg.cond(
            sg.equal(i, j), lambda: softplus(scaled) + i, lambda: exponential(sg.sin(scaled))
        )

    def outer(i: Tensor, v: Tensor) -> Any:
        return sg.fori_loop(0, 2, lambda j, u: inner(i, j, u), v) * 0.3

    check_derivatives(sg.fori_loop(0, 2, outer, x), x, {x: POINT})


def test_r9_13_variables_in_the_body_of_a_loop(x):
    w = sg.variable(POINT + 0.5, name="w")

    @sg.custom_gradient
    def f(a):
        def gradient_of(dy, variables):
            (v,) = variables
            return dy * v, [dy * a]

        return a * w, gradient_of

    y = sg.fori_loop(0, 3, lambda _i, v: f(v), x)
    found = run([gradient(y, x), gradient(y, w)], {x: POINT})
    np.testing.assert_allclose(found[0], (POINT + 0.5) ** 3)
    np.testing.assert_allclose(found[1], 3 * POINT * (POINT + 0.5) ** 2)


def test_r9_13_gradients_asked_for_inside_of_the_body(x):
    def body(_i, v):
        return v - 0.1 * gradient(softplus(v * x), v)

    y = sg.fori_loop(0, 3, body, x)
    check_derivatives(y, x, {x: POINT})


@pytest.mark.parametrize("region", ["fori_loop", "while_loop", "scan", "function", "cond"])
def test_r13_29_a_gradient_that_nobody_asks_for_is_not_called(x, region):
    w = sg.placeholder((3,), "float64")
    calls: list[Any] = []

    @sg.custom_gradient
    def f(a):
        return a * 2.0, lambda dy: keep(calls, dy * 2.0)

    def step(v: Any) -> Any:
        return v * w + f(x)

    y = {
        "fori_loop": lambda: sg.fori_loop(0, 3, lambda _i, v: step(v), sg.ones((3,), "float64")),
        "while_loop": lambda: sg.while_loop(
            lambda v: v.sum() < 9.0, lambda v: (step(v),), (sg.ones((3,), "float64"),)
        ),
        "scan": lambda: sg.scan(lambda c, e: (step(c), e), w, sg.ones((2, 3), "float64"))[0],
        "function": lambda: sg.function(step)(w),
        "cond": lambda: sg.cond(w.sum() > 0.0, lambda: step(w), lambda: w),
    }[region]()
    gradient(y, w)
    assert calls == []
    gradient(y, x)
    assert len(calls) == 1


def test_r13_29_an_x_that_has_a_gradient_of_its_own_does_not_call_it(x):
    @sg.custom_gradient
    def f(a):
        return a * 2.0, lambda _dy: 1 / 0

    def body(_i, v):
        y = f(x)
        of_y, of_v = sg.gradients(y * v, [y, v])
        assert of_y is not None
        return of_y + of_v

    y = sg.fori_loop(0, 3, body, x)
    (found,) = run([y], {x: POINT})
    np.testing.assert_allclose(found, POINT + 3 * 2 * POINT)


def test_loop_variables_nobody_reads_are_left_out_all_the_same(x):
    def step(function: Any) -> sg.Step:
        def body(i, v, unused):
            return i + 1, function(v), unused + v

        y = sg.while_loop(lambda i, _v, _u: i < 3, body, [0, x, x], maximum_iterations=3)[1]
        return sg.compile([x], [y, gradient(y, x)])

    plain = step(lambda a: sg.log(1.0 + sg.exp(a)))
    assert step(softplus).memory.arena_bytes <= plain.memory.arena_bytes


def test_a_gradient_around_a_function_with_another_one_is_the_outer_one(x):
    @sg.custom_gradient
    def doubled(a):
        return a * 2.0, lambda dy: dy * 100.0

    passed = sg.grad_pass_through(doubled)(x)
    again = sg.recompute_grad(doubled)(x)
    found = run([passed, gradient(passed, x), gradient(again, x)], {x: POINT})
    ones = np.ones_like(POINT)
    for one, wanted in zip(found, (2 * POINT, ones, 100 * ones), strict=True):
        np.testing.assert_allclose(one, wanted)
