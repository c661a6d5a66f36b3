"""Activation functions, softmax and logsumexp.

All are compositions of ops; those that could overflow are written so that they do not.
"""

from __future__ import annotations

import math
from typing import Any

from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, normalize_axes, promote_operands
from symgrad.graph.ops import gate_slopes
from symgrad.graph.ops.activations import gelu_by_erf, gelu_by_tanh
from symgrad.graph.ops.arithmetic import add, divide, isfinite, multiply, negative, subtract
from symgrad.graph.ops.comparison import equal, greater, less_equal, where
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.elementwise import broadcast_together, float_operand, real_operand
from symgrad.graph.ops.extrema import clip, minimum
from symgrad.graph.ops.greatest_numbers import greatest_number
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.structure import squeeze
from symgrad.graph.ops.transcendental import exp, expm1, log, log1p
from symgrad.graph.public_ops import public

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


@public()
def relu(x: Any, /) -> Tensor:
    """Compute `max(x, 0)`; its gradient at 0 is 0.

    >>> sg.run(sg.nn.relu([-1.0, 2.0]))
    array([0., 2.], dtype=float32)
    """
    x = as_tensor(x)
    return where(less_equal(x, 0), 0, x)


@public()
def leaky_relu(x: Any, /, negative_slope: float = 0.01) -> Tensor:
    """Compute `x` where it is positive and `negative_slope * x` elsewhere.

    >>> sg.run(sg.nn.leaky_relu([-100.0, 2.0]))
    array([-1.,  2.], dtype=float32)
    """
    x = float_operand(x)
    return where(greater(x, 0), x, multiply(x, negative_slope))


@public()
def elu(x: Any, /, alpha: float = 1.0) -> Tensor:
    """Compute `x` where it is positive and `alpha * (e**x - 1)` elsewhere.

    Where `x` is not positive the gradient is `alpha * e**x`.

    Clevert, Unterthiner and Hochreiter, "Exponential linear units" (2016).

    >>> sg.run(sg.nn.elu([-1.0, 2.0]))
    array([-0.63212055,  2.        ], dtype=float32)
    """
    x = float_operand(x)
    # The side that is not taken must not overflow: its gradient would be 0 * inf.
    below = multiply(expm1(minimum(x, 0)), alpha)
    return where(less_equal(x, 0), below, x)


@public()
def selu(x: Any, /) -> Tensor:
    """Compute the scaled `elu` that keeps mean 0 and variance 1.

    Klambauer and others, "Self-normalizing neural networks" (2017).

    >>> sg.run(sg.nn.selu([-1.0, 2.0]))
    array([-1.1113307,  2.101402 ], dtype=float32)
    """
    return multiply(elu(x, _SELU_ALPHA), _SELU_SCALE)


@public()
def gelu(x: Any, /, approximate: bool = False) -> Tensor:
    """Compute `x` times the normal distribution function of `x`; by tanh if `approximate`.

    Hendrycks and Gimpel, "Gaussian error linear units" (2016).

    >>> sg.run(sg.nn.gelu([-1.0, 2.0]))
    array([-0.15865526,  1.9544997 ], dtype=float32)
    """
    x = real_operand("gelu", x)
    return gelu_by_tanh(x) if approximate else gelu_by_erf(x)


@public(known_as=["swish"])
def silu(x: Any, /) -> Tensor:
    """Compute `x * sigmoid(x)`, which is also called swish.

    >>> sg.run(sg.nn.silu([-1.0, 2.0]))
    array([-0.26894143,  1.7615942 ], dtype=float32)
    """
    return gate_slopes.silu(real_operand("silu", x))


@public()
def softplus(x: Any, /) -> Tensor:
    """Compute `log(1 + e**x)`, without overflow. The gradient is `sigmoid(x)`.

    >>> sg.run(sg.nn.softplus([0.0, 1000.0]))
    array([6.931472e-01, 1.000000e+03], dtype=float32)
    """
    x = float_operand(x)
    # One condition decides both terms: with maximum and abs, which break ties each in its own
    # way, the slope at 0 would not be 1/2.
    positive = greater(x, 0)
    decay = exp(where(positive, negative(x), x))
    return add(where(positive, x, 0), log1p(decay))


@public()
def log_sigmoid(x: Any, /) -> Tensor:
    """Compute `log(sigmoid(x))`, without overflow.

    >>> sg.run(sg.nn.log_sigmoid([-1000.0, 0.0]))
    array([-1.000000e+03, -6.931472e-01], dtype=float32)
    """
    return negative(softplus(negative(float_operand(x))))


