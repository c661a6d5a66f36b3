"""Dynamic slices: blocks of a static size that begin where integers say which a program computes.

dynamic_slice and dynamic_update_slice are each other's adjoint. Slices whose begin is known are in
`slicing`, reads and writes of single rows in `gathering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, IndexOutOfRangeError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.given_arrays import require_size
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import as_tensor, meet_shapes, promote_operands
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.indexing import as_int64
from symgrad.graph.ops.structure import expand_dims, reshape
from symgrad.graph.ops.views import moveaxis, narrow
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, Size
from symgrad.graph.structures import Gather, Scatter
from symgrad.graph.types import Array, Shape, TensorType, static


@public()
def dynamic_slice(x: Any, starts: Tensor | Sequence[Any], sizes: Sequence[Dim]) -> Tensor:
    """Slice a block of `sizes` out of `x` that begins at `starts`, which a program computes.

    `starts` is an integer vector or a sequence of integers and integer scalars, one for each axis.
    A start is clamped to what keeps the block within `x`, from 0 to the size of the axis less that
    of the block, as in XLA: so none is out of range, and a negative one is 0. Of the dtype of `x`;
    the gradient is that to the block, zeros elsewhere.

        >>> x, i = sg.placeholder((5,)), sg.placeholder((), "int32")
        >>> sg.compile([x, i], sg.dynamic_slice(x, [i], [2]))(np.arange(5, dtype="float32"), 3)
        array([3., 4.], dtype=float32)

    Raises `ShapeError` if there is not one start and one size for each axis, or a size is larger
    than its axis, and `DTypeError` for starts that are no integers.
    """
    x = as_tensor(x)
    begins = starts_of("dynamic_slice", starts, x)
    if len(tuple(sizes)) != x.ndim:
        raise ShapeError(
            "dynamic_slice", f"{len(tuple(sizes))} sizes for x: {x.type}", source=user_source()
        )
    taken = [require_size("dynamic_slice", "a size", n) for n in sizes]
    return read_window(x, begins, taken, 0) if begins else x


@public()
def dynamic_update_slice(x: Any, update: Any, starts: Tensor | Sequence[Any]) -> Tensor:
    """Write the block `update` into `x` from `starts` on, which a program computes.

    `starts` is as in `dynamic_slice`, and clamped as there. The dtype is that of `x`, to which
    `update` must be convertible without loss of kind; it has as many axes. Where nothing else reads
    `x`, such as a loop variable whose next value this is, only the block is written.

        >>> x, i = sg.placeholder((5,)), sg.placeholder((), "int32")
        >>> y = sg.dynamic_update_slice(x, sg.ones((2,)), [i])
        >>> sg.compile([x, i], y)(np.zeros(5, "float32"), 9)
        array([0., 0., 0., 1., 1.], dtype=float32)

    The gradient to `x` is zero in the block, that to `update` is what is there. Raises `ShapeError`
    if ranks differ or the block is larger than `x`, and `DTypeError` if the dtype does not fit.
    """
    x = as_tensor(x)
    update = update_like("dynamic_update_slice", x, update)
    begins = starts_of("dynamic_update_slice", starts, x)
    if update.ndim != x.ndim:
        raise ShapeError(
            "dynamic_update_slice",
            f"ranks differ: {x.ndim} of x: {x.type}, {update.ndim} of update: {update.type}",
            source=user_source(),
        )
    return write_window(x, update, begins, 0) if begins else update


def update_like(op: str, x: Tensor, update: Any) -> Tensor:
    """Return `update` in the dtype of `x`; a Python scalar is weak.

    Raises `DTypeError` if the two promote to another dtype.
    """
    both, converted = promote_operands(op, x, update)
    if both.dtype == x.dtype:
        return converted
    is_number = isinstance(update, bool | int | float)
    given = repr(update) if is_number else str(as_tensor(update).type)
    raise DTypeError(
        op,
        f"{given} is not written to x: {x.type}: the two are {both.dtype.name} together",
        hint=None if is_number else f"convert it with sg.astype(v, {x.dtype.name!r})",
        source=user_source(),
    )


def starts_of(op: str, starts: Any, x: Tensor) -> list[Tensor]:
    """Return the start of each axis of `x` as an int64 scalar."""
    if isinstance(starts, Tensor | np.ndarray):
        vector = as_tensor(starts)
        if vector.ndim != 1:
            raise ShapeError(op, f"starts: {vector.type} is no vector", source=user_source())
        size = vector.shape[0]
        count = size if isinstance(size, int) else x.ndim
        known = reshape(vector, (count,))  # checked when the size is known
        parts = [reshape(narrow(known, 0, i, 1), ()) for i in range(count)]
    else:
        parts = [as_tensor(start) for start in starts]
        count = len(parts)
    if count != x.ndim:
        raise ShapeError(op, f"{count} starts for x: {x.type}", source=user_source())
    for part in parts:
        if not part.dtype.is_integer or part.ndim:
            raise DTypeError(op, f"start: {part.type} is no integer", source=user_source())
    return [as_int64(part) for part in parts]


def read_window(
    x: Tensor, starts: Sequence[Tensor], sizes: Sequence[Dim], axis: int, clamps: bool = True
) -> Tensor:
    """Slice blocks of `sizes` that begin at `starts` along axes `axis`, `axis + 1`, ... of `x`.

    The element at `[a, j, w, b]` is that of `x` at `[a, starts[0][j] + w[0], ..., b]`. For the
    gradient to be right, blocks at several `j` must not overlap. A start that would let a block
    leave its axis is clamped, or, unless it `clamps`, stops the program.
    """
    given = tuple(n if isinstance(n, Size) else int(n) for n in sizes)
    return apply(dynamic_slice_op, x, *starts, axis=axis, size=given, clamps=clamps)


def write_window(
    base: Tensor, updates: Tensor, starts: Sequence[Tensor], axis: int, clamps: bool = True
) -> Tensor:
    """Write `updates` where `read_window` with the same `starts` would read."""
    return apply(dynamic_update_slice_op, base, updates, *starts, axis=axis, clamps=clamps)


def _rows(op: str, x: TensorType, starts: Sequence[TensorType], axis: int) -> Shape:
    """Return the shape of the starts, having checked them."""
    if not starts or axis < 0 or axis + len(starts) > x.ndim:
        raise ShapeError(op, f"{len(starts)} starts from axis {axis} of x: {x}")
    shape = starts[0].shape
    for position, start in enumerate(starts):
        if start.dtype != dtypes.int64:
            raise DTypeError(op, f"start {position}: {start} is not int64")
        shape = meet_shapes(op, "start 0", starts[0].with_shape(shape), f"start {position}", start)
    return shape


def _check_sizes(op: str, x: TensorType, sizes: Shape, axis: int) -> None:
    for offset, taken in enumerate(sizes):
        size = x.shape[axis + offset]
        is_known = isinstance(taken, int) and isinstance(size, int)
        if is_known and not 0 <= static(taken) <= static(size):
            raise ShapeError(op, f"{taken} elements of axis {axis + offset} of x: {x}")


def _slice_infer(
    x: TensorType, *starts: TensorType, axis: int, size: Shape, clamps: bool
) -> TensorType:
    rows = _rows("dynamic_slice", x, starts, axis)
    if len(size) != len(starts):
        raise ShapeError("dynamic_slice", f"{len(size)} sizes for {len(starts)} starts in x: {x}")
    _check_sizes("dynamic_slice", x, size, axis)
    return x.with_shape((*x.shape[:axis], *rows, *size, *x.shape[axis + len(size) :]))


def _begins(
    op: str, x: Array, starts: Sequence[Array], sizes: Sequence[int], axis: int, clamps: bool
) -> list[Array]:
    """Return where blocks begin; raises `IndexOutOfRangeError` for one that leaves its axis."""
    begins = []
    for offset, (start, taken) in enumerate(zip(starts, sizes, strict=True)):
        last = x.shape[axis + offset] - taken
        begin = np.clip(start, 0, last)
        outside = start[start != begin]
        if not clamps and outside.size:
            raise IndexOutOfRangeError(
                op, f"start {outside.flat[0]} is outside of 0 to {last} in axis {axis + offset}"
            )
        begins.append(begin)
    return begins


def _blocks(
    begins: Sequence[Array], sizes: Sequence[int], axis: int
) -> list[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Return each position in the starts with the block that begins there."""
    lead = (slice(None),) * axis
    return [
        (j, (*lead, *(slice(b[j], b[j] + n) for b, n in zip(begins, sizes, strict=True))))
        for j in np.ndindex(begins[0].shape)
    ]


