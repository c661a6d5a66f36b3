"""Hyperbolic functions beside tanh, and the inverse ones.

Formulas are those of the Array API standard. Integers that are given to the public functions
become float32. Errors are at most as many units in the last place of float32 and float64 as each
function states; 16-bit floats are computed in float32 and rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.elementwise import (
    float_operand,
    infer_same,
    is_inexact,
    one_call,
    rounded_from_double,
)
from symgrad.graph.ops.powers import hypot, one_less_square
from symgrad.graph.ops.transcendental import sqrt
from symgrad.graph.public_ops import public


@public(is_standard=True, ufuncs=[np.sinh])
def sinh(x: Any, /) -> Tensor:
    """Compute the hyperbolic sine, `(e**x - e**-x) / 2`, elementwise, within 1.75 ulp.

    It overflows only where the result does. The gradient is `cosh(x)`.

    >>> sg.run(sg.sinh([0.0, 1.0]))
    array([0.       , 1.1752012], dtype=float32)
    """
    return apply(sinh_op, float_operand(x))


def _sinh_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, cosh(node.inputs[0])),)


sinh_op = elementwise(
    "sinh",
    infer=infer_same("sinh", is_inexact),
    reference=rounded_from_double(np.sinh),
    grad=_sinh_grad,
    body=one_call("sinh"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.cosh])
def cosh(x: Any, /) -> Tensor:
    """Compute the hyperbolic cosine, `(e**x + e**-x) / 2`, elementwise, within 1.75 ulp.

    It overflows only where the result does. The gradient is `sinh(x)`.

    >>> sg.run(sg.cosh([0.0, 1.0]))
    array([1.       , 1.5430807], dtype=float32)
    """
    return apply(cosh_op, float_operand(x))


def _cosh_grad(node: Node, g: Tensor) -> Grads:
    return (multiply(g, sinh(node.inputs[0])),)


cosh_op = elementwise(
    "cosh",
    infer=infer_same("cosh", is_inexact),
    reference=rounded_from_double(np.cosh),
    grad=_cosh_grad,
    body=one_call("cosh"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.arcsinh])
def asinh(x: Any, /) -> Tensor:
    """Compute the inverse hyperbolic sine, elementwise, within 1.5 ulp.

    The gradient is `1 / sqrt(x**2 + 1)`.

    >>> sg.run(sg.asinh([0.0, 1.0]))
    array([0.       , 0.8813736], dtype=float32)
    """
    return apply(asinh_op, float_operand(x))


def _asinh_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    if x.dtype.is_complex:  # two roots, each of which is on its principal branch
        return (divide(g, multiply(sqrt(add(1, multiply(x, 1j))), sqrt(add(1, multiply(x, -1j))))),)
    return (divide(g, hypot(x, 1)),)


asinh_op = elementwise(
    "asinh",
    infer=infer_same("asinh", is_inexact),
    reference=rounded_from_double(np.arcsinh),
    grad=_asinh_grad,
    body=one_call("asinh"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.arccosh])
def acosh(x: Any, /) -> Tensor:
    """Compute the inverse hyperbolic cosine, elementwise, within 2 ulp.

    Below 1 it is nan. The gradient is `1 / sqrt(x**2 - 1)`, infinite at 1.

    >>> sg.run(sg.acosh([1.0, 2.0]))
    array([0.      , 1.316958], dtype=float32)
    """
    return apply(acosh_op, float_operand(x))


def _acosh_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    # By one root after the other: a product under the root would overflow, and one of roots has a
    # derivative that is nan at 1.
    return (divide(divide(g, sqrt(subtract(x, 1))), sqrt(add(x, 1))),)


acosh_op = elementwise(
    "acosh",
    infer=infer_same("acosh", is_inexact),
    reference=rounded_from_double(np.arccosh),
    grad=_acosh_grad,
    body=one_call("acosh"),
    of_pairs="rule",
)


@public(is_standard=True, ufuncs=[np.arctanh])
def atanh(x: Any, /) -> Tensor:
    """Compute the inverse hyperbolic tangent, elementwise, within 1.25 ulp.

    At -1 and 1 it is infinite, outside of them nan. The gradient is `1 / (1 - x**2)`.

    >>> sg.run(sg.atanh([0.5, 1.0]))
    array([0.54930615,        inf], dtype=float32)
    """
    return apply(atanh_op, float_operand(x))


def _atanh_grad(node: Node, g: Tensor) -> Grads:
    (x,) = node.inputs
    if x.dtype.is_complex:
        return (divide(g, multiply(subtract(1, x), add(1, x))),)
    return (divide(g, one_less_square(x)),)


atanh_op = elementwise(
    "atanh",
    infer=infer_same("atanh", is_inexact),
    reference=rounded_from_double(np.arctanh),
    grad=_atanh_grad,
    body=one_call("atanh"),
    of_pairs="rule",
)
