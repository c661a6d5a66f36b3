"""Embedding bags: the rows of a table at the indices of each bag, reduced to one row.

`embedding`, which keeps every row, is in `layers.py`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, made_by_numpy, promote_operands
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.comparison import equal, less, not_equal, where
from symgrad.graph.ops.counting import searchsorted
from symgrad.graph.ops.elementwise import filled, float_operand
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.gathering import gather, iota
from symgrad.graph.ops.indexing import index_tensor
from symgrad.graph.ops.reduction import LEAST
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.segments import segment_max, segment_sum
from symgrad.graph.ops.slicing import place
from symgrad.graph.ops.structure import accumulator_dtype, expand_dims
from symgrad.graph.ops.window_maxima import first_max
from symgrad.graph.public_ops import public
from symgrad.nn.operand_shapes import shaped

BagReduction = Literal["mean", "sum", "max"]

_OP = "embedding_bag"


@public()
def embedding_bag(
    indices: Any,
    table: Any,
    offsets: Any = None,
    *,
    reduction: BagReduction = "mean",
    weights: Any = None,
    padding_index: int | None = None,
) -> Tensor:
    """Look up embeddings and take the mean, the sum or the maximum of those of each bag.

    `table` is (rows, features). Without `offsets` the last axis of `indices`, (*bags, length), is a
    bag, and the result is (*bags, features). With them `indices` is a vector of all bags one after
    another, and bag b begins at `offsets[b]`, which rise from 0; the result is (bags, features).
    `weights`, which have the shape of `indices`, multiply the rows of a sum. An index that is
    `padding_index` is in no bag, and a bag without indices is 0. A nan is a maximum. Negative
    indices count from the end.

    The result has the dtype of `table`, or what it and `weights` promote to; integers become
    float32, and 16-bit floats are rounded once. The gradient to `table` is a scatter of rows, of
    which no dense array is made where an optimizer moves single rows: each index has that of its
    bag, times its weight or divided by their number; of equal maxima the first has it. That to a
    weight is the product of its row with that of its bag.

    >>> table = sg.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> sg.run(sg.nn.embedding_bag([2, 0, 1], table, [0, 2]))
    array([[3., 4.],
           [3., 4.]], dtype=float32)

    Raises `DTypeError` for indices or offsets that are no integers, `ShapeError` for a table that
    is no matrix and for offsets or weights that do not fit, `GraphError` for another reduction, and
    for weights of what is no sum, `IndexOutOfRangeError` for an index, or a padding index, outside
    of the table.
    """
    index, rows, dtype = _looked_up(indices, table, reduction, weights)
    is_kept = _is_kept(index, as_tensor(table).shape[0], padding_index)
    if weights is not None:
        given = shaped(_OP, "weights", as_tensor(weights), "indices", index.shape)
        rows = multiply(rows, expand_dims(cast(given, rows.dtype), axis=-1))
    if offsets is None:
        return cast(_of_last_axis(rows, is_kept, reduction), dtype)
    return cast(_of_segments(rows, is_kept, _starts(offsets, index), reduction), dtype)


def _looked_up(
    indices: Any, table: Any, reduction: Any, weights: Any
) -> tuple[Tensor, Tensor, DType]:
    """Return the indices, their rows in the dtype of sums, and the dtype of the result."""
    table, given = as_tensor(table), as_tensor(indices)
    if table.ndim != 2:
        raise ShapeError(_OP, f"table: {table.type} is no matrix", source=user_source())
    if not given.dtype.is_integer and given.size != 0:
        problem = f"indices: {given.type} are of no integer dtype"
        raise DTypeError(_OP, problem, source=user_source())
    if given.ndim == 0:
        raise ShapeError(_OP, f"indices: {given.type} have no axis for a bag", source=user_source())
    if reduction not in ("mean", "sum", "max"):
        problem = f"reduction {reduction!r} is none of mean, sum, max"
        raise GraphError(_OP, problem, source=user_source())
    if weights is not None and reduction != "sum":
        problem = f"weights are for the reduction sum, it is {reduction}"
        raise GraphError(_OP, problem, source=user_source())
    table = float_operand(table)
    dtype = table.dtype if weights is None else _promoted(table, weights)
    index = index_tensor(_OP, indices, table.shape[0], 0)
    return index, cast(gather(table, [index], 0), accumulator_dtype(dtype)), dtype


def _promoted(table: Tensor, weights: Any) -> DType:
    given, _ = promote_operands(_OP, table, weights)
    return given.dtype


def _is_kept(index: Tensor, rows: Any, padding_index: Any) -> Tensor | None:
    """Return which indices are in a bag, None if all of them are."""
    if padding_index is None:
        return None
    number = as_int(padding_index)
    if number is None:
        problem = f"padding_index is {padding_index!r}, not an int"
        raise DTypeError(_OP, problem, source=user_source())
    padding = index_tensor(_OP, number, rows, 0)
    counted = [where(less(given, 0), add(given, rows), given) for given in (index, padding)]
    return not_equal(*counted)


def _of_last_axis(rows: Tensor, is_kept: Tensor | None, reduction: BagReduction) -> Tensor:
    """Reduce bags that are the last axis but one of `rows`."""
    axis = rows.ndim - 2
    if rows.shape[axis] == 0:
        return filled((*rows.shape[:axis], rows.shape[-1]), 0, rows.dtype)
    if reduction == "max":
        return _maxima(rows, is_kept)
    if is_kept is None:
        total = sum_over(rows, axis)
        return divide(total, maximum(rows.shape[axis], 1)) if reduction == "mean" else total
    total = sum_over(where(expand_dims(is_kept, axis=-1), rows, 0), axis)
    return divide(total, _divisor(_count(is_kept), rows)) if reduction == "mean" else total


def _maxima(rows: Tensor, is_kept: Tensor | None) -> Tensor:
    """Return the maxima of bags that are the last axis but one of `rows`, 0 for one of none."""
    axis = rows.ndim - 2
    length = rows.shape[axis]
    if is_kept is None and isinstance(length, int):
        return first_max(rows, (axis,))
    least = LEAST["any"]
    if is_kept is not None:
        rows = where(expand_dims(is_kept, axis=-1), rows, least)
    if not isinstance(length, int):
        # There is a maximum of no rows too, if one more comes after them.
        longer = tuple(n + 1 if a == axis else n for a, n in enumerate(rows.shape))
        rows = place(rows, longer, (0,) * rows.ndim, (1,) * rows.ndim, least)
    has_none = equal(length if is_kept is None else _count(is_kept), 0)
    return where(has_none, 0, first_max(rows, (axis,)))


def _count(is_kept: Tensor) -> Tensor:
    return expand_dims(sum_over(cast(is_kept, dtypes.int64), -1), axis=-1)


def _starts(offsets: Any, index: Tensor) -> Tensor:
    """Return where bags begin, as an int64 vector; what is known now is checked now."""
    given = as_tensor(made_by_numpy(offsets) if isinstance(offsets, list | tuple) else offsets)
    if given.ndim != 1 or index.ndim != 1:
        problem = f"offsets: {given.type} and indices: {index.type} are not two vectors"
        raise ShapeError(_OP, problem, source=user_source())
    if not given.dtype.is_integer and given.size != 0:
        problem = f"offsets: {given.type} are of no integer dtype"
        raise DTypeError(_OP, problem, source=user_source())
    if not isinstance(offsets, Tensor):
        known = np.asarray(offsets)
        if known.size and (known[0] != 0 or (np.diff(known) < 0).any()):
            problem = f"offsets {known.tolist()} do not rise from 0"
            raise ShapeError(_OP, problem, source=user_source())
        count = index.shape[0]
        if known.size and isinstance(count, int) and known[-1] > count:
            problem = f"offset {known[-1]} is beyond the {count} of indices: {index.type}"
            raise ShapeError(_OP, problem, source=user_source())
    return cast(given, dtypes.int64)


def _of_segments(
    rows: Tensor, is_kept: Tensor | None, starts: Tensor, reduction: BagReduction
) -> Tensor:
    """Reduce bags of rows that follow one another, each from its start to that of the next."""
    bags = starts.shape[0]
    bag = subtract(searchsorted(starts, iota(rows.shape[:1], 0), side="right"), 1)
    if is_kept is not None:
        bag = where(is_kept, bag, -1)  # which is dropped
    if reduction == "sum":
        return segment_sum(rows, bag, bags)
    count = expand_dims(segment_sum(filled(bag.shape, 1, dtypes.int64), bag, bags), axis=-1)
    if reduction == "max":
        return where(equal(count, 0), 0, segment_max(rows, bag, bags))
    return divide(segment_sum(rows, bag, bags), _divisor(count, rows))


def _divisor(count: Tensor, rows: Tensor) -> Tensor:
    return cast(maximum(count, 1), rows.dtype)
