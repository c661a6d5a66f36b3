"""Sliding windows: unfold, blocks of an axis seen side by side, and its adjoint, fold or col2im.

unfold moves no element: it is a view in which an element of the operand may stand several times,
once for each window that it is in. fold adds up what stands for the same element. Blocks that begin
where data says are in `windows`.
"""

from __future__ import annotations

import itertools

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import cast, require_dtype
from symgrad.graph.ops.elementwise import is_number, rounded_once
from symgrad.graph.ops.marks import match_shape
from symgrad.graph.ops.structure import Axes, accumulator_dtype, permute_dims, reshape
from symgrad.graph.sizes import Dim, divide
from symgrad.graph.structures import AxisMap, Place, View
from symgrad.graph.types import Array, Shape, TensorType, static


def span_of(window: int, dilation: int) -> int:
    """Return how many elements of an axis a window reaches over."""
    return dilation * (window - 1) + 1


def count_windows(size: Dim, window: int, stride: int, dilation: int) -> Dim:
    """Return how many windows lie within an axis of `size`."""
    return divide(size - span_of(window, dilation), stride) + 1


def unfold_axes(x: Tensor, axes: Axes, window: Axes, strides: Axes, dilation: Axes) -> Tensor:
    """View windows of `axes`: an axis becomes the number of windows, and windows go to the end.

    The element at `[..., o, ..., w]` is that of `x` at `[..., strides * o + dilation * w, ...]`.
    """
    return apply(unfold_op, x, axes=axes, window=window, strides=strides, dilation=dilation)


def fold_axes(y: Tensor, axes: Axes, size: Shape, strides: Axes, dilation: Axes) -> Tensor:
    """Add up windows that `unfold_axes` of a tensor with `size` along `axes` would view.

    What is in no window is 0. A 16-bit float is rounded once, when all has been added.
    """
    window = _window(y.type, axes)
    if _fills(y.shape, axes, size, window, strides, dilation):
        return _side_by_side(y, axes, size)
    wide = cast(y, accumulator_dtype(y.dtype))
    folded = apply(fold_op, wide, axes=axes, size=size, strides=strides, dilation=dilation)
    return cast(folded, y.dtype)


def _fills(
    shape: Shape, axes: Axes, size: Shape, window: Axes, strides: Axes, dilation: Axes
) -> bool:
    """Return whether each element is in one window."""
    each = zip(axes, size, window, strides, dilation, strict=True)
    return all(k == s and (d == 1 or k == 1) and shape[a] * k == n for a, n, k, s, d in each)


def _side_by_side(y: Tensor, axes: Axes, size: Shape) -> Tensor:
    """Fold windows that fill the result and do not meet: their elements are only moved."""
    first = y.ndim - len(axes)
    inside = dict(zip(axes, range(first, y.ndim), strict=True))
    order = [part for a in range(first) for part in (a, inside.get(a)) if part is not None]
    whole = dict(zip(axes, size, strict=True))
    return reshape(permute_dims(y, order), [whole.get(a, y.shape[a]) for a in range(first)])


def _window(y: TensorType, axes: Axes) -> Axes:
    return tuple(map(static, y.shape[y.ndim - len(axes) :]))


# ------------------------------------------------------------------------------------ unfold


def _unfold_infer(
    x: TensorType, *, axes: Axes, window: Axes, strides: Axes, dilation: Axes
) -> TensorType:
    if not len(axes) == len(window) == len(strides) == len(dilation):
        raise ShapeError("unfold", f"{len(axes)} axes for windows {list(window)} of x: {x}")
    shape = list(x.shape)
    for axis, k, stride, d in zip(axes, window, strides, dilation, strict=True):
        if not 0 <= axis < x.ndim or k < 1 or stride < 1 or d < 1:
            raise ShapeError("unfold", f"window {k} by {stride}, {d} of axis {axis} of x: {x}")
        size, span = x.shape[axis], span_of(k, d)
        if isinstance(size, int) and size < span:
            raise ShapeError("unfold", f"a window reaches over {span} of axis {axis} of x: {x}")
        shape[axis] = count_windows(size, k, stride, d)
    return x.with_shape((*shape, *window))


def _unfold_reference(
    x: Array, *, axes: Axes, window: Axes, strides: Axes, dilation: Axes
) -> Array:
    view = np.lib.stride_tricks.sliding_window_view(x, _spans(window, dilation), axes)
    index = [slice(None)] * view.ndim
    for place, axis in enumerate(axes):
        index[axis] = slice(None, None, strides[place])
        index[x.ndim + place] = slice(None, None, dilation[place])
    return np.array(view[tuple(index)])


def _spans(window: Axes, dilation: Axes) -> Axes:
    return tuple(span_of(k, d) for k, d in zip(window, dilation, strict=True))


