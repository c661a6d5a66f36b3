"""Gradients where they are easily wrong: ties, zeros, infinities, and the side not taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from tests.support.case import Array
from tests.support.evaluators import evaluate_reference
from tests.support.floors import run_everywhere


def _gradient(build: Any, *arrays: Array, order: int = 1) -> list[Array]:
    """Return the gradients of the sum of `build` to its float inputs, repeated `order` times."""
    xs = [sg.placeholder(a.shape, a.dtype) for a in arrays]
    result = build(*xs)
    floats = [x for x in xs if x.dtype.is_float]
    found: list[Tensor] = []
    for _ in range(order):
        found = _connected(sg.gradients(result, floats, unconnected_gradients="zero"))
        result = found[0]
    return evaluate_reference(Graph(found, xs), list(arrays))


def _connected(found: Sequence[Tensor | None]) -> list[Tensor]:
    return [g for g in found if g is not None]


_ROWS = [
    ("relu at 0", sg.nn.relu, [-1, 0, 2], [0, 0, 1]),
    ("relu of nan", sg.nn.relu, [np.nan], [1]),
    ("abs at 0", sg.abs, [-1, 0, 2], [-1, 0, 1]),
    ("max shares among ties", lambda x: x.max(), [1, 3, 3, 0], [0, 0.5, 0.5, 0]),
    ("min shares among ties", lambda x: x.min(), [0, 3, 0, 0], [1 / 3, 0, 1 / 3, 1 / 3]),
    ("max goes to the nans", lambda x: x.max(), [1, np.nan, 3, np.nan], [0, 0.5, 0, 0.5]),
    ("min goes to the nans", lambda x: x.min(), [np.nan, -np.inf], [1, 0]),
    ("max by rows", lambda x: x.reshape(2, 2).max(axis=1), [np.nan, 1, 2, 3], [1, 0, 0, 1]),
    ("max of infinities", lambda x: x.max(), [-np.inf, -np.inf], [0.5, 0.5]),
    ("maximum gives a tie to the first", lambda x: sg.maximum(x, 1.0), [0, 1, 2], [0, 1, 1]),
    ("minimum gives a tie to the first", lambda x: sg.minimum(1.0, x), [0, 1, 2], [1, 0, 0]),
    ("clip at its limits", lambda x: sg.clip(x, 0, 1), [-1, 0, 0.5, 1, 2], [0, 1, 1, 1, 0]),
    ("where cuts log", lambda x: sg.where(x > 0, sg.log(x), 0), [2, 4], [0.5, 0.25]),
    ("where cuts exp", lambda x: sg.where(x > 0, 0, sg.exp(x)), [0, -np.inf], [1, 0]),
    ("square as pow at 0", lambda x: x**2, [-3, 0, 3], [-6, 0, 6]),
    ("first power at 0", lambda x: x**1, [0, 2], [1, 1]),
    ("zeroth power at 0", lambda x: x**0, [0, 2, -1], [0, 0, 0]),
    ("zeroth power of what is no finite number", lambda x: x**0, [np.inf, np.nan], [0, 0]),
    ("exponent over 0", lambda x: sg.constant(0.0) ** x, [0, 1, 2], [0, 0, 0]),
    ("negative exponent over 0", lambda x: sg.constant(0.0) ** x, [-1, -0.5], [0, 0]),
    ("exponent over a negative", lambda x: sg.constant(-2.0) ** x, [1, 2], [0, 0]),
    ("broken exponent over a negative", lambda x: sg.constant(-2.0) ** x, [0.5, -1.5], [0, 0]),
    ("prod with a zero", lambda x: x.prod(), [2, 0, 3], [0, 6, 0]),
    ("prod with two zeros", lambda x: x.prod(), [2, 0, 0], [0, 0, 0]),
    ("prod of one", lambda x: x.prod(), [5], [1]),
    ("sigmoid far out", sg.sigmoid, [-200, 0, 200], [0, 0.25, 0]),
    ("tanh far out", sg.tanh, [-200, 0, 200], [0, 1, 0]),
    ("softplus at 0", sg.nn.softplus, [-200, 0, 200], [0, 0.5, 1]),
    ("log_sigmoid at 0", sg.nn.log_sigmoid, [-200, 0, 200], [1, 0.5, 0]),
    ("elu at 0", sg.nn.elu, [-500, 0, 500], [0, 1, 1]),
    ("huber at 0", lambda x: sg.nn.huber(x, 0.0, reduction="sum"), [-3, 0, 0.5], [-1, 0, 0.5]),
    ("logsumexp with -inf", sg.nn.logsumexp, [0, -np.inf, 0], [0.5, 0, 0.5]),
    ("logsumexp of huge", sg.nn.logsumexp, [1000, 1000], [0.5, 0.5]),
    ("floor is flat", sg.floor, [0.5], [0]),
    ("stop_gradient", lambda x: x * sg.stop_gradient(x), [3], [3]),
    ("a cast through integers", lambda x: x.astype("int32").astype("float64"), [3], [0]),
    ("a cast through float32", lambda x: x.astype("float32").astype("float64"), [3], [1]),
    ("an element used twice", lambda x: x[np.array([0, 0, 1])], [5, 7, 9], [2, 1, 0]),
    ("remainder by its divisor", lambda y: sg.constant(7.0) % y, [2, -2, 5], [-3, 4, -1]),
]


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize(
    ("dtype", "far"), [("float16", 300), ("bfloat16", 1e20), ("float32", 1e20)]
)
def test_the_slope_of_gelu_is_0_or_1_where_the_square_of_what_it_is_given_overflows(
    dtype, far, approximate
):
    x = sg.placeholder((4,), dtype)
    (g,) = _connected(sg.gradients(sg.nn.gelu(x, approximate=approximate), x))
    given = np.array([-far, 0, 10, far]).astype(x.dtype.numpy)
    assert run_everywhere(Graph([g], [x]), [given]) is None
    (found,) = evaluate_reference(Graph([g], [x]), [given])
    np.testing.assert_array_equal(found.astype("float64"), [0, 0.5, 1, 1])


# From the asymptotic series and log_ndtr'' = -r * (r + x) in 60 digits (mpmath).
_FAR_SLOPES = [
    ("erfcx", 20.0, -0.00140521745345980115, 0.00013999934371059263),
    ("erfcx", 100.0, -5.64104976259931849e-5, 1.12804078022883361e-6),
    ("erfcx", 1e4, -5.64189575084912745e-9, 1.12837913324413883e-12),
    ("log_ndtr", -20.0, 20.0497530685278505, -0.997536738384947836),
    ("log_ndtr", -100.0, 100.009998000999261, -0.999900059950051737),
    ("log_ndtr", -1e4, 10000.000099999998, -0.9999999900000006),
]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("name", "at", "first", "second"), _FAR_SLOPES)
def test_slopes_that_are_differences_of_nearly_equal_numbers_have_their_digits(
    name, at, first, second, dtype
):
    x = sg.placeholder((1,), dtype)
    (slope,) = _connected(sg.gradients(getattr(sg.special, name)(x), x))
    (curvature,) = _connected(sg.gradients(slope, x))
    given = np.array([at]).astype(x.dtype.numpy)
    assert run_everywhere(Graph([slope, curvature], [x]), [given]) is None
    found = evaluate_reference(Graph([slope, curvature], [x]), [given])
    tolerance = 30 * float(sg.finfo(dtype).eps)
    for result, expected in zip(found, [first, second], strict=True):
        np.testing.assert_allclose(result.astype("float64"), [expected], rtol=tolerance)


@pytest.mark.parametrize("reduce", [sg.max, sg.min])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_an_extreme_hands_its_gradient_to_the_nans_on_every_floor(reduce, dtype):
    x = sg.placeholder((3, 37), dtype)
    (g,) = _connected(sg.gradients(reduce(x, axis=1), x))
    given = np.linspace(-1, 1, 3 * 37).reshape(3, 37)
    given[0, [3, 30]] = np.nan
    given[1, 36] = np.nan
    given = given.astype(x.dtype.numpy)
    assert run_everywhere(Graph([g], [x]), [given]) is None
    (found,) = evaluate_reference(Graph([g], [x]), [given])
    np.testing.assert_array_equal(found[:2], np.isnan(given[:2]) / [[2], [1]])
    assert found[2].sum() == 1


@pytest.mark.parametrize(
    ("build", "x", "expected"), [row[1:] for row in _ROWS], ids=[row[0] for row in _ROWS]
)
def test_the_gradient_is(build, x, expected):
    (found,) = _gradient(build, np.array(x, np.float64))
    np.testing.assert_allclose(found, expected, atol=1e-12)


_SECOND = [
    ("prod with a zero", lambda x: x.prod(), [2, 0, 3], [3, 5, 2]),
    ("prod with two zeros", lambda x: x.prod(), [2, 0, 0], [0, 2, 2]),
    ("square as pow at 0", lambda x: x**2, [-3, 0, 3], [2, 2, 2]),
    ("cube as pow at 0", lambda x: x**3, [-1, 0, 1], [-6, 0, 6]),
    ("first power at 0", lambda x: x**1, [0, 2], [0, 0]),
    ("softplus at 0", sg.nn.softplus, [0], [0.25]),
    ("huber at 0", lambda x: sg.nn.huber(x, 0.0, reduction="sum"), [0], [1]),
    ("sqrt", sg.sqrt, [4], [-1 / 32]),
    ("exponent over 0", lambda x: sg.constant(0.0) ** x, [1, 2], [0, 0]),
]


@pytest.mark.parametrize(
    ("build", "x", "expected"), [row[1:] for row in _SECOND], ids=[row[0] for row in _SECOND]
)
def test_the_gradient_of_the_sum_of_the_gradient_is(build, x, expected):
    (found,) = _gradient(build, np.array(x, np.float64), order=2)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_prod_of_unknown_size_with_one_zero():
    x = sg.placeholder((None,), "float64")
    found = _connected(sg.gradients(x.prod(), x))
    (value,) = evaluate_reference(Graph(found, [x]), [np.array([2.0, 0.0, 3.0])])
    np.testing.assert_array_equal(value, [0, 6, 0])


def test_the_mixed_derivative_of_a_power_is_the_same_both_ways_at_an_exponent_of_0():
    x, y = sg.placeholder((4,), "float64"), sg.placeholder((4,), "float64")
    to_x, to_y = _connected(sg.gradients(x**y, [x, y]))
    (both,) = _connected(sg.gradients(to_x, [y]))
    (turned,) = _connected(sg.gradients(to_y, [x]))
    arrays = [np.array([2.0, 0.5, 3.0, 2.0]), np.array([0.0, 0.0, 1.0, 2.5])]
    found, again, first = evaluate_reference(Graph([both, turned, to_x], [x, y]), arrays)
    base, exponent = arrays
    wanted = base ** (exponent - 1) * (1 + exponent * np.log(base))
    np.testing.assert_allclose(found, wanted)
    np.testing.assert_allclose(again, wanted)
    np.testing.assert_allclose(first, exponent * base ** (exponent - 1))


def test_pow_has_a_gradient_to_both_operands():
    to_x, to_y = _gradient(sg.pow, np.array([2.0, -2.0, 0.0]), np.array([3.0, 3.0, 2.0]))
    np.testing.assert_allclose(to_x, [12, 12, 0])
    np.testing.assert_allclose(to_y, [8 * np.log(2), 0, 0])


def test_both_equal_operands_of_maximum_are_not_counted_twice():
    to_x, to_y = _gradient(sg.maximum, np.array([1.0]), np.array([1.0]))
    assert (to_x.tolist(), to_y.tolist()) == ([1.0], [0.0])


def test_a_broadcast_operand_gets_the_sum():
    to_x, to_y = _gradient(sg.add, np.ones((3, 4)), np.ones((3, 1)))
    assert to_x.shape == (3, 4)
    np.testing.assert_array_equal(to_y, np.full((3, 1), 4.0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_gradient_has_the_dtype_of_its_input(dtype):
    x = sg.placeholder((3,), dtype)
    for result in (sg.sum(x.astype("float32") * 2), sg.mean(x), sg.nn.gelu(x), x.max(), x.prod()):
        (found,) = _connected(sg.gradients(result, x))
        assert found.dtype == x.dtype


def test_labels_of_a_loss_get_no_gradient():
    logits, labels = sg.placeholder((2, 3)), sg.placeholder((2,), "int64")
    to_logits, to_labels = sg.gradients(sg.nn.cross_entropy(logits, labels), [logits, labels])
    assert to_logits is not None
    assert to_labels is None
    arrays = [np.zeros((2, 3), np.float32), np.array([0, 2])]
    (value,) = evaluate_reference(Graph(to_logits, [logits, labels]), arrays)
    np.testing.assert_allclose(value, [[-1 / 3, 1 / 6, 1 / 6], [1 / 6, 1 / 6, -1 / 3]], rtol=1e-6)
