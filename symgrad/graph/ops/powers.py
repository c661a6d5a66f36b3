"""Powers, roots and logarithms beside those of e: to base 2 and 10, cbrt, hypot, logaddexp.

Formulas are those of the Array API standard and of NumPy. Integers that are given to the public
functions become float32. Errors are at most as many units in the last place of float32 and float64
as each function states; 16-bit floats are computed in float32 and rounded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.cube_roots import exact_cbrt
from symgrad.graph.formulas import FloatExpr, body_of_formula
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import divide, isinf, multiply, negative, subtract
from symgrad.graph.ops.comparison import equal, logical_and, where
from symgrad.graph.ops.elementwise import (
    filled_like,
    float_operand,
    float_operands,
    in_float32,
    infer_same,
    is_float,
    is_inexact,
    one_call,
    rounded_from_double,
)
from symgrad.graph.ops.gate_slopes import logistic
from symgrad.graph.public_ops import public
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import Body, ScalarExpr

_LN2 = math.log(2)
_LN10 = math.log(10)


@public(is_standard=True, ufuncs=[np.reciprocal])
def reciprocal(x: Any, /) -> Tensor:
    """Compute the reciprocal `1 / x`, elementwise, correctly rounded.

    Zeros give infinities of their sign. The gradient is `-1 / x**2`.

    >>> sg.run(sg.reciprocal([1.0, 4.0]))
    array([1.  , 0.25], dtype=float32)
    """
    return divide(1, float_operand(x))


@public(ufuncs=[np.exp2])
def exp2(x: Any, /) -> Tensor:
    """Compute the power `2**x`, elementwise, within 1.25 ulp; of an integer exactly.

    The gradient is `log(2) * 2**x`.

    >>> sg.run(sg.exp2([-1.0, 10.0]))
    array([5.000e-01, 1.024e+03], dtype=float32)
    """
    return apply(exp2_op, float_operand(x))


def _exp2_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(multiply(g, _LN2), node.output),)


exp2_op = elementwise(
    "exp2",
    infer=infer_same("exp2", is_float),
    reference=rounded_from_double(np.exp2),
    grad=_exp2_grad,
    body=one_call("exp2"),
)


@public(is_standard=True, ufuncs=[np.log2])
def log2(x: Any, /) -> Tensor:
    """Compute the logarithm to base 2, elementwise, within 1 ulp; of a power of 2 exactly.

    Of zeros it is -inf and of negative numbers nan. The gradient is `1 / (x * log(2))`.

    >>> sg.run(sg.log2([0.5, 1024.0]))
    array([-1., 10.], dtype=float32)
    """
    return apply(log2_op, float_operand(x))


def _log2_grad(node: Node, g: Tensor) -> Grads:
    return (divide(multiply(g, 1 / _LN2), node.inputs[0]),)


log2_op = elementwise(
    "log2",
    infer=infer_same("log2", is_inexact),
    reference=rounded_from_double(np.log2),
    grad=_log2_grad,
    body=one_call("log2"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.log10])
def log10(x: Any, /) -> Tensor:
    """Compute the logarithm to base 10, elementwise, within 1 ulp.

    Of zeros it is -inf and of negative numbers nan. The gradient is `1 / (x * log(10))`.

    >>> sg.run(sg.log10([0.01, 1000.0]))
    array([-2.,  3.], dtype=float32)
    """
    return apply(log10_op, float_operand(x))


def _log10_grad(node: Node, g: Tensor) -> Grads:
    return (divide(multiply(g, 1 / _LN10), node.inputs[0]),)


log10_op = elementwise(
    "log10",
    infer=infer_same("log10", is_inexact),
    reference=rounded_from_double(np.log10),
    grad=_log10_grad,
    body=one_call("log10"),
    of_pairs="rule",
)


@public(ufuncs=[np.cbrt])
def cbrt(x: Any, /) -> Tensor:
    """Compute the cube root, elementwise, within 0.75 ulp; of negative numbers it is negative.

    The gradient is `1 / (3 * cbrt(x)**2)`, infinite at 0.

    >>> sg.run(sg.cbrt([-8.0, 27.0]))
    array([-2.,  3.], dtype=float32)
    """
    return apply(cbrt_op, float_operand(x))


def _cbrt_grad(node: Node, g: Tensor) -> Grads:
    # Of an inverse, whose own derivative is 0 at infinity and infinite at 0, and not nan.
    inverse = divide(1, node.output)
    return (multiply(g, divide(multiply(inverse, inverse), 3)),)


cbrt_op = elementwise(
    "cbrt",
    infer=infer_same("cbrt", is_float),
    reference=rounded_from_double(exact_cbrt),
    grad=_cbrt_grad,
    body=one_call("cbrt"),
)


def one_less_square(x: Tensor) -> Tensor:
    """Return `1 - x**2` of floats without cancelling at 1, whose derivative does not at 0.

    Differentiated as the product `(1 - x) * (1 + x)` that it is, it would be a difference of these.
    """
    return apply(one_less_square_op, x)


def _one_less_square_formula(x: FloatExpr) -> FloatExpr:
    return (1.0 - x) * (1.0 + x)


def _one_less_square_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, multiply(node.inputs[0], -2)),)


one_less_square_op = elementwise(
    "one_less_square",
    infer=infer_same("one_less_square", is_float),
    reference=rounded_from_double(lambda x: (1 - x) * (1 + x)),
    grad=_one_less_square_grad,
    body=body_of_formula(_one_less_square_formula),
)


@public(is_standard=True, ufuncs=[np.hypot])
def hypot(x: Any, y: Any, /) -> Tensor:
    """Compute the Euclidean norm `sqrt(x**2 + y**2)`, elementwise, within 1.25 ulp.

    It neither over- nor underflows before the result does, and is infinite where either operand
    is, also beside nan. The gradients are `x / hypot(x, y)` and `y / hypot(x, y)`, 0 where both
    operands are 0.

    >>> sg.run(sg.hypot(3.0, [4.0, 0.0]))
    array([5., 3.], dtype=float32)
    """
    return apply(hypot_op, *float_operands("hypot", x, y))


def _hypot_grad(node: Node, g: Tensor) -> Grads:
    x, y = node.inputs
    length = nonzero_length(node.output)
    return multiply(g, leg_share(x, y, length)), multiply(g, leg_share(y, x, length))


def leg_share(x: Tensor, y: Tensor, length: Tensor) -> Tensor:
    """Return `x / length`, where `length` is hypot(x, y), whose derivative does not cancel.

    Differentiated as a quotient it would be `1 / length - x**2 / length**3`.
    """
    return apply(leg_share_op, x, y, length)


def _leg_share_grad(node: Node, g: Tensor) -> Grads:
    _, y, length = node.inputs
    other = divide(y, length)
    scaled = multiply(divide(g, length), other)
    # Of the length there is nothing left: it is that of the operands.
    return multiply(scaled, other), negative(multiply(scaled, node.output)), None


leg_share_op = elementwise(
    "leg_share",
    infer=infer_same("leg_share", is_float),
    reference=rounded_from_double(lambda x, _y, length: x / length),
    grad=_leg_share_grad,
    body=lambda s, x, _y, length: s.call("div", x, length),
)


def nonzero_length(length: Tensor) -> Tensor:
    """Return `length` with 1 in the place of 0: by that, the direction of no vector is 0."""
    is_zero = equal(length, filled_like(length, 0))
    return where(is_zero, filled_like(length, 1), length)


hypot_op = elementwise(
    "hypot",
    infer=infer_same("hypot", is_float),
    reference=rounded_from_double(np.hypot),
    grad=_hypot_grad,
    body=one_call("hypot"),
    commutes="yes",
)


@public(is_standard=True, ufuncs=[np.logaddexp])
def logaddexp(x: Any, y: Any, /) -> Tensor:
    """Compute the logarithm of a sum of exponentials, `log(exp(x) + exp(y))`, elementwise.

    It is `max(x, y) + log1p(exp(-|x - y|))`, which does not overflow, within 2.5 ulp of the
    largest of operands and result. The gradients are `sigmoid(x - y)` and `sigmoid(y - x)`, one
    half each where both operands are the same infinity.

    >>> sg.run(sg.logaddexp([0.0, 1000.0], [0.0, 1000.0]))
    array([6.9314718e-01, 1.0006932e+03], dtype=float32)
    """
    return apply(logaddexp_op, *float_operands("logaddexp", x, y))


def _logarithm_of_sum(exponential: str, of_two: float, scale: float) -> Body:
    """Return the body of max + scale * log1p(exponential(min - max)), `of_two` for equal terms."""

    def body(s: Scalars[ScalarExpr], x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
        dtype = s.dtype_of(x)
        greater = s.call("max", x, y)
        decay = s.call(exponential, s.call("sub", s.call("min", x, y), greater))
        rest = s.call("log1p", decay)
        if scale != 1:
            rest = s.call("mul", rest, s.const(scale, dtype))
        # Also of equal infinities, whose difference is nan.
        rest = s.select(s.call("eq", x, y), s.const(of_two, dtype), rest)
        return s.call("add", greater, rest)

    return in_float32(body)


def _share(x: Tensor, y: Tensor, scale: float) -> Tensor:
    """Return the gradient of a logarithm of a sum to its first term."""
    is_same_infinity = logical_and(equal(x, y), isinf(x))
    apart = where(is_same_infinity, filled_like(x, 0), subtract(x, y))
    return logistic(apart if scale == 1 else multiply(apart, scale))


def _logaddexp_grad(node: Node, g: Tensor) -> Grads:
    x, y = node.inputs
    return multiply(g, _share(x, y, 1)), multiply(g, _share(y, x, 1))


logaddexp_op = elementwise(
    "logaddexp",
    infer=infer_same("logaddexp", is_float),
    reference=rounded_from_double(np.logaddexp),
    grad=_logaddexp_grad,
    body=_logarithm_of_sum("exp", _LN2, 1),
    commutes="but zeros",
)


@public(ufuncs=[np.logaddexp2])
def logaddexp2(x: Any, y: Any, /) -> Tensor:
    """Compute the logarithm to base 2 of a sum of powers, `log2(2**x + 2**y)`, elementwise.

    It is `max(x, y) + log2(1 + 2**-|x - y|)`, which does not overflow, within 2.5 ulp of the
    largest of operands and result. The gradients are `1 / (1 + 2**(y - x))` and
    `1 / (1 + 2**(x - y))`.

    >>> sg.run(sg.logaddexp2(3.0, [3.0, 1.0]))
    array([4.      , 3.321928], dtype=float32)
    """
    return apply(logaddexp2_op, *float_operands("logaddexp2", x, y))


def _logaddexp2_grad(node: Node, g: Tensor) -> Grads:
    x, y = node.inputs
    return multiply(g, _share(x, y, _LN2)), multiply(g, _share(y, x, _LN2))


logaddexp2_op = elementwise(
    "logaddexp2",
    infer=infer_same("logaddexp2", is_float),
    reference=rounded_from_double(np.logaddexp2),
    grad=_logaddexp2_grad,
    body=_logarithm_of_sum("exp2", 1, 1 / _LN2),
    commutes="but zeros",
)
