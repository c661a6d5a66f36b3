"""Gather, scatter_add, scatter_set and iota: reads and writes where index tensors say.

Gather and scatter_add are each other's adjoint. What users call is in `indexing`. Index tensors
are int64 here; a negative index counts from the end, and one outside of its axis is an error when
the program runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.errors import DTypeError, IndexOutOfRangeError, ShapeError
from symgrad.graph import dtypes
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Range, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.comparison import equal, logical_and, where
from symgrad.graph.ops.elementwise import filled, filled_like, tangents_or_zeros
from symgrad.graph.ops.slicing import slice_op
from symgrad.graph.ops.structure import broadcast_to_op, reshape, reshape_op
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.structures import Gather, Iota, Scatter
from symgrad.graph.types import Array, Shape, TensorType, static


def iota(shape: Shape, axis: int) -> Tensor:
    """Return an int64 tensor that holds the index of each element along `axis`."""
    return apply(iota_op, shape=shape, axis=axis)


def _iota_infer(*, shape: Shape, axis: int) -> TensorType:
    if not 0 <= axis < len(shape):
        raise ShapeError("iota", f"axis {axis} is not one of {len(shape)}")
    return TensorType(dtypes.int64, shape)


def _iota_reference(*, shape: Shape, axis: int) -> Array:
    sizes = tuple(map(static, shape))
    column = np.arange(sizes[axis], dtype=np.int64).reshape(-1, *[1] * (len(sizes) - axis - 1))
    return np.array(np.broadcast_to(column, sizes))


def _iota_kernel(*, shape: Shape, axis: int) -> Iota:
    return Iota(axis)


def _iota_range(*, shape: Shape, axis: int) -> Range | None:
    size = shape[axis]
    return (0, size - 1) if isinstance(size, int) else None


iota_op = define(
    "iota",
    infer=_iota_infer,
    reference=_iota_reference,
    grad="none",
    kernel=_iota_kernel,
    value_range=_iota_range,
)


def gather(x: Tensor, indices: Sequence[Tensor], axis: int) -> Tensor:
    """Replace axes `axis`, `axis + 1`, ... of `x`, one an index tensor, by those of the indices.

    The element at `[a, j, b]` is that of `x` at `[a, indices[0][j], indices[1][j], ..., b]`.
    """
    return apply(gather_op, x, *indices, axis=axis)


def _gather_infer(x: TensorType, *indices: TensorType, axis: int) -> TensorType:
    places = _places("gather", x, indices, axis)
    return x.with_shape((*x.shape[:axis], *places, *x.shape[axis + len(indices) :]))


def _places(op: str, x: TensorType, indices: Sequence[TensorType], axis: int) -> Shape:
    """Return the shape of the index tensors, having checked that they fit `x`."""
    if not indices or axis < 0 or axis + len(indices) > x.ndim:
        raise ShapeError(op, f"{len(indices)} index tensors from axis {axis} of x: {x}")
    shape = indices[0].shape
    for position, index in enumerate(indices):
        if index.dtype != dtypes.int64:
            raise DTypeError(op, f"index tensor {position}: {index} is not int64")
        first = indices[0].with_shape(shape)
        shape = meet_shapes(op, "index tensor 0", first, f"index tensor {position}", index)
    return shape


def _gather_reference(x: Array, *indices: Array, axis: int) -> Array:
    return np.array(x[(slice(None),) * axis + within("gather", x, indices, axis)])


def within(op: str, x: Array, indices: Sequence[Array], axis: int) -> tuple[Array, ...]:
    """Return `indices` counted from the start; raises `IndexOutOfRangeError`."""
    counted = []
    for offset, index in enumerate(indices):
        size = x.shape[axis + offset]
        outside = index[(index < -size) | (index >= size)]
        if outside.size:
            raise IndexOutOfRangeError(
                op, f"index {outside.flat[0]} is outside of axis {axis + offset} of size {size}"
            )
        counted.append(np.where(index < 0, index + size, index))
    return tuple(counted)


def _gather_grad(node: Node, g: Tensor, *, axis: int) -> Grads:
    x, *indices = node.inputs
    return (scatter_rows(filled_like(x, 0), g, indices, axis), *(None for _ in indices))


def _gather_kernel(_x: TensorType, *indices: TensorType, axis: int) -> Gather:
    return Gather(axis, len(indices))


def _gather_batch(operands: Operands, *, axis: int) -> Tensor:
    x, *indices = operands.entries
    if not any(entry.is_batched for entry in indices):
        return operands.apply(*operands.tensors, axis=axis + 1)
    places = [operands.lift(entry) for entry in indices]
    if x.is_batched:
        rows, places = beside(x.tensor, places, axis)
    else:
        rows = x.tensor
    return moveaxis(operands.apply(rows, *places, axis=axis), axis, 0)


def beside(x: Tensor, places: Sequence[Tensor], axis: int) -> tuple[Tensor, list[Tensor]]:
    """Put the axis of `x` before `axis`, to be indexed with its own number."""
    return moveaxis(x, 0, axis), [iota(places[0].shape, 0), *places]


gather_op = define(
    "gather",
    infer=_gather_infer,
    reference=_gather_reference,
    grad=_gather_grad,
    kernel=_gather_kernel,
    batch=_gather_batch,
    of_pairs="each",
)


def scatter_rows(base: Tensor, updates: Tensor, indices: Sequence[Tensor], axis: int) -> Tensor:
    """Return `base` with `updates` added where a gather with the same indices would read.

    Updates that meet are all added, in row-major order of the updates.
    """
    return apply(scatter_add_op, base, updates, *indices, axis=axis)


def _scatter_add_infer(
    base: TensorType, updates: TensorType, *indices: TensorType, axis: int
) -> TensorType:
    if base.dtype.is_bool or updates.dtype != base.dtype:
        raise DTypeError("scatter_add", f"updates: {updates} are not added to base: {base}")
    check_updates("scatter_add", base, updates, indices, axis)
    return base


def check_updates(
    op: str, base: TensorType, updates: TensorType, indices: Sequence[TensorType], axis: int
) -> None:
    """Raise an error if `updates` do not have the shape that a gather of `base` would have."""
    places = _places(op, base, indices, axis)
    wanted = (*base.shape[:axis], *places, *base.shape[axis + len(indices) :])
    meet_shapes(op, "updates", updates, "the elements chosen", base.with_shape(wanted))


def _scatter_add_reference(base: Array, updates: Array, *indices: Array, axis: int) -> Array:
    result = np.array(base)
    places = (slice(None),) * axis + within("scatter_add", base, indices, axis)
    with np.errstate(all="ignore"):
        # NumPy's annotation leaves out the slices that its documentation allows.
        np.add.at(result, places, updates)  # type: ignore[arg-type]
    return result


def _scatter_add_grad(node: Node, g: Tensor, *, axis: int) -> Grads:
    _base, _updates, *indices = node.inputs
    return (g, gather(g, indices, axis), *(None for _ in indices))


def _scatter_add_kernel(
    _base: TensorType, _updates: TensorType, *indices: TensorType, axis: int
) -> Scatter:
    return Scatter(axis, len(indices), lambda s, old, update: s.call("add", old, update))


def scatter_batch(operands: Operands, *, axis: int) -> Tensor:
    """Give a scatter one more axis: where indices have it too, it is indexed with its number."""
    base, updates, *indices = operands.entries
    into, added = operands.lift(base), operands.lift(updates)
    if not any(entry.is_batched for entry in indices):
        return operands.apply(into, added, *(e.tensor for e in indices), axis=axis + 1)
    rows, places = beside(into, [operands.lift(entry) for entry in indices], axis)
    result = operands.apply(rows, moveaxis(added, 0, axis), *places, axis=axis)
    return moveaxis(result, axis, 0)


def _scatter_add_tangent(
    node: Node, of_base: Tensor | None, of_updates: Tensor | None, *_: None, axis: int
) -> Sequence[Tensor | None]:
    # The transpose of the gradient would be a sum of two.
    base, updates, *indices = node.inputs
    if of_updates is None:
        return [of_base]
    into, added = tangents_or_zeros((base, updates), (of_base, of_updates))
    return [scatter_rows(into, added, indices, axis)]


scatter_add_op = define(
    "scatter_add",
    infer=_scatter_add_infer,
    reference=_scatter_add_reference,
    grad=_scatter_add_grad,
    kernel=_scatter_add_kernel,
    batch=scatter_batch,
    tangent=_scatter_add_tangent,
    of_pairs="each",
)


def set_rows(base: Tensor, updates: Tensor, indices: Sequence[Tensor], axis: int) -> Tensor:
    """Return `base` with `updates` in the place of what a gather with the same indices would read.

    Of updates that meet, the last one in row-major order stays.
    """
    return apply(scatter_set_op, base, updates, *indices, axis=axis)


def _scatter_set_infer(
    base: TensorType, updates: TensorType, *indices: TensorType, axis: int
) -> TensorType:
    if updates.dtype != base.dtype:
        raise DTypeError("scatter_set", f"updates: {updates} are not written to base: {base}")
    check_updates("scatter_set", base, updates, indices, axis)
    return base


def _scatter_set_reference(base: Array, updates: Array, *indices: Array, axis: int) -> Array:
    result = np.array(base)
    places = within("scatter_set", base, indices, axis)
    # One at a time: which of several values an assignment leaves is not promised for all indices.
    rows = np.moveaxis(result, range(axis), range(-axis, 0))
    given = np.moveaxis(updates, range(axis), range(-axis, 0))
    for position in np.ndindex(places[0].shape):
        rows[tuple(p[position] for p in places)] = given[position]
    return result


def _scatter_set_grad(node: Node, g: Tensor, *, axis: int) -> Grads:
    _base, updates, *indices = node.inputs
    taken = gather(g, indices, axis)
    if _may_meet(indices):
        after = updates.ndim - axis - indices[0].ndim
        stays = _stays(node.inputs[0], indices, axis)
        stays = reshape(stays, (*(1,) * axis, *stays.shape, *(1,) * after))
        taken = where(stays, taken, filled_like(taken, 0))
    return (set_rows(g, filled_like(updates, 0), indices, axis), taken, *(None for _ in indices))


def _may_meet(indices: Sequence[Tensor]) -> bool:
    """Return whether two places in the index tensors may lead to one row.

    They do not along an axis of which an index is just the position.
    """
    alone = {_moves_along(index) for index in indices}
    return any(n != 1 and axis not in alone for axis, n in enumerate(indices[0].shape))


def _moves_along(index: Tensor) -> int | None:
    """Return the axis along which `index` is a position, or part of one; None if there is none."""
    moved, lead = index, 0
    if moved.node.definition is broadcast_to_op:
        (moved,) = moved.node.inputs
        lead = index.ndim - moved.ndim
    moving = [axis for axis, n in enumerate(moved.shape) if n != 1]
    while moved.node.definition in (reshape_op, slice_op):
        (moved,) = moved.node.inputs
    is_position = moved.node.definition is iota_op and moved.ndim == 1
    return lead + moving[0] if is_position and len(moving) == 1 else None


def _stays(base: Tensor, indices: Sequence[Tensor], axis: int) -> Tensor:
    """Return of each place in the index tensors whether no later one writes to the same rows."""
    places = indices[0].shape
    first = filled(base.shape[axis : axis + len(indices)], 0, dtypes.int64)
    stays = filled(places, True, dtypes.bool_)
    for number in (iota(places, a) for a in range(len(places))):
        last = gather(set_rows(first, number, indices, 0), indices, 0)
        stays = logical_and(stays, equal(last, number))
    return stays


def _scatter_set_kernel(
    _base: TensorType, _updates: TensorType, *indices: TensorType, axis: int
) -> Scatter:
    return Scatter(axis, len(indices), None)


scatter_set_op = define(
    "scatter_set",
    infer=_scatter_set_infer,
    reference=_scatter_set_reference,
    grad=_scatter_set_grad,
    kernel=_scatter_set_kernel,
    batch=scatter_batch,
    of_pairs="each",
)
