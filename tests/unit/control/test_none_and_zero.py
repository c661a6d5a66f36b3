"""Where a branch, a loop or a function gives a gradient of zeros, and where None."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from tests.support.control_programs import check_derivatives, run

POINT = np.array([0.5, -1.5])


def test_r7_8_r13_9_a_loop_gives_zeros_where_its_body_cuts_the_path():
    x, w = sg.placeholder((2,), "float64"), sg.placeholder((2,), "float64")
    _, cut, kept = sg.while_loop(
        lambda i, _a, _b: i < 3,
        lambda i, a, b: (i + 1, sg.stop_gradient(a * w), b * 2.0),
        (0, x, x),
    )
    by_cut = sg.gradients(cut, [x, w])
    by_both = sg.gradients([cut, kept], [x, w])
    assert all(g is not None for g in (*by_cut, *by_both))
    found = run([g for g in (*by_cut, *by_both) if g is not None], {x: POINT, w: POINT})
    for g, wanted in zip(found, (0.0, 0.0, 8.0, 0.0), strict=True):
        np.testing.assert_array_equal(g, np.full(2, wanted))


def test_r7_8_a_counter_has_no_gradient():
    x, start = sg.placeholder((2,), "float64"), sg.placeholder((), "int64")
    _, y = sg.while_loop(lambda i, _v: i < 3, lambda i, v: (i + 1, v * x), (start, x))
    assert sg.gradients(y, start) == [None]


def test_r7_9_an_argument_without_a_path_in_a_function_has_no_gradient():
    x, w = sg.placeholder((2,), "float64"), sg.placeholder((2,), "float64")
    y = sg.function(lambda a, b: a * sg.floor(b))(x, w)
    gx, gw = sg.gradients(y, [x, w])
    assert gx is not None
    assert gw is None


def test_r10_1_inside_a_branch_an_x_from_around_is_what_stands_for_it():
    x, p = sg.placeholder((2,), "float64"), sg.placeholder((), "bool")

    def square_and_slope() -> sg.Tensor:
        (g,) = sg.gradients(x * x, x)
        assert g is not None
        return g

    y = sg.cond(p, square_and_slope, lambda: x)
    np.testing.assert_allclose(run([y], {p: True, x: POINT})[0], 2 * POINT)


def test_r11_16_functions_and_branches_within_each_other():
    x, p = sg.placeholder((2,), "float64"), sg.placeholder((), "bool")
    branched = sg.function(lambda v: sg.cond(p, lambda: sg.sin(v), lambda: v * v))
    y = sg.cond(p, lambda: branched(x) * x, lambda: branched(x * x))
    check_derivatives(y, x, {x: POINT, p: True}, {x: POINT, p: False})


def test_r11_16_a_function_may_ask_for_gradients_of_a_branch_from_around():
    x, p = sg.placeholder((2,), "float64"), sg.placeholder((), "bool")
    y = sg.cond(p, lambda: sg.sin(x), lambda: x * x)

    @sg.function
    def slope(scale: sg.Tensor) -> sg.Tensor:
        (g,) = sg.gradients(y, x)
        assert g is not None
        return g * scale

    g = slope(sg.constant(3.0, "float64"))
    np.testing.assert_allclose(run([g], {p: True, x: POINT})[0], 3 * np.cos(POINT))
    np.testing.assert_allclose(run([g], {p: False, x: POINT})[0], 6 * POINT)
