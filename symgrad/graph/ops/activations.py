"""Gaussian error linear units: each an op, so that its gradient is a product with a slope.

Differentiated as the composition that it is, it would be a sum of many products with the cotangent,
which needs the operand as well as its tanh or distribution function. A slope is one array. What
each op is composed of is an equation of `passes/rewrites/algebra.py`: then it shares the function
with its slope. Far below 0 the distribution function is a tail, and no difference of 1 and erf,
which has no digits there, and the square in its exponential is not rounded. For the same reason
that by tanh of a cubic u, x / 2 * (1 + tanh(u)), is x * sigmoid(2u).
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, body_of_formula
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import add, clip, multiply, negative, subtract
from symgrad.graph.ops.comparison import greater, where
from symgrad.graph.ops.elementwise import infer_same, is_float, rounded_once
from symgrad.graph.ops.error_functions import (
    normal_tail_ratio,
    normal_tail_ratio_formula,
    normal_tail_ratio_meaning,
)
from symgrad.graph.ops.error_slopes import bell_meaning
from symgrad.graph.ops.transcendental import sigmoid, sigmoid_meaning
from symgrad.graph.types import Array

_TO_GATE = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_SIGMOID_MEANING = rounded_once(sigmoid_meaning)
# Beyond, the gate is 0 or 1 in every format, and the cubic of what is no farther does not overflow.
_FAR = 24.0


def normal_share(x: Tensor) -> Tensor:
    """Compute the normal distribution function of `x`, by the exponential that its density has."""
    return apply(normal_share_op, x)


def normal_bell(x: Tensor) -> Tensor:
    """Compute `e**(-x**2 / 2)`, whose square is exact where the target fuses.

    Unlike `bell`, which takes four times the arithmetic to have it so everywhere.
    """
    return apply(normal_bell_op, x)


def gelu_by_erf(x: Tensor) -> Tensor:
    """Compute `x` times its normal distribution function."""
    return apply(gelu_by_erf_op, x)


def gelu_by_tanh(x: Tensor) -> Tensor:
    """Compute about `x` times its normal distribution function."""
    return apply(gelu_by_tanh_op, x)


def composed_share(x: Tensor) -> Tensor:
    """Return what `normal_share` computes, in other ops."""
    tail = multiply(normal_bell(x), normal_tail_ratio(x))
    return where(greater(x, 0), subtract(1, tail), tail)


def composed_by_erf(x: Tensor) -> Tensor:
    """Return what `gelu_by_erf` computes, in other ops."""
    return multiply(x, normal_share(x))


def composed_by_tanh(x: Tensor) -> Tensor:
    """Return what `gelu_by_tanh` computes, in other ops."""
    return multiply(x, _gate(clip(x, -_FAR, _FAR)))


def _gate(near: Tensor) -> Tensor:
    cubic = multiply(multiply(near, near), multiply(near, _CUBIC))
    return sigmoid(multiply(add(near, cubic), _TO_GATE))


def _density(x: Tensor) -> Tensor:
    return multiply(normal_bell(x), 1 / math.sqrt(2 * math.pi))


def _bell_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, multiply(negative(node.inputs[0]), node.output)),)


def _share_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, _density(node.inputs[0])),)


def _by_erf_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    return (multiply(g, add(normal_share(x), multiply(x, _density(x)))),)


def _by_tanh_grad(node: Node, g: Tensor) -> Grads:
    near = clip(node.inputs[0], -_FAR, _FAR)
    gate = _gate(near)
    left = multiply(multiply(gate, subtract(1, gate)), near)
    of_cubic = multiply(multiply(near, near), 3 * _CUBIC)
    return (multiply(g, add(multiply(left, multiply(add(of_cubic, 1), _TO_GATE)), gate)),)


def _bell_meaning(x: Array) -> Array:
    return bell_meaning(x, factor=-0.5)


def _share_meaning(x: Array) -> Array:
    with np.errstate(all="ignore"):
        tail = _bell_meaning(x) * normal_tail_ratio_meaning(x)
        return np.asarray(np.where(x > 0, x.dtype.type(1) - tail, tail), x.dtype)


def _by_erf_meaning(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(x * _share_meaning(x))


def _by_tanh_meaning(x: Array) -> Array:
    number = x.dtype.type
    with np.errstate(all="ignore"):
        near = np.minimum(np.maximum(x, number(-_FAR)), number(_FAR))
        cubic = (near * near) * (near * number(_CUBIC))
        return np.asarray(x * _SIGMOID_MEANING((near + cubic) * number(_TO_GATE)))


def _bell_formula(x: FloatExpr) -> FloatExpr:
    # Beyond, it is 0 in every format, and the square of what is no farther does not overflow.
    size = abs(x).least(60.0)
    half = size * -0.5
    exponent = half * size
    rest = (-exponent).plus(half, size)
    coarse = exponent.exp()
    return coarse.plus(coarse, rest)


def _share_formula(x: FloatExpr) -> FloatExpr:
    tail = _bell_formula(x) * normal_tail_ratio_formula(x)
    return (x > 0.0).choose(1.0 - tail, tail)


def _by_erf_formula(x: FloatExpr) -> FloatExpr:
    return x * _share_formula(x)


def _by_tanh_formula(x: FloatExpr) -> FloatExpr:
    near = x.clamp(-_FAR, _FAR)
    cubic = (near * near) * (near * _CUBIC)
    return x * ((near + cubic) * _TO_GATE).call("sigmoid")


normal_bell_op = elementwise(
    "normal_bell",
    infer=infer_same("normal_bell", is_float),
    reference=_bell_meaning,
    grad=_bell_grad,
    body=body_of_formula(_bell_formula),
)

normal_share_op = elementwise(
    "normal_share",
    infer=infer_same("normal_share", is_float),
    reference=_share_meaning,
    grad=_share_grad,
    body=body_of_formula(_share_formula),
)

gelu_by_erf_op = elementwise(
    "gelu_by_erf",
    infer=infer_same("gelu_by_erf", is_float),
    reference=_by_erf_meaning,
    grad=_by_erf_grad,
    body=body_of_formula(_by_erf_formula),
)

gelu_by_tanh_op = elementwise(
    "gelu_by_tanh",
    infer=infer_same("gelu_by_tanh", is_float),
    reference=_by_tanh_meaning,
    grad=_by_tanh_grad,
    body=body_of_formula(_by_tanh_formula),
)
