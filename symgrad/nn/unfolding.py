"""Windows as a tensor: unfold, im2col, and its adjoint, fold."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.structure import permute_dims
from symgrad.graph.ops.unfolding import fold_axes, unfold_axes
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim
from symgrad.graph.types import Shape
from symgrad.nn.spatial import (
    Layout,
    PaddedWindows,
    Padding,
    axes_of_space,
    per_axis,
    sizes_of_space,
    windows_of,
)


def unfolded(x: Tensor, windows: PaddedWindows) -> Tensor:
    """Return windows of `x`, which is padded, with the axes within windows at the end."""
    return unfold_axes(x, windows.axes, windows.window, windows.strides, windows.dilation)


@public()
def unfold(
    x: Any,
    window: Any,
    *,
    strides: Any = 1,
    padding: Padding = "VALID",
    dilation: Any = 1,
    layout: Layout = "NHWC",
) -> Tensor:
    """Unfold, im2col: the windows of the axes of space as a tensor.

    `x` of shape (n, *space, c) gives (n, *out, *window, c), and with `layout="NCHW"` (n, c, *space)
    gives (n, c, *window, *out), for 1 to 3 axes of space. The other arguments are those of
    `max_pool`, with padding by zeros. The dtype is that of `x`. The gradient is `fold`.

        >>> x = sg.constant([[[1.0], [2.0], [3.0]]])
        >>> sg.run(sg.nn.unfold(x, 2))[0, :, :, 0]
        array([[1., 2.],
               [2., 3.]], dtype=float32)

    Raises `ShapeError` for windows, strides or padding that do not fit `x`.
    """
    x = as_tensor(x)
    size = per_axis("unfold", "window", window, len(axes_of_space("unfold", x, layout)))
    windows = windows_of(
        "unfold", x, size, strides=strides, padding=padding, dilation=dilation, layout=layout
    )
    viewed = unfolded(windows.padded(x), windows)
    return permute_dims(viewed, _order(x.ndim, layout))


def _order(ndim: int, layout: Layout) -> list[int]:
    """Return where the axes of an unfolded tensor are in what `unfold_axes` gives."""
    space = ndim - 2
    inside = list(range(ndim, ndim + space))
    if layout == "NHWC":
        return [0, *range(1, 1 + space), *inside, ndim - 1]
    return [0, 1, *inside, *range(2, 2 + space)]


@public()
def fold(
    y: Any,
    size: Any,
    window: Any,
    *,
    strides: Any = 1,
    padding: Padding = "VALID",
    dilation: Any = 1,
    layout: Layout = "NHWC",
) -> Tensor:
    """Fold, col2im: the sum of windows, each added where `unfold` would take it from; its adjoint.

    `size` are the sizes of space of the result, an int or one for each axis; `y` has the shape that
    `unfold` gives for a tensor of that size and the same other arguments. What lies in padding is
    dropped, what is in no window is 0. A 16-bit float is rounded once. The gradient is `unfold`.

        >>> y = sg.constant([[[[1.0], [2.0]], [[3.0], [4.0]]]])
        >>> sg.run(sg.nn.fold(y, 3, 2))[0, :, 0]
        array([1., 5., 4.], dtype=float32)

    Raises `ShapeError` if `y` is not of that shape, and `DTypeError` for bools.
    """
    y = as_tensor(y)
    if y.dtype.is_bool:
        raise DTypeError("fold", f"y: {y.type} is no number", source=user_source())
    space = y.ndim // 2 - 1
    if y.ndim % 2 or not 1 <= space <= 3:
        problem = f"y: {y.type} has not batch, channels, and windows of 1 to 3 axes of space"
        raise ShapeError("fold", problem, source=user_source())
    like = filled(_folded_shape(y, sizes_of_space("fold", size, space), layout), 0, y.dtype)
    windows = windows_of(
        "fold",
        like,
        per_axis("fold", "window", window, space),
        strides=strides,
        padding=padding,
        dilation=dilation,
        layout=layout,
    )
    padded = windows.padded(like)
    order = _order(like.ndim, layout)
    _require_windows(y, permute_dims(unfolded(padded, windows), order).shape)
    whole = tuple(padded.shape[axis] for axis in windows.axes)
    moved = permute_dims(y, np.argsort(order).tolist())
    summed = fold_axes(moved, windows.axes, whole, windows.strides, windows.dilation)
    start: list[Dim] = [0] * like.ndim
    for axis, (before, _) in zip(windows.axes, windows.pads, strict=True):
        start[axis] = before
    return slice_axes(summed, start, like.shape, [1] * like.ndim)


def _folded_shape(y: Tensor, sizes: Shape, layout: Layout) -> Shape:
    if layout == "NCHW":
        return (*y.shape[:2], *sizes)
    return (y.shape[0], *sizes, y.shape[-1])


def _require_windows(y: Tensor, shape: Shape) -> None:
    pairs = zip(y.shape, shape, strict=True)
    if any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in pairs):
        wanted = y.type.with_shape(shape)
        problem = f"y: {y.type} are no windows of that size, which have the shape of {wanted}"
        raise ShapeError("fold", problem, source=user_source())
