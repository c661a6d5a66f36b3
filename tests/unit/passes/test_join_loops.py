"""Loops that another loop contains: what programs of values and derivatives run."""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph.node import Tensor


def _loops(step: sg.Step) -> int:
    return str(step.ir("loops")).count("while loop")


def _squares(x: Tensor) -> Any:
    """Return what x is when it has been squared beyond 100: its power of 2, 4, 8 and so on."""
    return sg.while_loop(lambda y: y < 100.0, lambda y: y * y, [x])[0]


def test_a_value_and_its_tangent_are_one_loop() -> None:
    x = sg.placeholder((), "float64")
    y = _squares(x)
    (tangent,) = sg.jvp([y], [x], [sg.asarray(1.0, dtype="float64")])
    step = sg.compile([x], [y, tangent])
    assert _loops(step) == 1
    np.testing.assert_allclose(step(3.0), [3.0**8, 8 * 3.0**7], rtol=1e-12)


def test_a_descent_computes_values_and_tangents_in_one_loop() -> None:
    x = sg.placeholder((), "float64")
    limit = sg.placeholder((), "float64")

    def tangent(z: Tensor) -> Any:
        z = sg.identity(z)
        return sg.jvp([_squares(z)], [z], [sg.asarray(1.0, dtype="float64")])[0]

    taken = sg.cond(_squares(x) < limit, lambda: tangent(x), lambda: x)
    step = sg.compile([x, limit], [taken])
    assert _loops(step) == 1
    np.testing.assert_allclose(step(3.0, 1e9), [8 * 3.0**7], rtol=1e-12)
    np.testing.assert_allclose(step(3.0, 1.0), [3.0])


def test_a_loop_whose_start_needs_the_one_before_stays_in_its_branch() -> None:
    x = sg.placeholder((), "float64")
    y = _squares(x)
    taken = sg.cond(y < 1e9, lambda: _squares(y / y * x), lambda: x)
    step = sg.compile([x], [taken])
    np.testing.assert_allclose(step(3.0), [3.0**8], rtol=1e-12)


def test_variables_that_begin_alike_and_move_apart_are_not_taken_for_one() -> None:
    x = sg.placeholder((), "float64")
    n = sg.asarray(4, dtype="int64")
    i = sg.asarray(0, dtype="int64")
    ((_, doubled)) = sg.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, y * 2), [i, x])
    found = sg.while_loop(lambda i, _y, _z: i < n, lambda i, y, z: (i + 1, y * 3, z * 2), [i, x, x])
    step = sg.compile([x], [doubled, found[1], found[2]])
    assert _loops(step) == 1
    np.testing.assert_allclose(step(1.0), [16.0, 81.0, 16.0])


def test_one_variable_is_joined_with_the_one_of_two_that_moves_as_it_does() -> None:
    x = sg.placeholder((), "float64")
    n = sg.asarray(4, dtype="int64")
    i = sg.asarray(0, dtype="int64")
    _, doubled = sg.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, y * 2), [i, x])
    found = sg.while_loop(lambda i, _y, _z: i < n, lambda i, y, z: (i + 1, y * z, z * 2), [i, x, x])
    step = sg.compile([x], [doubled, found[1]])
    assert _loops(step) == 1
    np.testing.assert_allclose(step(1.0), [16.0, 64.0])


def _grown(factor: float, x: Tensor, *others: Tensor) -> Any:
    """Return x four times multiplied by a factor, and what is squared beside it."""

    def body(_: Tensor, values: list[Tensor]) -> list[Tensor]:
        return [values[0] * factor, *(sg.square(y) for y in values[1:])]

    return sg.fori_loop(0, 4, body, [x, *others])


def test_of_loops_that_would_wait_for_each_other_one_is_joined() -> None:
    x = sg.placeholder((), "float64")
    (a,), (c,) = _grown(2.0, x), _grown(3.0, x)
    b, squared = _grown(2.0, x, c * 0.1)
    d, again = _grown(3.0, x, a * 0.1)
    step = sg.compile([x], [a, b, c, d, squared, again])
    assert str(step.ir("loops")).count("scan loop") == 3
    wanted = [16.0, 16.0, 81.0, 81.0, 8.1**16, 1.6**16]
    np.testing.assert_allclose(step(1.0), wanted, rtol=1e-12)


def test_many_loops_are_joined_at_once() -> None:
    x = sg.placeholder((), "float64")
    alone = [_grown(float(k), x)[0] for k in range(2, 12)]
    both = [t for k in range(2, 12) for t in _grown(float(k), x, x)]
    step = sg.compile([x], [*alone, *both])
    assert str(step.ir("loops")).count("scan loop") == 10
    found = np.asarray(step(1.0))
    np.testing.assert_allclose(found[:10], found[10::2])
    np.testing.assert_allclose(found[:10], np.arange(2.0, 12.0) ** 4)
