"""Gamma function: its logarithm and the logarithmic derivative, digamma.

Three ranges of |x| and one reflection, chosen by select. Near 0 the recurrence takes x to x + 1;
from about 1/2 to 3 the zeros of the function are multiplied by a quotient of polynomials; beyond,
the tail of Stirling's series is one polynomial in 1/x**2 (DLMF 5.11.1, 5.11.2). For negative x that
is reflected (DLMF 5.5.3, 5.5.4). Coefficients are ours (`gamma_tables.py`).
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, body_of_formula, polynomial
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops import gamma_tables as table
from symgrad.graph.ops.arithmetic import multiply
from symgrad.graph.ops.elementwise import infer_same, is_float, rounded_once
from symgrad.graph.ops.polygamma import polygamma_of_order
from symgrad.graph.types import Array

# The zero of digamma, in two parts for each format.
DIGAMMA_ZERO = {
    "f32": (1.4616321325302124, 1.243815006546356e-08),
    "f64": (1.4616321449683622, 9.549995429965697e-17),
}
_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
# From here on Stirling's series; below, the quotients of polynomials.
_LARGE = 3.0


def gammaln(x: Tensor) -> Tensor:
    """Return `log(|gamma(x)|)` of floats."""
    return apply(gammaln_op, x)


def gammaln_above(y: FloatExpr) -> FloatExpr:
    """Return the log-gamma function for y > -0.3, and nan for nan."""
    is_small, is_large = y < 0.7, y >= _LARGE
    log = abs(y).log()
    z = is_small.choose(y + 1.0, y)
    middle = polynomial(z, table.GAMMALN_MIDDLE) / polynomial(z, table.GAMMALN_MIDDLE_BELOW)
    # Times (z - 1) * (z - 2), written so that small y stay exact.
    middle = middle * is_small.choose(y, y - 1.0) * is_small.choose(y - 1.0, y - 2.0)
    middle = is_small.choose(middle - log, middle)
    large = (y - 0.5) * (log - 1.0) + ((_HALF_LOG_2_PI - 0.5) + stirling_tail(y))
    return is_large.choose(large, middle)


def stirling_tail(y: FloatExpr) -> FloatExpr:
    """Return Binet's function, what gammaln(y) for y >= 3 has beyond Stirling's formula."""
    inverse = 1.0 / y
    return polynomial(inverse * inverse, table.GAMMALN_TAIL) * inverse


def _gammaln_formula(x: FloatExpr) -> FloatExpr:
    is_reflected = x <= -0.3
    size = abs(x)
    result = gammaln_above(is_reflected.choose(size, x))
    # log(pi / |x * sin(pi*x)|) - gammaln(|x|); the distance from the nearest integer is exact.
    distance = abs(x - x.round())
    sine = distance * polynomial(distance * distance, table.SIN_PI)
    reflected = (math.pi / (size * sine)).log() - result
    is_pole = is_reflected & ~(distance > 0.0)
    result = is_reflected.choose(reflected, result)
    return is_pole.choose(x.like(math.inf), result)


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x) if x < 1e305 else x * (math.log(x) - 1)


def gammaln_reference(x: Array) -> Array:
    """Return `gammaln` in float64, as the C library computes it."""
    return np.asarray(np.vectorize(_lgamma, otypes=[np.float64])(x))


def _gammaln_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, digamma(node.inputs[0])),)


gammaln_op = elementwise(
    "gammaln",
    infer=infer_same("gammaln", is_float),
    reference=rounded_once(gammaln_reference),
    grad=_gammaln_grad,
    body=body_of_formula(_gammaln_formula),
)


def digamma(x: Tensor) -> Tensor:
    """Return the derivative of `gammaln` of floats."""
    return apply(digamma_op, x)


def digamma_above(y: FloatExpr) -> FloatExpr:
    """Return the digamma function for y > -1/2."""
    is_small, is_large = y < 0.5, y >= _LARGE
    inverse = 1.0 / y
    z = is_small.choose(y + 1.0, y)
    quotient = polynomial(z, table.DIGAMMA_MIDDLE) / polynomial(z, table.DIGAMMA_MIDDLE_BELOW)
    high, low = DIGAMMA_ZERO[y.short]
    middle = ((z - high) - low) * quotient
    middle = is_small.choose(middle - inverse, middle)
    square = inverse * inverse
    tail = 0.5 * inverse + square * polynomial(square, table.DIGAMMA_TAIL)
    return is_large.choose(abs(y).log() - tail, middle)


def digamma_gap(x: FloatExpr, d: FloatExpr) -> FloatExpr:
    """Return digamma(x + d) - digamma(x) for x > 0, d >= 0, also where d is far below x.

    By the recurrence it is a sum of quotients and the gap at x + 3, where the logarithms and the
    powers of the series are subtracted on paper; so all terms have one sign.
    """
    y = x + d
    steps = (d / y) / x + d / ((x + 1.0) * (y + 1.0)) + d / ((x + 2.0) * (y + 2.0))
    low, high = 1.0 / (x + 3.0), 1.0 / (y + 3.0)
    inverse = d * low * high  # low - high
    at_low, at_high = low * low, high * high
    # The divided difference of s * DIGAMMA_TAIL(s), by Horner's rule and its derivative's.
    coefficients = (0.0, *table.DIGAMMA_TAIL[x.short])
    total, quotient = x.like(coefficients[-1]), x.like(0.0)
    for coefficient in reversed(coefficients[:-1]):
        quotient = quotient * at_high + total
        total = total * at_low + coefficient
    tail = inverse * (0.5 + (low + high) * quotient)
    return steps + ((d * low).call("log1p") + tail)


def _digamma_formula(x: FloatExpr) -> FloatExpr:
    is_reflected = x <= -0.5
    size = abs(x)
    result = digamma_above(is_reflected.choose(size, x))
    # digamma(|x|) + 1/|x| - pi * cot(pi*x), where the tangent is one of the nearest integer's
    # distance, which is exact. The factor pi is in the table: a product with it would round twice
    # more, of the largest term where they cancel.
    distance = x - x.round()
    square = distance * distance
    cotangent = polynomial(square, table.COS_PI) / (distance * polynomial(square, table.SINC_PI))
    reflected = (result + 1.0 / size) - cotangent
    is_pole = is_reflected & ~(abs(distance) > 0.0)
    result = is_reflected.choose(reflected, result)
    return is_pole.choose(x.like(math.nan), result)


def digamma_reference(x: Array) -> Array:
    """Return digamma in float64: the recurrence up to 10, then its asymptotic series."""
    x = np.asarray(x, np.float64)
    distance = x - np.rint(x)
    is_negative = x < 0
    size = np.abs(x)
    total = np.zeros_like(size)
    for _ in range(10):
        step = size < 10
        total = total - np.where(step, 1 / size, 0)
        size = np.where(step, size + 1, size)
    square = 1 / (size * size)
    # The Bernoulli numbers B(2k) / (2k), DLMF 5.11.2.
    series = horner_of(square, _DIGAMMA_SERIES) * square
    total = total + np.log(size) - 0.5 / size - series
    reflected = total + 1 / np.abs(x) - np.pi / np.tan(np.pi * distance)
    reflected = np.where(distance == 0, np.nan, reflected)
    at_zero = np.where(np.signbit(x), np.inf, -np.inf)
    return np.where(x == 0, at_zero, np.where(is_negative, reflected, total))


_DIGAMMA_SERIES = (
    1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160,
)  # fmt: skip


def horner_of(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Evaluate a polynomial of arrays; coefficients in order of rising powers."""
    return np.asarray(np.polynomial.polynomial.polyval(x, np.array(coefficients)))


digamma_op = elementwise(
    "digamma",
    infer=infer_same("digamma", is_float),
    reference=rounded_once(digamma_reference),
    grad=lambda node, g: (multiply(g, polygamma_of_order(1, node.inputs[0])),),
    body=body_of_formula(_digamma_formula),
)
