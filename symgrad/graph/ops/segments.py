"""Segment reductions and index vectors: sums of rows with one id, and TensorFlow's gather_nd.

Compositions of gathers and scatters; no op is declared here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, SymgradError, user_source
from symgrad.graph import dtypes
from symgrad.graph.given_arrays import without_axes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import (
    as_tensor,
    cast,
    made_by_numpy,
    meet_shapes,
    normalize_axis,
    refuse_tensors,
)
from symgrad.graph.ops.arithmetic import divide
from symgrad.graph.ops.comparison import greater_equal, less, logical_and, where
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.elementwise import broadcast_target, filled, filled_like, float_operand
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.gathering import gather, iota, scatter_rows, set_rows
from symgrad.graph.ops.indexing import as_int64, index_tensor
from symgrad.graph.ops.reduction import GREATEST, LEAST
from symgrad.graph.ops.scattering import extreme_rows, multiply_rows, scatter_max_op, scatter_min_op
from symgrad.graph.ops.structure import accumulator_dtype, broadcast_to, reshape
from symgrad.graph.ops.views import moveaxis, narrow
from symgrad.graph.ops.windows import update_like
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, Size
from symgrad.graph.structures import Number
from symgrad.graph.types import Shape, TensorType

Rows = Callable[[Tensor, Tensor, list[Tensor], int], Tensor]


@public(known_as=["unsorted_segment_sum"])
def segment_sum(data: Any, segment_ids: Any, num_segments: Dim) -> Tensor:
    """Sum the rows of `data` that have the same id (a segment sum): (num_segments, *row).

    `segment_ids` are integers in any order, one for each row: their shape is that of the first axes
    of `data`. A row whose id is negative or not less than `num_segments` is dropped; a segment
    without rows is 0. Integers keep their dtype, 16-bit floats are summed in float32 and rounded
    once. The gradient of a row is that of its segment.

        >>> x = sg.placeholder((4,))
        >>> y = sg.segment_sum(x, [2, 0, 2, -1], 3)
        >>> sg.compile([x], y)(np.arange(1, 5, dtype="float32"))
        array([2., 0., 4.], dtype=float32)

    Raises `ShapeError` if ids and rows do not fit, and `DTypeError` for ids that are no integers
    and for bools.
    """
    rows = _number("segment_sum", data)
    wide = accumulator_dtype(rows.dtype)
    total = _segments("segment_sum", cast(rows, wide), segment_ids, num_segments, 0, scatter_rows)
    return cast(total, rows.dtype)


@public()
def segment_prod(data: Any, segment_ids: Any, num_segments: Dim) -> Tensor:
    """Multiply the rows of `data` that have the same id; a segment without rows is 1.

    Ids are as in `segment_sum`. The gradient is exact where factors are 0.

    >>> sg.run(sg.segment_prod([1.0, 5.0, 2.0], [0, 0, 1], 3))
    array([5., 2., 1.], dtype=float32)
    """
    rows = _number("segment_prod", data)
    wide = accumulator_dtype(rows.dtype)
    product = _segments(
        "segment_prod", cast(rows, wide), segment_ids, num_segments, 1, multiply_rows
    )
    return cast(product, rows.dtype)


@public()
def segment_max(data: Any, segment_ids: Any, num_segments: Dim) -> Tensor:
    """Take the greatest of the rows of `data` that have the same id, element by element.

    Ids are as in `segment_sum`; a segment without rows is -inf, of integers the least there is. A
    nan is the greatest wherever there is one. Of equals the first row has the gradient.

    >>> sg.run(sg.segment_max([1.0, 5.0, 2.0], [0, 0, 1], 2))
    array([5., 2.], dtype=float32)
    """
    rows = _number("segment_max", data)

    def scatter(base: Tensor, updates: Tensor, indices: list[Tensor], axis: int) -> Tensor:
        return extreme_rows(scatter_max_op, base, updates, indices, axis)

    number = LEAST.get(rows.dtype.name, LEAST["any"])
    return _segments("segment_max", rows, segment_ids, num_segments, number, scatter)


@public()
def segment_min(data: Any, segment_ids: Any, num_segments: Dim) -> Tensor:
    """Take the least of the rows of `data` that have the same id, element by element.

    Ids are as in `segment_sum`; a segment without rows is inf, of integers the greatest there is. A
    nan is the least wherever there is one. Of equals the first row has the gradient.

    >>> sg.run(sg.segment_min([1.0, 5.0, 2.0], [0, 0, 1], 2))
    array([1., 2.], dtype=float32)
    """
    rows = _number("segment_min", data)

    def scatter(base: Tensor, updates: Tensor, indices: list[Tensor], axis: int) -> Tensor:
        return extreme_rows(scatter_min_op, base, updates, indices, axis)

    number = GREATEST.get(rows.dtype.name, GREATEST["any"])
    return _segments("segment_min", rows, segment_ids, num_segments, number, scatter)


@public()
def segment_mean(data: Any, segment_ids: Any, num_segments: Dim) -> Tensor:
    """Average the rows of `data` that have the same id; a segment without rows is 0.

    Ids are as in `segment_sum`. Integers become float32; 16-bit floats are rounded once.

    >>> sg.run(sg.segment_mean([1.0, 5.0, 2.0], [0, 0, 1], 2))
    array([3., 2.], dtype=float32)
    """
    rows = float_operand(data)
    wide = accumulator_dtype(rows.dtype)
    op = "segment_mean"
    total = _segments(op, cast(rows, wide), segment_ids, num_segments, 0, scatter_rows)
    ids = _ids(op, rows, segment_ids)
    ones = filled(ids.shape, 1, dtypes.int64)
    counts = maximum(_segments(op, ones, ids, num_segments, 0, scatter_rows), 1)
    over = reshape(cast(counts, wide), (*counts.shape, *(1,) * (total.ndim - 1)))
    return cast(divide(total, broadcast_to(over, total.shape)), rows.dtype)


def _number(op: str, data: Any) -> Tensor:
    rows = as_tensor(data)
    if rows.dtype.is_bool:
        raise DTypeError(op, f"data: {rows.type} are no numbers", source=user_source())
    return rows


def _ids(op: str, rows: Tensor, segment_ids: Any) -> Tensor:
    ids = as_tensor(made_by_numpy(segment_ids) if isinstance(segment_ids, list) else segment_ids)
    if ids.ndim and 0 in ids.shape and not isinstance(segment_ids, Tensor):
        ids = cast(ids, dtypes.int64)  # NumPy takes an empty list for floats
    if not ids.dtype.is_integer:
        raise DTypeError(
            op, f"segment_ids: {ids.type} are of no integer dtype", source=user_source()
        )
    if not ids.ndim or ids.ndim > rows.ndim:
        raise ShapeError(
            op,
            f"segment_ids: {ids.type} are no ids of the rows of data: {rows.type}",
            source=user_source(),
        )
    return as_int64(ids)


def _segments(
    op: str, rows: Tensor, segment_ids: Any, num_segments: Dim, start: Number, scatter: Rows
) -> Tensor:
    """Scatter `rows` into `num_segments` rows of `start`, which changes nothing it is added to."""
    ids = _ids(op, rows, segment_ids)
    refuse_tensors(op, [num_segments])
    num_segments = without_axes(num_segments)
    if isinstance(num_segments, bool) or not isinstance(num_segments, int | np.integer | Size):
        raise DTypeError(
            op, f"num_segments must be an int, it is {num_segments!r}", source=user_source()
        )
    count = num_segments if isinstance(num_segments, Size) else int(num_segments)
    if isinstance(count, int) and count < 0:
        raise ShapeError(op, f"num_segments {count} is negative", source=user_source())
    _check_equal(op, "segment_ids", ids.type, "data", rows.type.with_shape(rows.shape[: ids.ndim]))
    row = rows.shape[ids.ndim :]
    if count == 0:
        return filled((count, *row), start, rows.dtype)
    # A size that only a run tells may be 0: what is dropped goes to a row more then.
    spare = 0 if isinstance(count, int) else 1
    base = filled((count + spare, *row), start, rows.dtype)
    size = size_of(count, dtypes.int64)
    is_kept = logical_and(greater_equal(ids, 0), less(ids, size))
    places = where(is_kept, ids, size if spare else 0)
    kept = broadcast_to(reshape(is_kept, (*ids.shape, *(1,) * len(row))), rows.shape)
    found = scatter(base, where(kept, rows, filled_like(rows, start)), [places], 0)
    return narrow(found, 0, 0, count) if spare else found


def _check_equal(op: str, a_name: str, a: TensorType, b_name: str, b: TensorType) -> None:
    """Raise `ShapeError` at the user's line if shapes that must be equal are not."""
    try:
        meet_shapes(op, a_name, a, b_name, b)
    except SymgradError as error:
        error.source = user_source()
        raise


