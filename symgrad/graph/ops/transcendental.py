"""Transcendental functions: roots, powers, exponentials, logarithms, trigonometry.

Integers that are given to the public functions become float32, except in `pow`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.dtypes import as_dtype
from symgrad.graph.given_arrays import refuse_negative_power
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import add, divide, isfinite, multiply, negative, subtract
from symgrad.graph.ops.comparison import (
    greater,
    logical_and,
    logical_or,
    not_equal,
    where,
)
from symgrad.graph.ops.elementwise import (
    broadcast_operands,
    filled_like,
    float_operand,
    infer_same,
    is_float,
    is_inexact,
    is_number,
    one_call,
    rounded_once,
)
from symgrad.graph.ops.error_slopes import bell
from symgrad.graph.ops.lower_powers import lower_power
from symgrad.graph.public_ops import public
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import ScalarExpr
from symgrad.graph.types import Array


@public(is_standard=True, ufuncs=[np.power], known_as=["power"])
def pow(x: Any, y: Any, /) -> Tensor:
    """Compute `x` to the power `y`; an integer to a negative power gives 0 but for 1 and -1.

    That is where a program computes `y`. Of integers `x`, a `y` that is known to be negative, as an
    int or in an array, is a `DTypeError`, since 0 is seldom what is meant.
    The gradient to `y` is 0 where `x` is not positive (of complex numbers: where it is 0), and at
    infinity where the result is 0, and that to `x` is 0 where `y` is 0.

    >>> sg.run(sg.pow([2.0, 3.0], 3.0))
    array([ 8., 27.], dtype=float32)
    """
    base, exponent = broadcast_operands("pow", x, y)
    refuse_negative_power(base.type, y)
    return apply(pow_op, base, exponent)


def _pow_meaning(x: Array, y: Array) -> Array:
    if as_dtype(x.dtype).kind != "signed":
        return np.asarray(np.power(x, y))
    power = np.power(x, np.maximum(y, 0))
    odd = np.where(y % 2 == 0, 1, -1)
    inverse = np.where(x == 1, 1, np.where(x == -1, odd, 0))
    return np.where(y < 0, inverse, power)


def _pow_grad(node: Node, g: Tensor) -> Grads:
    x, y = node.inputs
    zero, one = filled_like(x, 0), filled_like(x, 1)
    has_log = not_equal if x.dtype.is_complex else greater
    to_x = multiply(g, multiply(y, pow(*lower_power(x, y))))
    # d/dy = x**y * log(x); the logarithm sees 1 where x has none, so that its own gradient is
    # finite there, and at the limits where x**y is 0, as inf to a negative power is: what is 0 by
    # underflow has derivatives that are not
    is_no_limit = logical_or(not_equal(node.output, zero), isfinite(multiply(x, y)))
    is_inside = logical_and(has_log(x, zero), is_no_limit)
    # A large power times the logarithm may overflow, where a g that is 0 makes the product 0.
    to_y = multiply(multiply(g, node.output), log(where(is_inside, x, one)))
    return to_x, where(is_inside, to_y, zero)


pow_op = elementwise(
    "pow",
    infer=infer_same("pow", is_number),
    reference=rounded_once(_pow_meaning),
    grad=_pow_grad,
    body=one_call("pow"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.exp])
def exp(x: Any, /) -> Tensor:
    """Compute the exponential `e**x`, elementwise.

    Integers become float32. The gradient is the result.

    >>> sg.run(sg.exp([0.0, 1.0]))
    array([1.      , 2.718282], dtype=float32)
    """
    return apply(exp_op, float_operand(x))


exp_op = elementwise(
    "exp",
    infer=infer_same("exp", is_inexact),
    reference=rounded_once(np.exp),
    grad=lambda node, g: (multiply(g, node.output),),
    body=one_call("exp"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.expm1])
def expm1(x: Any, /) -> Tensor:
    """Compute `e**x - 1`, accurately near 0.

    Integers become float32. The gradient is `e**x`.

    >>> sg.run(sg.expm1([0.0, 1e-10]))
    array([0.e+00, 1.e-10], dtype=float32)
    """
    return apply(expm1_op, float_operand(x))


def _expm1_grad(node: Node, g: Tensor) -> Grads:
    # The result and 1 would have no digits where it is near -1.
    return (multiply(g, exp(node.inputs[0])),)


expm1_op = elementwise(
    "expm1",
    infer=infer_same("expm1", is_inexact),
    reference=rounded_once(np.expm1),
    grad=_expm1_grad,
    body=one_call("expm1"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.log])
def log(x: Any, /) -> Tensor:
    """Compute the natural logarithm: -inf of 0, nan of negative numbers.

    Integers become float32. The gradient is `1 / x`.

    >>> sg.run(sg.log([1.0, 10.0]))
    array([0.       , 2.3025851], dtype=float32)
    """
    return apply(log_op, float_operand(x))


log_op = elementwise(
    "log",
    infer=infer_same("log", is_inexact),
    reference=rounded_once(np.log),
    grad=lambda node, g: (divide(g, node.inputs[0]),),
    body=one_call("log"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.log1p])
def log1p(x: Any, /) -> Tensor:
    """Compute `log(1 + x)`, accurately near 0.

    Integers become float32. The gradient is `1 / (1 + x)`.

    >>> sg.run(sg.log1p([0.0, 1e-10]))
    array([0.e+00, 1.e-10], dtype=float32)
    """
    return apply(log1p_op, float_operand(x))


log1p_op = elementwise(
    "log1p",
    infer=infer_same("log1p", is_inexact),
    reference=rounded_once(np.log1p),
    grad=lambda node, g: (divide(g, add(node.inputs[0], 1)),),
    body=one_call("log1p"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.sqrt])
def sqrt(x: Any, /) -> Tensor:
    """Compute the square root, nan of negative numbers.

    Integers become float32. The gradient is `1 / (2 * sqrt(x))`.

    >>> sg.run(sg.sqrt([4.0, 2.0]))
    array([2.       , 1.4142135], dtype=float32)
    """
    return apply(sqrt_op, float_operand(x))


def _sqrt_grad(node: Node, g: Tensor) -> Grads:
    # The reciprocal waits for no gradient, and is one of several that divide by the root.
    return (multiply(g, multiply(divide(1, node.output), 0.5)),)


sqrt_op = elementwise(
    "sqrt",
    infer=infer_same("sqrt", is_inexact),
    reference=rounded_once(np.sqrt),
    grad=_sqrt_grad,
    body=one_call("sqrt"),
    of_pairs="rule",
)


@public(known_as=["inverse_sqrt"])
def rsqrt(x: Any, /) -> Tensor:
    """Compute `1 / sqrt(x)`, elementwise.

    Integers become float32. The gradient is `-1 / (2 * x**1.5)`.

    >>> sg.run(sg.rsqrt([1.0, 4.0]))
    array([1. , 0.5], dtype=float32)
    """
    return apply(rsqrt_op, float_operand(x))


def _rsqrt_reference(x: Array) -> Array:
    # Two scalar operations, so a 16-bit float is rounded twice, as NumPy does by itself.
    with np.errstate(all="ignore"):
        return np.asarray(x.dtype.type(1) / np.sqrt(x)).astype(x.dtype, copy=False)


def _rsqrt_grad(node: Node, g: Tensor) -> Grads:
    y = node.output
    return (multiply(multiply(g, -0.5), multiply(y, multiply(y, y))),)


def _rsqrt_body(s: Scalars[ScalarExpr], x: ScalarExpr) -> ScalarExpr:
    return s.call("div", s.const(1, s.dtype_of(x)), s.call("sqrt", x))


rsqrt_op = elementwise(
    "rsqrt",
    infer=infer_same("rsqrt", is_float),
    reference=_rsqrt_reference,
    grad=_rsqrt_grad,
    body=_rsqrt_body,
)


@public(is_standard=True, ufuncs=[np.sin])
def sin(x: Any, /) -> Tensor:
    """Compute the sine of `x` in radians, elementwise.

    Integers become float32. The gradient is `cos(x)`.

    >>> sg.run(sg.sin([0.0, 1.0]))
    array([0.      , 0.841471], dtype=float32)
    """
    return apply(sin_op, float_operand(x))


def _sin_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, cos(node.inputs[0])),)


sin_op = elementwise(
    "sin",
    infer=infer_same("sin", is_inexact),
    reference=rounded_once(np.sin),
    grad=_sin_grad,
    body=one_call("sin"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.cos])
def cos(x: Any, /) -> Tensor:
    """Compute the cosine of `x` in radians, elementwise.

    Integers become float32. The gradient is `-sin(x)`.

    >>> sg.run(sg.cos([0.0, 1.0]))
    array([1.       , 0.5403023], dtype=float32)
    """
    return apply(cos_op, float_operand(x))


cos_op = elementwise(
    "cos",
    infer=infer_same("cos", is_inexact),
    reference=rounded_once(np.cos),
    grad=lambda node, g: (negative(multiply(g, sin(node.inputs[0]))),),
    body=one_call("cos"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.tanh])
def tanh(x: Any, /) -> Tensor:
    """Compute the hyperbolic tangent.

    Integers become float32. The gradient is `1 - tanh(x)**2`.

    >>> sg.run(sg.tanh([0.0, 1.0]))
    array([0.       , 0.7615942], dtype=float32)
    """
    return apply(tanh_op, float_operand(x))


def _tanh_grad(node: Node, g: Tensor) -> Grads:
    y = node.output
    return (multiply(g, subtract(1, multiply(y, y))),)


tanh_op = elementwise(
    "tanh",
    infer=infer_same("tanh", is_inexact),
    reference=rounded_once(np.tanh),
    grad=_tanh_grad,
    body=one_call("tanh"),
    of_pairs="rule",
)


@public()
def sigmoid(x: Any, /) -> Tensor:
    """Compute the logistic function, `1 / (1 + e**-x)`, without overflow.

    Integers become float32. The gradient is `y * (1 - y)` for the result y.

    >>> sg.run(sg.sigmoid([0.0, 2.0]))
    array([0.5      , 0.8807971], dtype=float32)
    """
    return apply(sigmoid_op, float_operand(x))


def sigmoid_meaning(x: Array) -> Array:
    """Return the sigmoid in float64."""
    decay = np.exp(-np.abs(x.astype(np.float64)))
    return np.where(np.isnan(x), x, np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay)))


def _sigmoid_grad(node: Node, g: Tensor) -> Grads:
    y = node.output
    return (multiply(g, multiply(y, subtract(1, y))),)


sigmoid_op = elementwise(
    "sigmoid",
    infer=infer_same("sigmoid", is_float),
    reference=rounded_once(sigmoid_meaning),
    grad=_sigmoid_grad,
    body=one_call("sigmoid"),
)


@public()
def erf(x: Any, /) -> Tensor:
    """Compute the error function, `2 / sqrt(pi)` times the integral of `e**-t**2` from 0 to `x`.

    Integers become float32. The gradient is `2 / sqrt(pi) * e**-x**2`.

    >>> sg.run(sg.erf([0.0, 1.0]))
    array([0.       , 0.8427008], dtype=float32)
    """
    return apply(erf_op, float_operand(x))


def _erf_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    return (multiply(g, multiply(2 / math.sqrt(math.pi), bell(x, -1.0))),)


erf_op = elementwise(
    "erf",
    infer=infer_same("erf", is_float),
    reference=rounded_once(np.vectorize(math.erf, otypes=[np.float64])),
    grad=_erf_grad,
    body=one_call("erf"),
)