@public()
def hard_sigmoid(x: Any, /) -> Tensor:
    """Compute `x / 6 + 1/2` between the limits 0 and 1.

    >>> sg.run(sg.nn.hard_sigmoid([-4.0, 0.0, 1.5]))
    array([0.  , 0.5 , 0.75], dtype=float32)
    """
    x = float_operand(x)
    return clip(add(multiply(x, 1 / 6), 0.5), 0.0, 1.0)


@public()
def hard_tanh(x: Any, /) -> Tensor:
    """Compute `x` between the limits -1 and 1.

    >>> sg.run(sg.nn.hard_tanh([-4.0, 0.5, 3.0]))
    array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return clip(float_operand(x), -1.0, 1.0)


@public(known_as=["hard_swish"])
def hard_silu(x: Any, /) -> Tensor:
    """Compute `x * hard_sigmoid(x)`.

    >>> sg.run(sg.nn.hard_silu([-4.0, 0.0, 3.0]))
    array([-0.,  0.,  3.], dtype=float32)
    """
    x = float_operand(x)
    return multiply(x, hard_sigmoid(x))


@public(known_as=["reduce_logsumexp"])
def logsumexp(x: Any, /, axis: Any = None, b: Any = None, *, keepdims: bool = False) -> Tensor:
    """Compute `log(sum(b * exp(x)))` over `axis`, without overflow; without `b`, of `exp(x)`.

    `b` is broadcast with `x`, and what it weighs with 0 does not count, however large.

    >>> sg.run(sg.nn.logsumexp([1000.0, 1000.0]))
    array(1000.6932, dtype=float32)
    """
    if b is None:
        x, weights = float_operand(x), None
    else:
        promoted = map(float_operand, promote_operands("logsumexp", x, b))
        x, weights = broadcast_together("logsumexp", **dict(zip("xb", promoted, strict=True)))
        x = where(equal(weights, 0), -math.inf, x)
    axes = normalize_axes("logsumexp", axis, x.ndim)
    offset = _offset(x, axes)
    terms = exp(subtract(x, offset))
    if weights is not None:
        terms = multiply(terms, weights)
    total = add(log(sum_over(terms, axes, keepdims=True)), offset)
    return total if keepdims else squeeze(total, axes)


def _offset(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return the greatest element along `axes`, which are kept, or 0 where that is infinite."""
    # Of a row of -inf the difference to its maximum would be nan.
    greatest = greatest_number(x, axes)
    return where(isfinite(greatest), greatest, 0)


@public()
def softmax(x: Any, /, axis: Any = -1) -> Tensor:
    """Compute `exp(x)` divided by its sum over `axis`, without overflow.

    >>> sg.run(sg.nn.softmax([[0.0, 0.0], [0.0, 1000.0]]))
    array([[0.5, 0.5],
           [0. , 1. ]], dtype=float32)
    """
    x = float_operand(x)
    axes = normalize_axes("softmax", axis, x.ndim)
    weights = exp(subtract(x, greatest_number(x, axes)))
    # The sum is 1 or more, of weights that are 1 at most: one division a row does for all.
    return multiply(weights, divide(1, sum_over(weights, axes, keepdims=True)))


@public()
def log_softmax(x: Any, /, axis: Any = -1) -> Tensor:
    """Compute `log(softmax(x))`, without overflow. The gradient is `g - softmax(x) * sum(g)`.

    >>> sg.run(sg.nn.log_softmax([1.0, 1.0, 1000.0]))
    array([-999., -999.,    0.], dtype=float32)
    """
    x = float_operand(x)
    axes = normalize_axes("log_softmax", axis, x.ndim)
    shifted = subtract(x, greatest_number(x, axes))
    return subtract(shifted, log(sum_over(exp(shifted), axes, keepdims=True)))


@public()
def softmin(x: Any, /, axis: Any = -1) -> Tensor:
    """Compute `softmax(-x)` over `axis`.

    >>> sg.run(sg.nn.softmin([1.0, 1.0]))
    array([0.5, 0.5], dtype=float32)
    """
    x = float_operand(x)
    return softmax(negative(x), normalize_axes("softmin", axis, x.ndim))


@public()
def logmeanexp(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Compute `log(mean(exp(x)))` over `axis`, without overflow.

    >>> float(sg.run(sg.nn.logmeanexp([1000.0, 1000.0])))
    1000.0
    """
    x = float_operand(x)
    axes = normalize_axes("logmeanexp", axis, x.ndim)
    count = x.type.with_shape(tuple(x.shape[a] for a in axes)).size
    return subtract(logsumexp(x, axes, keepdims=keepdims), log(size_of(count, x.dtype)))
