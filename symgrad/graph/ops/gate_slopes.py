"""Derivatives of gated units and of the logistic function, as functions of their own.

The slope y * (1 - y) of a sigmoid y has no digits where y is 1 to a rounding, and a product of such
slopes is 0 or nan far out. Each derivative here is a product of what neither cancels nor overflows:
of e**-|x|, and of factors that are near 1 wherever it is far below. A unit is an op of its operand
and of the exponential or the gate that it and its slope share; to that one there is no gradient,
since it is a function of the operand, of which the slope is the whole derivative.
"""

from __future__ import annotations

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, body_of_formula
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import abs as size_of
from symgrad.graph.ops.arithmetic import add, multiply, negative, subtract
from symgrad.graph.ops.elementwise import (
    infer_same,
    is_float,
    one_call,
    rounded_from_double,
    rounded_once,
)
from symgrad.graph.ops.extrema import clip
from symgrad.graph.ops.transcendental import exp, sigmoid, sigmoid_meaning, tanh
from symgrad.graph.types import Array

# Beyond, e**-|x| is 0 in every format, and so is its product with what is no farther.
_FAR = 750.0


def logistic(x: Tensor) -> Tensor:
    """Compute the sigmoid of `x`, whose derivatives have all digits, by one more exponential."""
    return apply(logistic_op, x)


def logistic_density(x: Tensor) -> Tensor:
    """Compute `sigmoid(x) * sigmoid(-x)`."""
    return apply(logistic_density_op, x)


def silu(x: Tensor) -> Tensor:
    """Compute `x * sigmoid(x)`."""
    return apply(silu_op, x, sigmoid(x))


def mish(x: Tensor) -> Tensor:
    """Compute `x * tanh(log(1 + e**x))`."""
    return apply(mish_op, x, exp(negative(size_of(x))))


# --------------------------------------------------------------------------------------- formulas


def _density_formula(x: FloatExpr) -> FloatExpr:
    decay = (-abs(x)).exp()
    return decay / ((1.0 + decay) * (1.0 + decay))


def _silu_slope_formula(x: FloatExpr, gate: FloatExpr) -> FloatExpr:
    return gate * (1.0 + x.clamp(-_FAR, _FAR) * (1.0 - gate))


class _Mish:
    """What derivatives of mish are made of, for the decay t = e**-|x|.

    With w = (1 + e**x)**2 its factor is (w - 1) / (w + 1), which is expanded by t**2 where x is
    positive, so that nothing overflows.
    """

    def __init__(self, x: FloatExpr, decay: FloatExpr) -> None:
        self.positive = x > 0.0
        square = decay * decay
        self.decay = decay
        self.above = self.positive.choose(decay.like(1.0), square) + 2.0 * decay
        self.rest = self.positive.choose(square, 1.0)
        self.whole = self.above + 2.0 * self.rest

    def share(self) -> FloatExpr:
        """Return the slope of the factor over twice what the factor is less than 1."""
        decay = self.decay
        return self.positive.choose(decay.like(1.0), decay) * (1.0 + decay) / self.whole


def _mish_formula(x: FloatExpr, decay: FloatExpr) -> FloatExpr:
    parts = _Mish(x, decay)
    return x.greatest(-_FAR) * (parts.above / parts.whole)


def _mish_slope_formula(x: FloatExpr, decay: FloatExpr) -> FloatExpr:
    parts = _Mish(x, decay)
    tilt = 4.0 * parts.rest * parts.share()
    return (parts.above + x.clamp(-_FAR, _FAR) * tilt) / parts.whole


def _mish_tilt_formula(x: FloatExpr, decay: FloatExpr) -> FloatExpr:
    parts = _Mish(x, decay)
    return 4.0 * parts.rest * parts.share() / parts.whole


def _mish_share_formula(x: FloatExpr, decay: FloatExpr) -> FloatExpr:
    return _Mish(x, decay).share()


# -------------------------------------------------------------------------------------- gradients


def _logistic_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, logistic_density(node.inputs[0])),)


def _density_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, multiply(node.output, tanh(multiply(node.inputs[0], -0.5)))),)


def _silu_grad(node: Node, g: Tensor) -> Grads:
    return multiply(g, apply(silu_slope_op, *node.inputs)), None


def _silu_slope_grad(node: Node, g: Tensor) -> Grads:
    near = clip(node.inputs[0], -_FAR, _FAR)
    turn = multiply(near, tanh(multiply(near, 0.5)))
    # Of the operand as it is: the slope of `near` is 0 at nan.
    density = logistic_density(node.inputs[0])
    return multiply(g, multiply(density, subtract(2, turn))), None


