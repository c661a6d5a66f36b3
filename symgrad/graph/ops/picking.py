"""Row-wise gather: the element of each row that an index names, such as the score of a label.

A gather would do, but for two things: an index below 0 is out of range here, as a class has no
number counted from the end; and since each row is read once, the gradient needs no scatter. It is
a choice between the gradient of the row and 0, element by element, which is fused with whatever
else arrives at the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.errors import DTypeError, IndexOutOfRangeError, ShapeError
from symgrad.graph import dtypes
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.comparison import equal, where
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.structure import broadcast_to, expand_dims
from symgrad.graph.sizes import Dim
from symgrad.graph.structures import Gather
from symgrad.graph.types import Array, TensorType


def pick(rows: Tensor, places: Tensor) -> Tensor:
    """Return for each row along the last axis of `rows` its element at the index in `places`.

    `places` is int64 and has the other axes of `rows`. An index below 0 or beyond the row stops
    the program, as does the gradient, also where nothing else reads what was picked.
    """
    return apply(pick_op, rows, *_positions(places), places)


def checked_index(places: Tensor, count: Dim) -> Tensor:
    """Return the int64 `places` unchanged; one not from 0 to `count - 1` stops the program."""
    return apply(checked_index_op, iota((count,), 0), places)


def _positions(places: Tensor) -> list[Tensor]:
    return [iota(places.shape, axis) for axis in range(places.ndim)]


# Of the index tensors all but the last count the rows: the structure is a gather, which is given
# an index for each axis that it reads at.


def _infer(rows: TensorType, *indices: TensorType) -> TensorType:
    if len(indices) != rows.ndim:
        raise ShapeError("pick", f"{len(indices)} index tensors for rows: {rows}")
    shape = rows.shape[:-1]
    for index in indices:
        if index.dtype != dtypes.int64:
            raise DTypeError("pick", f"index: {index} is not int64")
        known = rows.with_shape(shape)
        shape = meet_shapes("pick", "rows without their last axis", known, "index", index)
    return rows.with_shape(shape)


def _reference(rows: Array, *indices: Array) -> Array:
    *positions, places = indices
    assert all(map(np.array_equal, positions, np.indices(places.shape))), "rows are not counted"
    _check("pick", places, rows.ndim - 1, rows.shape[-1])
    return np.array(rows[indices])


def _check(op: str, places: Array, axis: int, size: int) -> None:
    outside = places[(places < 0) | (places >= size)]
    if outside.size:
        raise IndexOutOfRangeError(
            op, f"index {outside.flat[0]} is outside of axis {axis} of size {size}"
        )


def _grad(node: Node, g: Tensor) -> Grads:
    rows, *indices = node.inputs
    last = rows.ndim - 1
    # Checked once more: a program may need the gradient and not what was picked.
    places = checked_index(indices[-1], rows.shape[last])
    is_picked = equal(iota(rows.shape, last), _along(places, rows))
    return (where(is_picked, _along(g, rows), 0), *(None for _ in indices))


def _along(x: Tensor, rows: Tensor) -> Tensor:
    """Repeat `x`, which has an element for each row, along the rows."""
    return broadcast_to(expand_dims(x, axis=rows.ndim - 1), (*x.shape, rows.shape[-1]))


def _tangent(node: Node, of_rows: Tensor | None, *_: None) -> Sequence[Tensor | None]:
    return [None if of_rows is None else apply(pick_op, of_rows, *node.inputs[1:])]


def _kernel(_rows: TensorType, *indices: TensorType) -> Gather:
    return Gather(0, len(indices), bound="strict")


def _batch(operands: Operands) -> Tensor:
    rows, *indices = (operands.lift(entry) for entry in operands.entries)
    return operands.apply(rows, iota(indices[0].shape, 0), *indices)


pick_op = define(
    "pick",
    infer=_infer,
    reference=_reference,
    grad=_grad,
    tangent=_tangent,
    kernel=_kernel,
    batch=_batch,
    of_pairs="each",
)


def _index_infer(numbers: TensorType, places: TensorType) -> TensorType:
    if numbers.ndim != 1 or {numbers.dtype, places.dtype} != {dtypes.int64}:
        raise DTypeError("checked_index", f"numbers: {numbers} and places: {places}, not int64")
    return places


def _index_reference(numbers: Array, places: Array) -> Array:
    _check("checked_index", places, 0, numbers.size)
    return np.array(numbers[places])


def _index_kernel(_numbers: TensorType, _places: TensorType) -> Gather:
    return Gather(0, 1, bound="strict")


def _index_batch(operands: Operands) -> Tensor:
    numbers, places = operands.entries
    return operands.apply(numbers.tensor, operands.lift(places))


checked_index_op = define(
    "checked_index",
    infer=_index_infer,
    reference=_index_reference,
    grad="none",
    kernel=_index_kernel,
    batch=_index_batch,
)
