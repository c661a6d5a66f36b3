"""Hurwitz' zeta function, and with it Riemann's: sums of powers and Euler and Maclaurin's formula.

The first terms of the sum over k of (q + k)**-s are added up, and the rest is DLMF 25.11.28. Where
s is so large that the formula diverges, the rest is less than a rounding of the sum.
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, body_of_formula
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import add, multiply, negative
from symgrad.graph.ops.elementwise import infer_same, is_float, rounded_once
from symgrad.graph.ops.marks import prevent_gradient
from symgrad.graph.ops.polygamma import BERNOULLI
from symgrad.graph.types import Array

_SUMMED = {"f32": 6, "f64": 10}
_CORRECTIONS = {"f32": 4, "f64": 8}


def zeta(s: Tensor, q: Tensor) -> Tensor:
    """Return the sum over k >= 0 of (q + k)**-s, of floats of one type; no gradient by s."""
    return apply(zeta_op, prevent_gradient(s, "zeta has no derivative by its exponent"), q)


def _zeta_formula(s: FloatExpr, q: FloatExpr) -> FloatExpr:
    count = _SUMMED[s.short]
    total = q.call("pow", -s)
    for k in range(1, count):
        total = total + (q + float(k)).call("pow", -s)
    w = q + float(count)
    power = w.call("pow", -s)
    inverse = 1.0 / w
    # s * (s+1) / w**2 and so on; limited, where the power has long become 0 beside the sum.
    step = s * inverse
    rest = 0.5 + 0.0 * step
    for j, coefficient in enumerate(BERNOULLI[: _CORRECTIONS[s.short]]):
        rest = rest + coefficient * step
        grown = (s + (2.0 * j + 1.0)) * inverse * ((s + (2.0 * j + 2.0)) * inverse)
        step = (step * grown).least(1e30)
    tail = power * (w / (s - 1.0) + rest)
    result = (power > 0.0).choose(total + tail, total)
    result = s.equals(math.inf).choose((q > 1.0).choose(s.like(0.0), q.equals(1.0).choose(
        s.like(1.0), math.inf)), result)  # fmt: skip
    result = (q.equals(math.inf) & (s > 1.0)).choose(s.like(0.0), result)
    result = (s.equals(1.0) | q.equals(0.0)).choose(s.like(math.inf), result)
    return ((s >= 1.0) & (q >= 0.0)).choose(result, math.nan)


def _zeta_grad(node: Node, g: Tensor) -> Grads:
    s, q = node.inputs
    # What arrives at s is refused there.
    return g, multiply(g, multiply(negative(s), apply(zeta_op, add(s, 1), q)))


def _zeta_reference(s: Array, q: Array) -> Array:
    """Return zeta in float64: sixty terms, and what Euler and Maclaurin's formula then adds."""
    s, q = s.astype(np.float64), q.astype(np.float64)
    total = np.zeros_like(s + q)
    for k in reversed(range(60)):
        total = total + (q + k) ** -s
    w = q + 60
    tail = w ** (1 - s) / (s - 1) + 0.5 * w**-s + s / 12 * w ** (-s - 1)
    tail = tail - s * (s + 1) * (s + 2) / 720 * w ** (-s - 3)
    tail = tail + s * (s + 1) * (s + 2) * (s + 3) * (s + 4) / 30240 * w ** (-s - 5)
    result = np.where(w**-s > 0, total + tail, total)
    result = np.where(np.isposinf(s), np.where(q > 1, 0, np.where(q == 1, 1, np.inf)), result)
    result = np.where(np.isposinf(q) & (s > 1), 0, result)
    result = np.where((s == 1) | (q == 0), np.inf, result)
    return np.where((s >= 1) & (q >= 0), result, np.nan)


zeta_op = elementwise(
    "zeta",
    infer=infer_same("zeta", is_float),
    reference=rounded_once(_zeta_reference),
    grad=_zeta_grad,
    body=body_of_formula(_zeta_formula),
)
