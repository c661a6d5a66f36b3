"""Incomplete gamma functions, regularized, with their derivatives by both arguments.

The formulas are in `incomplete_gamma_formula.py`; here are the records, and what NumPy says: the
power series of DLMF 8.7.1 and 8.11.4 and the continued fraction of DLMF 8.9.2, until they stand
still.
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import body_of_formula
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops import incomplete_gamma_formula as formulas
from symgrad.graph.ops.arithmetic import divide, multiply, negative, subtract
from symgrad.graph.ops.elementwise import infer_same, is_float, rounded_once
from symgrad.graph.ops.gamma import digamma, digamma_reference, gammaln_reference
from symgrad.graph.ops.marks import prevent_gradient
from symgrad.graph.ops.transcendental import log
from symgrad.graph.types import Array

_SECOND = "the second derivative of the incomplete gamma functions by a is not known"


def gammainc(a: Tensor, x: Tensor) -> Tensor:
    """Return P(a, x) of floats of one type."""
    return apply(gammainc_op, a, x)


def gammaincc(a: Tensor, x: Tensor) -> Tensor:
    """Return Q(a, x) = 1 - P(a, x) of floats of one type."""
    return apply(gammaincc_op, a, x)


def gammainc_derivative(a: Tensor, x: Tensor) -> Tensor:
    """Return the derivative of P(a, x) by `a`, which is never positive."""
    return apply(gammainc_derivative_op, prevent_gradient(a, _SECOND), x)


def gamma_draw_derivative(a: Tensor, x: Tensor) -> Tensor:
    """Return the derivative by `a` of a draw `x` of the gamma distribution of shape `a`.

    It is that of the x which holds P(a, x), -dP/da / (dP/dx): the implicit gradient of Figurnov,
    Mohamed and Mnih (2018). The densities cancel, so nothing over- or underflows. It has no
    gradient itself.
    """
    a, x = prevent_gradient(a, _SECOND), prevent_gradient(x, _SECOND)
    return apply(gamma_draw_derivative_op, a, x)


def gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """Return the derivative of P(a, x) by x."""
    return apply(gamma_density_op, a, x)


def _gammainc_grad(node: Node, g: Tensor) -> Grads:
    a, x = node.inputs
    return multiply(g, gammainc_derivative(a, x)), multiply(g, gamma_density(a, x))


def _gammaincc_grad(node: Node, g: Tensor) -> Grads:
    return _gammainc_grad(node, negative(g))


def _derivative_grad(node: Node, g: Tensor) -> Grads:
    a, x = node.inputs
    slope = subtract(log(x), digamma(a))
    # What arrives at `a` is refused there.
    return g, multiply(g, multiply(gamma_density(a, x), slope))


def _density_grad(node: Node, g: Tensor) -> Grads:
    a, x = node.inputs
    g = multiply(g, node.output)
    to_a = multiply(g, subtract(log(x), digamma(a)))
    return to_a, multiply(g, subtract(divide(subtract(a, 1), x), 1))


# ------------------------------------------------------------------------------------- references


def _parts(a: Array, x: Array) -> tuple[Array, Array, Array, Array]:
    """Return where P is summed, the logarithm of the density, and J and J1 of P or of Q."""
    a, x = np.broadcast_arrays(a.astype(np.float64), x.astype(np.float64))
    below = (x <= 1) | (x < a + 1)
    usual = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    safe_a, safe_x = np.where(usual, a, 1.0), np.where(usual, x, 1.0)
    sums = _sums(safe_a, np.where(below, safe_x, 0.5))
    fractions = _fraction(safe_a, np.where(below, safe_a + 2, safe_x))
    plain, moment = (np.where(below, s, f) for s, f in zip(sums, fractions, strict=True))
    return below, safe_a * np.log(safe_x) - safe_x - gammaln_reference(safe_a), plain, moment


def _sums(a: Array, x: Array) -> tuple[Array, Array]:
    """Return the sum of x**k / (a * ... * (a+k)), and minus its derivative by a."""
    term, harmonic = 1 / a, 1 / a
    total, moment = term, term * harmonic
    for k in range(1, 1_000_000):
        term = term * x / (a + k)
        harmonic = harmonic + 1 / (a + k)
        total, moment = total + term, moment + term * harmonic
        if not np.any(term * harmonic > 1e-18 * moment):
            break
    return total, moment


def _fraction(a: Array, x: Array) -> tuple[Array, Array]:
    """Return the continued fraction of Q, and its derivative by a: a step of 1e-30 along i."""
    z = a + 1e-30j
    b = x + 1 - z
    c = np.full_like(z, 1e300)
    d = 1 / b
    h = d
    for i in range(1, 100_000):
        factor = -i * (i - z)
        b = b + 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        h = h * (c * d)
        if not np.any(np.abs(c * d - 1) > 1e-15):
            break
    return h.real, h.imag / 1e-30


def _limits(result: Array, a: Array, x: Array, at_start: float, at_end: float) -> Array:
    is_end, is_start = np.isposinf(x) | (a == 0), (x == 0) | np.isposinf(a)
    result = np.where(is_end, at_end, np.where(is_start, at_start, result))
    return np.where((a >= 0) & (x >= 0) & ~(is_end & is_start), result, np.nan)


def _lower(a: Array, x: Array) -> Array:
    below, density, plain, _ = _parts(a, x)
    part = np.exp(density) * plain
    return _limits(np.where(below, part, 1 - part), a, x, 0, 1)


def _upper(a: Array, x: Array) -> Array:
    below, density, plain, _ = _parts(a, x)
    part = np.exp(density) * plain
    return _limits(np.where(below, 1 - part, part), a, x, 1, 0)


def _ratio(a: Array, x: Array) -> tuple[Array, Array]:
    """Return dP/da over the density x**a * e**-x / gamma(a), and the logarithm of that."""
    below, density, plain, moment = _parts(a, x)
    slope = np.log(x.astype(np.float64)) - digamma_reference(a)
    return np.where(below, slope * plain - moment, -(slope * plain + moment)), density


def _derivative(a: Array, x: Array) -> Array:
    ratio, density = _ratio(a, x)
    return _flat(ratio * np.exp(density), a, x)


def _draw_derivative(a: Array, x: Array) -> Array:
    ratio, _ = _ratio(a, x)
    return _flat(-x * ratio, a, x)


def _flat(result: Array, a: Array, x: Array) -> Array:
    """Return a derivative by a, which is 0 at the ends of x; that at a = 0 is not computed here."""
    result = np.where((x == 0) | np.isposinf(x) | np.isposinf(a), 0, result)
    is_both = ((a == 0) & (x == 0)) | (np.isposinf(a) & np.isposinf(x))
    return np.where((a >= 0) & (x >= 0) & ~is_both, result, np.nan)


def _density_reference(a: Array, x: Array) -> Array:
    a, x = a.astype(np.float64), x.astype(np.float64)
    value = np.exp((a - 1) * np.log(x) - x - gammaln_reference(a))
    at_zero = np.where(a > 1, 0, np.where(a == 1, 1, math.inf))
    value = np.where(np.isposinf(x) | (a == 0), 0, np.where(x == 0, at_zero, value))
    return np.where((a >= 0) & (x >= 0), value, np.nan)


# ---------------------------------------------------------------------------------------- records

gammainc_op = elementwise(
    "gammainc",
    infer=infer_same("gammainc", is_float),
    reference=rounded_once(_lower),
    grad=_gammainc_grad,
    body=body_of_formula(formulas.lower_formula),
)

gammaincc_op = elementwise(
    "gammaincc",
    infer=infer_same("gammaincc", is_float),
    reference=rounded_once(_upper),
    grad=_gammaincc_grad,
    body=body_of_formula(formulas.upper_formula),
)

gammainc_derivative_op = elementwise(
    "gammainc_derivative",
    infer=infer_same("gammainc_derivative", is_float),
    reference=rounded_once(_derivative),
    grad=_derivative_grad,
    body=body_of_formula(formulas.derivative_formula),
)

gamma_draw_derivative_op = elementwise(
    "gamma_draw_derivative",
    infer=infer_same("gamma_draw_derivative", is_float),
    reference=rounded_once(_draw_derivative),
    grad=lambda _node, g: (g, g),  # refused at both operands
    body=body_of_formula(formulas.draw_derivative_formula),
)

gamma_density_op = elementwise(
    "gamma_density",
    infer=infer_same("gamma_density", is_float),
    reference=rounded_once(_density_reference),
    grad=_density_grad,
    body=body_of_formula(formulas.density_formula),
)
