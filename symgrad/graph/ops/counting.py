"""Searches among sorted elements, and counts of what falls between them, up to histogram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.given_arrays import require_int, require_size, without_axes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, normalize_axis, promote_operands
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.comparison import equal, greater, greater_equal, less, logical_and, where
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.extrema import minimum
from symgrad.graph.ops.gathering import iota, scatter_rows
from symgrad.graph.ops.indexing import as_int64, take, take_along_axis
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.ordering import argsort, search
from symgrad.graph.ops.reduction import any, max, min
from symgrad.graph.ops.slicing import concat, flip
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, at_least, at_most


@public(is_standard=True, functions=[np.searchsorted], known_as=["bucketize"])
def searchsorted(
    x1: Any, x2: Any, /, *, side: Literal["left", "right"] = "left", sorter: Any = None
) -> Tensor:
    """Return where the elements of `x2` would be inserted into the sorted vector `x1`.

    That is the number of elements of `x1` that are less, on the `side` "right" no greater; nan is
    greater than every number. If `sorter` is given, `x1[sorter]` is the sorted vector. The result
    is int64, of the shape of `x2`, and has no gradient. Raises `ShapeError` if `x1` is no vector or
    the side neither "left" nor "right".

    >>> sg.run(sg.searchsorted(sg.constant([1, 3, 3, 5]), sg.constant([3, 9])))
    array([1, 4])
    """
    return _searched("searchsorted", x1, x2, side, sorter)


def _searched(op: str, x1: Any, x2: Any, side: Any, sorter: Any) -> Tensor:
    rows, queries = promote_operands(op, x1, x2)
    if rows.ndim != 1:
        raise ShapeError(op, f"x1: {rows.type} is no vector", source=user_source())
    if side not in ("left", "right"):
        raise ShapeError(op, f"side {side!r} is neither 'left' nor 'right'", source=user_source())
    if sorter is not None:
        rows = take(rows, sorter, axis=0)
    return reshape(search(rows, reshape(queries, (-1,)), side), queries.shape)


@public(functions=[np.digitize])
def digitize(x: Any, bins: Any, /, right: bool = False) -> Tensor:
    """Return the number of the bin that each element of `x` falls into.

    It is i for `bins[i-1] <= x < bins[i]` or, with `right`, `bins[i-1] < x <= bins[i]`; for
    decreasing `bins` the signs are the other way round. The result is int64, of the shape of `x`,
    and has no gradient. Raises `ShapeError` if `bins` is no vector.

    >>> sg.run(sg.digitize(sg.constant([0.2, 6.4]), sg.constant([0.0, 1.0, 5.0])))
    array([1, 3])
    """
    edges = as_tensor(bins)
    side = "left" if right else "right"
    rising = _searched("digitize", edges, x, side, None)
    size = edges.shape[0]
    if size in (0, 1):
        return rising
    falling = subtract(size_tensor(edges), _searched("digitize", flip(edges), x, side, None))
    ends = at_most(size, 1)  # of edges that may turn out to be none
    is_falling = any(greater(narrow(edges, 0, 0, ends), narrow(edges, 0, size - ends, ends)))
    chosen = broadcast_to(reshape(is_falling, (1,) * rising.ndim), rising.shape)
    return where(chosen, falling, rising)


def size_tensor(x: Tensor) -> Tensor:
    """Return the size of a vector as an int64 tensor."""
    return as_tensor(x.shape[0], dtypes.int64)


@public(functions=[np.lexsort])
def lexsort(keys: Tensor | Sequence[Any], /, axis: int = -1) -> Tensor:
    """Return the positions along `axis` that sort by several keys, of which the last comes first.

    `keys` is a sequence of tensors of one shape, or a tensor with the keys along its first axis.
    The sort is stable and the result int64, of the shape of a key, without a gradient. Raises
    `ShapeError` for no key at all.

    >>> sg.run(sg.lexsort([sg.constant([2, 1, 0]), sg.constant([0, 1, 0])]))
    array([2, 0, 1])
    """
    tensors = [as_tensor(key) for key in (list(keys) if not isinstance(keys, Tensor) else keys)]
    if not tensors:
        raise ShapeError("lexsort", "there is no key", source=user_source())
    axis = normalize_axis("lexsort", axis, tensors[0].ndim)
    order = argsort(tensors[0], axis=axis)
    for key in tensors[1:]:
        within = argsort(take_along_axis(key, order, axis=axis), axis=axis)
        order = take_along_axis(order, within, axis=axis)
    return order


@public(functions=[np.bincount])
def bincount(
    x: Any, /, weights: Any = None, minlength: int = 0, *, length: Dim | None = None
) -> Tensor:
    """Count how often each of 0, 1, ... `length - 1` occurs in the integer vector `x`.

    The size of a result is known before a program runs: so `length` must be given, and what is not
    below it is not counted. With `weights`, those of equal elements are added up. Counts are int64;
    sums have the dtype of the weights, float32 for integers, and a gradient by the weights. Raises
    `ShapeError` without `length` or below `minlength`, `DTypeError` for an `x` that is no integer,
    and `IndexOutOfRangeError` for a negative element when the program runs.

    >>> sg.run(sg.bincount(sg.constant([1, 3, 1]), length=4))
    array([0, 2, 0, 1])
    """
    index = as_tensor(x)
    if index.ndim != 1:
        raise ShapeError("bincount", f"x: {index.type} is no vector", source=user_source())
    if not index.dtype.is_integer:
        raise DTypeError("bincount", f"x: {index.type} is no integer", source=user_source())
    if length is None:
        raise ShapeError(
            "bincount",
            "the greatest element is known only when a program runs",
            hint="give the size of the result: length=",
            source=user_source(),
        )
    length = require_size("bincount", "length", length)
    if isinstance(length, int) and length < require_int("bincount", "minlength", minlength):
        raise ShapeError(
            "bincount", f"length {length} is below minlength {minlength}", source=user_source()
        )
    return _counted("bincount", as_int64(index), weights, length)


def _counted(op: str, index: Tensor, weights: Any, length: Dim) -> Tensor:
    """Add ones or weights up at each index from 0 on; the last place takes what is beyond."""
    last = as_tensor(length, dtypes.int64)
    # A negative index would count from the end; what stands for it is before the first place.
    places = where(less(index, 0), subtract(-2, last), minimum(index, last))
    added = filled(index.shape, 1, dtypes.int64)
    if weights is not None:
        added = _weights(op, weights, index)
    total = scatter_rows(filled((length + 1,), 0, added.dtype), added, [places], 0)
    return narrow(total, 0, 0, length)


def _weights(op: str, weights: Any, index: Tensor) -> Tensor:
    given = as_tensor(weights)
    if given.ndim != index.ndim:
        raise ShapeError(
            op, f"weights: {given.type} do not fit x: {index.type}", source=user_source()
        )
    return given if given.dtype.is_float else cast(given, dtypes.float32)


@public(functions=[np.histogram])
def histogram(
    x: Any,
    /,
    bins: Any = 10,
    range: Sequence[Any] | None = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[Tensor, Tensor]:
    """Count the elements of `x` in bins, and return the counts and the edges of the bins.

    `bins` is a number of bins of one width over `range`, from the least to the greatest element if
    none is given, or the edges as an increasing vector. A bin has its lower edge and the last one
    both; what is outside is not counted. `weights`, of the shape of `x`, are added up instead of
    ones. With `density` the result is divided by its sum and the width of each bin. Edges have the
    dtype of a float `x`, else float32; counts are int64, sums and densities float. There is a
    gradient by the weights. Raises `ShapeError` for less than one bin or edges that are no vector.

    >>> counts, edges = sg.histogram(sg.constant([1.0, 2.0, 2.0, 5.0]), 2)
    >>> sg.run([counts, edges])
    [array([3, 1]), array([1., 3., 5.], dtype=float32)]
    """
    values = reshape(as_tensor(x), (-1,))
    dtype = values.dtype if values.dtype.is_float else dtypes.float32
    values = cast(values, dtype)
    edges = _edges(values, bins, range, dtype)
    edges = require_least(edges, edges.shape[0], 2, "histogram", "bins: {x} are no edges")
    count = edges.shape[0] - 1
    place = subtract(searchsorted(edges, values, side="right"), 1)
    first, last = (
        broadcast_to(narrow(edges, 0, at, 1), values.shape) for at in (0, edges.shape[0] - 1)
    )
    end = as_tensor(count, dtypes.int64)
    place = where(equal(values, last), subtract(end, 1), place)
    is_inside = logical_and(greater_equal(values, first), values <= last)
    flat = None if weights is None else reshape(as_tensor(weights), (-1,))
    counts = _counted("histogram", where(is_inside, place, end), flat, count)
    if not density:
        return counts, edges
    sums = cast(counts, dtype)
    widths = subtract(narrow(edges, 0, 1, count), narrow(edges, 0, 0, count))
    return divide(sums, multiply(widths, sums.sum())), edges


def _range_of(values: Tensor) -> Sequence[Any]:
    """Return the least and the greatest element: of none, as NumPy has it, 0 and 1."""
    missing = at_least(1 - values.shape[0], 0)
    if missing == 0:
        return min(values), max(values)
    bounds = (filled((missing,), bound, values.dtype) for bound in (0.0, 1.0))
    low, high = (concat([values, bound]) for bound in bounds)
    return min(low), max(high)


def _edges(values: Tensor, bins: Any, range: Any, dtype: DType) -> Tensor:
    bins = without_axes(bins)
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer):
        edges = cast(as_tensor(bins), dtype)
        if edges.ndim != 1:
            raise ShapeError("histogram", f"bins: {edges.type} are no edges", source=user_source())
        return edges
    if bins < 1:
        raise ShapeError("histogram", f"bins is {bins}, less than one", source=user_source())
    given = _range_of(values) if range is None else range
    if len(given) != 2:
        raise ShapeError("histogram", f"range {range!r} is no pair", source=user_source())
    low, high = (cast(as_tensor(bound), dtype) for bound in given)
    # As in NumPy: where all is the same, half a unit to both sides.
    is_flat = equal(low, high)
    low, high = where(is_flat, low - 0.5, low), where(is_flat, high + 0.5, high)
    number = iota((int(bins) + 1,), 0)
    share = divide(cast(number, dtype), int(bins))
    return where(equal(number, int(bins)), high, add(low, multiply(subtract(high, low), share)))
