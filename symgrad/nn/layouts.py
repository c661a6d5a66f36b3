"""Data layouts, channels last or first: where the axes of a batch of images are."""

from __future__ import annotations

from typing import Any, Literal

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.ops.structure import Axes, reshape

Layout = Literal["NHWC", "NCHW"]

_GREATEST = 2**63 - 1


def channel_axis(op: str, x: Tensor, layout: Any) -> int:
    """Return the axis of the channels: the last one for "NHWC", and axis 1 for "NCHW".

    Raises `GraphError` for another layout, `ShapeError` without a batch and channels.
    """
    if layout not in ("NHWC", "NCHW"):
        problem = f"layout is {layout!r}, neither 'NHWC' nor 'NCHW'"
        raise GraphError(op, problem, source=user_source())
    if x.ndim < 2:
        problem = f"x: {x.type} has no axes for a batch and for channels"
        raise ShapeError(op, problem, source=user_source())
    return x.ndim - 1 if layout == "NHWC" else 1


def spatial_axes(op: str, x: Tensor, layout: Any) -> Axes:
    """Return the axes that are neither the batch, which is axis 0, nor channels."""
    channels = channel_axis(op, x, layout)
    return tuple(axis for axis in range(1, x.ndim) if axis != channels)


def along(values: Tensor, axes: Axes, ndim: int) -> Tensor:
    """Return `values`, one for each position along `axes`, to be broadcast over `ndim` axes."""
    sizes = iter(values.shape)
    return reshape(values, tuple(next(sizes) if axis in axes else 1 for axis in range(ndim)))


def check_count(op: str, name: str, value: Any) -> int:
    """Return `value`; raises `DTypeError` if it is no int, `GraphError` if it is no size."""
    count = as_int(value)
    if count is None:
        raise DTypeError(op, f"{name} is {value!r}, not an int", source=user_source())
    if count < 1:
        raise GraphError(op, f"{name} is {value!r}, it must be at least 1", source=user_source())
    if count > _GREATEST:
        raise GraphError(op, f"{name} is {value!r}, beyond all sizes", source=user_source())
    return count
