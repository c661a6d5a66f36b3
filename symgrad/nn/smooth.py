"""Smooth activation functions beside the common ones: celu, mish, softsign, squareplus, log1mexp.

All are compositions of ops that neither overflow nor cancel.
"""

from __future__ import annotations

import math
from typing import Any

from symgrad.errors import GraphError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.ops import gate_slopes, squashing
from symgrad.graph.ops.arithmetic import add, divide, multiply, negative
from symgrad.graph.ops.comparison import greater, less_equal, where
from symgrad.graph.ops.elementwise import float_operand, real_operand
from symgrad.graph.ops.extrema import maximum, minimum
from symgrad.graph.ops.powers import hypot
from symgrad.graph.ops.transcendental import exp, expm1, log, log1p
from symgrad.graph.public_ops import public


@public()
def celu(x: Any, /, alpha: float = 1.0) -> Tensor:
    """Compute `x` where it is positive and `alpha * (e**(x / alpha) - 1)` elsewhere.

    Unlike that of `elu` its slope is 1 at 0 for each `alpha`. Raises `GraphError` for 0.

    J. T. Barron, "Continuously differentiable exponential linear units", 2017.

    >>> sg.run(sg.nn.celu([-100.0, 3.0], alpha=2.0))
    array([-2.,  3.], dtype=float32)
    """
    if alpha == 0:
        raise GraphError("celu", "alpha is 0, which x is divided by", source=user_source())
    x = float_operand(x)
    # The side that is not taken must not overflow: its gradient would be 0 * inf.
    below = multiply(expm1(divide(minimum(x, 0), alpha)), alpha)
    return where(less_equal(x, 0), below, x)


@public()
def mish(x: Any, /) -> Tensor:
    """Compute `x * tanh(softplus(x))`, by one exponential.

    D. Misra, "Mish: a self regularized non-monotonic activation function", 2019.

    >>> sg.run(sg.nn.mish([-1000.0, 0.0, 100.0]))
    array([ -0.,   0., 100.], dtype=float32)
    """
    return gate_slopes.mish(real_operand("mish", x))


@public()
def softsign(x: Any, /) -> Tensor:
    """Compute `x / (1 + abs(x))`; the gradient is `1 / (1 + abs(x))**2`.

    >>> sg.run(sg.nn.softsign([-1.0, 3.0]))
    array([-0.5 ,  0.75], dtype=float32)
    """
    return squashing.softsign(float_operand(x))


@public()
def squareplus(x: Any, /, b: float = 4.0) -> Tensor:
    """Compute `(x + sqrt(x**2 + b)) / 2`, without cancelling where `x` is negative.

    Raises `GraphError` unless `b` is positive.

    J. T. Barron, "Squareplus: a softplus-like algebraic rectifier", 2021.

    >>> sg.run(sg.nn.squareplus([-1.5, 0.0, 1.5]))
    array([0.5, 1. , 2. ], dtype=float32)
    """
    if not b > 0:
        problem = f"b is {b!r}, it must be positive"
        raise GraphError("squareplus", problem, source=user_source())
    x = float_operand(x)
    positive = greater(x, 0)
    # (root + x) (root - x) = b, so either is what the other is not.
    both = add(hypot(x, math.sqrt(b)), where(positive, x, negative(x)))
    return where(positive, multiply(both, 0.5), divide(b / 2, both))


@public()
def log1mexp(x: Any, /) -> Tensor:
    """Compute `log(1 - e**-x)` for positive `x`, accurately for small and for large ones.

    It is -inf at 0, and nan for a negative `x`.

    M. Mächler, "Accurately computing log(1 - exp(-|a|))", 2012.

    >>> y = sg.run(sg.nn.log1mexp([0.0, 1e-30, 50.0]))
    >>> y.round(3)
    array([   -inf, -69.078,  -0.   ], dtype=float32)
    """
    x = float_operand(x)
    is_large = greater(x, math.log(2))
    # Each side sees a number that it is finite for, where it is not taken.
    large = log1p(negative(exp(negative(maximum(x, math.log(2))))))
    small = log(negative(expm1(negative(minimum(x, math.log(2))))))
    return where(is_large, large, small)
