"""Error functions and the normal distribution: erfc, erfcx, erfinv, ndtr, ndtri, log_ndtr.

For x >= 0, (1 + 2x) * e**x**2 * erfc(x) is one polynomial in (x - 3) / (x + 3), the variable of
Shepherd and Laframboise (1981), and e**-x**2 is taken in two steps so that x**2 need not be rounded
(Cody 1969). The quantiles of ndtri have the three ranges of Wichura's AS 241 (1988). Coefficients
are ours (`error_tables.py`). erfinv is a scalar operation, like erf in `transcendental.py`.
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.dtypes import float64
from symgrad.graph.formulas import FloatExpr, body_of_formula, polynomial
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops import error_tables as table
from symgrad.graph.ops.arithmetic import abs as abs_
from symgrad.graph.ops.arithmetic import add, divide, multiply, negative
from symgrad.graph.ops.comparison import less, where
from symgrad.graph.ops.elementwise import (
    filled_like,
    infer_same,
    is_float,
    one_call,
    rounded_once,
)
from symgrad.graph.ops.error_slopes import (
    bell,
    erfc_integral,
    erfcx_formula,
    erfcx_reference,
    erfinv_slope,
    exp_of_square,
    ndtri_slope,
    scaled_erfc,
)
from symgrad.graph.types import Array

_SQRT_PI = math.sqrt(math.pi)
_SQRT_2_PI = math.sqrt(2 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
# Below, the slope of log_ndtr is two terms of a series to a rounding; by whether it is of float64.
_SERIES_FROM = {False: -1e4, True: -1e6}


def erfc(x: Tensor) -> Tensor:
    """Return 1 - erf(x) of floats."""
    return apply(erfc_op, x)


def erfcx(x: Tensor) -> Tensor:
    """Return e**x**2 * erfc(x) of floats."""
    return apply(erfcx_op, x)


def erfinv(x: Tensor) -> Tensor:
    """Return the inverse of erf of floats."""
    return apply(erfinv_op, x)


def ndtr(x: Tensor) -> Tensor:
    """Return the distribution function of the standard normal distribution."""
    return apply(ndtr_op, x)


def ndtri(p: Tensor) -> Tensor:
    """Return the quantile function of the standard normal distribution."""
    return apply(ndtri_op, p)


def normal_tail_ratio(x: Tensor) -> Tensor:
    """Return `ndtr(-abs(x))` divided by e**(-x**2 / 2), which is between 1/2 and 0."""
    return apply(normal_tail_ratio_op, x)


def log_ndtr(x: Tensor) -> Tensor:
    """Return the logarithm of `ndtr`."""
    return apply(log_ndtr_op, x)


# --------------------------------------------------------------------------------------- formulas


def _erfc_formula(x: FloatExpr) -> FloatExpr:
    size = abs(x)
    above = exp_of_square(size, -1.0) * scaled_erfc(size)
    return (x < 0.0).choose(2.0 - above, above)


def _ndtr_formula(x: FloatExpr) -> FloatExpr:
    size = abs(x)
    tail = 0.5 * exp_of_square(size, -0.5) * scaled_erfc(size * _SQRT_HALF)
    return (x > 0.0).choose(1.0 - tail, tail)


def normal_tail_ratio_formula(x: FloatExpr) -> FloatExpr:
    """Return `normal_tail_ratio` of an element."""
    return 0.5 * scaled_erfc(abs(x) * _SQRT_HALF)


def _log_ndtr_formula(x: FloatExpr) -> FloatExpr:
    size = abs(x)
    scaled = 0.5 * scaled_erfc(size * _SQRT_HALF)
    above = (-exp_of_square(size, -0.5) * scaled).call("log1p")
    below = scaled.log() - 0.5 * size * size
    below = x.equals(-math.inf).choose(x, below)
    return (x > 0.0).choose(above, below)


def _quantile(q: FloatExpr, tail: FloatExpr) -> FloatExpr:
    """Return ndtri(1/2 + q), where `tail` is 1/2 - |q|, the lesser of the probabilities."""
    w = 0.140625 - q * q
    middle = q * polynomial(w, table.QUANTILE_MIDDLE) / polynomial(w, table.QUANTILE_MIDDLE_BELOW)
    s = (-tail.log()).sqrt()
    v = s - 1.4
    above, below = polynomial(v, table.QUANTILE_TAIL), polynomial(v, table.QUANTILE_TAIL_BELOW)
    if not q.is_single:
        is_far, v = s > 5.0, s - 5.0
        above = is_far.choose(polynomial(v, table.QUANTILE_FAR), above)
        below = is_far.choose(polynomial(v, table.QUANTILE_FAR_BELOW), below)
    outer = tail.equals(0.0).choose(q.like(math.inf), above / below)
    outer = (q < 0.0).choose(-outer, outer)
    result = (abs(q) <= 0.375).choose(middle, outer)
    return (tail >= 0.0).choose(result, math.nan)


def _ndtri_formula(p: FloatExpr) -> FloatExpr:
    return _quantile(p - 0.5, (p < 0.5).choose(p, 1.0 - p))


# ---------------------------------------------------------------------------------------- gradients


def _erfc_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, multiply(bell(node.inputs[0], -1.0), -2 / _SQRT_PI)),)


def _erfcx_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, multiply(erfc_integral(node.inputs[0], 1), -2)),)


def _erfinv_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, erfinv_slope(node.inputs[0], node.output)),)


def _ndtr_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, multiply(bell(node.inputs[0], -0.5), 1 / _SQRT_2_PI)),)


def _ndtri_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, ndtri_slope(node.inputs[0], node.output)),)


def _normal_tail_ratio_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    above = multiply(erfc_integral(multiply(abs_(x), _SQRT_HALF), 1), _SQRT_HALF)
    return (multiply(g, where(less(x, 0), above, negative(above))),)


def _log_ndtr_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    # The density over ndtr, which is sqrt(2/pi) / erfcx(-x / sqrt(2)): the exponentials cancel.
    # Above 0 that would overflow, and is the density divided by what is no longer small. Far below,
    # where its derivative would, it is the beginning of its series (DLMF 7.12.1).
    start = _SERIES_FROM[x.dtype is float64]
    is_far, is_below = less(x, start), less(x, 0)
    far, zero = where(is_far, x, start), filled_like(x, 0)
    near = where(is_far, start, where(is_below, x, zero))
    below = divide(math.sqrt(2 / math.pi), erfcx(multiply(near, -_SQRT_HALF)))
    below = where(is_far, negative(add(far, divide(1, far))), below)
    x = where(is_below, zero, x)
    above = divide(multiply(bell(x, -0.5), 1 / _SQRT_2_PI), ndtr(x))
    return (multiply(g, where(is_below, below, above)),)


# ------------------------------------------------------------------------------------- references


def _each(x: Array, function: np.ufunc) -> Array:
    return np.asarray(function(x.astype(np.float64)), np.float64)


_MATH_ERFC = np.frompyfunc(math.erfc, 1, 1)


def _normal_tail_ratio_reference(x: Array) -> Array:
    return np.asarray(0.5 * erfcx_reference(np.abs(x.astype(np.float64)) * _SQRT_HALF))


def _ndtr_reference(x: Array) -> Array:
    return 0.5 * _each(x.astype(np.float64) * -_SQRT_HALF, _MATH_ERFC)


def _log_ndtr_reference(x: Array) -> Array:
    x = x.astype(np.float64)
    above = np.log1p(-_ndtr_reference(-x))
    below = np.log(0.5 * erfcx_reference(np.maximum(x * -_SQRT_HALF, 0))) - 0.5 * x * x
    return np.where(x > 0, above, np.where(np.isneginf(x), x, below))


def _ndtri_reference(p: Array) -> Array:
    """Return the zero of `log_ndtr` less the logarithm of p, by bisection."""
    p = p.astype(np.float64)
    is_low = p < 0.5
    target = np.log(np.where(is_low, p, 1 - p))
    low, high = np.full_like(p, -40.0), np.zeros_like(p)
    for _ in range(70):
        middle = 0.5 * (low + high)
        is_above = _log_ndtr_reference(middle) > target
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    found = np.where(is_low, low, -low)
    found = np.where(p == 0, -np.inf, np.where(p == 1, np.inf, found))
    return np.where((p >= 0) & (p <= 1), np.where(p == 0.5, 0.0, found), np.nan)


def _erfinv_reference(x: Array) -> Array:
    """Return the zero of erf less x by bisection; of erfc, where |x| is near 1."""
    x = x.astype(np.float64)
    size = np.abs(x)
    low, high = np.zeros_like(x), np.full_like(x, 6.5)
    erf = np.frompyfunc(math.erf, 1, 1)
    for _ in range(70):
        middle = 0.5 * (low + high)
        is_below = np.where(
            size < 0.5, _each(middle, erf) < size, _each(middle, _MATH_ERFC) > 1 - size
        )
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    # What bisection of a range cannot resolve is linear.
    found = np.where(size < 1e-9, size * 0.5 * _SQRT_PI, low)
    found = np.where(size == 1, np.inf, found)
    return np.where(size <= 1, np.copysign(found, x), np.nan)


normal_tail_ratio_meaning = rounded_once(_normal_tail_ratio_reference)

# ---------------------------------------------------------------------------------------- records

erfc_op = elementwise(
    "erfc",
    infer=infer_same("erfc", is_float),
    reference=rounded_once(lambda x: _each(x, _MATH_ERFC)),
    grad=_erfc_grad,
    body=body_of_formula(_erfc_formula),
)

erfcx_op = elementwise(
    "erfcx",
    infer=infer_same("erfcx", is_float),
    reference=rounded_once(erfcx_reference),
    grad=_erfcx_grad,
    body=body_of_formula(erfcx_formula),
)

erfinv_op = elementwise(
    "erfinv",
    infer=infer_same("erfinv", is_float),
    reference=rounded_once(_erfinv_reference),
    grad=_erfinv_grad,
    body=one_call("erfinv"),
)

ndtr_op = elementwise(
    "ndtr",
    infer=infer_same("ndtr", is_float),
    reference=rounded_once(_ndtr_reference),
    grad=_ndtr_grad,
    body=body_of_formula(_ndtr_formula),
)

ndtri_op = elementwise(
    "ndtri",
    infer=infer_same("ndtri", is_float),
    reference=rounded_once(_ndtri_reference),
    grad=_ndtri_grad,
    body=body_of_formula(_ndtri_formula),
)

normal_tail_ratio_op = elementwise(
    "normal_tail_ratio",
    infer=infer_same("normal_tail_ratio", is_float),
    reference=normal_tail_ratio_meaning,
    grad=_normal_tail_ratio_grad,
    body=body_of_formula(normal_tail_ratio_formula),
)

log_ndtr_op = elementwise(
    "log_ndtr",
    infer=infer_same("log_ndtr", is_float),
    reference=rounded_once(_log_ndtr_reference),
    grad=_log_ndtr_grad,
    body=body_of_formula(_log_ndtr_formula),
)
