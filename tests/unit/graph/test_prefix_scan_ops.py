"""Cumulative functions where it is not plain what is right: ties, zeros, infinities, dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, ShapeError
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array
from tests.support.control_programs import gradient, run
from tests.support.evaluators import EVALUATORS

INF, NAN = np.inf, np.nan
every_evaluator = pytest.mark.parametrize("evaluator", EVALUATORS)


def evaluated(evaluator: str, outputs: list[Tensor], x: Tensor, values: list[float]) -> list[Array]:
    array = np.array(values, x.dtype.numpy)
    return EVALUATORS[evaluator](Graph(outputs, [x]), [array])


# ------------------------------------------------------------------------------------ gradients


def gradient_of_cumprod(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return the gradient from the definition: of each product, that of the others."""
    result = np.zeros_like(x)
    for i in range(len(x)):
        for j in range(i, len(x)):
            result[i] += g[j] * np.prod(np.delete(x[: j + 1], i))
    return result


ZEROS = [
    [0.0, 2.0, 3.0, 4.0],
    [2.0, 0.0, 3.0, 4.0],
    [2.0, 3.0, 4.0, 0.0],
    [2.0, 0.0, 3.0, 0.0],
    [0.0, 0.0, 0.0, 5.0],
]


@every_evaluator
@pytest.mark.parametrize("values", ZEROS)
def test_the_gradient_of_cumprod_is_right_with_zeros(values, evaluator):
    x = sg.placeholder((4,), "float64")
    weights = np.array([1.0, -2.0, 0.5, 3.0])
    g = gradient(sg.cumprod(x) * weights, x)
    (found,) = evaluated(evaluator, [g], x, values)
    np.testing.assert_array_equal(found, gradient_of_cumprod(np.array(values), weights))


@pytest.mark.parametrize("values", ZEROS)
def test_the_second_derivative_of_cumprod_is_right_with_zeros(values):
    x = sg.placeholder((4,), "float64")
    hessian = run([sg.jacobian(gradient(sg.cumprod(x), x), x)], {x: values})[0]
    wanted = np.zeros((4, 4))
    for i, j in np.ndindex(4, 4):
        if i != j:
            prefixes = [np.delete(values[: n + 1], [i, j]) for n in range(max(i, j), 4)]
            wanted[i, j] = sum(map(np.prod, prefixes))
    np.testing.assert_array_equal(hessian, wanted)


def test_products_of_what_has_no_gradient_do_not_overflow_in_it():
    x = sg.placeholder((64,))
    g = gradient(sg.cumprod(x)[:2], x)
    values = np.array([1e-30, 1e-30, *[1e30, 1e-30] * 31], np.float32)
    np.testing.assert_array_equal(sg.run(g, {x: values}), [1, values[0], *[0] * 62])


@every_evaluator
@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1.0, 3.0, 3.0, 2.0, 3.0], [1, 16 + 8 + 4 + 2, 0, 0, 0]),
        ([2.0, 2.0, 1.0, 5.0, 5.0], [1 + 2 + 4, 0, 0, 8 + 16, 0]),
        ([-INF, -INF, 0.0, -1.0, INF], [1 + 2, 0, 4 + 8, 0, 16]),
        ([1.0, NAN, 2.0, NAN, 3.0], [1, 2 + 4 + 8 + 16, 0, 0, 0]),
        ([NAN, 1.0, 2.0, 3.0, 4.0], [31, 0, 0, 0, 0]),
        ([0.0, -0.0, 0.0, -0.0, 0.0], [31, 0, 0, 0, 0]),
    ],
)
def test_the_first_element_that_holds_the_maximum_has_the_gradient(values, wanted, evaluator):
    x = sg.placeholder((5,))
    weights = np.array([1, 2, 4, 8, 16], np.float32)
    outputs = [gradient(sg.cummax(x) * weights, x), gradient(sg.cummin(-x) * weights, x)]
    found = evaluated(evaluator, outputs, x, values)
    np.testing.assert_array_equal(found[0], wanted)
    np.testing.assert_array_equal(found[1], -np.array(wanted))


def test_an_infinite_gradient_of_a_maximum_stays_with_its_element():
    x = sg.placeholder((4,))
    g = gradient(sg.cummax(x) * np.array([1, 1, INF, 1], np.float32), x)
    (found,) = run([g], {x: np.array([1, 0, 2, 3], np.float32)})
    np.testing.assert_array_equal(found, [2, 0, INF, 1])


# -------------------------------------------------------------------------------- special values


@every_evaluator
def test_what_is_not_finite_goes_on(evaluator):
    x = sg.placeholder((6,), "float64")
    outputs = [sg.cumsum(x), sg.cumprod(x), sg.cummax(x), sg.cummin(x), sg.logcumsumexp(x)]
    values = [1.0, INF, 2.0, -INF, NAN, 3.0]
    found = evaluated(evaluator, outputs, x, values)
    with np.errstate(all="ignore"):
        for result, ufunc in zip(
            found, (np.add, np.multiply, np.maximum, np.minimum, np.logaddexp), strict=True
        ):
            np.testing.assert_array_equal(result, ufunc.accumulate(np.array(values)))


