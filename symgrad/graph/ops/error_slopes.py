"""Derivatives of error functions, as functions of their own: the normal curve, repeated integrals.

A derivative that is composed of a function and its operand cancels: 2x * erfcx(x) is 2 / sqrt(pi)
to a rounding for large x. The n-th derivative of erfcx is (-2)**n * n! times the n-th repeated
integral of erfc over e**-x**2 (DLMF 7.18.5), of which two are polynomials as erfcx is one, and the
others follow by recurrence (DLMF 7.18.7). A square in an exponential is not rounded, and slopes of
quantiles are made of the probability, which is exact, rather than of e**(y**2 / 2).
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, body_of_formula, polynomial
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define, elementwise
from symgrad.graph.ops import error_tables as table
from symgrad.graph.ops import slope_tables as slopes
from symgrad.graph.ops.arithmetic import multiply
from symgrad.graph.ops.elementwise import infer_same, is_float, rounded_once, widen_halves
from symgrad.graph.structures import Map
from symgrad.graph.types import Array, TensorType

_SQRT_PI = math.sqrt(math.pi)
_SQRT_HALF = math.sqrt(0.5)
# Beyond, e**-x**2 is 0 in either format.
_FAR = 60.0
# Times this less the same less it, a number is rounded to half of its bits.
_HALF_OF = {"f32": 2.0**12 + 1, "f64": 2.0**27 + 1}
# From where on the ratio of an integral to the one before is a continued fraction, of how many
# terms; nearer, their recurrence has most digits.
_FRACTION = {"f32": (3.0, 9), "f64": (5.0, 18)}


def bell(x: Tensor, factor: float) -> Tensor:
    """Return e**(factor * x**2) of floats; `factor` is a negative power of 2, or -1."""
    return apply(bell_op, x, factor=factor)


def erfc_integral(x: Tensor, order: int) -> Tensor:
    """Return e**x**2 times the repeated integral of erfc of `order` >= 1."""
    return apply(erfc_integral_op, x, order=order)


def erfinv_slope(x: Tensor, y: Tensor) -> Tensor:
    """Return the slope of erfinv at `x`, where it is `y`."""
    return apply(erfinv_slope_op, x, y)


def ndtri_slope(p: Tensor, y: Tensor) -> Tensor:
    """Return the slope of ndtri at `p`, where it is `y`."""
    return apply(ndtri_slope_op, p, y)


# --------------------------------------------------------------------------------------- formulas


def scaled_erfc(x: FloatExpr) -> FloatExpr:
    """Return e**x**2 * erfc(x) for x >= 0."""
    return 0.5 * polynomial(_place(x), table.ERFCX) / (0.5 + x)


def _place(x: FloatExpr) -> FloatExpr:
    t = (x - 3.0) / (x + 3.0)
    return x.equals(math.inf).choose(x.like(1.0), t)


def exp_of_square(x: FloatExpr, factor: float) -> FloatExpr:
    """Return e**(factor * x**2) for x >= 0 as if x**2 were exact; `factor` is a power of 2."""
    x = x.least(_FAR)
    coarse = (x * 16.0).round() * (1.0 / 16.0)
    fine = (x - coarse) * (x + coarse)
    return (coarse * coarse * factor).exp() * (fine * factor).exp()


def erfcx_formula(x: FloatExpr) -> FloatExpr:
    """Return e**x**2 * erfc(x) of an element."""
    size = abs(x)
    above = scaled_erfc(size)
    return (x < 0.0).choose(2.0 * exp_of_square(size, 1.0) - above, above)


def _bell_formula(factor: float, x: FloatExpr) -> FloatExpr:
    x = x.clamp(-_FAR, _FAR)
    # What x * x is rounded by, from the halves of x (Dekker 1971).
    coarse = x * _HALF_OF[x.short]
    coarse = coarse - (coarse - x)
    fine = x - coarse
    square = x * x
    rest = ((coarse * coarse - square) + (coarse + coarse) * fine) + fine * fine
    return (square * factor).exp() * (1.0 + rest * factor)


def _integral_formula(order: int, x: FloatExpr) -> FloatExpr:
    size = abs(x)
    share = 0.5 / (0.5 + size)
    above = [polynomial(_place(size), slopes.ERFC_INTEGRAL) * share * share]
    above.append(polynomial(_place(size), slopes.ERFC_INTEGRAL_2) * share * share * share)
    # Below 0 the recurrence is a sum of what is positive.
    integrals = [erfcx_formula(x), 1.0 / _SQRT_PI - x * erfcx_formula(x)]
    integrals[1] = (x < 0.0).choose(integrals[1], above[0])
    start, terms = _FRACTION[x.short]
    for k in range(2, order + 1):
        found = (integrals[-2] - (x + x) * integrals[-1]) * (0.5 / k)
        if k == 2:
            found = (x < 0.0).choose(found, above[1])
        else:
            far = x.greatest(start)
            found = (x < start).choose(found, integrals[-1] * _ratio(far, k, terms))
        integrals.append(found)
    return integrals[order]


def _ratio(x: FloatExpr, order: int, terms: int) -> FloatExpr:
    """Return an integral over the one before, the continued fraction of their recurrence."""
    last = order + terms
    ratio = 1.0 / (x + (x * x + 2.0 * (last + 1)).sqrt())
    for k in range(last, order, -1):
        ratio = 1.0 / (x + x + (2.0 * k) * ratio)
    return ratio


def _erfinv_slope_formula(x: FloatExpr, y: FloatExpr) -> FloatExpr:
    rest = 1.0 - abs(x)
    slope = 0.5 * _SQRT_PI * scaled_erfc(abs(y)) / rest
    return rest.equals(0.0).choose(x.like(math.inf), slope)


def _ndtri_slope_formula(p: FloatExpr, y: FloatExpr) -> FloatExpr:
    tail = (p < 0.5).choose(p, 1.0 - p)
    slope = math.sqrt(0.5 * math.pi) * scaled_erfc(abs(y) * _SQRT_HALF) / tail
    return tail.equals(0.0).choose(p.like(math.inf), slope)


# -------------------------------------------------------------------------------------- gradients


def _bell_grad(node: Node, g: Tensor, *, factor: float) -> Grads:
    return (multiply(g, multiply(multiply(node.inputs[0], 2 * factor), node.output)),)


def _integral_grad(node: Node, g: Tensor, *, order: int) -> Grads:
    return (multiply(g, multiply(erfc_integral(node.inputs[0], order + 1), -2 * (order + 1))),)


def _erfinv_slope_grad(node: Node, g: Tensor) -> Grads:
    y = node.inputs[1]
    # Of y there is nothing left: it is erfinv of x.
    return multiply(g, multiply(multiply(multiply(y, 2), node.output), node.output)), None


def _ndtri_slope_grad(node: Node, g: Tensor) -> Grads:
    y = node.inputs[1]
    return multiply(g, multiply(multiply(y, node.output), node.output)), None


# ------------------------------------------------------------------------------------- references


_MATH_ERFC = np.frompyfunc(math.erfc, 1, 1)


def erfcx_reference(x: Array) -> Array:
    """Return e**x**2 * erfc(x) in float64; beyond 20 by its asymptotic series, DLMF 7.12.1."""
    x = x.astype(np.float64)
    inverse = 1 / (x * x)
    series, term = np.ones_like(x), np.ones_like(x)
    for k in range(1, 12):
        term = term * inverse * (0.5 - k)
        series = series + term
    nearby = np.clip(x, -30.0, 20.0)  # below, the square of e is infinite
    coarse = np.round(nearby * 16) / 16
    square = np.exp(coarse * coarse) * np.exp((nearby - coarse) * (nearby + coarse))
    near = square * np.asarray(_MATH_ERFC(nearby), np.float64)
    return np.where(x > 20, series / (x * _SQRT_PI), near)


def _integral_reference(x: Array, *, order: int) -> Array:
    """Return the integral of DLMF 7.18.2 by a sum of points that are exponentially far apart."""
    (wide,) = widen_halves(x)
    with np.errstate(all="ignore"):
        y = wide.astype(np.float64)
        total, above = np.zeros_like(y), np.maximum(y, 0)
        for s in np.arange(-4.5, 5, 0.03125):
            v = math.exp(s - math.exp(-s))
            u = v / (1 + above)
            weight = 0.03125 * (1 + math.exp(-s))
            total = total + weight * u ** (order + 1) * np.exp(-u * u - 2 * u * above)
        total = total * (2 / _SQRT_PI / math.factorial(order))
        older, newer = erfcx_reference(y), 1 / _SQRT_PI - y * erfcx_reference(y)
        for k in range(2, order + 1):
            older, newer = newer, (older - 2 * y * newer) / (2 * k)
        return np.where(y < 0, newer, total).astype(x.dtype)


def bell_meaning(x: Array, *, factor: float) -> Array:
    """Return e**(factor * x**2), computed in float64."""
    return rounded_once(lambda y: np.exp(factor * y.astype(np.float64) ** 2))(x)


def _erfinv_slope_reference(x: Array, y: Array) -> Array:
    rest = 1 - np.abs(x.astype(np.float64))
    slope = 0.5 * _SQRT_PI * erfcx_reference(np.abs(y)) / rest
    return np.where(rest == 0, np.inf, slope)


def _ndtri_slope_reference(p: Array, y: Array) -> Array:
    p = p.astype(np.float64)
    tail = np.where(p < 0.5, p, 1 - p)
    slope = math.sqrt(0.5 * math.pi) * erfcx_reference(np.abs(y.astype(np.float64)) * _SQRT_HALF)
    return np.where(tail == 0, np.inf, slope / tail)


# ---------------------------------------------------------------------------------------- records


def _bell_infer(x: TensorType, *, factor: float) -> TensorType:
    found = infer_same("bell", is_float)(x)
    assert isinstance(found, TensorType)
    assert factor < 0, f"bell of factor {factor}"
    return found


def _bell_kernel(_x: TensorType, *, factor: float) -> Map:
    return Map(body_of_formula(partial(_bell_formula, factor)))


bell_op = define(
    "bell", infer=_bell_infer, reference=bell_meaning, grad=_bell_grad, kernel=_bell_kernel
)


def _integral_infer(x: TensorType, *, order: int) -> TensorType:
    found = infer_same("erfc_integral", is_float)(x)
    assert isinstance(found, TensorType)
    assert order >= 1, f"erfc_integral of order {order}"
    return found


def _integral_kernel(_x: TensorType, *, order: int) -> Map:
    return Map(body_of_formula(partial(_integral_formula, order)))


erfc_integral_op = define(
    "erfc_integral",
    infer=_integral_infer,
    reference=_integral_reference,
    grad=_integral_grad,
    kernel=_integral_kernel,
)

erfinv_slope_op = elementwise(
    "erfinv_slope",
    infer=infer_same("erfinv_slope", is_float),
    reference=rounded_once(_erfinv_slope_reference),
    grad=_erfinv_slope_grad,
    body=body_of_formula(_erfinv_slope_formula),
)

ndtri_slope_op = elementwise(
    "ndtri_slope",
    infer=infer_same("ndtri_slope", is_float),
    reference=rounded_once(_ndtri_slope_reference),
    grad=_ndtri_slope_grad,
    body=body_of_formula(_ndtri_slope_formula),
)
