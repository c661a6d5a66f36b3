"""Loops over slices: `scan` and `map`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError, ShapeError
from symgrad.graph.node import Tensor
from tests.support.control_programs import check_derivatives, gradient, keep, run, value

POINT = np.array([0.9, -0.8, 1.1])
ROWS = np.array([[0.5, 1.5], [-1.0, 0.25], [2.0, -0.75]])


@pytest.fixture
def xs() -> Tensor:
    return sg.placeholder((3, 2), "float64", name="xs")


@pytest.fixture
def init() -> Tensor:
    return sg.placeholder((2,), "float64", name="init")


def step(c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return c * x + 1.0, c - x


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_gives_the_last_carry_and_the_stacked_ys(xs, init, reverse):
    found = run(sg.scan(step, init, xs, reverse=reverse), {init: [1, 2], xs: ROWS})
    carry, ys = np.array([1.0, 2.0]), np.zeros_like(ROWS)
    for i in reversed(range(3)) if reverse else range(3):
        ys[i] = carry - ROWS[i]
        carry = carry * ROWS[i] + 1
    np.testing.assert_allclose(found[0], carry)
    np.testing.assert_allclose(found[1], ys)


@pytest.mark.parametrize(
    ("reverse", "by"),
    [
        (False, (0,)),
        pytest.param(False, (1, 2), marks=pytest.mark.slow),
        (True, (1,)),
        pytest.param(True, (0, 2), marks=pytest.mark.slow),
    ],
)
def test_scan_has_derivatives_by_carry_slices_and_captures(xs, init, reverse, by):
    w = sg.placeholder((2,), "float64")
    given = {init: [0.3, -0.6], xs: ROWS, w: [0.7, 1.2]}
    carry, ys = sg.scan(lambda c, x: (sg.sin(c) * x * w, c * x), init, xs, reverse=reverse)
    for number in by:
        check_derivatives(sg.concat([carry[None], ys]), [init, xs, w][number], given)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_scan_over_an_axis_of_unknown_size(init, size):
    xs = sg.placeholder((None, 2), "float64")
    carry, ys = sg.scan(step, init, xs)
    g, h = gradient([carry, ys], xs), gradient([carry, ys], init)
    given = {init: [1.0, 2.0], xs: ROWS[:size]}
    found = run([carry, ys, g, h], given)
    assert found[1].shape == found[2].shape == (size, 2)
    known = sg.placeholder((size, 2), "float64")
    carry, ys = sg.scan(step, init, known)
    slopes = [gradient([carry, ys], known), gradient([carry, ys], init)]
    again = run([carry, ys, *slopes], {init: [1.0, 2.0], known: ROWS[:size]})
    for a, b in zip(found, again, strict=True):
        np.testing.assert_allclose(a, b)


def test_scan_of_nothing_passes_the_gradient_to_init(init):
    carry, ys = sg.scan(step, init, sg.zeros((0, 2), "float64"))
    assert ys.shape == (0, 2)
    np.testing.assert_array_equal(value(gradient(carry, init), {init: [1, 2]}), [1, 1])


def test_scan_takes_and_returns_nests(xs, init):
    carry, ys = sg.scan(
        lambda c, x: ({"a": c["a"] + x[0], "n": c["n"] + 1}, [None, (x[1], c["n"])]),
        {"a": init, "n": 0},
        (xs, sg.arange(3)),
    )
    assert ys[0] is None
    found = run([carry["a"], carry["n"], *ys[1]], {init: [0, 0], xs: ROWS})
    np.testing.assert_allclose(found[0], ROWS.sum(0))
    assert found[1] == 3
    np.testing.assert_array_equal(found[2], [0, 1, 2])
    np.testing.assert_array_equal(found[3], [0, 1, 2])


def test_scan_without_xs_needs_a_length(init):
    carry, ys = sg.scan(lambda c, x: (c * 2.0, c if x is None else x), init, None, length=3)
    found = run([carry, ys], {init: [1, 2]})
    np.testing.assert_array_equal(found[0], [8, 16])
    np.testing.assert_array_equal(found[1][:, 0], [1, 2, 4])
    with pytest.raises(GraphError, match="there are no xs and no length"):
        sg.scan(step, init, None)


def test_scan_of_nothing_at_all():
    assert sg.scan(lambda c, x: (None, None), None, length=4) == (None, None)


def test_scan_refuses_sizes_that_differ(xs, init):
    with pytest.raises(ShapeError, match=r"xs and length are of sizes \[3, 4\]"):
        sg.scan(step, init, xs, length=4)
    with pytest.raises(ShapeError, match=r"of sizes \[2, 3\]"):
        sg.scan(lambda c, x: (c, c), init, (xs, sg.zeros((2,))))
    with pytest.raises(ShapeError, match="has no axis to scan"):
        sg.scan(step, init, xs.sum())
    with pytest.raises(ShapeError, match=r"of sizes \[-1\]"):
        sg.scan(step, init, length=-1)
    with pytest.raises(DTypeError, match=r"length is 2\.0, not an integer"):
        sg.scan(step, init, length=2.0)


def test_scan_compares_sizes_that_are_unknown_when_it_is_called(init):
    a, b = sg.placeholder((None, 2), "float64"), sg.placeholder((None, 2), "float64")
    carry, _ = sg.scan(lambda c, x: (c + x[0] * x[1], None), init, (a, b))
    np.testing.assert_allclose(value(carry, {init: [0, 0], a: ROWS, b: ROWS}), (ROWS**2).sum(0))
    with pytest.raises(ShapeError):
        value(carry, {init: [0, 0], a: ROWS, b: ROWS[:2]})


def test_scan_refuses_what_is_no_carry_and_y(xs, init):
    with pytest.raises(GraphError, match=r"f gives .*, not \(carry, y\)"):
        sg.scan(lambda c, x: c, init, xs)
    with pytest.raises(GraphError, match="scan: the body gives"):
        sg.scan(lambda c, x: ((c, c), x), init, xs)
    with pytest.raises(DTypeError, match=r"loop variable 0 is f64\[2\] and the body gives f32"):
        sg.scan(lambda c, x: (c.astype("float32"), x), init, xs)
    not_a_function: Any = 3
    with pytest.raises(TypeError, match="f is 3, not a function"):
        sg.scan(not_a_function, init, xs)


def test_map_stacks_the_results_of_a_function(xs):
    y, z = sg.map(lambda x: (x * x, x.sum()), xs)
    found = run([y, z], {xs: ROWS})
    np.testing.assert_allclose(found[0], ROWS**2)
    np.testing.assert_allclose(found[1], ROWS.sum(1))
    check_derivatives(y, xs, {xs: ROWS})
    not_a_function: Any = None
    with pytest.raises(TypeError, match="map: f is None"):
        sg.map(not_a_function, xs)


def test_map_over_a_dict(xs):
    y = sg.map(lambda d: d["a"] * d["b"], {"a": xs, "b": sg.arange(3).astype("float64")})
    np.testing.assert_allclose(value(y, {xs: ROWS}), ROWS * np.arange(3)[:, None])


def test_scan_is_traced_once(xs, init):
    calls: list[Any] = []
    carry, _ = sg.scan(lambda c, x: keep(calls, step(c, x)), init, xs)
    gradient(carry, init)
    assert len(calls) == 1


def test_a_cumulative_sum_by_scan():
    v = sg.placeholder((3,), "float64")
    _, ys = sg.scan(lambda c, x: (c + x, c + x), 0.0 * v[0], v)
    np.testing.assert_allclose(value(ys, {v: POINT}), np.cumsum(POINT))
    g = gradient(ys, v)
    np.testing.assert_allclose(value(g, {v: POINT}), [3, 2, 1])


# ------------------------------------------------------- stacks that are a reshape of other memory


def test_scan_over_a_reshape_reads_its_slices():
    x = sg.placeholder((8,), "float64")
    last, ys = sg.scan(
        lambda c, e: (c + e, c * e), sg.zeros((4,), "float64"), sg.reshape(x, (2, 4))
    )
    found = run([last, ys], {x: np.arange(8.0)})
    np.testing.assert_array_equal(found[0], [4, 6, 8, 10])
    np.testing.assert_array_equal(found[1], [[0, 0, 0, 0], [0, 5, 12, 21]])


def test_a_reshape_of_stacked_results_is_written_slice_by_slice():
    x = sg.placeholder((6,), "float64")
    y = sg.reshape(sg.map(lambda e: e * 2, x), (1, 6))
    np.testing.assert_array_equal(value(y, {x: np.arange(6.0)}), [[0, 2, 4, 6, 8, 10]])


def test_a_scan_in_a_scan_over_reshapes():
    x = sg.placeholder((2, 12), "float64")

    def inner(c: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        return c + e.sum(), e[::-1] + c

    def outer(c: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        last, ys = sg.scan(inner, c, sg.reshape(row, (3, 4)))
        return last, sg.reshape(ys, (4, 3))

    last, ys = sg.scan(outer, sg.constant(0.0, "float64"), x)
    y = last * sg.reshape(ys, (8, 3)).sum(axis=0)
    check_derivatives(y, x, {x: np.linspace(-1, 1, 24).reshape(2, 12)})


@pytest.mark.parametrize("options", [{}, {"maximum_iterations": 4}, {"checkpoint": 2}])
def test_a_loop_variable_seen_through_a_reshape_is_recorded(options):
    x = sg.placeholder((6,), "float64")
    _, y = sg.while_loop(
        lambda i, _: i < 3,
        lambda i, v: (i + 1, sg.reshape(sg.sin(sg.reshape(v, (3, 2))).T, (6,))),
        (0, sg.reshape(sg.reshape(x, (2, 3)), (6,))),
        **options,
    )
    check_derivatives(sg.reshape(y, (1, 6))[0], x, {x: np.linspace(0.1, 1, 6)})
