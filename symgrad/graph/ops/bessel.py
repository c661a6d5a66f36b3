"""Modified Bessel functions of the first kind, scaled by e**-|x|: i0e and i1e.

Up to |x| = 15 (8 in float32) a polynomial in x**2 with positive coefficients, as the power series
of DLMF 10.25.2 has them, times e**-|x|; beyond, one in 1/|x| over sqrt(|x|) (DLMF 10.40.1).
Coefficients are ours (`error_tables.py`).
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, Table, body_of_formula, horner, polynomial
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define, elementwise
from symgrad.graph.ops import error_tables as table
from symgrad.graph.ops import slope_tables as slopes
from symgrad.graph.ops.arithmetic import multiply, negative, sign, subtract
from symgrad.graph.ops.elementwise import infer_same, is_float, rounded_once, widen_halves
from symgrad.graph.structures import Map
from symgrad.graph.types import Array, TensorType

_EDGE = {"f32": 8.0, "f64": 15.0}
_MOMENT_EDGE = {"f32": 10.0, "f64": 18.0}
_MOST = {"f32": 2.0**125, "f64": 2.0**1021}
_MOMENTS = {
    1: (slopes.BESSEL_1, slopes.BESSEL_1_TAIL),
    2: (slopes.BESSEL_2, slopes.BESSEL_2_TAIL),
}
# Of the power series of a moment, exact to a rounding up to 1.
_TERMS = 22


def i0e(x: Tensor) -> Tensor:
    """Return e**-|x| * I0(x) of floats."""
    return apply(i0e_op, x)


def i1e(x: Tensor) -> Tensor:
    """Return e**-|x| * I1(x) of floats."""
    return apply(i1e_op, x)


def bessel_moment(x: Tensor, order: int) -> Tensor:
    """Return the mean of (1 - cos(t))**order * e**(-|x| * (1 - cos(t))) over a turn.

    Of order 0 it is i0e, and (-1)**order times it is the derivative of i0e above 0 (DLMF 10.32.1).
    As a difference of i0e and i1e it would have no digits for large x.
    """
    return apply(bessel_moment_op, x, order=order)


def _parts(x: FloatExpr, near: Table, far: Table) -> tuple[FloatExpr, FloatExpr]:
    """Return e**-|x| times the polynomial in x**2, and what holds for larger |x|."""
    size = abs(x)
    limited = size.least(_EDGE[x.short])
    inner = polynomial(limited * limited, near) * (-size).exp()
    outer = polynomial(1.0 / size, far) / size.sqrt()
    return inner, outer


def _i0e_formula(x: FloatExpr) -> FloatExpr:
    inner, outer = _parts(x, table.I0, table.I0_TAIL)
    return (abs(x) <= _EDGE[x.short]).choose(inner, outer)


def _i1e_formula(x: FloatExpr) -> FloatExpr:
    inner, outer = _parts(x, table.I1, table.I1_TAIL)
    outer = (x < 0.0).choose(-outer, outer)
    return (abs(x) <= _EDGE[x.short]).choose(inner * x, outer)


def _moment_formula(order: int, x: FloatExpr) -> FloatExpr:
    size = abs(x)
    # Of what is added up for far ones nothing is infinite, beside moments that are 0.
    near, far = size.least(1.0), size.greatest(1.0).least(_MOST[x.short])
    moments: list[FloatExpr] = []
    for k in range(1, order + 1):
        if k <= 2:
            found = _moment_by_table(far, k)
        else:
            # The differential equation of order k - 2 (DLMF 10.25.1).
            found = (far + far + (k - 1.0)) * moments[-1] - (2.0 * k - 3) * moments[-2]
            found = found / far
        moments.append(found)
    series = (-2.0 * near).exp() * horner(near, _series_of_moment(order))
    return (size < 1.0).choose(series, moments[-1])


def _moment_by_table(size: FloatExpr, order: int) -> FloatExpr:
    near_table, far_table = _MOMENTS[order]
    edge = _MOMENT_EDGE[size.short]
    near = size.least(edge)
    near = polynomial((near - 6.0) / (near + 6.0), near_table) * _inverse(1.0 + near, order)
    far = size.greatest(edge)
    return (size <= edge).choose(near, polynomial(1.0 / far, far_table) * _inverse(far, order))


def _inverse(x: FloatExpr, order: int) -> FloatExpr:
    """Return x to the power -(order + 1/2)."""
    inverse = 1.0 / x
    result = inverse.sqrt()
    for _ in range(order):
        result = result * inverse
    return result


def _series_of_moment(order: int) -> list[float]:
    """Return the coefficients in x of e**(2x) times a moment, all positive (DLMF 13.2.39)."""
    found = [math.prod((2 * k + 1) / (k + 1) for k in range(order))]
    for k in range(_TERMS):
        found.append(found[-1] * 2 * (k + 0.5) / ((order + 1 + k) * (k + 1)))
    return found


def _i0e_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    return (multiply(g, negative(multiply(sign(x), bessel_moment(x, 1)))),)


def _i1e_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    return (multiply(g, subtract(bessel_moment(x, 2), bessel_moment(x, 1))),)


def _moment_grad(node: Node, g: Tensor, *, order: int) -> Grads:
    (x,) = node.inputs
    return (multiply(g, negative(multiply(sign(x), bessel_moment(x, order + 1)))),)


def _scaled_reference(order: int, x: Array) -> Array:
    """Return e**-|x| * I(x) in float64, the mean of e**(|x| * (cos(t) - 1)) * cos(order * t).

    That is the integral of DLMF 10.32.3, which is periodic: so 400 points are exact to rounding
    up to |x| = 2,000. Beyond is the asymptotic series of DLMF 10.40.1.
    """
    size = np.abs(x.astype(np.float64))
    angles = (np.arange(400) + 0.5) * (np.pi / 400)
    near = np.zeros_like(size)
    for angle in angles:
        weight = math.cos(order * angle) / 400
        near = near + weight * np.exp(-2 * np.minimum(size, 2e3) * math.sin(angle / 2) ** 2)
    mu, term, series = 4.0 * order * order, np.ones_like(size), np.ones_like(size)
    for k in range(1, 8):
        term = term * -(mu - (2 * k - 1) ** 2) / (k * 8 * size)
        series = series + term
    value = np.where(size > 1000, series / np.sqrt(2 * np.pi * size), near)
    value = np.where(size == 0, 1.0 - order, value)
    return value if order == 0 else np.copysign(value, x)


def _moment_reference(x: Array, *, order: int) -> Array:
    """Return the integral in float64 by a sum of points; beyond 2,000 its series, DLMF 13.7.2."""
    (wide,) = widen_halves(x)
    size = np.abs(wide.astype(np.float64))
    total, term, series = np.zeros_like(size), np.ones_like(size), np.ones_like(size)
    with np.errstate(all="ignore"):
        for s in np.arange(-3.5, 3.5, 0.02):
            # The double exponential rule of the angle, which is t / 2.
            half = 0.5 * math.pi * math.sinh(s)
            angle = 0.25 * math.pi * math.exp(half) / math.cosh(half)
            weight = 0.02 * 0.5 * math.cosh(s) / math.cosh(half) ** 2 * 0.25 * math.pi
            square = 2 * math.sin(angle) ** 2
            total = total + 2 * weight * square**order * np.exp(-size * square)
        for k in range(8):
            term = term * (order + 0.5 + k) * (0.5 + k) / ((k + 1) * 2 * size)
            series = series + term
        factor = math.gamma(order + 0.5) / (math.sqrt(2) * math.pi)
        series = series * factor * size ** -(order + 0.5)
    return np.where(size > 2000, series, total).astype(x.dtype)


i0e_op = elementwise(
    "i0e",
    infer=infer_same("i0e", is_float),
    reference=rounded_once(lambda x: _scaled_reference(0, x)),
    grad=_i0e_grad,
    body=body_of_formula(_i0e_formula),
)

i1e_op = elementwise(
    "i1e",
    infer=infer_same("i1e", is_float),
    reference=rounded_once(lambda x: _scaled_reference(1, x)),
    grad=_i1e_grad,
    body=body_of_formula(_i1e_formula),
)


def _moment_infer(x: TensorType, *, order: int) -> TensorType:
    found = infer_same("bessel_moment", is_float)(x)
    assert isinstance(found, TensorType)
    assert order >= 1, f"bessel_moment of order {order}"
    return found


def _moment_kernel(_x: TensorType, *, order: int) -> Map:
    return Map(body_of_formula(partial(_moment_formula, order)))


bessel_moment_op = define(
    "bessel_moment",
    infer=_moment_infer,
    reference=_moment_reference,
    grad=_moment_grad,
    kernel=_moment_kernel,
)
