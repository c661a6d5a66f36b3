"""Modified Bessel functions of the first kind, scaled by e**-|x|: i0e and i1e.

Up to |x| = 15 (8 in float32) a polynomial in x**2 with positive coefficients, as the power series
of DLMF 10.25.2 has them, times e**-|x|; beyond, one in 1/|x| over sqrt(|x|) (DLMF 10.40.1).
Coefficients are ours (`error_tables.py`).
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, Table, body_of_formula, polynomial
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops import error_tables as table
from symgrad.graph.ops.arithmetic import abs as abs_of
from symgrad.graph.ops.arithmetic import add, divide, multiply, negative, sign, subtract
from symgrad.graph.ops.comparison import less, where
from symgrad.graph.ops.elementwise import filled_like, infer_same, is_float, rounded_once
from symgrad.graph.ops.transcendental import exp
from symgrad.graph.types import Array

_EDGE = {"f32": 8.0, "f64": 15.0}
# Of I0(x) - I1(x) / x, by powers of x**2 / 4; ten are exact to a rounding up to |x| = 1.
_I1_SLOPE = [(2 * k + 1) / (2 * math.factorial(k) * math.factorial(k + 1)) for k in range(10)]


def i0e(x: Tensor) -> Tensor:
    """Return e**-|x| * I0(x) of floats."""
    return apply(i0e_op, x)


def i1e(x: Tensor) -> Tensor:
    """Return e**-|x| * I1(x) of floats."""
    return apply(i1e_op, x)


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


def _i0e_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    return (multiply(g, subtract(i1e(x), multiply(sign(x), node.output))),)


def _i1e_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    # I1'(x) is I0(x) - I1(x) / x. Near 0 that quotient has no derivative of its own to a rounding,
    # so the difference of both power series stands there, of x**2 / 4 (DLMF 10.25.2).
    size = abs_of(x)
    is_near = less(size, 1)
    near, far = where(is_near, x, filled_like(x, 0)), where(is_near, filled_like(x, 1), x)
    square = multiply(multiply(near, near), 0.25)
    series = filled_like(x, _I1_SLOPE[-1])
    for coefficient in reversed(_I1_SLOPE[:-1]):
        series = add(multiply(series, square), coefficient)
    rise = where(
        is_near, multiply(series, exp(negative(size))), subtract(i0e(x), divide(node.output, far))
    )
    return (multiply(g, subtract(rise, multiply(sign(x), node.output))),)


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
