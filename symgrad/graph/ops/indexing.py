"""Indexing by tensors: take, one_hot, scatter_add, and the gather that brackets become.

The ops behind these functions are in `gathering`, and for slices in `slicing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, IndexOutOfRangeError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DTypeLike, as_dtype
from symgrad.graph.given_arrays import without_axes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import (
    as_tensor,
    cast,
    constant,
    holds_size,
    made_by_numpy,
    normalize_axis,
    promote_operands,
    refuse_tensors,
)
from symgrad.graph.ops.comparison import equal
from symgrad.graph.ops.elementwise import broadcast_target, common_shape
from symgrad.graph.ops.extrema import minimum
from symgrad.graph.ops.gathering import gather, iota, scatter_rows
from symgrad.graph.ops.structure import broadcast_to, expand_dims, permute_dims, reshape
from symgrad.graph.ops.views import moveaxis, narrow
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, Size

_GREATEST = np.iinfo(np.int64).max


def index_tensor(op: str, index: Any, size: Dim, axis: int) -> Tensor:
    """Return `index` as an int64 tensor; what is known now is checked against `size` now."""
    if holds_size(index):
        index = as_tensor(index)
    if isinstance(index, Tensor):
        if not index.dtype.is_integer:
            raise DTypeError(
                op, f"index: {index.type} is of no integer dtype", source=user_source()
            )
        return as_int64(index)
    return as_tensor(known_index(op, index, size, axis))


def as_int64(index: Tensor) -> Tensor:
    """Return integers as int64, of which those beyond its limit become the limit.

    No axis and no number of branches is as long. A conversion would make -1, which is the last
    element, of the greatest uint64.
    """
    if index.dtype == dtypes.uint64:
        index = minimum(index, constant(_GREATEST, dtypes.uint64))
    return cast(index, dtypes.int64)


def known_index(op: str, index: Any, size: Dim, axis: int) -> np.ndarray[Any, Any]:
    """Return an index that is no tensor as an int64 array, counted from 0 if `size` is known."""
    array = made_by_numpy(index)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DTypeError(op, f"{index!r} is no integer index", source=user_source())
    if not isinstance(size, int):
        if array.dtype == np.uint64:
            array = np.minimum(array, np.uint64(_GREATEST))
        return np.asarray(array, np.int64)
    outside = array[(array < -size) | (array >= size)]
    if outside.size:
        raise IndexOutOfRangeError(
            op,
            f"index {outside.flat[0]} is outside of axis {axis} of size {size}",
            source=user_source(),
        )
    array = array.astype(np.int64)
    return np.where(array < 0, array + size, array)


@public(is_standard=True)
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """Take the elements of `x` at `indices` along `axis`, whose place the axes of `indices` take.

    For None `x` is flattened. A negative index counts from the end; one outside raises
    `IndexOutOfRangeError`, now if it is known and else when the program runs.

    >>> sg.run(sg.take([[1, 2, 3], [4, 5, 6]], [2, 0], axis=1))
    array([[3, 1],
           [6, 4]], dtype=int32)
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis("take", axis, x.ndim)
    size = x.shape[axis]
    if isinstance(indices, int | np.integer) and isinstance(size, int):
        start = int(known_index("take", indices, size, axis))
        row = narrow(x, axis, start, 1)
        return reshape(row, (*x.shape[:axis], *x.shape[axis + 1 :]))
    return gather(x, [index_tensor("take", indices, size, axis)], axis)


@public(is_standard=True, known_as=["gather"])
def take_along_axis(x: Any, indices: Any, /, *, axis: int | None = -1) -> Tensor:
    """Take from each row along `axis` the elements whose positions that row of `indices` has.

    Both have as many axes, and the other axes broadcast.

    >>> x = sg.constant([[3, 1, 2], [9, 7, 8]])
    >>> sg.run(sg.take_along_axis(x, sg.argsort(x)))
    array([[1, 2, 3],
           [7, 8, 9]], dtype=int32)
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis("take_along_axis", axis, x.ndim)
    index = index_tensor("take_along_axis", indices, x.shape[axis], axis)
    if index.ndim != x.ndim:
        raise ShapeError(
            "take_along_axis",
            f"ranks differ: {x.ndim} of x: {x.type}, {index.ndim} of indices: {index.type}",
            source=user_source(),
        )
    last = x.ndim - 1
    rows, places = _broadcast_rows(moveaxis(x, axis, last), moveaxis(index, axis, last))
    positions = [iota(places.shape, a) for a in range(last)]
    return moveaxis(gather(rows, [*positions, places], 0), last, axis)


def _broadcast_rows(x: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Broadcast all axes but the last of both."""
    x_rows, index_rows = (t.type.with_shape(t.shape[:-1]) for t in (x, indices))
    shared = common_shape("take_along_axis", x=x_rows, indices=index_rows)
    return (
        broadcast_to(x, (*broadcast_target(x_rows, shared), x.shape[-1])),
        broadcast_to(indices, (*broadcast_target(index_rows, shared), indices.shape[-1])),
    )


@public()
def one_hot(indices: Any, depth: Dim, dtype: DTypeLike = dtypes.float32, axis: int = -1) -> Tensor:
    """Return a tensor that is 1 where its index along the new `axis` is the given one, else 0.

    The new axis has size `depth`; an index outside of it gives zeros.

    >>> sg.run(sg.one_hot([2, 0, 9], 3))
    array([[0., 0., 1.],
           [1., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    index = as_tensor(indices)
    if not index.dtype.is_integer:
        raise DTypeError(
            "one_hot", f"indices: {index.type} are of no integer dtype", source=user_source()
        )
    refuse_tensors("one_hot", [depth])
    depth = without_axes(depth)
    if isinstance(depth, bool) or not isinstance(depth, int | np.integer | Size):
        raise DTypeError("one_hot", f"depth must be an int, it is {depth!r}", source=user_source())
    if isinstance(depth, int | np.integer) and depth < 0:
        raise ShapeError("one_hot", f"depth {depth} is negative", source=user_source())
    position = normalize_axis("one_hot", axis, index.ndim + 1)
    column = expand_dims(as_int64(index), axis=position)
    size = depth if isinstance(depth, Size) else int(depth)
    shape = (*index.shape[:position], size, *index.shape[position:])
    return cast(equal(iota(shape, position), column), as_dtype(dtype))


@public()
def scatter_add(base: Any, indices: Any, updates: Any, axis: int = 0) -> Tensor:
    """Return `base` with `updates` added at `indices` along `axis`; equal indices all add.

    `updates` broadcasts to what `take(base, indices, axis=axis)` would be. The gradient of `base`
    is that of the result, and `updates` gets what that has at `indices`.

    >>> sg.run(sg.scatter_add(sg.zeros(4), [1, 1, 3], [10.0, 5.0, 2.0]))
    array([ 0., 15.,  0.,  2.], dtype=float32)
    """
    base, updates = promote_operands("scatter_add", base, updates)
    axis = normalize_axis("scatter_add", axis, base.ndim)
    index = index_tensor("scatter_add", indices, base.shape[axis], axis)
    wanted = (*base.shape[:axis], *index.shape, *base.shape[axis + 1 :])
    if updates.ndim <= len(wanted):
        updates = broadcast_to(updates, broadcast_target(updates.type, wanted))
    return scatter_rows(base, updates, [index], axis)


def gather_axes(x: Tensor, axes: Sequence[int], indices: Sequence[Tensor]) -> Tensor:
    """Index the given axes of `x` together; the axes of the result come first."""
    rest = [a for a in range(x.ndim) if a not in axes]
    return gather(permute_dims(x, [*axes, *rest]), indices, 0)
