"""Gaussian error linear units: each an op, so that its gradient is a product with a slope.

Differentiated as the composition that it is, it would be a sum of many products with the cotangent,
which needs the operand as well as its tanh or distribution function. A slope is one array. What
each op is composed of is an equation of `passes/rewrites/algebra.py`: then it shares the function
with its slope. Far below 0 the distribution function is a tail, and no difference of 1 and erf,
which has no digits there, and the square in its exponential is not rounded. For the same reason
that by tanh of a cubic u, x / 2 * (1 + tanh(u)), is x * sigmoid(2u), and u has twice the digits.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, body_of_formula
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import add, multiply, negative, subtract
from symgrad.graph.ops.comparison import greater, where
from symgrad.graph.ops.elementwise import infer_same, is_float, rounded_from_double
from symgrad.graph.ops.error_functions import (
    normal_tail_ratio,
    normal_tail_ratio_formula,
    normal_tail_ratio_meaning,
)
from symgrad.graph.ops.error_slopes import bell_meaning
from symgrad.graph.ops.extrema import clip
from symgrad.graph.ops.transcendental import sigmoid_meaning
from symgrad.graph.types import Array

_CUBIC = 0.044715
# 2 * sqrt(2 / pi), and what the cube has: the argument of the gate is odd, of these.
_LINEAR = Fraction("1.59576912160573071175978423973750274")
_CUBED = _LINEAR * Fraction(_CUBIC)
# Of the first so many bits behind the point that the sum with the cube's, which is below 16 or 64,
# less it is exact.
_LINEAR_BITS = {"f32": 20, "f64": 47}
# Beyond, gate and normal curve are 0 or 1, and a power of what is no farther does not overflow.
_FAR = 40.0
_FAR_IN_HALF = 6.0
_FAR_OF_GATE = 24.0


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


def gelu_gate(x: Tensor) -> Tensor:
    """Compute what `gelu_by_tanh` multiplies `x` by."""
    return apply(gelu_gate_op, x)


def composed_share(x: Tensor) -> Tensor:
    """Return what `normal_share` computes, in other ops."""
    tail = multiply(normal_bell(x), normal_tail_ratio(x))
    return where(greater(x, 0), subtract(1, tail), tail)


def composed_by_erf(x: Tensor) -> Tensor:
    """Return what `gelu_by_erf` computes, in other ops."""
    return multiply(x, normal_share(x))


def composed_by_tanh(x: Tensor) -> Tensor:
    """Return what `gelu_by_tanh` computes, in other ops."""
    return multiply(x, gelu_gate(x))


def _near(x: Tensor, far: float) -> Tensor:
    """Return `x` no farther than where the normal curve, or the slope of the gate, is 0."""
    bound = _FAR_IN_HALF if x.dtype is dtypes.float16 else far
    return clip(x, -bound, bound)


def _density(x: Tensor) -> Tensor:
    return multiply(normal_bell(x), 1 / math.sqrt(2 * math.pi))


def _bell_grad(node: Node, g: Tensor) -> Grads:
    near = _near(node.inputs[0], _FAR)
    return (multiply(g, multiply(negative(near), node.output)),)


def _share_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, _density(node.inputs[0])),)


def _by_erf_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    return (multiply(g, add(normal_share(x), multiply(_near(x, _FAR), _density(x)))),)


def _gate_grad(node: Node, g: Tensor) -> Grads:
    density, _, pace = _gate_parts(node.inputs[0], node.output)
    return (multiply(g, multiply(density, pace)),)


def _gate_parts(x: Tensor, gate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the slope and the tanh of the gate, by its argument u, and the slope of u.

    The slope is the product of both gates, since 1 less a gate near 1 has few digits.
    """
    near = _near(x, _FAR_OF_GATE)
    other = gelu_gate(negative(x))
    pace = add(multiply(multiply(near, near), float(3 * _CUBED)), float(_LINEAR))
    return multiply(gate, other), subtract(gate, other), pace


def _by_tanh_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    return (multiply(g, apply(gelu_slope_op, x, gelu_gate(x))),)


