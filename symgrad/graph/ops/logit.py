"""Logit function, the inverse of sigmoid, and its slope."""

from __future__ import annotations

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr, body_of_formula
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import add, multiply, subtract
from symgrad.graph.ops.elementwise import infer_same, is_float, rounded_once
from symgrad.graph.types import Array


def logit(p: Tensor) -> Tensor:
    """Return `log(p / (1 - p))` of floats."""
    return apply(logit_op, p)


def logit_slope(p: Tensor) -> Tensor:
    """Return `1 / (p * (1 - p))` of floats, the derivative of `logit`."""
    return apply(logit_slope_op, p)


def _logit_formula(p: FloatExpr) -> FloatExpr:
    rest = 1.0 - p
    # Near 1/2 the quotient is 1 + (2p - 1) / (1 - p), of which 2p - 1 is exact.
    near = ((p + p - 1.0) / rest).call("log1p")
    return (abs(p - 0.5) < 0.25).choose(near, (p / rest).log())


def _logit_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, logit_slope(node.inputs[0])),)


def _logit_slope_grad(node: Node, g: Tensor) -> Grads:
    (p,) = node.inputs
    # Differentiated as the quotient that it is, it would be a difference, of infinities near 0.
    bend = multiply(multiply(subtract(add(p, p), 1), node.output), node.output)
    return (multiply(g, bend),)


def _logit_reference(p: Array) -> Array:
    p = p.astype(np.float64)
    return np.where(np.abs(p - 0.5) < 0.25, 2 * np.arctanh(2 * p - 1), np.log(p) - np.log1p(-p))


logit_op = elementwise(
    "logit",
    infer=infer_same("logit", is_float),
    reference=rounded_once(_logit_reference),
    grad=_logit_grad,
    body=body_of_formula(_logit_formula),
)

logit_slope_op = elementwise(
    "logit_slope",
    infer=infer_same("logit_slope", is_float),
    reference=rounded_once(lambda p: 1 / (p.astype(np.float64) * (1 - p.astype(np.float64)))),
    grad=_logit_slope_grad,
    body=body_of_formula(lambda p: 1.0 / (p * (1.0 - p))),
)
