"""Norms of numbers far from 1: no square overflows or vanishes, nor does a gradient."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.types import Array

_ROW = np.array([3.0, -4.0, 12.0, 0.0])
_SCALES = {
    "float64": (1e-310, 1e-200, 1e-154, 1e-30, 1.0, 1e30, 1e154, 1e155, 1e200, 1e306),
    "float32": (1e-40, 1e-30, 1e-19, 1.0, 1e19, 1e20, 1e36),
}
_NORMS: dict[str, Callable[[Any], Any]] = {
    "norm": lambda x: sg.linalg.norm(x, axis=-1),
    "vector_norm": lambda x: sg.linalg.vector_norm(x, axis=-1),
    "two axes": lambda x: sg.linalg.vector_norm(sg.reshape(x, (-1, 2, 2)), axis=(1, 2)),
    "matrix_norm": lambda x: sg.linalg.matrix_norm(sg.reshape(x, (-1, 2, 2))),
    "np": lambda x: np.linalg.norm(x, axis=-1),
}


def _derivatives(norm: Any, x: sg.Tensor) -> list[sg.Tensor]:
    """Return norms of rows, their gradients, and the length of the second derivatives by ones."""
    (first,) = sg.gradients(norm, [x])
    (second,) = sg.gradients(first, [x], [sg.ones_like(x)])
    return [norm, first, second]


@pytest.mark.parametrize("dtype", _SCALES)
@pytest.mark.parametrize("name", _NORMS)
def test_norms_and_their_gradients_are_right_up_to_the_limits(name, dtype):
    given = np.outer(_SCALES[dtype], _ROW).astype(dtype)
    x = sg.placeholder(given.shape, dtype)
    found, gradient, second = sg.compile([x], _derivatives(_NORMS[name](x), x))(given)
    exact = given.astype("float64")
    scales = np.abs(exact).max(axis=1)
    unit = exact / scales[:, None]
    lengths = np.sqrt((unit**2).sum(axis=1))
    rtol = 1e-6 if dtype == "float32" else 1e-14
    tiny = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(found, lengths * scales, rtol=rtol, atol=tiny)
    directions = unit / lengths[:, None]
    np.testing.assert_allclose(gradient, directions, rtol=rtol, atol=1e-7)
    with np.errstate(over="ignore"):
        wanted = (
            (1 - directions * directions.sum(axis=1)[:, None]) / lengths[:, None] / scales[:, None]
        )
    fits = np.abs(wanted).max(axis=1) < np.finfo(dtype).max / 4
    np.testing.assert_allclose(
        second[fits], wanted[fits], rtol=1e-5 if dtype == "float32" else 1e-12
    )


@pytest.mark.parametrize("scale", [1e-295, 1e-240, 1e-160, 1.0, 1e77, 1e78, 1e160, 1e231, 1e300])
def test_second_derivatives_are_right_between_the_scales(scale):
    x = sg.placeholder((4,), "float64")
    (gradient,) = sg.gradients(sg.linalg.norm(x), [x])
    found = sg.compile([x], sg.jacobian(gradient, x))(_ROW * scale)
    unit = _ROW / np.linalg.norm(_ROW)
    wanted = (np.eye(4) - np.outer(unit, unit)) / np.linalg.norm(_ROW)
    np.testing.assert_allclose(found * scale, wanted, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("order", [1.5, 3, 10, 0.5, -1, -3])
def test_other_powers_do_not_overflow_either(order):
    given = np.outer([1e-300, 1e-120, 1.0, 1e120, 1e300], [3.0, -4.0, 12.0])
    x = sg.placeholder(given.shape, "float64")
    norm = sg.linalg.vector_norm(x, axis=1, ord=order)
    found, gradient = sg.compile([x], [norm, *sg.gradients(norm, [x])])(given)
    length = (np.abs(_ROW[:3]) ** order).sum() ** (1 / order)
    np.testing.assert_allclose(found, length * given[:, 0] / 3, rtol=1e-14)
    slope = np.sign(_ROW[:3]) * (np.abs(_ROW[:3]) / length) ** (order - 1)
    np.testing.assert_allclose(gradient, np.broadcast_to(slope, given.shape), rtol=1e-13)


def test_norms_of_complex_numbers_are_scaled_too():
    given = np.array([[3e200 + 4e200j, 0], [3e-200j, -4e-200], [3, 4j], [0, 0]])
    z = sg.placeholder(given.shape, "complex128")
    norm = sg.linalg.vector_norm(z, axis=1)
    found, gradient = sg.compile([z], [norm, *sg.gradients(norm, [z])])(given)
    np.testing.assert_allclose(found, [5e200, 5e-200, 5, 0], rtol=1e-15)
    (usual,) = sg.gradients(sg.sqrt(sg.sum(sg.real(z * sg.conj(z)), axis=1)), [z])
    near = np.array([[3 + 4j, 0], [3j, -4], [3, 4j], [1, 0]])
    wanted = sg.compile([z], usual)(near)
    np.testing.assert_allclose(gradient[:3], wanted[:3], rtol=1e-14)
    np.testing.assert_array_equal(gradient[3], 0)


def _special(row: Array) -> tuple[float, Array]:
    x = sg.placeholder(row.shape, "float64")
    norm = sg.linalg.norm(x)
    found, gradient = sg.compile([x], [norm, *sg.gradients(norm, [x])])(row)
    return float(found), gradient


def test_zeros_infinities_and_nothing():
    found, gradient = _special(np.zeros(3))
    assert found == 0
    np.testing.assert_array_equal(gradient, np.zeros(3))
    assert _special(np.array([1.0, -np.inf]))[0] == np.inf
    assert np.isnan(_special(np.array([1.0, np.nan]))[0])
    assert _special(np.zeros(0))[0] == 0
    x = sg.placeholder((None,), "float64")
    step = sg.compile([x], [sg.linalg.vector_norm(x, ord=p) for p in (2, 3, 0.5)])
    for count in (0, 2):
        given = np.full(count, 1e200)
        wanted = [1e200 * count ** (1 / p) if count else 0 for p in (2, 3, 0.5)]
        np.testing.assert_allclose(step(given), wanted, rtol=1e-14)


def test_ordinary_norms_are_within_two_roundings():
    given = np.random.default_rng(0).standard_normal((5, 33))
    x = sg.placeholder(given.shape, "float64")
    found = sg.compile([x], sg.linalg.norm(x, axis=1))(given)
    squares = [sum(Fraction(float(v)) ** 2 for v in row) for row in given]
    np.testing.assert_allclose(found, [float(s) ** 0.5 for s in squares], rtol=4e-16)


@pytest.mark.parametrize("order", [1.2, 1.5])
@pytest.mark.parametrize("row", [[1e5, 1e-35], [1e6, 1e-38]])
def test_a_slope_beside_a_large_number_is_a_root_of_no_subnormal(order, row):
    x = sg.placeholder((2,), "float32")
    (gradient,) = sg.gradients(sg.linalg.vector_norm(x, ord=order), [x])
    given = np.array(row, "float32")
    wide = given.astype("float64")
    wanted = (wide / (wide**order).sum() ** (1 / order)) ** (order - 1)
    np.testing.assert_allclose(sg.compile([x], gradient)(given), wanted, rtol=1e-5)


def test_orders_near_0_have_a_scale_that_is_a_float():
    x = sg.constant([2.0, 3.0])
    assert sg.run(sg.linalg.vector_norm(x, ord=-1e-3)).shape == ()
