"""Dropout of single elements and of whole channels, and the one that keeps mean and variance.

All take a generator or a key, and are for training: a graph for evaluation does without.
"""

from __future__ import annotations

from typing import Any

from symgrad.errors import GraphError, ShapeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.comparison import where
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.ops.structure import broadcast_to
from symgrad.graph.public_ops import public
from symgrad.graph.types import Shape
from symgrad.nn.layouts import Layout, channel_axis
from symgrad.random.keyed import draws_of

# What SELU tends to for small x: -scale * alpha of its definition.
_SATURATED = -1.7580993408473766


@public()
def dropout(x: Any, rate: float, generator: Any) -> Tensor:
    """Set each element of `x` to 0 with the chance `rate`, and scale the others by 1 / (1 - rate).

    So the mean stays: it is for training, and a graph for evaluation does without. `generator` is
    a generator, or a key. The elements are chosen anew in each step of a program that carries
    `generator.advance()` out. Raises `GraphError` for a rate that is not from 0 to below 1, and
    `DTypeError` for what is neither generator nor key.

    N. Srivastava and others, "Dropout: a simple way to prevent neural networks from overfitting",
    2014; scaled while training rather than after.

    >>> sg.run(sg.nn.dropout(sg.ones(6), 0.5, sg.random.key(1)))
    array([0., 0., 2., 0., 2., 2.], dtype=float32)
    """
    _require_rate("dropout", rate)
    values = float_operand(x)
    if rate == 0:
        return values
    is_kept = draws_of("dropout", generator).bernoulli(1 - rate, values.shape)
    return where(is_kept, multiply(values, 1 / (1 - rate)), 0)


def _require_rate(op: str, rate: float) -> None:
    if not 0 <= rate < 1:
        raise GraphError(op, f"rate {rate} is not in [0, 1)", source=user_source())


@public(known_as=["SpatialDropout1D"])
def dropout1d(x: Any, rate: float, generator: Any, *, layout: Layout = "NHWC") -> Tensor:
    """Dropout of whole channels of sequences: `x` is (batch, length, channels).

    With `layout="NCHW"` it is (batch, channels, length). Each channel of each example is 0 with
    the chance `rate`, and multiplied by 1 / (1 - rate) otherwise, since neighbours in a sequence
    say much the same. Errors are as in `dropout`, and `ShapeError` for another number of axes.

    J. Tompson and others, "Efficient object localization using convolutional networks", 2014.

    >>> y = sg.run(sg.nn.dropout1d(sg.ones((2, 5, 3)), 0.5, sg.random.key(0)))
    >>> bool((y == y[:, :1]).all())
    True
    """
    return _without_channels("dropout1d", x, rate, generator, 1, layout)


@public(known_as=["SpatialDropout2D"])
def dropout2d(x: Any, rate: float, generator: Any, *, layout: Layout = "NHWC") -> Tensor:
    """Dropout of whole channels of images: `x` is (batch, height, width, channels).

    With `layout="NCHW"` it is (batch, channels, height, width). Else as `dropout1d`.

    >>> y = sg.run(sg.nn.dropout2d(sg.ones((2, 5, 5, 3)), 0.5, sg.random.key(0)))
    >>> bool((y == y[:, :1, :1]).all())
    True
    """
    return _without_channels("dropout2d", x, rate, generator, 2, layout)


@public(known_as=["SpatialDropout3D"])
def dropout3d(x: Any, rate: float, generator: Any, *, layout: Layout = "NHWC") -> Tensor:
    """Dropout of whole channels of volumes: `x` is (batch, depth, height, width, channels).

    With `layout="NCHW"` it is (batch, channels, depth, height, width). Else as `dropout1d`.

    >>> y = sg.run(sg.nn.dropout3d(sg.ones((2, 3, 3, 3, 4)), 0.5, sg.random.key(0)))
    >>> bool((y == y[:, :1, :1, :1]).all())
    True
    """
    return _without_channels("dropout3d", x, rate, generator, 3, layout)


def _without_channels(
    op: str, x: Any, rate: float, generator: Any, spatial: int, layout: Layout
) -> Tensor:
    _require_rate(op, rate)
    values = float_operand(x)
    shape = _of_channels(op, values, layout)
    if values.ndim != spatial + 2:
        problem = f"x: {values.type} has {values.ndim} axes, not {spatial + 2}"
        raise ShapeError(op, problem, source=user_source())
    if rate == 0:
        return values
    is_kept = draws_of(op, generator).bernoulli(1 - rate, shape)
    return where(broadcast_to(is_kept, values.shape), multiply(values, 1 / (1 - rate)), 0)


def _of_channels(op: str, x: Tensor, layout: Layout) -> Shape:
    """Return the shape of what is the same at all positions of a channel."""
    channels = channel_axis(op, x, layout)
    return tuple(n if axis in (0, channels) else 1 for axis, n in enumerate(x.shape))


@public()
def alpha_dropout(x: Any, rate: float, generator: Any) -> Tensor:
    """Dropout for `selu`: elements become what SELU tends to for small ones, not 0.

    Then all are scaled and moved, so that mean 0 and variance 1 stay what they were. Errors are as
    in `dropout`.

    G. Klambauer, T. Unterthiner, A. Mayr, S. Hochreiter, "Self-normalizing neural networks", 2017.

    >>> y = sg.run(sg.nn.alpha_dropout(sg.zeros((1000,)), 0.5, sg.random.key(0)))
    >>> bool(abs(y.mean()) < 0.1)
    True
    """
    values = float_operand(x)
    return _saturated("alpha_dropout", values, rate, generator, values.shape)


@public()
def feature_alpha_dropout(
    x: Any, rate: float, generator: Any, *, layout: Layout = "NHWC"
) -> Tensor:
    """Dropout for `selu` of whole channels: `alpha_dropout` with one choice for all positions.

    `x` is (batch, *spatial, channels), with `layout="NCHW"` (batch, channels, *spatial).

    >>> y = sg.run(sg.nn.feature_alpha_dropout(sg.ones((2, 5, 3)), 0.5, sg.random.key(0)))
    >>> bool((y == y[:, :1]).all())
    True
    """
    values = float_operand(x)
    shape = _of_channels("feature_alpha_dropout", values, layout)
    return _saturated("feature_alpha_dropout", values, rate, generator, shape)


def _saturated(op: str, x: Tensor, rate: float, generator: Any, shape: Shape) -> Tensor:
    _require_rate(op, rate)
    if rate == 0:
        return x
    # With u for what SELU tends to: of variance 1 and mean 0 the mixture has the mean rate * u and
    # the variance (1 - rate) * (1 + rate * u**2).
    factor = ((1 - rate) * (1 + rate * _SATURATED**2)) ** -0.5
    offset = -factor * rate * _SATURATED
    is_kept = broadcast_to(draws_of(op, generator).bernoulli(1 - rate, shape), x.shape)
    return add(multiply(where(is_kept, x, _SATURATED), factor), offset)