def _gelu_slope_grad(node: Node, g: Tensor) -> Grads:
    """Differentiate by the operand, of which the gate is a function."""
    x, gate = node.inputs
    density, turn, pace = _gate_parts(x, gate)
    near = _near(x, _FAR_OF_GATE)
    bend = subtract(multiply(near, float(6 * _CUBED)), multiply(multiply(turn, pace), pace))
    return multiply(g, multiply(density, add(multiply(near, bend), multiply(pace, 2)))), None


def _bell_meaning(x: Array) -> Array:
    return bell_meaning(x, factor=-0.5)


def _share_meaning(x: Array) -> Array:
    with np.errstate(all="ignore"):
        tail = _bell_meaning(x) * normal_tail_ratio_meaning(x)
        return np.asarray(np.where(x > 0, x.dtype.type(1) - tail, tail), x.dtype)


def _by_erf_meaning(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(x * _share_meaning(x))


def _gate_meaning(x: Array) -> Array:
    with np.errstate(all="ignore"):
        near = np.clip(x.astype(np.longdouble), -_FAR_OF_GATE, _FAR_OF_GATE)
        linear = np.longdouble(float(_LINEAR)) + float(_LINEAR - Fraction(float(_LINEAR)))
        cubed = np.longdouble(float(_CUBED)) + float(_CUBED - Fraction(float(_CUBED)))
        argument = near * (linear + cubed * (near * near))
        coarse = argument.astype(np.float64)
        gate = sigmoid_meaning(coarse)
        return np.asarray(gate + gate * (1 - gate) * (argument - coarse).astype(np.float64))


def _gelu_slope_meaning(x: Array, gate: Array) -> Array:
    near = np.clip(x, -_FAR_OF_GATE, _FAR_OF_GATE)
    pace = float(_LINEAR) + float(3 * _CUBED) * near**2
    return np.asarray(gate + near * gate * (1 - gate) * pace)


_GATE_MEANING = rounded_from_double(_gate_meaning)


def _by_tanh_meaning(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(x * _GATE_MEANING(x))


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


def _gate_formula(x: FloatExpr) -> FloatExpr:
    """Return the gate of `near * (linear + cubed * near**2)`, of which `rest` is the lower half.

    Far below 0 an exponential multiplies what its argument is rounded to by that argument.
    """
    number = np.dtype(np.float32 if x.is_single else np.float64).type
    scale = 2 ** _LINEAR_BITS[x.short]
    linear = Fraction(round(_LINEAR * scale), scale)
    cubed = Fraction(float(number(float(_CUBED))))
    near = x.clamp(-_FAR_OF_GATE, _FAR_OF_GATE)
    square = near * near
    total = near.like(float(linear)).plus(near.like(float(cubed)), square)
    rest = (float(linear) - total).plus(near.like(float(cubed)), square)
    rest = rest.plus(near.like(float(cubed)), (-square).plus(near, near))
    rest = rest.plus(near.like(float(_CUBED - cubed)), square) + float(_LINEAR - linear)
    argument = near * total
    rest = (-argument).plus(near, total).plus(near, rest)
    gate = argument.call("sigmoid")
    return gate.plus(gate * rest, 1.0 - gate)


def _by_tanh_formula(x: FloatExpr) -> FloatExpr:
    return x * _gate_formula(x)


def _gelu_slope_formula(x: FloatExpr, gate: FloatExpr) -> FloatExpr:
    near = x.clamp(-_FAR_OF_GATE, _FAR_OF_GATE)
    pace = near * near * float(3 * _CUBED) + float(_LINEAR)
    return gate * (1.0 - gate) * pace * near + gate


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

gelu_gate_op = elementwise(
    "gelu_gate",
    infer=infer_same("gelu_gate", is_float),
    reference=_GATE_MEANING,
    grad=_gate_grad,
    body=body_of_formula(_gate_formula),
)

gelu_by_tanh_op = elementwise(
    "gelu_by_tanh",
    infer=infer_same("gelu_by_tanh", is_float),
    reference=_by_tanh_meaning,
    grad=_by_tanh_grad,
    body=body_of_formula(_by_tanh_formula),
)

gelu_slope_op = elementwise(
    "gelu_slope",
    infer=infer_same("gelu_slope", is_float),
    reference=rounded_from_double(_gelu_slope_meaning),
    grad=_gelu_slope_grad,
    body=body_of_formula(_gelu_slope_formula),
)
