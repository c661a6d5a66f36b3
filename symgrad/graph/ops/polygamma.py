"""Polygamma functions: the derivatives of digamma.

The order is an attribute, so powers are products. For x >= 1/2 the first terms of the sum of DLMF
5.15.1 are taken, and the rest by Euler and Maclaurin (DLMF 25.11.28); below, the reflection
formula DLMF 5.15.6 has derivatives of the cotangent, which are polynomials in it.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

import numpy as np

from symgrad.errors import GraphError
from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, body_of_formula, horner, polynomial
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops import gamma_tables as table
from symgrad.graph.ops.arithmetic import multiply
from symgrad.graph.ops.elementwise import infer_same, is_float, widen_halves
from symgrad.graph.structures import Map
from symgrad.graph.types import Array, TensorType

# B(2j) / (2j)!, DLMF 24.2.
BERNOULLI = tuple(
    top / (bottom * math.factorial(2 * j + 2))  # of ints, so rounded once
    for j, (top, bottom) in enumerate(
        [(1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510)]
    )
)
# How many terms are summed before Euler and Maclaurin's formula, and how many it then has.
_SUMMED = {"f32": 4, "f64": 9}
_CORRECTIONS = {"f32": 4, "f64": 8}


def polygamma_of_order(order: int, x: Tensor) -> Tensor:
    """Return the derivative of digamma of order `order` >= 1."""
    return apply(polygamma_op, x, order=order)


def _polygamma_formula(order: int, x: FloatExpr) -> FloatExpr:
    is_reflected = x < 0.5
    y = is_reflected.choose(1.0 - x, x)
    s = order + 1
    sign = -1.0 if order % 2 == 0 else 1.0
    result = _zeta_of_integer(s, y) * (sign * math.factorial(order))
    # -d/dx^n pi*cot(pi*x) + (-1)^n * polygamma(n, 1 - x), of the distance from the nearest integer.
    distance = x - x.round()
    square = distance * distance
    cotangent = polynomial(square, table.COS_PI) / (distance * polynomial(square, table.SIN_PI))
    derivative = horner(cotangent, [float(c) for c in cotangent_polynomial(order)])
    reflected = result * (-sign) - derivative * math.pi**s
    result = is_reflected.choose(reflected, result)
    return x.equals(-math.inf).choose(x.like(sign * math.inf), result)


def _power(x: FloatExpr, exponent: int) -> FloatExpr:
    """Return x**exponent by repeated squaring, for exponent >= 1."""
    result: FloatExpr | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else result * x
        exponent >>= 1
        x = x * x if exponent else x
    assert result is not None, "an exponent is positive"
    return result


def _zeta_of_integer(s: int, q: FloatExpr) -> FloatExpr:
    """Return the sum over k >= 0 of 1 / (q + k)**s, for q >= 1/2."""
    count = _SUMMED[q.short] + s // 3
    total = _power(1.0 / q, s)
    for k in range(1, count):
        total = total + _power(1.0 / (q + float(k)), s)
    w = q + float(count)
    inverse = 1.0 / w
    square = inverse * inverse
    factors, factor = [], 1.0
    for j, coefficient in enumerate(BERNOULLI[: _CORRECTIONS[q.short]]):
        factor = float(s) if j == 0 else factor * (s + 2 * j - 1) * (s + 2 * j)
        factors.append(coefficient * factor)
    tail = 1 / (s - 1) + inverse * (0.5 + inverse * horner(square, factors))
    return total + _power(inverse, s - 1) * tail


@lru_cache(maxsize=64)
def cotangent_polynomial(order: int) -> tuple[int, ...]:
    """Return p with d/dy^order cot(y) = p(cot(y)), by p' * -(1 + c**2) for each derivative."""
    p = [0, 1]
    for _ in range(order):
        slope = [i * c for i, c in enumerate(p)][1:]
        p = [0] * (len(slope) + 2)
        for i, c in enumerate(slope):
            p[i] -= c
            p[i + 2] -= c
    return tuple(p)


def _infer(x: TensorType, *, order: int) -> TensorType:
    found = infer_same("polygamma", is_float)(x)
    assert isinstance(found, TensorType)
    if order < 1:
        raise GraphError("polygamma", f"order {order} is below 1")
    return found


def _reference(x: Array, *, order: int) -> Array:
    (wide,) = widen_halves(x)
    with np.errstate(all="ignore"):
        return polygamma_reference(order, wide.astype(np.float64)).astype(x.dtype)


def polygamma_reference(order: int, x: Array) -> Array:
    """Return a derivative of digamma in float64: the recurrence up to 30, then its series."""
    s = order + 1
    sign = (-1.0) ** s
    q = np.where(x > 0, x, 1 - x)
    total = np.zeros_like(q)
    for _ in range(30 + s):
        step = q < 30 + s
        total = total + np.where(step, q**-s, 0)
        q = np.where(step, q + 1, q)
    total = total + q ** (1.0 - s) / (s - 1) + 0.5 * q ** -float(s)
    factor = float(s)
    for j, coefficient in enumerate(BERNOULLI):
        total = total + coefficient * factor * q ** -(s + 2.0 * j + 1)
        factor *= (s + 2 * j + 1) * (s + 2 * j + 2)
    value = sign * math.factorial(order) * total
    cotangent = 1 / np.tan(np.pi * (x - np.rint(x)))
    slope = np.polynomial.polynomial.polyval(
        cotangent, np.array(cotangent_polynomial(order), float)
    )
    reflected = -sign * value - slope * np.pi**s
    is_pole = np.isneginf(x) | (x == np.rint(x))
    reflected = np.where(is_pole, sign * np.inf, reflected)
    return np.where(x > 0, value, reflected)


def _grad(node: Node, g: Tensor, *, order: int) -> Grads:
    return (multiply(g, polygamma_of_order(order + 1, node.inputs[0])),)


def _kernel(_x: TensorType, *, order: int) -> Map:
    return Map(body_of_formula(partial(_polygamma_formula, order)))


polygamma_op = define("polygamma", infer=_infer, reference=_reference, grad=_grad, kernel=_kernel)