def _mish_grad(node: Node, g: Tensor) -> Grads:
    return multiply(g, apply(mish_slope_op, *node.inputs)), None


def _mish_slope_grad(node: Node, g: Tensor) -> Grads:
    near = clip(node.inputs[0], -_FAR, _FAR)
    tilt = apply(mish_tilt_op, *node.inputs)
    return multiply(g, multiply(tilt, add(multiply(near, _mish_bend(node)), 2))), None


def _mish_bend(node: Node) -> Tensor:
    """Return the slope of the logarithm of what `mish_tilt` is."""
    share = apply(mish_share_op, *node.inputs)
    return subtract(add(logistic(node.inputs[0]), 1), multiply(share, 4))


def _mish_tilt_grad(node: Node, g: Tensor) -> Grads:
    return multiply(g, multiply(node.output, _mish_bend(node))), None


def _mish_share_grad(node: Node, g: Tensor) -> Grads:
    slope = add(_mish_bend(node), multiply(node.output, 2))
    return multiply(g, multiply(node.output, slope)), None


# ------------------------------------------------------------------------------------- references


def _density_meaning(x: Array) -> Array:
    return np.asarray(sigmoid_meaning(x) * sigmoid_meaning(-x))


def _silu_slope_meaning(x: Array, gate: Array) -> Array:
    return np.asarray(gate + np.clip(x, -_FAR, _FAR) * gate * (1 - gate))


def _mish_factor(x: Array, decay: Array) -> tuple[Array, Array]:
    """Return the factor of mish, and 1 less it."""
    up, down = np.where(x > 0, 1, decay), np.where(x > 0, decay, 1)
    whole = (up + down) ** 2 + down**2
    return (up**2 + 2 * up * down) / whole, 2 * down**2 / whole


def _mish_meaning(x: Array, decay: Array) -> Array:
    return np.asarray(np.maximum(x, -_FAR) * _mish_factor(x, decay)[0])


def _mish_tilt_meaning(x: Array, decay: Array) -> Array:
    factor, rest = _mish_factor(x, decay)
    return np.asarray(np.where(x > 0, 1, decay) / (1 + decay) * rest * (1 + factor))


def _mish_slope_meaning(x: Array, decay: Array) -> Array:
    near = np.clip(x, -_FAR, _FAR)
    return np.asarray(_mish_factor(x, decay)[0] + near * _mish_tilt_meaning(x, decay))


def _mish_share_meaning(x: Array, decay: Array) -> Array:
    factor, _ = _mish_factor(x, decay)
    return np.asarray(np.where(x > 0, 1, decay) / (1 + decay) * (1 + factor) / 2)


# ---------------------------------------------------------------------------------------- records

logistic_op = elementwise(
    "logistic",
    infer=infer_same("logistic", is_float),
    reference=rounded_once(sigmoid_meaning),
    grad=_logistic_grad,
    body=one_call("sigmoid"),
)

logistic_density_op = elementwise(
    "logistic_density",
    infer=infer_same("logistic_density", is_float),
    reference=rounded_once(_density_meaning),
    grad=_density_grad,
    body=body_of_formula(_density_formula),
)

silu_op = elementwise(
    "silu",
    infer=infer_same("silu", is_float),
    reference=rounded_once(lambda x, gate: x * gate),
    grad=_silu_grad,
    body=body_of_formula(lambda x, gate: x * gate),
)

silu_slope_op = elementwise(
    "silu_slope",
    infer=infer_same("silu_slope", is_float),
    reference=rounded_from_double(_silu_slope_meaning),
    grad=_silu_slope_grad,
    body=body_of_formula(_silu_slope_formula),
)

mish_op = elementwise(
    "mish",
    infer=infer_same("mish", is_float),
    reference=rounded_from_double(_mish_meaning),
    grad=_mish_grad,
    body=body_of_formula(_mish_formula),
)

mish_slope_op = elementwise(
    "mish_slope",
    infer=infer_same("mish_slope", is_float),
    reference=rounded_from_double(_mish_slope_meaning),
    grad=_mish_slope_grad,
    body=body_of_formula(_mish_slope_formula),
)

mish_tilt_op = elementwise(
    "mish_tilt",
    infer=infer_same("mish_tilt", is_float),
    reference=rounded_from_double(_mish_tilt_meaning),
    grad=_mish_tilt_grad,
    body=body_of_formula(_mish_tilt_formula),
)

mish_share_op = elementwise(
    "mish_share",
    infer=infer_same("mish_share", is_float),
    reference=rounded_from_double(_mish_share_meaning),
    grad=_mish_share_grad,
    body=body_of_formula(_mish_share_formula),
)