# ------------------------------------------------------------------------------- index vectors


@public()
def gather_nd(x: Any, indices: Any) -> Tensor:
    """Gather the parts of `x` at index vectors, the last axis of `indices`, as TensorFlow does.

    The result is (*indices.shape[:-1], *x.shape[k:]) for vectors of k integers, which index the
    first k axes. A negative index counts from the end; one out of range is an
    `IndexOutOfRangeError` when the program runs. The gradient adds up at each place that is read.
    Raises `ShapeError` for vectors longer than `x` has axes, `DTypeError` for floats.

        >>> x = sg.placeholder((2, 3))
        >>> sg.compile([x], sg.gather_nd(x, [[1, 0], [0, 2]]))(np.float32([[0, 1, 2], [3, 4, 5]]))
        array([3., 2.], dtype=float32)
    """
    x = as_tensor(x)
    vectors = _vectors("gather_nd", indices, x.shape)
    if not vectors:
        return broadcast_to(x, (*as_tensor(indices).shape[:-1], *x.shape))
    return gather(x, vectors, 0)


@public(known_as=["tensor_scatter_nd_update"])
def scatter_nd(indices: Any, updates: Any, shape: Shape) -> Tensor:
    """Add `updates` at index vectors into zeros of `shape`: the adjoint of `gather_nd`.

    Updates (*indices.shape[:-1], *shape[k:]) that meet are all added. Indices are as there.

        >>> u = sg.placeholder((3,))
        >>> y = sg.scatter_nd([[1], [3], [1]], u, (4,))
        >>> sg.compile([u], y)(np.array([1, 2, 3], "float32"))
        array([0., 4., 0., 2.], dtype=float32)
    """
    updates = as_tensor(updates)
    base = filled(tuple(shape), 0, updates.dtype)
    vectors = _vectors("scatter_nd", indices, base.shape)
    places = as_tensor(indices).shape[:-1]
    wanted = (*places, *base.shape[len(vectors) :])
    _check_equal(
        "scatter_nd", "updates", updates.type, "what indices choose", base.type.with_shape(wanted)
    )
    if vectors:
        return scatter_rows(base, updates, vectors, 0)
    alone = reshape(base, (1, *base.shape))
    nowhere = filled(places, 0, dtypes.int64)
    return reshape(scatter_rows(alone, updates, [nowhere], 0), base.shape)


