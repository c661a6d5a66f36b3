"""Gaussian error linear units: each an op, so that its gradient is a product with a slope.

Differentiated as the composition that it is, it would be a sum of many products with the cotangent,
which needs the operand as well as its tanh or erf. A slope is one array. What each op is composed
of is an equation of `passes/rewrites/algebra.py`: then it shares the function with its slope.
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import add, multiply, subtract
from symgrad.graph.ops.elementwise import infer_same, is_float, rounded_once
from symgrad.graph.ops.transcendental import erf, exp, tanh
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import ScalarExpr
from symgrad.graph.types import Array

_TO_ERF = math.sqrt(0.5)
_TO_TANH = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_ERF_MEANING = rounded_once(np.vectorize(math.erf, otypes=[np.float64]))
_TANH_MEANING = rounded_once(np.tanh)


def gelu_by_erf(x: Tensor) -> Tensor:
    """Compute `x` times its normal distribution function."""
    return apply(gelu_by_erf_op, x)


def gelu_by_tanh(x: Tensor) -> Tensor:
    """Compute about `x` times its normal distribution function."""
    return apply(gelu_by_tanh_op, x)


def composed_by_erf(x: Tensor) -> Tensor:
    """Return what `gelu_by_erf` computes, in other ops."""
    return multiply(multiply(x, 0.5), add(erf(multiply(x, _TO_ERF)), 1))


def composed_by_tanh(x: Tensor) -> Tensor:
    """Return what `gelu_by_tanh` computes, in other ops."""
    return multiply(multiply(x, 0.5), add(_gate(x), 1))


def _gate(x: Tensor) -> Tensor:
    cubic = multiply(multiply(x, x), multiply(x, _CUBIC))
    return tanh(multiply(add(x, cubic), _TO_TANH))


def _by_erf_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    below = multiply(add(erf(multiply(x, _TO_ERF)), 1), 0.5)
    density = multiply(exp(multiply(multiply(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return (multiply(g, add(below, multiply(x, density))),)


def _by_tanh_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    gate = _gate(x)
    # The square of x may overflow where this is 0, and comes last.
    left = multiply(subtract(1, multiply(gate, gate)), x)
    of_cubic = multiply(multiply(multiply(left, x), x), 3 * _CUBIC)
    of_gate = multiply(add(left, of_cubic), _TO_TANH / 2)
    return (multiply(g, add(of_gate, multiply(add(gate, 1), 0.5))),)


def _by_erf_meaning(x: Array) -> Array:
    number = x.dtype.type
    with np.errstate(all="ignore"):
        share = _ERF_MEANING(x * number(_TO_ERF))
        return np.asarray((x * number(0.5)) * (share + number(1)))


def _by_tanh_meaning(x: Array) -> Array:
    number = x.dtype.type
    with np.errstate(all="ignore"):
        cubic = (x * x) * (x * number(_CUBIC))
        gate = _TANH_MEANING((x + cubic) * number(_TO_TANH))
        return np.asarray((x * number(0.5)) * (gate + number(1)))


def _by_erf_body(s: Scalars[ScalarExpr], x: ScalarExpr) -> ScalarExpr:
    return _half_of(s, x, s.call("erf", _times(s, x, _TO_ERF)))


def _by_tanh_body(s: Scalars[ScalarExpr], x: ScalarExpr) -> ScalarExpr:
    cubic = s.call("mul", s.call("mul", x, x), _times(s, x, _CUBIC))
    return _half_of(s, x, s.call("tanh", _times(s, s.call("add", x, cubic), _TO_TANH)))


def _half_of(s: Scalars[ScalarExpr], x: ScalarExpr, gate: ScalarExpr) -> ScalarExpr:
    """Return `x / 2 * (gate + 1)`."""
    return s.call("mul", _times(s, x, 0.5), s.call("add", gate, s.const(1, s.dtype_of(x))))


def _times(s: Scalars[ScalarExpr], x: ScalarExpr, factor: float) -> ScalarExpr:
    return s.call("mul", x, s.const(factor, s.dtype_of(x)))


gelu_by_erf_op = elementwise(
    "gelu_by_erf",
    infer=infer_same("gelu_by_erf", is_float),
    reference=_by_erf_meaning,
    grad=_by_erf_grad,
    body=_by_erf_body,
)

gelu_by_tanh_op = elementwise(
    "gelu_by_tanh",
    infer=infer_same("gelu_by_tanh", is_float),
    reference=_by_tanh_meaning,
    grad=_by_tanh_grad,
    body=_by_tanh_body,
)
