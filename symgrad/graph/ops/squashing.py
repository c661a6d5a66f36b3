"""Softsign and tanh-shrink: ops of their own, for what their gradients cancel as compositions.

Of `x / (1 + |x|)` the slope would be a difference of two numbers that are nearly equal far out, and
of `x - tanh(x)` one of 1 and what is nearly 1 near 0, where the value is a difference as well.
"""

from __future__ import annotations

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, body_of_formula, horner
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import abs as magnitude
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.elementwise import infer_same, is_float, rounded_once
from symgrad.graph.ops.transcendental import tanh
from symgrad.graph.types import Array

# Coefficients of (x - tanh(x)) / x**3 in powers of x**2, of the series of tanh (DLMF 4.33.3).
_SERIES = (
    0.3333333333333333, -0.13333333333333333, 0.05396825396825397, -0.021869488536155203,
    0.008863235529902197, -0.003592128036572481, 0.0014558343870513183, -0.000590027440945586,
    0.00023912911424355248, -9.691537956929451e-05, 3.927832388331683e-05, -1.5918905069328964e-05,
    6.451689215655431e-06, -2.6147711512907546e-06, 1.0597268320104654e-06, -4.294911078273806e-07,
)  # fmt: skip
_NEAR = 0.5  # up to here the series has all digits of a float64, from here the difference has most


def softsign(x: Tensor) -> Tensor:
    """Return `x / (1 + abs(x))`, of complex numbers made of these ops."""
    if x.dtype.is_complex:
        return divide(x, add(magnitude(x), 1))
    return apply(softsign_op, x)


def _softsign_formula(x: FloatExpr) -> FloatExpr:
    return x / (abs(x) + 1.0)


def _softsign_reference(x: Array) -> Array:
    return np.asarray(x / (np.abs(x) + 1))


def _softsign_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    share = divide(1.0, add(magnitude(x), 1))
    return (multiply(g, multiply(share, share)),)


softsign_op = elementwise(
    "softsign",
    infer=infer_same("softsign", is_float),
    reference=rounded_once(_softsign_reference),
    grad=_softsign_grad,
    body=body_of_formula(_softsign_formula),
)


def tanh_shrink(x: Tensor) -> Tensor:
    """Return `x - tanh(x)`, of complex numbers the difference itself."""
    if x.dtype.is_complex:
        return subtract(x, tanh(x))
    return apply(tanh_shrink_op, x)


def _tanh_shrink_formula(x: FloatExpr) -> FloatExpr:
    square = x * x
    near = x * (square * horner(square, _SERIES))
    return (abs(x) < _NEAR).choose(near, x - x.call("tanh"))


def _tanh_shrink_reference(x: Array) -> Array:
    x = x.astype(np.float64)
    small = np.where(np.abs(x) < _NEAR, x, 0.0)
    near = small**3 * np.polynomial.polynomial.polyval(small * small, _SERIES)
    return np.asarray(np.where(np.abs(x) < _NEAR, near, x - np.tanh(x)))


def _tanh_shrink_grad(node: Node, g: Tensor) -> Grads:
    y = tanh(node.inputs[0])
    return (multiply(g, multiply(y, y)),)


tanh_shrink_op = elementwise(
    "tanh_shrink",
    infer=infer_same("tanh_shrink", is_float),
    reference=rounded_once(_tanh_shrink_reference),
    grad=_tanh_shrink_grad,
    body=body_of_formula(_tanh_shrink_formula),
)