def _vectors(op: str, indices: Any, shape: Shape) -> list[Tensor]:
    """Return the components of index vectors, one for each of the first axes."""
    index = indices if isinstance(indices, Tensor) else as_tensor(made_by_numpy(indices))
    count = index.shape[-1] if index.ndim else None
    if not isinstance(count, int) or count > len(shape):
        raise ShapeError(
            op,
            f"indices: {index.type} are no vectors of indices of {len(shape)} axes",
            source=user_source(),
        )
    last = index.ndim - 1
    parts = (reshape(narrow(index, last, i, 1), index.shape[:-1]) for i in range(count))
    return [index_tensor(op, part, shape[i], i) for i, part in enumerate(parts)]


@public()
def put_along_axis(x: Any, indices: Any, values: Any, axis: int) -> Tensor:
    """Return `x` with `values` where `take_along_axis` with the same indices would read.

    Indices have as many axes as `x`; values broadcast to them. NumPy's function of this name writes
    into its argument, this one does not. Of values that meet the last stays, and has the gradient.

    >>> sg.run(sg.put_along_axis([[1, 2, 3], [4, 5, 6]], [[0], [2]], 0, axis=1))
    array([[0, 2, 3],
           [4, 5, 0]], dtype=int32)
    """
    x = as_tensor(x)
    axis = normalize_axis("put_along_axis", axis, x.ndim)
    index = index_tensor("put_along_axis", indices, x.shape[axis], axis)
    value = update_like("put_along_axis", x, values)
    last = x.ndim - 1
    if index.ndim != x.ndim or value.ndim > x.ndim:
        raise ShapeError(
            "put_along_axis",
            f"ranks differ: {x.ndim} of x: {x.type}, {index.ndim} of indices: {index.type}, "
            f"{value.ndim} of values: {value.type}",
            source=user_source(),
        )
    places = moveaxis(index, axis, last)
    rows = (*x.shape[:axis], *x.shape[axis + 1 :])
    places = broadcast_to(places, (*rows, places.shape[-1]))
    whole = moveaxis(
        broadcast_to(value, broadcast_target(value.type, _back(places.shape, axis))), axis, last
    )
    positions = [iota(places.shape, a) for a in range(last)]
    return moveaxis(set_rows(moveaxis(x, axis, last), whole, [*positions, places], 0), last, axis)


def _back(shape: Shape, axis: int) -> Shape:
    """Return `shape` with its last axis at `axis`."""
    return (*shape[:axis], shape[-1], *shape[axis:-1])
