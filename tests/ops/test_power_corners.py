"""Powers and their derivatives at special numbers, beside formulas in NumPy and their limits."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.types import Array

_BASES = np.array([0, -0.0, 1, -1, 2, -2, 0.5, -0.5, np.inf, -np.inf, np.nan, 3, -3, 0.7, 1e300])
_EXPONENTS = (0, 1, 2, 3, 4, -1, -2, -3, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 5, 1 / 3)


def _derivatives(x: sg.Tensor, y: sg.Tensor) -> list[sg.Tensor]:
    """Return `x**y`, its gradients, and the derivatives of that to `x` by both."""
    to_x, to_y = sg.gradients(x**y, [x, y])
    return [x**y, to_x, to_y, *sg.gradients(to_x, [x, y])]


def _wanted(x: Array, y: float) -> list[Array]:
    """Return what they are: of a positive `x` also those by `y`, which are 0 elsewhere."""
    # Not NumPy's roots, which are nan of -inf.
    power = np.vectorize(_power, otypes=[float])
    z, lower, lowest = (power(x, y - k) for k in range(3))
    log = np.log(np.where(x > 0, x, 1))
    to_y = np.where((x > 0) & (z != 0), z * log, 0)
    # y * log(x) * x**(y - 1), of which one is inf where another is 0: the power is the greater one
    mixed = lower + np.where(lower == 0, 0, y * lower * log)
    by_x = y * (y - 1) * lowest if y not in (0, 1) else np.zeros_like(x)
    return [z, y * lower if y != 0 else np.zeros_like(x), to_y, by_x, mixed]


def _power(x: float, y: float) -> float:
    if np.isinf(x) and x < 0:
        is_odd = y % 2 == 1
        return (-1.0 if is_odd else 1.0) * float(np.power(np.inf, y))
    return float(np.power(x, y))


@pytest.mark.parametrize("opt_level", [0, 3])
def test_derivatives_of_powers_of_special_numbers_are_those_of_the_formulas(opt_level):
    x, y = (sg.placeholder(_BASES.shape, "float64", name=n) for n in "xy")
    step = sg.compile([x, y], _derivatives(x, y), opt_level=opt_level)
    is_positive = _BASES > 0
    with np.errstate(all="ignore"):
        for exponent in _EXPONENTS:
            found = step(_BASES, np.full_like(_BASES, exponent))
            wanted = _wanted(_BASES, exponent)
            for name, got, right in zip(["z", "x", "y", "xx", "xy"], found, wanted, strict=True):
                shown = is_positive if name == "xy" else np.full(_BASES.shape, True)
                np.testing.assert_allclose(
                    got[shown], right[shown], rtol=1e-13, err_msg=f"{name} at y = {exponent}"
                )


def test_known_exponents_give_the_same():
    x = sg.placeholder(_BASES.shape, "float64", name="x")
    outputs, wanted = [], []
    with np.errstate(all="ignore"):
        for exponent in _EXPONENTS:
            z = x**exponent
            (first,) = sg.gradients(z, [x])
            (second,) = sg.gradients(first, [x], unconnected_gradients="zero")
            outputs += [z, first, second]
            to = _wanted(_BASES, exponent)
            wanted += [to[0], to[1], to[3]]
        for got, right in zip(sg.compile([x], outputs)(_BASES), wanted, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-13)


def test_the_gradient_to_an_exponent_below_0_is_0_at_infinity():
    x, y = sg.placeholder((3,), "float64"), sg.placeholder((3,), "float64")
    to_x, to_y = sg.gradients(x**y, [x, y])
    found = sg.compile([x, y], [to_y, *sg.gradients(to_x, [y]), *sg.gradients(to_y, [y])])
    for got in found(np.full(3, np.inf), np.array([-1.0, -0.5, -2.0])):
        np.testing.assert_array_equal(got, np.zeros(3))


def test_what_is_0_by_underflow_has_the_derivatives_of_what_is_not():
    x, y = sg.placeholder((3,), "float64"), sg.placeholder((3,), "float64")
    to_x, to_y = sg.gradients(x**y, [x, y])
    by_x, by_y = sg.gradients(to_y, [x])[0], sg.gradients(to_x, [y])[0]
    third = sg.gradients(by_y, [x])[0]
    bases, exponents = np.array([1e-200, 1e-300, 5e-200]), np.array([2.0, 1.5, 3.0])
    assert not (bases**exponents).any()
    logs = np.log(bases)
    mixed = bases ** (exponents - 1) * (1 + exponents * logs)
    found = sg.compile([x, y], [by_x, by_y, third])(bases, exponents)
    np.testing.assert_allclose(found[1], mixed, rtol=1e-13)
    np.testing.assert_allclose(found[0], mixed, rtol=5e-3)  # where 1 is lost with x**y
    slope = exponents * (exponents - 1) * logs + 2 * exponents - 1
    np.testing.assert_allclose(found[2], bases ** (exponents - 2) * slope, rtol=5e-3)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_factor_of_0_before_a_power_that_overflows_is_0(dtype):
    limits = np.finfo(dtype)
    bases = np.array([limits.smallest_subnormal, limits.tiny, limits.eps**2, limits.eps, 0.25])
    bases = np.concatenate([bases, [float(limits.tiny) ** 0.5]]).astype(dtype)
    x, y = (sg.placeholder(bases.shape, dtype, name=n) for n in "xy")
    orders = [x**y]
    for _ in range(3):
        orders += sg.gradients(orders[-1], [x])
    known: list[sg.Tensor] = []
    for exponent in (0, 1, 2):
        known.append(x**exponent)
        for _ in range(3):
            known += sg.gradients(known[-1], [x], unconnected_gradients="zero")
    mixed = sg.gradients(orders[1], [y])[0]
    step = sg.compile([x, y], [*orders, *known, mixed])
    for exponent in (0, 1, 2):
        *found, by_y = step(bases, np.full_like(bases, exponent))
        factors = (1, exponent, exponent * (exponent - 1), 0)
        for order, factor in enumerate(factors):
            wanted = (factor * bases ** max(exponent - order, 0)).astype(dtype)
            for got in (found[order], found[4 * (exponent + 1) + order]):
                np.testing.assert_allclose(
                    got, wanted, rtol=4 * limits.eps, err_msg=f"order {order} at y = {exponent}"
                )
        if exponent == 0:
            with np.errstate(over="ignore"):
                has_inverse = np.isfinite(1 / bases)
            np.testing.assert_allclose(
                by_y[has_inverse], 1 / bases[has_inverse], rtol=4 * limits.eps
            )
