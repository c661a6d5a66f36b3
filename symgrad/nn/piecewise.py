"""Piecewise activation functions: bounded and leaky rectifiers, shrinkage, sparse approximations.

Between two pieces the gradient is that of the piece the point belongs to; nan stays nan.
"""

from __future__ import annotations

from typing import Any

from symgrad.errors import GraphError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops import squashing
from symgrad.graph.ops.arithmetic import abs, add, multiply, square, subtract
from symgrad.graph.ops.comparison import greater, greater_equal, less_equal, where
from symgrad.graph.ops.elementwise import float_operand, float_operands, real_operand
from symgrad.graph.ops.extrema import clip
from symgrad.graph.ops.structure import accumulator_dtype
from symgrad.graph.public_ops import public
from symgrad.nn.activations import relu
from symgrad.random.keyed import draws_of


@public()
def relu6(x: Any, /) -> Tensor:
    """Compute `x` between the limits 0 and 6; its gradient at both is 0.

    >>> sg.run(sg.nn.relu6([-1.0, 3.0, 8.0]))
    array([0., 3., 6.], dtype=float32)
    """
    x = float_operand(x)
    return where(greater_equal(x, 6), 6, relu(x))


@public()
def prelu(x: Any, slope: Any, /) -> Tensor:
    """Compute the parametric rectifier: `x` where it is positive and `slope * x` elsewhere.

    `slope` broadcasts with `x`: one for each channel, if these are last, and it has a gradient.

    K. He, X. Zhang, S. Ren, J. Sun, "Delving deep into rectifiers", 2015.

    >>> sg.run(sg.nn.prelu([[-1.0, -1.0, 2.0]], [0.5, 0.25, 0.5]))
    array([[-0.5 , -0.25,  2.  ]], dtype=float32)
    """
    x, slope = float_operands("prelu", x, slope)
    return where(greater(x, 0), x, multiply(x, slope))


@public()
def rrelu(
    x: Any, generator: Any = None, /, *, lower: float = 1 / 8, upper: float = 1 / 3
) -> Tensor:
    """Compute the randomized rectifier: a `leaky_relu` of slopes drawn from [lower, upper).

    Each element has a slope of its own, drawn by `generator`, a generator or a key; without one,
    which is for evaluation, all have the mean of the limits. Raises `GraphError` for limits in the
    wrong order.

    B. Xu, N. Wang, T. Chen, M. Li, "Empirical evaluation of rectified activations in convolutional
    network", 2015.

    >>> sg.run(sg.nn.rrelu([-24.0, 2.0]))
    array([-5.5,  2. ], dtype=float32)
    """
    if not lower <= upper:
        problem = f"lower is {lower}, which is more than upper, {upper}"
        raise GraphError("rrelu", problem, source=user_source())
    x = float_operand(x)
    if generator is None:
        return prelu(x, (lower + upper) / 2)
    wide = accumulator_dtype(x.dtype)
    slopes = draws_of("rrelu", generator).uniform(x.shape, lower, upper, wide)
    return prelu(x, cast(slopes, x.dtype))


@public()
def hard_shrink(x: Any, /, bound: float = 0.5) -> Tensor:
    """Compute `x` where it is beyond `bound` on either side of 0, and 0 elsewhere.

    Raises `GraphError` for a negative bound.

    >>> sg.run(sg.nn.hard_shrink([-1.0, 0.5, 2.0]))
    array([-1.,  0.,  2.], dtype=float32)
    """
    _require_bound("hard_shrink", bound)
    x = real_operand("hard_shrink", x)
    return where(less_equal(abs(x), bound), 0, x)


@public()
def soft_shrink(x: Any, /, bound: float = 0.5) -> Tensor:
    """Compute `x` moved towards 0 by `bound`, and 0 where that is farther than it goes.

    Raises `GraphError` for a negative bound.

    >>> sg.run(sg.nn.soft_shrink([-1.0, 0.5, 2.0]))
    array([-0.5,  0. ,  1.5], dtype=float32)
    """
    _require_bound("soft_shrink", bound)
    x = float_operand(x)
    return subtract(x, clip(x, -bound, bound))


def _require_bound(op: str, bound: float) -> None:
    if not bound >= 0:
        problem = f"bound is {bound!r}, it must not be negative"
        raise GraphError(op, problem, source=user_source())


@public()
def tanh_shrink(x: Any, /) -> Tensor:
    """Compute `x - tanh(x)`, near 0 by its series; the gradient is `tanh(x)**2`.

    >>> sg.run(sg.nn.tanh_shrink([0.0, 100.0]))
    array([ 0., 99.], dtype=float32)
    """
    return squashing.tanh_shrink(float_operand(x))


@public()
def threshold(x: Any, limit: float, value: float, /) -> Tensor:
    """Compute `x` where it is above `limit`, and `value` elsewhere.

    >>> sg.run(sg.nn.threshold([1.0, 2.0, 3.0], 2.0, -1.0))
    array([-1., -1.,  3.], dtype=float32)
    """
    x = float_operand(x)
    return where(less_equal(x, limit), value, x)


@public()
def sparse_plus(x: Any, /) -> Tensor:
    """Compute 0 up to -1, `x` from 1 on, and `(x + 1)**2 / 4` between: a softplus with a zero.

    >>> sg.run(sg.nn.sparse_plus([-2.0, 0.0, 2.0]))
    array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = float_operand(x)
    # What is not taken must stay finite, or its gradient is 0 * inf.
    between = multiply(square(add(clip(x, -1.0, 1.0), 1)), 0.25)
    return where(greater_equal(x, 1), x, between)


@public()
def sparse_sigmoid(x: Any, /) -> Tensor:
    """Compute `(x + 1) / 2` between the limits 0 and 1: the slope of `sparse_plus`.

    >>> sg.run(sg.nn.sparse_sigmoid([-2.0, 0.0, 2.0]))
    array([0. , 0.5, 1. ], dtype=float32)
    """
    return multiply(add(clip(float_operand(x), -1.0, 1.0), 1), 0.5)
