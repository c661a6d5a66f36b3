"""Trigonometric functions beside sin and cos: tan, the inverses, degrees, sinc.

Formulas are those of the Array API standard and of NumPy. Integers that are given to the public
functions become float32. Errors are at most as many units in the last place of float32 and float64
as each function states; 16-bit floats are computed in float32 and rounded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, body_of_formula
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import add, divide, multiply, negative, subtract
from symgrad.graph.ops.comparison import less, where
from symgrad.graph.ops.elementwise import (
    filled_like,
    float_operand,
    float_operands,
    in_float32,
    infer_same,
    is_float,
    is_inexact,
    one_call,
    real_operand,
    rounded_from_double,
)
from symgrad.graph.ops.powers import hypot, nonzero_length, one_less_square
from symgrad.graph.ops.transcendental import sqrt
from symgrad.graph.public_ops import public
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import ScalarExpr
from symgrad.graph.types import Array


@public(is_standard=True, ufuncs=[np.tan])
def tan(x: Any, /) -> Tensor:
    """Compute the tangent of `x` in radians, elementwise, within 3.5 ulp (2.5 in float64).

    Any angle is reduced exactly, however large; an infinity gives nan. The gradient is
    `1 + tan(x)**2`.

    >>> sg.run(sg.tan([0.0, 1.0]))
    array([0.       , 1.5574077], dtype=float32)
    """
    return apply(tan_op, float_operand(x))


def _tan_grad(node: Node, g: Tensor) -> Grads:
    y = node.output
    return (multiply(g, add(multiply(y, y), 1)),)


tan_op = elementwise(
    "tan",
    infer=infer_same("tan", is_inexact),
    reference=rounded_from_double(np.tan),
    grad=_tan_grad,
    body=one_call("tan"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.arcsin], known_as=["arcsin"])
def asin(x: Any, /) -> Tensor:
    """Compute the arcsine in radians, from -pi/2 to pi/2, elementwise, within 1.25 ulp.

    Outside of [-1, 1] it is nan. The gradient is `1 / sqrt(1 - x**2)`, infinite at -1 and 1.

    >>> sg.run(sg.asin([0.5, 1.0]))
    array([0.5235988, 1.5707964], dtype=float32)
    """
    return apply(asin_op, float_operand(x))


def _asin_grad(node: Node, g: Tensor) -> Grads:
    return (divide(g, _leg(node.inputs[0])),)


def _leg(x: Tensor) -> Tensor:
    """Return sqrt(1 - x**2), without cancelling."""
    if x.dtype.is_complex:
        return sqrt(multiply(subtract(1, x), add(1, x)))
    return sqrt(one_less_square(x))


asin_op = elementwise(
    "asin",
    infer=infer_same("asin", is_inexact),
    reference=rounded_from_double(np.arcsin),
    grad=_asin_grad,
    body=one_call("asin"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.arccos], known_as=["arccos"])
def acos(x: Any, /) -> Tensor:
    """Compute the arccosine in radians, from 0 to pi, elementwise, within 1.25 ulp.

    Outside of [-1, 1] it is nan. The gradient is `-1 / sqrt(1 - x**2)`, infinite at -1 and 1.

    >>> sg.run(sg.acos([0.5, 1.0]))
    array([1.0471976, 0.       ], dtype=float32)
    """
    return apply(acos_op, float_operand(x))


def _acos_grad(node: Node, g: Tensor) -> Grads:
    return (negative(divide(g, _leg(node.inputs[0]))),)


acos_op = elementwise(
    "acos",
    infer=infer_same("acos", is_inexact),
    reference=rounded_from_double(np.arccos),
    grad=_acos_grad,
    body=one_call("acos"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.arctan], known_as=["arctan"])
def atan(x: Any, /) -> Tensor:
    """Compute the arctangent in radians, from -pi/2 to pi/2, elementwise, within 1.5 ulp.

    The gradient is `1 / (1 + x**2)`.

    >>> sg.run(sg.atan([1.0, float("inf")]))
    array([0.7853982, 1.5707964], dtype=float32)
    """
    return apply(atan_op, float_operand(x))


def _atan_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    if x.dtype.is_complex:
        return (divide(g, add(multiply(x, x), 1)),)
    return (multiply(g, atan_slope(x)),)


def atan_slope(x: Tensor) -> Tensor:
    """Return `1 / (1 + x**2)` of floats, whose square does not overflow."""
    return apply(atan_slope_op, x)


def _atan_slope_formula(x: FloatExpr) -> FloatExpr:
    is_far = abs(x) > 1.0
    near = is_far.choose(1.0 / x, x)
    square = near * near
    return is_far.choose(square, 1.0) / (square + 1.0)


def _atan_slope_reference(x: Array) -> Array:
    near = np.where(np.abs(x) > 1, 1 / x, x)
    return np.asarray(np.where(np.abs(x) > 1, near * near, 1) / (near * near + 1))


def _atan_slope_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    return (multiply(g, multiply(multiply(multiply(x, -2), node.output), node.output)),)


atan_slope_op = elementwise(
    "atan_slope",
    infer=infer_same("atan_slope", is_float),
    reference=rounded_from_double(_atan_slope_reference),
    grad=_atan_slope_grad,
    body=body_of_formula(_atan_slope_formula),
)


atan_op = elementwise(
    "atan",
    infer=infer_same("atan", is_inexact),
    reference=rounded_from_double(np.arctan),
    grad=_atan_grad,
    body=one_call("atan"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.arctan2], known_as=["arctan2"])
def atan2(y: Any, x: Any, /) -> Tensor:
    """Compute the angle of the point `(x, y)` in radians, from -pi to pi, within 1.75 ulp.

    The quotient `y / x` is not rounded first, so nothing over- or underflows on the way. Signs of
    zeros count, as in C99, Annex F.9.1.4. The gradients are `x / r**2` to `y` and `-y / r**2` to
    `x` with `r = hypot(x, y)`, 0 at the origin.

    >>> sg.run(sg.atan2([0.0, 1.0], [-1.0, 1.0]))
    array([3.1415927, 0.7853982], dtype=float32)
    """
    return apply(atan2_op, *float_operands("atan2", y, x))


def _atan2_grad(node: Node, g: Tensor) -> Grads:
    y, x = node.inputs
    length = nonzero_length(hypot(y, x))
    # Divided twice, since the square of the length may overflow.
    to_y = multiply(g, divide(divide(x, length), length))
    return to_y, negative(multiply(g, divide(divide(y, length), length)))


atan2_op = elementwise(
    "atan2",
    infer=infer_same("atan2", is_float),
    reference=rounded_from_double(np.arctan2),
    grad=_atan2_grad,
    body=one_call("atan2"),
)


@public(ufuncs=[np.deg2rad, np.radians])
def deg2rad(x: Any, /) -> Tensor:
    """Convert an angle from degrees to radians, elementwise: `x * pi / 180`, within 1.25 ulp.

    The gradient is `pi / 180`.

    >>> sg.run(sg.deg2rad(180.0))
    array(3.1415927, dtype=float32)
    """
    return _scaled(real_operand("deg2rad", x), math.pi / 180)


@public(ufuncs=[np.rad2deg, np.degrees])
def rad2deg(x: Any, /) -> Tensor:
    """Convert an angle from radians to degrees, elementwise: `x * 180 / pi`, within 1.25 ulp.

    The gradient is `180 / pi`.

    >>> sg.run(sg.rad2deg(1.0))
    array(57.29578, dtype=float32)
    """
    return _scaled(real_operand("rad2deg", x), 180 / math.pi)


def _scaled(x: Tensor, factor: float) -> Tensor:
    """Return `factor * x`; a 16-bit float is rounded only then."""
    wide = dtypes.float32 if x.dtype.is_half else x.dtype
    return cast(multiply(cast(x, wide), factor), x.dtype)


@public(functions=[np.sinc])
def sinc(x: Any, /) -> Tensor:
    """Compute the normalized sinc, `sin(pi * x) / (pi * x)` and 1 at 0, elementwise.

    Within 3.5 ulp; at integers other than 0 it is exactly 0. The gradient is
    `(cos(pi * x) - sinc(x)) / x`, and up to 1/2 its Taylor series, where that difference cancels.

    >>> sg.run(sg.sinc([0.0, 0.5, 3.0]))
    array([1.        , 0.63661975, 0.        ], dtype=float32)
    """
    return apply(sinc_op, float_operand(x))


def _sine_of_turns(x: Array, quarter: int) -> Array:
    """Return sin(pi * x + quarter * pi/2); what is added to an integer is exact for x."""
    near = np.fmod(x.astype(np.float64), 2.0)
    whole = np.rint(2 * near)
    rest = np.pi * (near - whole / 2)
    place = (np.where(np.isfinite(near), whole, 0).astype(np.int64) + quarter) % 4
    return np.choose(place, [np.sin(rest), np.cos(rest), -np.sin(rest), -np.cos(rest)])


def _sinpi_meaning(x: Array) -> Array:
    y = _sine_of_turns(x, 0)
    return np.where(y == 0, np.copysign(0.0, x), y)


def _cospi_meaning(x: Array) -> Array:
    return _sine_of_turns(x, 1) + 0.0  # no -0.0


def _sinc_meaning(x: Array) -> Array:
    y = np.where(x == 0, 1.0, x.astype(np.float64))
    return np.where(x == 0, 1.0, _sinpi_meaning(y) / (np.pi * y))


def _sinpi_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(multiply(g, math.pi), apply(cospi_op, node.inputs[0])),)


sinpi_op = elementwise(
    "sinpi",
    infer=infer_same("sinpi", is_float),
    reference=rounded_from_double(_sinpi_meaning),
    grad=_sinpi_grad,
    body=one_call("sinpi"),
)


def _cospi_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(multiply(g, -math.pi), apply(sinpi_op, node.inputs[0])),)


cospi_op = elementwise(
    "cospi",
    infer=infer_same("cospi", is_float),
    reference=rounded_from_double(_cospi_meaning),
    grad=_cospi_grad,
    body=one_call("cospi"),
)

# The derivative of sinc over x, in powers of x**2; enough of them for float64 up to 1/2.
_SINC_SLOPE = [(-1) ** k * math.pi ** (2 * k) * 2 * k / math.factorial(2 * k + 1)
               for k in range(1, 12)]  # fmt: skip


def _sinc_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    square = multiply(x, x)
    series = filled_like(x, _SINC_SLOPE[-1])
    for coefficient in reversed(_SINC_SLOPE[:-1]):
        series = add(multiply(series, square), coefficient)
    far = divide(subtract(apply(cospi_op, x), node.output), x)
    return (multiply(g, where(less(square, 0.25), multiply(x, series), far)),)


def _sinc_body(s: Scalars[ScalarExpr], x: ScalarExpr) -> ScalarExpr:
    dtype = s.dtype_of(x)
    zero, one = s.const(0, dtype), s.const(1, dtype)
    quotient = s.call("div", s.call("sinpi", x), s.call("mul", x, s.const(math.pi, dtype)))
    return s.select(s.call("eq", x, zero), one, quotient)


sinc_op = elementwise(
    "sinc",
    infer=infer_same("sinc", is_float),
    reference=rounded_from_double(_sinc_meaning),
    grad=_sinc_grad,
    body=in_float32(_sinc_body),
)
