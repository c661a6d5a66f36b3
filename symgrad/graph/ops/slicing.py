"""Slice, pad, concat and split: ops that take a part of a tensor, or make one of parts.

slice with pad, concat with split by slices. Indexing, which turns what NumPy allows into these, is
in `subscript.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, called, user_source
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.node import EMPTY, Grads, Node, Range, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import (
    as_tensor,
    meet_shapes,
    normalize_axes,
    normalize_axis,
    promote_operands,
)
from symgrad.graph.ops.elementwise import tangents_or_zeros
from symgrad.graph.ops.structure import Axes, expand_dims, reshape
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, add_up
from symgrad.graph.structures import AxisMap, Number, Place, View
from symgrad.graph.types import Array, Shape, TensorType, static


def slice_axes(x: Tensor, start: Sequence[Dim], size: Sequence[Dim], step: Sequence[int]) -> Tensor:
    """Take `size[a]` elements from `start[a]` on, every `step[a]`-th (it may be negative).

    The elements taken must lie within `x`; NumPy's clipping is done by indexing.
    """
    if tuple(size) == x.shape and all(s == 0 for s in start):
        return x  # by whatever steps: an axis of several elements is whole in steps of 1 only
    return apply(slice_op, x, start=tuple(start), size=tuple(size), step=tuple(step))


def _slice_infer(x: TensorType, *, start: Shape, size: Shape, step: Axes) -> TensorType:
    if not len(start) == len(size) == len(step) == x.ndim:
        raise ShapeError("slice", f"{len(start)} axes are sliced of x: {x}")
    for axis, (n, first, count, stride) in enumerate(zip(x.shape, start, size, step, strict=True)):
        last = first + stride * (count - 1)
        if not all(isinstance(value, int) for value in (n, first, last)) or count == 0:
            continue
        lowest, highest = sorted((static(first), static(last)))
        if stride == 0 or lowest < 0 or highest >= static(n):
            raise ShapeError("slice", f"{first} to {last} by {stride} leaves axis {axis} of x: {x}")
    return x.with_shape(size)


def _slice_reference(x: Array, *, start: Shape, size: Shape, step: Axes) -> Array:
    index = tuple(
        static(first) + stride * np.arange(static(count))
        for first, count, stride in zip(start, size, step, strict=True)
    )
    return np.array(x[np.ix_(*index)]) if index else x


def _slice_grad(node: Node, g: Tensor, *, start: Shape, size: Shape, step: Axes) -> Grads:
    (x,) = node.inputs
    backward = [stride < 0 for stride in step]
    low = tuple(
        first + stride * (count - 1) if back else first
        for first, count, stride, back in zip(start, size, step, backward, strict=True)
    )
    flipped = flip(g, tuple(a for a, back in enumerate(backward) if back))
    return (place(flipped, x.shape, low, tuple(abs(stride) for stride in step)),)


def _slice_kernel(_x: TensorType, *, start: Shape, size: Shape, step: Axes) -> View:
    maps = enumerate(zip(start, step, strict=True))
    return View(tuple(AxisMap.axis(a, d, static(first)) for a, (first, d) in maps))


def _slice_batch(operands: Operands, *, start: Shape, size: Shape, step: Axes) -> Tensor:
    return operands.apply(
        *operands.tensors, start=(0, *start), size=(operands.size, *size), step=(1, *step)
    )


slice_op = define(
    "slice",
    infer=_slice_infer,
    reference=_slice_reference,
    grad=_slice_grad,
    kernel=_slice_kernel,
    batch=_slice_batch,
    gradient_mask="moved",
)


@public(is_standard=True, functions=[np.flip], known_as=["reverse"])
def flip(x: Any, /, axis: Any = None) -> Tensor:
    """Reverse the order of the elements along `axis`, one or more; along all for None.

    >>> sg.run(sg.flip([[1, 2], [3, 4]], axis=1))
    array([[2, 1],
           [4, 3]], dtype=int32)
    """
    x = as_tensor(x)
    axes = normalize_axes("flip", axis, x.ndim)
    start = [n - 1 if a in axes else 0 for a, n in enumerate(x.shape)]
    step = [-1 if a in axes else 1 for a in range(x.ndim)]
    return slice_axes(x, start, x.shape, step) if axes else x


def place(x: Tensor, shape: Shape, low: Shape, step: Axes, value: Number = 0) -> Tensor:
    """Put `x` into a tensor of `shape` filled with `value`: element i at `low + step * i`.

    With step 1 this is a pad; it is the adjoint of a slice.
    """
    if shape == x.shape and all(d == 1 for d in step):
        return x
    return apply(place_op, x, shape=shape, low=low, step=step, value=value)


def _place_infer(
    x: TensorType, *, shape: Shape, low: Shape, step: Axes, value: Number
) -> TensorType:
    if not len(shape) == len(low) == len(step) == x.ndim:
        raise ShapeError("pad", f"{len(low)} axes are padded of x: {x}")
    for axis, (n, total, first, stride) in enumerate(zip(x.shape, shape, low, step, strict=True)):
        last = first + stride * (n - 1)
        if n == 0 or not all(isinstance(value, int) for value in (total, first, last)):
            continue
        if stride < 1 or static(first) < 0 or static(last) >= static(total):
            raise ShapeError(
                "pad", f"axis {axis} of x: {x} placed from {first} to {last} leaves 0 to {total}"
            )
    return x.with_shape(shape)


def _place_reference(x: Array, *, shape: Shape, low: Shape, step: Axes, value: Number) -> Array:
    out = np.full(tuple(map(static, shape)), value, x.dtype)
    index = tuple(
        static(first) + stride * np.arange(n)
        for n, first, stride in zip(x.shape, low, step, strict=True)
    )
    out[np.ix_(*index)] = x
    return out


def _place_grad(
    node: Node, g: Tensor, *, shape: Shape, low: Shape, step: Axes, value: Number
) -> Grads:
    return (slice_axes(g, low, node.inputs[0].shape, step),)


def _place_kernel(_x: TensorType, *, shape: Shape, low: Shape, step: Axes, value: Number) -> Place:
    maps = enumerate(zip(low, step, strict=True))
    return Place((tuple(AxisMap.axis(a, d, static(first)) for a, (first, d) in maps),), value)


def _place_batch(
    operands: Operands, *, shape: Shape, low: Shape, step: Axes, value: Number
) -> Tensor:
    return operands.apply(
        *operands.tensors,
        shape=(operands.size, *shape),
        low=(0, *low),
        step=(1, *step),
        value=value,
    )


place_op = define(
    "pad",
    infer=_place_infer,
    reference=_place_reference,
    grad=_place_grad,
    kernel=_place_kernel,
    batch=_place_batch,
    gradient_mask="moved",
    of_pairs="rule",
)


def require_several(op: str, arrays: Any) -> None:
    """Raise `DTypeError` for one tensor where a list of tensors is joined."""
    if isinstance(arrays, Tensor):
        problem = f"{arrays.type} is one tensor, and a list of tensors is joined"
        raise DTypeError(op, problem, hint="use sg.unstack for its slices", source=user_source())
    if not len(arrays):
        raise ShapeError(op, "there are no tensors to join", source=user_source())


@public(is_standard=True, known_as=["cat", "concatenate"])
def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Tensor:
    """Join tensors along `axis`; all flattened first for None. Dtypes promote.

    The gradient of each is its part. Raises `ShapeError` where ranks or sizes of another axis
    differ, and `DTypeError` for one tensor in the place of a list of them.

    >>> sg.run(sg.concat([[[1, 2]], [[3, 4], [5, 6]]]))
    array([[1, 2],
           [3, 4],
           [5, 6]], dtype=int32)
    """
    require_several("concat", arrays)
    parts = promote_operands("concat", *arrays)
    if axis is None:
        parts, axis = [reshape(t, (t.size,)) for t in parts], 0
    chosen = normalize_axis("concat", axis, parts[0].ndim)
    return parts[0] if len(parts) == 1 else apply(concat_op, *parts, axis=chosen)


def _concat_infer(*parts: TensorType, axis: int) -> TensorType:
    first = parts[0]
    shape = first.shape
    for position, part in enumerate(parts):
        if part.dtype != first.dtype:
            raise DTypeError("concat", f"dtypes differ: {first}, {part}")
        if part.ndim != first.ndim:
            raise ShapeError(
                "concat", f"ranks differ: operand 0: {first}, operand {position}: {part}"
            )
        shape = _meet_beside(axis, shape, first, position, part)
    total = add_up(part.shape[axis] for part in parts)
    return first.with_shape((*shape[:axis], total, *shape[axis + 1 :]))


def _meet_beside(
    axis: int, shape: Shape, first: TensorType, position: int, part: TensorType
) -> Shape:
    """Return the shape of the first operands and of one more, which agree but along `axis`."""
    met = []
    for a, (m, n) in enumerate(zip(shape, part.shape, strict=True)):
        if a != axis and m != n and isinstance(m, int) and isinstance(n, int):
            raise ShapeError(
                "concat",
                f"sizes differ: {m} in axis {a} of operand 0: {first}, "
                f"{n} in axis {a} of operand {position}: {part}; axis {axis} is joined",
            )
        met.append(m if isinstance(m, int) else n)
    return tuple(met)


def _concat_reference(*parts: Array, axis: int) -> Array:
    return np.concatenate(parts, axis=axis)


def _offsets(parts: Sequence[TensorType], axis: int) -> list[Dim]:
    offsets: list[Dim] = [0]
    for part in parts[:-1]:
        offsets.append(offsets[-1] + part.shape[axis])
    return offsets


def _concat_grad(node: Node, g: Tensor, *, axis: int) -> Grads:
    parts = [t.type for t in node.inputs]
    grads = []
    for part, offset in zip(parts, _offsets(parts, axis), strict=True):
        start = [offset if a == axis else 0 for a in range(part.ndim)]
        size = [part.shape[axis] if a == axis else n for a, n in enumerate(g.shape)]
        grads.append(slice_axes(g, start, size, [1] * part.ndim))
    return tuple(grads)


def _concat_kernel(*parts: TensorType, axis: int) -> Place:
    operands = []
    for part, offset in zip(parts, _offsets(parts, axis), strict=True):
        first = static(offset)
        maps = (AxisMap.axis(a, 1, first if a == axis else 0) for a in range(part.ndim))
        operands.append(tuple(maps))
    return Place(tuple(operands), None)


def _concat_batch(operands: Operands, *, axis: int) -> Tensor:
    return operands.apply(*operands.lifted(), axis=axis + 1)


def _concat_tangent(node: Node, *tangents: Tensor | None, axis: int) -> Sequence[Tensor | None]:
    # The transpose of the gradient would be a sum of parts padded with zeros.
    return [concat(tangents_or_zeros(node.inputs, tangents), axis=axis)]


def _concat_range(*parts: Range, axis: int) -> Range:
    given = [part for part in parts if part[0] <= part[1]]
    return (min(p[0] for p in given), max(p[1] for p in given)) if given else EMPTY


concat_op = define(
    "concat",
    infer=_concat_infer,
    reference=_concat_reference,
    grad=_concat_grad,
    kernel=_concat_kernel,
    batch=_concat_batch,
    tangent=_concat_tangent,
    value_range=_concat_range,
    gradient_mask="moved",
    of_pairs="each",
)


@public(is_standard=True)
def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new `axis`.

    >>> sg.run(sg.stack([[1, 2], [3, 4]], axis=1))
    array([[1, 3],
           [2, 4]], dtype=int32)
    """
    require_several("stack", arrays)
    parts = promote_operands("stack", *arrays)
    position = normalize_axis("stack", axis, parts[0].ndim + 1)
    with called("stack"):
        for place, part in enumerate(parts[1:], start=1):
            meet_shapes("stack", "operand 0", parts[0].type, f"operand {place}", part.type)
    return concat([expand_dims(t, axis=position) for t in parts], axis=position)
