"""Extrema of two operands, and clipping: maximum, minimum and clip, element by element.

Nan wins over every number. Between equals the first operand gets the gradient, so a limit that an
element has reached passes its gradient on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import called
from symgrad.graph.build import apply
from symgrad.graph.given_arrays import reached_limits
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import elementwise
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.comparison import greater_equal, less_equal, where
from symgrad.graph.ops.elementwise import (
    broadcast_operands,
    filled_like,
    infer_same,
    is_number,
    one_call,
    rounded_once,
)
from symgrad.graph.public_ops import public


@public(is_standard=True, ufuncs=[np.maximum])
def maximum(x: Any, y: Any, /) -> Tensor:
    """Take the greater element, nan if either is nan; between equals `x` gets the gradient.

    >>> sg.run(sg.maximum([1.0, 5.0], 3.0))
    array([3., 5.], dtype=float32)
    """
    return apply(maximum_op, *broadcast_operands("maximum", x, y))


def _maximum_grad(node: Node, g: Tensor) -> Grads:
    return _split_by(greater_equal(*node.inputs), g)


def _split_by(first_wins: Tensor, g: Tensor) -> Grads:
    zero = filled_like(g, 0)
    return where(first_wins, g, zero), where(first_wins, zero, g)


maximum_op = elementwise(
    "maximum",
    infer=infer_same("maximum", is_number),
    reference=rounded_once(np.maximum),
    grad=_maximum_grad,
    body=one_call("max"),
    commutes="but zeros",
)


@public(is_standard=True, ufuncs=[np.minimum])
def minimum(x: Any, y: Any, /) -> Tensor:
    """Take the lesser element, nan if either is nan; between equals `x` gets the gradient.

    >>> sg.run(sg.minimum([1.0, 5.0], 3.0))
    array([1., 3.], dtype=float32)
    """
    return apply(minimum_op, *broadcast_operands("minimum", x, y))


def _minimum_grad(node: Node, g: Tensor) -> Grads:
    return _split_by(less_equal(*node.inputs), g)


minimum_op = elementwise(
    "minimum",
    infer=infer_same("minimum", is_number),
    reference=rounded_once(np.minimum),
    grad=_minimum_grad,
    body=one_call("min"),
    commutes="but zeros",
)


@public(is_standard=True, known_as=["clamp", "clip_by_value"])
def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """Limit `x` to `min` below and `max` above; a limit of None is none.

    The gradient of `x` is 0 beyond a limit and 1 at it.

    >>> sg.run(sg.clip([-2.0, 0.5, 2.0], -1, 1))
    array([-1. ,  0.5,  1. ], dtype=float32)
    """
    with called("clip"):
        x = as_tensor(x)
        low, high = reached_limits(x.dtype, min, max)
        bounded = x if low is None else maximum(x, low)
        return bounded if high is None else minimum(bounded, high)