def _at(axis: int, row: tuple[int, ...]) -> tuple[slice | int, ...]:
    return (*(slice(None),) * axis, *row)


def _slice_reference(x: Array, *starts: Array, axis: int, size: Shape, clamps: bool) -> Array:
    sizes = tuple(map(static, size))
    begins = _begins("dynamic_slice", x, starts, sizes, axis, clamps)
    result = np.empty(
        (*x.shape[:axis], *starts[0].shape, *sizes, *x.shape[axis + len(sizes) :]), x.dtype
    )
    for j, block in _blocks(begins, sizes, axis):
        result[_at(axis, j)] = x[block]
    return result


def _slice_grad(node: Node, g: Tensor, *, axis: int, size: Shape, clamps: bool) -> Grads:
    x, *starts = node.inputs
    return (write_window(filled_like(x, 0), g, starts, axis, clamps), *(None for _ in starts))


def _slice_kernel(
    _x: TensorType, *starts: TensorType, axis: int, size: Shape, clamps: bool
) -> Gather:
    return Gather(axis, len(starts), tuple(map(static, size)), "clamp" if clamps else "strict")


def _slice_batch(operands: Operands, *, axis: int, size: Shape, clamps: bool) -> Tensor:
    x, *starts = operands.entries
    if not any(entry.is_batched for entry in starts):
        tensors = (e.tensor for e in starts)
        return operands.apply(x.tensor, *tensors, axis=axis + 1, size=size, clamps=clamps)
    # Each block is of its own slice, also of an x that all have in common: its gradient adds up.
    rows = moveaxis(operands.lift(x), 0, axis)
    begins = [operands.lift(entry) for entry in starts]
    places = [iota(begins[0].shape, 0), *begins]
    of_case = 0 if operands.size == 0 else 1  # where there are no cases, no block has one
    taken = operands.apply(rows, *places, axis=axis, size=(of_case, *size), clamps=clamps)
    own = axis + begins[0].ndim
    flat = reshape(taken, (*taken.shape[:own], *taken.shape[own + 1 :]))
    return moveaxis(flat, axis, 0)