@every_evaluator
def test_the_sum_of_negative_zeros_is_one(evaluator):
    x = sg.placeholder((20,))
    (found,) = evaluated(evaluator, [sg.cumsum(x)], x, [-0.0] * 20)
    assert np.signbit(found).all()


@every_evaluator
def test_logcumsumexp_is_stable_at_large_values_and_minus_infinity(evaluator):
    x = sg.placeholder((6,), "float64")
    y = sg.logcumsumexp(x)
    values = [-INF, -INF, -1e5, 1e5, 1e5, -INF]
    found, g = evaluated(evaluator, [y, gradient(y, x)], x, values)
    wanted = [-INF, -INF, -1e5, 1e5, 1e5 + np.log(2), 1e5 + np.log(2)]
    np.testing.assert_allclose(found, wanted, rtol=1e-15)
    np.testing.assert_allclose(g, [0, 0, 1, 2, 1, 0], atol=1e-9)


def test_logcumsumexp_of_many_elements_is_as_exact_as_one():
    x = sg.placeholder((3000,))
    values = np.random.default_rng(0).normal(scale=5, size=3000).astype(np.float32)
    found = sg.run(sg.logcumsumexp(x), {x: values})
    wanted = np.logaddexp.accumulate(values.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


# --------------------------------------------------------------------------- arguments and dtypes


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [("bool", "int64"), ("int8", "int64"), ("uint8", "uint64"), ("float16", "float16")],
)
def test_small_integers_are_summed_in_64_bits(dtype, wanted):
    x = sg.placeholder((3,), dtype)
    for function in (sg.cumsum, sg.cumprod, sg.cumulative_sum, sg.cumulative_prod):
        assert function(x).dtype.name == wanted
        assert function(x, dtype="int32").dtype.name == "int32"
    if dtype != "bool":
        assert sg.cummax(x).dtype.name == dtype


def test_numpys_functions_build_graph():
    x = sg.placeholder((2, 3), name="x")
    value = np.array([[3.0, 1.0, 2.0], [0.5, 2.0, 1.5]], np.float32)
    calls: list[Callable[[Any], Any]] = [
        lambda a: np.cumsum(a),
        lambda a: np.cumprod(a, axis=1),
        lambda a: np.cumulative_sum(a, axis=0, include_initial=True),
        lambda a: np.cumulative_prod(a, axis=-1),
        lambda a: np.add.accumulate(a),
        lambda a: np.multiply.accumulate(a, axis=1),
        lambda a: np.maximum.accumulate(a, axis=1),
        lambda a: np.minimum.accumulate(a),
        lambda a: np.logaddexp.accumulate(a, axis=1),
        lambda a: np.add.accumulate(a, axis=1, dtype="float64"),
    ]
    for result, call in zip(run([call(x) for call in calls], {x: value}), calls, strict=True):
        np.testing.assert_allclose(result, call(value), rtol=1e-6)
    with pytest.raises(TypeError):
        np.add.accumulate(x, out=np.zeros((2, 3)))
    with pytest.raises(TypeError):
        np.maximum.accumulate(x, dtype="float64")


def test_a_scalar_is_one_element_as_numpy_has_it():
    x = sg.placeholder((), "float64")
    found = run([sg.cumsum(x), sg.cumulative_sum(x, include_initial=True)], {x: 2.0})
    assert [f.tolist() for f in found] == [[2.0], [0.0, 2.0]]


X = sg.placeholder((3, 4), name="x")
HALF: Any = 0.5
NONE: Any = None


@pytest.mark.parametrize(
    ("call", "error", "wrong"),
    [
        (lambda: sg.cumulative_sum(X), ShapeError,
         r"cumulative_sum: axis: None will do for one dimension only, x: f32\[3, 4\] has 2"),
        (lambda: sg.cumulative_prod(X, axis=2), ShapeError, "cumulative_prod: axis 2 is not an"),
        (lambda: sg.cumsum(X, axis=-3), ShapeError, "cumsum: axis -3 is not an axis"),
        (lambda: sg.cumprod(X, axis=HALF), DTypeError, "cumprod: axis must be an int"),
        (lambda: sg.cummax(X, 2), ShapeError, "cummax: axis 2 is not an axis"),
        (lambda: sg.cummin(X[0, 0]), ShapeError, "cummin: axis -1 is not an axis"),
        (lambda: sg.logcumsumexp(X, NONE), DTypeError, "logcumsumexp: axis must be an int"),
        (lambda: sg.cummax(X > 0), DTypeError, "cummax: x: bool"),
    ],
)  # fmt: skip
def test_what_cannot_be_scanned_is_refused_at_the_line_of_the_user(call, error, wrong):
    with pytest.raises(error, match=wrong) as caught:
        call()
    assert "test_prefix_scan_ops.py" in str(caught.value)