def _unfold_grad(
    node: Node, g: Tensor, *, axes: Axes, window: Axes, strides: Axes, dilation: Axes
) -> Grads:
    size = tuple(node.inputs[0].shape[axis] for axis in axes)
    return (fold_axes(g, axes, size, strides, dilation),)


def _maps(ndim: int, axes: Axes, strides: Axes, dilation: Axes) -> tuple[AxisMap, ...]:
    """Return where an element of a window is in a tensor of `ndim` axes."""
    places = {axis: place for place, axis in enumerate(axes)}
    return tuple(
        AxisMap(0, ((a, strides[places[a]]), (ndim + places[a], dilation[places[a]])))
        if a in places
        else AxisMap.axis(a)
        for a in range(ndim)
    )


def _unfold_kernel(
    x: TensorType, *, axes: Axes, window: Axes, strides: Axes, dilation: Axes
) -> View:
    return View(_maps(x.ndim, axes, strides, dilation))


def _unfold_batch(
    operands: Operands, *, axes: Axes, window: Axes, strides: Axes, dilation: Axes
) -> Tensor:
    moved = tuple(axis + 1 for axis in axes)
    return unfold_axes(operands.tensors[0], moved, window, strides, dilation)


unfold_op = define(
    "unfold",
    infer=_unfold_infer,
    reference=_unfold_reference,
    grad=_unfold_grad,
    kernel=_unfold_kernel,
    batch=_unfold_batch,
)


# -------------------------------------------------------------------------------------- fold


def _fold_infer(
    y: TensorType, *, axes: Axes, size: Shape, strides: Axes, dilation: Axes
) -> TensorType:
    require_dtype("fold", "y", y, is_number)
    if not len(axes) == len(size) == len(strides) == len(dilation) or y.ndim < 2 * len(axes):
        raise ShapeError("fold", f"{len(axes)} axes for a result of {list(size)} and y: {y}")
    rest = y.ndim - len(axes)
    shape = list(y.shape[:rest])
    each = zip(axes, size, y.shape[rest:], strides, dilation, strict=True)
    for axis, n, k, stride, d in each:
        if not 0 <= axis < rest or not isinstance(k, int) or stride < 1 or d < 1:
            raise ShapeError("fold", f"window {k} by {stride}, {d} of axis {axis} of y: {y}")
        expected, found = count_windows(n, k, stride, d), y.shape[axis]
        if isinstance(expected, int) and isinstance(found, int) and expected != found:
            problem = f"{found} windows in axis {axis} of y: {y}, {expected} in size {n}"
            raise ShapeError("fold", problem)
        shape[axis] = n
    return y.with_shape(tuple(shape))


def _fold_reference(y: Array, *, axes: Axes, size: Shape, strides: Axes, dilation: Axes) -> Array:
    return rounded_once(lambda wide: _added_up(wide, axes, size, strides, dilation))(y)


def _added_up(y: Array, axes: Axes, size: Shape, strides: Axes, dilation: Axes) -> Array:
    rest = y.ndim - len(axes)
    shape = list(y.shape[:rest])
    for axis, n in zip(axes, size, strict=True):
        shape[axis] = static(n)
    result = np.zeros(shape, y.dtype)
    for offset in itertools.product(*map(range, y.shape[rest:])):
        place = [slice(None)] * rest
        for axis, w, stride, d in zip(axes, offset, strides, dilation, strict=True):
            place[axis] = slice(w * d, w * d + stride * (y.shape[axis] - 1) + 1, stride)
        result[tuple(place)] += y[(slice(None),) * rest + offset]
    return result


def _fold_grad(
    node: Node, g: Tensor, *, axes: Axes, size: Shape, strides: Axes, dilation: Axes
) -> Grads:
    (y,) = node.inputs
    windows = unfold_axes(g, axes, _window(y.type, axes), strides, dilation)
    return (match_shape(windows, y.shape),)


def _fold_kernel(y: TensorType, *, axes: Axes, size: Shape, strides: Axes, dilation: Axes) -> Place:
    spans = _spans(_window(y, axes), dilation)
    meets = any(span > s for span, s in zip(spans, strides, strict=True))
    return Place((_maps(y.ndim - len(axes), axes, strides, dilation),), 0, adds=meets)


def _fold_batch(
    operands: Operands, *, axes: Axes, size: Shape, strides: Axes, dilation: Axes
) -> Tensor:
    moved = tuple(axis + 1 for axis in axes)
    return operands.apply(
        *operands.tensors, axes=moved, size=size, strides=strides, dilation=dilation
    )


fold_op = define(
    "fold",
    infer=_fold_infer,
    reference=_fold_reference,
    grad=_fold_grad,
    kernel=_fold_kernel,
    batch=_fold_batch,
    of_pairs="each",
)