dynamic_slice_op = define(
    "dynamic_slice",
    infer=_slice_infer,
    reference=_slice_reference,
    grad=_slice_grad,
    kernel=_slice_kernel,
    batch=_slice_batch,
    of_pairs="each",
)


def _window(updates: TensorType, starts: Sequence[TensorType], axis: int) -> Shape:
    first = axis + starts[0].ndim
    return updates.shape[first : first + len(starts)]


def _update_infer(
    base: TensorType, updates: TensorType, *starts: TensorType, axis: int, clamps: bool
) -> TensorType:
    op = "dynamic_update_slice"
    if updates.dtype != base.dtype:
        raise DTypeError(op, f"update: {updates} is not written to x: {base}")
    rows = _rows(op, base, starts, axis)
    size = _window(updates, starts, axis)
    wanted = (*base.shape[:axis], *rows, *size, *base.shape[axis + len(starts) :])
    meet_shapes(op, "update", updates, "the block", base.with_shape(wanted))
    _check_sizes(op, base, size, axis)
    return base


def _update_reference(
    base: Array, updates: Array, *starts: Array, axis: int, clamps: bool
) -> Array:
    first = axis + starts[0].ndim
    sizes = updates.shape[first : first + len(starts)]
    begins = _begins("dynamic_update_slice", base, starts, sizes, axis, clamps)
    result = np.array(base)
    for j, block in _blocks(begins, sizes, axis):
        result[block] = updates[_at(axis, j)]
    return result


def _update_grad(node: Node, g: Tensor, *, axis: int, clamps: bool) -> Grads:
    _base, updates, *starts = node.inputs
    size = _window(updates.type, [t.type for t in starts], axis)
    of_base = write_window(g, filled_like(updates, 0), starts, axis, clamps)
    return (of_base, read_window(g, starts, size, axis, clamps), *(None for _ in starts))


def _update_kernel(
    _base: TensorType, updates: TensorType, *starts: TensorType, axis: int, clamps: bool
) -> Scatter:
    window = tuple(map(static, _window(updates, starts, axis)))
    return Scatter(axis, len(starts), None, window, "clamp" if clamps else "strict")


def _update_batch(operands: Operands, *, axis: int, clamps: bool) -> Tensor:
    base, updates, *starts = operands.entries
    into, written = operands.lift(base), operands.lift(updates)
    if not any(entry.is_batched for entry in starts):
        tensors = (e.tensor for e in starts)
        return operands.apply(into, written, *tensors, axis=axis + 1, clamps=clamps)
    if operands.size == 0:
        return into
    begins = [operands.lift(entry) for entry in starts]
    places = [iota(begins[0].shape, 0), *begins]
    blocks = expand_dims(moveaxis(written, 0, axis), axis=axis + begins[0].ndim)
    result = operands.apply(moveaxis(into, 0, axis), blocks, *places, axis=axis, clamps=clamps)
    return moveaxis(result, axis, 0)


dynamic_update_slice_op = define(
    "dynamic_update_slice",
    infer=_update_infer,
    reference=_update_reference,
    grad=_update_grad,
    kernel=_update_kernel,
    batch=_update_batch,
    of_pairs="each",
)
