"""Fractional max pooling: windows at random places, so that any size can be pooled to a lesser one.

Max pooling, whose windows are evenly spaced, is in `pooling.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import GraphError, ShapeError, user_source
from symgrad.graph.dtypes import float64, int64
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast, constant
from symgrad.graph.ops.arithmetic import add, as_number, multiply, subtract
from symgrad.graph.ops.comparison import less, where
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.ops.extrema import minimum
from symgrad.graph.ops.gathering import gather, iota
from symgrad.graph.ops.reduction import argmax
from symgrad.graph.ops.structure import broadcast_to, expand_dims, reshape
from symgrad.graph.ops.views import moveaxis, narrow
from symgrad.graph.ops.whole_numbers import floor
from symgrad.graph.public_ops import public
from symgrad.graph.types import Shape
from symgrad.nn.layouts import Layout, along, channel_axis
from symgrad.nn.operand_shapes import shaped
from symgrad.nn.spatial import axes_of_space, per_axis
from symgrad.random.keyed import draws_of

_OP = "fractional_max_pool"


@public()
def fractional_max_pool(
    x: Any,
    window: Any,
    size: Any,
    generator: Any = None,
    *,
    samples: Any = None,
    layout: Layout = "NHWC",
) -> Tensor:
    """Fractional max pooling: maxima of windows whose distance is a fraction, begun at random.

    `x` has shape (n, *space, c), with `layout="NCHW"` (n, c, *space), for 1 to 3 axes of space;
    `window` and `size`, that of the result in the place of these, are ints, or one for each. Along
    an axis of l elements the window i of m begins at `floor((i + u) * a) - floor(u * a)` for
    `a = (l - window) / (m - 1)`, and the last one ends where the axis does. Each image, channel and
    axis has a `u` from 0 to below 1 of its own: drawn by `generator`, which is a generator or a
    key, or given as `samples` (n, c, axes of space); PyTorch has those of two axes in the other
    order. Places are computed in float64. The dtype is that of `x`. A nan in a window is its
    result. The gradient goes to the first element of a window that holds the maximum; there is none
    to `samples`.

        >>> x = sg.constant([[[1.0], [3.0], [2.0], [5.0], [4.0]]])
        >>> sg.run(sg.nn.fractional_max_pool(x, 2, 3, samples=[[[0.5]]]))[0, :, 0]
        array([3., 5., 5.], dtype=float32)

    Raises `ShapeError` for windows and sizes that do not fit `x`, axes of space whose size is
    unknown and samples that are not of that shape, `GraphError` for both generator and samples, or
    neither, and `DTypeError` for bools.

    B. Graham, "Fractional max-pooling", 2014.
    """
    x = as_number(_OP, x)
    axes = axes_of_space(_OP, x, layout)
    windows, sizes = (
        per_axis(_OP, name, given, len(axes))
        for name, given in (("window", window), ("size", size))
    )
    lengths = [_length(x, axis, k, m) for axis, k, m in zip(axes, windows, sizes, strict=True)]
    channels = channel_axis(_OP, x, layout)
    last = moveaxis(x, channels, x.ndim - 1)
    drawn = _samples(last, generator, samples)
    begins = [
        _begins(narrow(drawn, 2, place, 1), n, k, m)
        for place, (n, k, m) in enumerate(zip(lengths, windows, sizes, strict=True))
    ]
    return moveaxis(_maxima(last, begins, windows), x.ndim - 1, channels)


def _length(x: Tensor, axis: int, k: int, m: int) -> int:
    """Return the length of an axis, which has room for `m` windows of `k` elements."""
    n = x.shape[axis]
    if not isinstance(n, int):
        problem = f"axis {axis} of x: {x.type} is of unknown size"
        raise ShapeError(_OP, problem, source=user_source())
    if m + k - 1 > n:
        problem = f"{m} windows of {k} need {m + k - 1} elements, and there are {n} in axis {axis} "
        raise ShapeError(_OP, problem + f"of x: {x.type}", source=user_source())
    return n


def _samples(x: Tensor, generator: Any, samples: Any) -> Tensor:
    """Return where windows begin within their distance, (n, c, axes of space), as float64."""
    shape = (x.shape[0], x.shape[-1], x.ndim - 2)
    if (generator is None) == (samples is None):
        given = "neither a generator nor" if samples is None else "both a generator and"
        raise GraphError(_OP, f"there are {given} samples", source=user_source())
    if samples is None:
        return cast(draws_of(_OP, generator).uniform(shape), float64)
    of_channels = shaped(_OP, "samples", float_operand(samples), "channels and axes of x", shape)
    return cast(of_channels, float64)


def _begins(samples: Tensor, n: int, k: int, m: int) -> Tensor:
    """Return where the `m` windows of `k` elements begin in an axis of `n`: (n, m, c)."""
    shape = (samples.shape[0], m, samples.shape[1])
    u, number = broadcast_to(reshape(samples, (shape[0], 1, shape[2])), shape), iota(shape, 1)
    step = (n - k) / max(m - 1, 1)
    end = floor(multiply(add(cast(number, float64), u), step))
    begin = cast(subtract(end, floor(multiply(u, step))), int64)
    return minimum(where(less(number, m - 1), begin, n - k), n - k)


def _maxima(x: Tensor, begins: Sequence[Tensor], windows: Sequence[int]) -> Tensor:
    """Return the first maximum of each window of `x`, whose channels come last."""
    sizes = [begin.shape[1] for begin in begins]
    shape = (x.shape[0], *sizes, x.shape[-1])
    spread = [along(b, (0, 1 + place, x.ndim - 1), x.ndim) for place, b in enumerate(begins)]
    # The elements of a window are one axis, which is the last.
    offsets = [constant(of_axis.ravel()) for of_axis in np.indices(windows)]
    first = argmax(_at(x, (*shape, math.prod(windows)), spread, offsets), axis=-1)
    # Read again where it is, a maximum has a gradient that makes no array of windows.
    return _at(x, shape, spread, [gather(offset, [first], 0) for offset in offsets])


def _at(x: Tensor, shape: Shape, begins: Sequence[Tensor], offsets: Sequence[Tensor]) -> Tensor:
    """Return what `x` has at the sums of `begins`, of as many axes as it has, and `offsets`."""
    if len(shape) > x.ndim:
        begins = [expand_dims(begin, axis=-1) for begin in begins]
    places = [broadcast_to(add(b, o), shape) for b, o in zip(begins, offsets, strict=True)]
    return gather(x, [iota(shape, 0), *places, iota(shape, x.ndim - 1)], 0)
