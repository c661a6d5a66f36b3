"""Worked examples of the functional gradient calls, with the results that were printed for them.

A printed number is right to half a unit of its last digit, and was computed in float32 or in a
mixture of float32 and float64, so that its last digits may be those of rounding: `_assert_prints`
allows half a unit of the last digit or four units in the last place of float32, whichever is more.

Two of the examples are other than they look, and say so: arguments that stand at one another's
place, and weights that are left over from the example before.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import numpy as np

import symgrad as sg

Box = sg.Container

_NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]\d+)?")
_FOUR_UNITS = 4 * 2.0**-23


def _assert_prints(found: Any, printed: Any) -> None:
    """Assert that `found` has the nest, the shapes and the numbers of `printed`.

    An array is printed as text, a tuple as a tuple of these and a container as a container.
    """
    if isinstance(printed, tuple):
        assert isinstance(found, tuple)
        assert len(found) == len(printed)
        for part, text in zip(found, printed, strict=True):
            _assert_prints(part, text)
    elif isinstance(printed, Box):
        assert isinstance(found, Box)
        assert set(found) == set(printed)
        for key, text in printed.items():
            _assert_prints(found[key], text)
    else:
        _assert_array_prints(found, printed)


def _assert_array_prints(found: Any, printed: str) -> None:
    words = np.array(json.loads(_NUMBER.sub(lambda m: f'"{m[0]}"', printed)))
    assert isinstance(found, np.ndarray)
    assert found.shape == words.shape
    for value, word in zip(found.ravel(), words.ravel(), strict=True):
        exponent = Decimal(str(word).rstrip(".")).as_tuple().exponent
        assert isinstance(exponent, int)
        # A hair more, since half a unit is not a float64.
        half_a_unit = 0.5 * 10.0**exponent * (1 + 1e-9) if "." in word or "e" in word else 0.5
        assert abs(value - float(word)) <= max(half_a_unit, _FOUR_UNITS * abs(float(word)))


# ------------------------------------------------------------------------------------- adam_step


def test_adam_step_of_integers_with_an_average_that_broadcasts():
    found = sg.adam_step(np.array([1, 2, 3]), np.ones(3), np.ones(1), np.array(3))
    _assert_prints(
        found,
        (
            "[0.2020105, 0.22187898, 0.24144873]",
            "[0.99999998, 1.09999998, 1.19999998]",
            "[1.00000001, 1.00300001, 1.00800001]",
        ),
    )


def test_adam_step_of_a_matrix_with_other_factors():
    found = sg.adam_step(
        np.array([[1.0, 4.0, -3.0], [2.0, 3.0, 0.5]]),
        np.zeros((2, 3)),
        np.zeros(3),
        np.array(1),
        beta1=0.86,
        beta2=0.95,
        epsilon=1e-6,
    )
    _assert_prints(
        found,
        (
            "[[1., 1., -1.], [1., 1., 1.]]",
            "[[0.14, 0.56, -0.42], [0.28, 0.42, 0.07]]",
            "[[0.05, 0.8, 0.45], [0.2, 0.45, 0.0125]]",
        ),
    )


def test_adam_step_with_a_float_step_and_out():
    dcdw = np.array([0.1, -0.7, 2])
    out = np.zeros_like(dcdw)
    delta, _, _ = sg.adam_step(dcdw, np.ones(1), np.ones(1), np.array(3.6), out=out)
    assert delta is out
    _assert_prints(out, "[0.17294501, 0.15770318, 0.20863818]")


def test_adam_step_of_one_container():
    dcdw = Box(a=np.array([0.0, 1.0, 2.0]), b=np.array([3.0, 4.0, 5.0]))
    found = sg.adam_step(
        dcdw,
        np.array([1.0, 4.0, 9.0]),
        np.array([0.0]),
        np.array([3.4]),
        beta1=0.87,
        beta2=0.976,
        epsilon=1e-5,
    )
    _assert_prints(
        found,
        (
            Box(a="[6.49e+04, 1.74e+01, 1.95e+01]", b="[2.02, 4.82, 8.17]"),
            Box(a="[0.87, 3.61, 8.09]", b="[1.26, 4., 8.48]"),
            Box(a="[0., 0.024, 0.096]", b="[0.216, 0.384, 0.6]"),
        ),
    )


def test_adam_step_of_several_containers():
    found = sg.adam_step(
        Box(a=np.array([0.0, 1.0, 2.0]), b=np.array([3.0, 4.0, 5.0])),
        Box(a=np.array([0.0, 0.0, 0.0]), b=np.array([0.0, 0.0, 0.0])),
        Box(a=np.array([0.0]), b=np.array([0.0])),
        np.array([3.4]),
        beta1=0.87,
        beta2=0.976,
        epsilon=1e-5,
    )
    _assert_prints(
        found,
        (
            Box(a="[0., 0.626, 0.626]", b="[0.626, 0.626, 0.626]"),
            Box(a="[0., 0.13, 0.26]", b="[0.39, 0.52, 0.65]"),
            Box(a="[0., 0.024, 0.096]", b="[0.216, 0.384, 0.6]"),
        ),
    )


# ----------------------------------------------------------------------------------- adam_update


def test_adam_update_of_a_vector():
    found = sg.adam_update(
        np.array([1.0, 2, 3]),
        np.array([0.5, 0.2, 0.1]),
        np.array(0.1),
        np.zeros(3),
        np.zeros(1),
        1,
    )
    _assert_prints(
        found,
        (
            "[0.90000075, 1.90000164, 2.9000032]",
            "[0.05, 0.02, 0.01]",
            "[2.50000012e-04, 4.00000063e-05, 1.00000016e-05]",
        ),
    )


def test_adam_update_of_a_matrix_with_out():
    w = np.array([[1.0, 2, 3], [4, 2, 4], [6, 4, 2]])
    out = np.zeros_like(w)
    found = sg.adam_update(
        w,
        np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.1], [0.1, 0.5, 0.3]]),
        np.array(0.1),
        np.zeros((3, 3)),
        np.zeros(3),
        2,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-7,
        out=out,
        stop_gradients=True,
    )
    assert found[0] is out
    _assert_prints(
        found,
        (
            "[[0.92558873, 1.92558754, 2.92558718],"
            " [3.92558694, 1.92558682, 3.92558861],"
            " [5.92558861, 3.92558694, 1.92558718]]",
            "[[0.01, 0.02, 0.03], [0.04, 0.05, 0.01], [0.01, 0.05, 0.03]]",
            "[[1.00000016e-05, 4.00000063e-05, 9.00000086e-05],"
            " [1.60000025e-04, 2.50000012e-04, 1.00000016e-05],"
            " [1.00000016e-05, 2.50000012e-04, 9.00000086e-05]]",
        ),
    )


def test_adam_update_of_one_container():
    w = Box(a=np.array([1.0, 2.0, 3.0]), b=np.array([4.0, 5.0, 6.0]))
    # As in the example, the averages stand where the learning rate belongs: the rate is zeros,
    # and the average of squares starts as 0.01.
    found = sg.adam_update(
        w, np.array([0.5, 0.2, 0.4]), np.array([0.0, 0.0, 0.0]), np.array([0.0]), np.array(0.01), 2
    )
    _assert_prints(
        found,
        (
            Box(a="[1., 2., 3.]", b="[4., 5., 6.]"),
            "[0.05, 0.02, 0.04]",
            "[0.01024, 0.01003, 0.01015]",
        ),
    )


def test_adam_update_of_several_containers():
    # The weights of the example before: those that this one defines are not used in it.
    w = Box(a=np.array([1.0, 2.0, 3.0]), b=np.array([4.0, 5.0, 6.0]))
    found = sg.adam_update(
        w,
        Box(a=np.array([0.1, 0.3, 0.3]), b=np.array([0.3, 0.2, 0.2])),
        np.array(0.001),
        Box(a=np.array([0.0, 0.0, 0.0]), b=np.array([0.0, 0.0, 0.0])),
        Box(a=np.array([0.0]), b=np.array([0.0])),
        3,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-7,
        stop_gradients=False,
    )
    _assert_prints(
        found,
        (
            Box(
                a="[0.99936122, 1.99936116, 2.99936128]",
                b="[3.99936128, 4.99936104, 5.99936104]",
            ),
            Box(a="[0.01, 0.03, 0.03]", b="[0.03, 0.02, 0.02]"),
            Box(
                a="[1.00000016e-05, 9.00000086e-05, 9.00000086e-05]",
                b="[9.00000086e-05, 4.00000063e-05, 4.00000063e-05]",
            ),
        ),
    )


# -------------------------------------------------------------- execute_with_gradients, grad, jac


def test_execute_with_gradients_of_an_array():
    x = np.array([[1, 4, 6], [2, 6, 9]])
    found = sg.execute_with_gradients(lambda x: sg.mean(sg.square(x)), x, retain_grads=True)
    _assert_prints(found, ("29.", "[[0.33333334, 1.33333337, 2.], [0.66666669, 2., 3.]]"))


def test_execute_with_gradients_of_a_container():
    x = Box(a=np.array([1, 4, 6]), b=np.array([2, 6, 9]))
    found = sg.execute_with_gradients(lambda x: sg.mean(sg.square(x)), x, retain_grads=True)
    _assert_prints(
        found,
        (
            Box(a="17.666666", b="40.333332"),
            Box(
                a=Box(a="[0.66666669, 2.66666675, 4.]", b="[0., 0., 0.]"),
                b=Box(a="[0., 0., 0.]", b="[1.33333337, 4., 6.]"),
            ),
        ),
    )


_MATRIX = np.array([[4.6, 2.1, 5], [2.8, 1.3, 6.2]])


def test_grad_of_a_matrix():
    found = sg.grad(lambda x: sg.mean(sg.square(x)))(_MATRIX)
    _assert_prints(found, "[[1.53, 0.7, 1.67], [0.933, 0.433, 2.07]]")


def test_jac_of_a_matrix():
    found = sg.jac(lambda x: sg.mean(sg.square(x)))(_MATRIX)
    _assert_prints(found, "[[1.53, 0.7, 1.67], [0.933, 0.433, 2.07]]")


def test_value_and_grad_of_a_matrix():
    found = sg.value_and_grad(lambda x: sg.mean(sg.square(x)))(_MATRIX)
    _assert_prints(
        found,
        (
            "16.42333412",
            "[[1.5333333, 0.69999999, 1.66666675], [0.93333334, 0.43333334, 2.0666666]]",
        ),
    )


# ----------------------------------------------------------------------- gradient_descent_update


def test_gradient_descent_update_of_a_matrix():
    found = sg.gradient_descent_update(
        np.array([[1.0, 2, 3], [4, 6, 1], [1, 0, 7]]),
        np.array([[0.5, 0.2, 0.1], [0.3, 0.6, 0.4], [0.4, 0.7, 0.2]]),
        np.array(0.1),
        stop_gradients=True,
    )
    _assert_prints(found, "[[0.95, 1.98, 2.99], [3.97, 5.94, 0.96], [0.96, -0.07, 6.98]]")


def test_gradient_descent_update_with_out():
    w = np.array([1.0, 2.0, 3.0])
    out = np.zeros_like(w)
    sg.gradient_descent_update(w, np.array([0.5, 0.2, 0.1]), np.array(0.3), out=out)
    _assert_prints(out, "[0.85, 1.94, 2.97]")


def test_gradient_descent_update_of_one_container():
    w = Box(a=np.array([1.0, 2.0, 3.0]), b=np.array([3.48, 5.72, 1.98]))
    found = sg.gradient_descent_update(w, np.array([0.5, 0.2, 0.1]), np.array(0.3))
    _assert_prints(found, Box(a="[0.85, 1.94, 2.97]", b="[3.33, 5.66, 1.95]"))


def test_gradient_descent_update_of_several_containers():
    w = Box(a=np.array([1.0, 2.0, 3.0]), b=np.array([3.48, 5.72, 1.98]))
    dcdw = Box(a=np.array([0.5, 0.2, 0.1]), b=np.array([2.0, 3.42, 1.69]))
    found = sg.gradient_descent_update(w, dcdw, np.array(0.3))
    _assert_prints(found, Box(a="[0.85, 1.94, 2.97]", b="[2.88, 4.69, 1.47]"))


# ----------------------------------------------------------------------------------- lamb_update


def test_lamb_update_of_a_vector():
    found = sg.lamb_update(
        np.array([1.0, 2, 3]),
        np.array([0.5, 0.2, 0.1]),
        np.array(0.1),
        np.zeros(3),
        np.zeros(1),
        np.array(1),
    )
    _assert_prints(
        found, ("[0.784, 1.78, 2.78]", "[0.05, 0.02, 0.01]", "[2.5e-04, 4.0e-05, 1.0e-05]")
    )


def test_lamb_update_of_a_matrix_with_out():
    w = np.array([[1.0, 2, 3], [4, 6, 1], [1, 0, 7]])
    out = np.zeros_like(w)
    sg.lamb_update(
        w,
        np.array([[0.5, 0.2, 0.1], [0.3, 0.6, 0.4], [0.4, 0.7, 0.2]]),
        np.array(0.1),
        np.zeros((3, 3)),
        np.zeros(3),
        np.array(1),
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-7,
        max_trust_ratio=10,
        decay_lambda=0,
        out=out,
        stop_gradients=True,
    )
    _assert_prints(out, "[[0.639, 1.64, 2.64], [3.64, 5.64, 0.639], [0.639, -0.361, 6.64]]")


def test_lamb_update_of_one_container():
    w = Box(a=np.array([1.0, 2.0, 3.0]), b=np.array([4.0, 5.0, 6.0]))
    # As in the example, the averages stand where the learning rate belongs: the rate is zeros,
    # and the average of squares starts as 1.
    found = sg.lamb_update(
        w,
        np.array([3.0, 4.0, 5.0]),
        np.array([0.0, 0.0, 0.0]),
        np.array([0.0]),
        np.array(1.0),
        np.array([2]),
    )
    _assert_prints(
        found, (Box(a="[1., 2., 3.]", b="[4., 5., 6.]"), "[0.3, 0.4, 0.5]", "[1.01, 1.01, 1.02]")
    )


def test_lamb_update_of_several_containers():
    found = sg.lamb_update(
        Box(a=np.array([1.0, 3.0, 5.0]), b=np.array([3.0, 4.0, 2.0])),
        Box(a=np.array([0.2, 0.3, 0.6]), b=np.array([0.6, 0.4, 0.7])),
        np.array(0.5),
        Box(a=np.array([0.0, 0.0, 0.0]), b=np.array([0.0, 0.0, 0.0])),
        Box(a=np.array([0.0]), b=np.array([0.0])),
        np.array([3.4]),
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-7,
        max_trust_ratio=10,
        decay_lambda=0,
        stop_gradients=True,
    )
    _assert_prints(
        found,
        (
            Box(a="[-0.708, 1.29, 3.29]", b="[1.45, 2.45, 0.445]"),
            Box(a="[0.02, 0.03, 0.06]", b="[0.06, 0.04, 0.07]"),
            Box(a="[4.0e-05, 9.0e-05, 3.6e-04]", b="[0.00036, 0.00016, 0.00049]"),
        ),
    )


# ----------------------------------------------------------------------------------- lars_update


def test_lars_update_of_a_matrix():
    found = sg.lars_update(
        np.array([[3.0, 1, 5], [7, 2, 9]]),
        np.array([[0.3, 0.1, 0.2], [0.1, 0.2, 0.4]]),
        np.array(0.1),
    )
    _assert_prints(
        found,
        "[[2.34077978, 0.78025991, 4.56051969], [6.78026009, 1.56051981, 8.12103939]]",
    )


def test_lars_update_with_out():
    dcdw = np.array([0.3, 0.1, 0.2])
    out = np.zeros_like(dcdw)
    sg.lars_update(np.array([3.0, 1, 5]), dcdw, np.array(0.1), out=out)
    _assert_prints(out, "[2.52565837, 0.8418861, 4.68377209]")


def test_lars_update_of_one_container():
    w = Box(a=np.array([3.2, 2.6, 1.3]), b=np.array([1.4, 3.1, 5.1]))
    found = sg.lars_update(w, np.array([0.2, 0.4, 0.1]), np.array(0.1))
    _assert_prints(
        found,
        Box(a="[3.01132035, 2.22264051, 1.2056601]", b="[1.1324538, 2.56490755, 4.96622658]"),
    )


def test_lars_update_of_several_containers():
    w = Box(a=np.array([3.2, 2.6, 1.3]), b=np.array([1.4, 3.1, 5.1]))
    dcdw = Box(a=np.array([0.2, 0.4, 0.1]), b=np.array([0.3, 0.1, 0.2]))
    found = sg.lars_update(w, dcdw, np.array(0.1))
    _assert_prints(
        found,
        Box(a="[3.01132035, 2.22264051, 1.2056601]", b="[0.90848625, 2.93616199, 4.77232409]"),
    )


# ------------------------------------------------------------------------------ optimizer_update


def test_optimizer_update_with_a_number_as_rate():
    found = sg.optimizer_update(np.array([1.0, 2.0, 3.0]), np.zeros(3), 3e-4)
    _assert_prints(found, "[1., 2., 3.]")


def test_optimizer_update_with_options_spelt_out():
    found = sg.optimizer_update(
        np.array([1.0, 2.0, 3.0]), np.zeros(3), 3e-4, out=None, stop_gradients=True
    )
    _assert_prints(found, "[1., 2., 3.]")


def test_optimizer_update_of_a_matrix_with_rates_of_columns_and_out():
    w = np.array([[1.0, 2.0], [4.0, 5.0]])
    out = np.zeros_like(w)
    sg.optimizer_update(w, np.array([[4.0, 5.0], [7.0, 8.0]]), np.array([3e-4, 1e-2]), out=out)
    _assert_prints(out, "[[0.999, 1.95], [4., 4.92]]")


def test_optimizer_update_with_a_rate_of_one_element_and_out():
    w = np.array([1.0, 2.0, 3.0])
    out = np.zeros_like(w)
    sg.optimizer_update(
        w, np.array([4.0, 5.0, 6.0]), np.array([3e-4]), stop_gradients=False, out=out
    )
    _assert_prints(out, "[0.999, 2., 3.]")


def _weights() -> sg.Container:
    return Box(a=np.array([0.0, 1.0, 2.0]), b=np.array([3.0, 4.0, 5.0]))


_WEIGHTS = Box(a="[0., 1., 2.]", b="[3., 4., 5.]")
_ZEROS = Box(a=np.array([0.0, 0.0, 0.0]), b=np.array([0.0, 0.0, 0.0]))


def test_optimizer_update_of_one_container():
    found = sg.optimizer_update(_weights(), np.array([0.0, 0.0, 0.0]), 3e-4)
    _assert_prints(found, _WEIGHTS)


def test_optimizer_update_of_several_containers_into_the_weights():
    w = _weights()
    assert sg.optimizer_update(w, _ZEROS, 3e-4, out=w) is w
    _assert_prints(w, _WEIGHTS)


def test_optimizer_update_of_several_containers_with_an_array_as_rate():
    found = sg.optimizer_update(_weights(), _ZEROS, np.array([3e-4]), stop_gradients=False)
    _assert_prints(found, _WEIGHTS)


# --------------------------------------------------------------------------------- stop_gradient


def test_stop_gradient_of_an_array():
    found = sg.stop_gradient(np.array([1.0, 2.0, 3.0]), preserve_type=True)
    _assert_prints(found, "[1., 2., 3.]")


def test_stop_gradient_into_its_operand():
    x = np.zeros((2, 3))
    sg.stop_gradient(x, preserve_type=False, out=x)
    _assert_prints(x, "[[0., 0., 0.], [0., 0., 0.]]")


def test_stop_gradient_of_a_container():
    _assert_prints(sg.stop_gradient(_weights(), preserve_type=False), _WEIGHTS)


def test_stop_gradient_of_a_container_into_itself():
    x = _weights()
    sg.stop_gradient(x, preserve_type=True, out=x)
    _assert_prints(x, _WEIGHTS)
