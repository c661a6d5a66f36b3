"""Set functions with a size that is given: unique_all and its parts, and nonzero.

How many different elements there are is known only when a program runs. So the size of the result
is an argument, as in JAX: a smaller one keeps the first, and what is left over is filled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from symgrad.errors import ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.given_arrays import require_size
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.graph.ops.arithmetic import floor_divide, remainder, subtract
from symgrad.graph.ops.comparison import isnan, less, logical_or, not_equal, where
from symgrad.graph.ops.complex_parts import imag, real
from symgrad.graph.ops.counting import lexsort, size_tensor
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.gathering import gather, iota, scatter_rows
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.ordering import argsort, search, sort
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


@public(is_standard=True)
def unique_all(x: Any, /, *, size: Dim | None = None, fill_value: Any = None) -> UniqueAll:
    """Return the different elements of `x` in order, and where and how often each is.

    That is, vectors of `size` with the `values`, the `indices` of the first of each among all
    elements in row-major order, and their `counts`; and `inverse_indices`, of the shape of `x`,
    with the position of each element among the values. Of more values the first are kept, the
    inverse still counts all; places left over have the value `fill_value`, the least one if none is
    given, with its index and the count 0. The two zeros are one value, and each nan is one of its
    own. Complex numbers are in the order of their real parts and, of equal ones, of their imaginary
    parts. Indices and counts are int64, and the gradient of a value goes to the first element that
    has it. Raises `ShapeError` without `size`, and for no elements.

    >>> found = sg.unique_all(sg.constant([3, 1, 3]), size=2)
    >>> sg.run(found.values), sg.run(found.counts)
    (array([1, 3], dtype=int32), array([1, 2]))
    """
    return _unique("unique_all", x, size, fill_value)


@public(is_standard=True)
def unique_counts(x: Any, /, *, size: Dim | None = None, fill_value: Any = None) -> UniqueCounts:
    """Return the different elements of `x` in order, and how often each is: see `unique_all`.

    >>> found = sg.unique_counts(sg.constant([3, 1, 3]), size=3, fill_value=9)
    >>> sg.run(found.values), sg.run(found.counts)
    (array([1, 3, 9], dtype=int32), array([1, 2, 0]))
    """
    found = _unique("unique_counts", x, size, fill_value)
    return UniqueCounts(found.values, found.counts)


@public(is_standard=True)
def unique_inverse(x: Any, /, *, size: Dim | None = None, fill_value: Any = None) -> UniqueInverse:
    """Return the different elements of `x` in order, and which each of its elements is.

    See `unique_all`.

    >>> found = sg.unique_inverse(sg.constant([3, 1, 3]), size=2)
    >>> sg.run(found.inverse_indices)
    array([1, 0, 1])
    """
    found = _unique("unique_inverse", x, size, fill_value)
    return UniqueInverse(found.values, found.inverse_indices)


@public(is_standard=True)
def unique_values(x: Any, /, *, size: Dim | None = None, fill_value: Any = None) -> Tensor:
    """Return the different elements of `x` in order: see `unique_all`.

    >>> sg.run(sg.unique_values(sg.constant([3, 1, 3]), size=2))
    array([1, 3], dtype=int32)
    """
    return _unique("unique_values", x, size, fill_value).values


def _require_size(op: str, size: Dim | None) -> Dim:
    if size is None:
        raise ShapeError(
            op,
            "the size of the result is known only when a program runs",
            hint="give the size of the result: size=",
            source=user_source(),
        )
    size = require_size(op, "size", size)
    if isinstance(size, int) and size < 0:
        raise ShapeError(op, f"size is {size}, less than 0", source=user_source())
    return size


def _unique(op: str, x: Any, size: Dim | None, fill_value: Any) -> UniqueAll:
    x = as_tensor(x)
    size = _require_size(op, size)
    x = require_least(x, x.size, 1, op, "x: {x} has no elements")
    flat = reshape(x, (-1,))
    count = flat.shape[0]
    order = _sorting_order(flat)
    in_order = gather(flat, [order], 0)
    before = concat([narrow(in_order, 0, 0, 1), narrow(in_order, 0, 0, count - 1)], axis=0)
    position = iota((count,), 0)
    is_first = logical_or(not_equal(in_order, before), less(position, 1))
    starts = _first_positions(is_first, size)
    following = narrow(starts, 0, 1, size)
    starts = narrow(starts, 0, 0, size)
    is_there = less(starts, as_tensor(count, dtypes.int64))
    indices = gather(order, [where(is_there, starts, 0)], 0)
    values = gather(flat, [indices], 0)
    if fill_value is not None:
        filler = broadcast_to(cast(as_tensor(fill_value), x.dtype), values.shape)
        values = where(is_there, values, filler)
    counts = subtract(following, starts)
    # Of each element in order, how many values begin up to it; then back to where it was.
    all_starts = sort(where(is_first, position, size_tensor(flat)))
    among = subtract(search(all_starts, position, "right"), 1)
    inverse = scatter_rows(filled((count,), 0, dtypes.int64), among, [order], 0)
    return UniqueAll(values, indices, reshape(inverse, x.shape), counts)


def _sorting_order(x: Tensor) -> Tensor:
    """Return the positions that sort a vector: complex numbers by their parts, with nan last."""
    if not x.dtype.is_complex:
        return argsort(x)
    return lexsort([imag(x), real(x), isnan(x)])


def _first_positions(mask: Tensor, size: Dim) -> Tensor:
    """Return the first `size` positions at which a vector holds, and one more.

    Where there are no more it is the size of the vector.
    """
    (count,) = mask.shape
    none = size_tensor(mask)
    found = sort(where(mask, iota((count,), 0), none))
    rest = broadcast_to(none, (size + 1,))
    return narrow(concat([found, rest], axis=0), 0, 0, size + 1)


@public(is_standard=True, functions=[np.nonzero])
def nonzero(x: Any, /, *, size: Dim | None = None, fill_value: Any = 0) -> tuple[Tensor, ...]:
    """Return where `x` is not zero, in row-major order: for each axis a vector of `size` indices.

    Of more places the first are kept, and `fill_value`, a number or one for each axis, fills what
    is left over. Indices are int64 and have no gradient; nan is not zero. Raises `ShapeError`
    without `size` and for an `x` without axes.

    >>> sg.run(sg.nonzero(sg.constant([0, 5, 0, 7]), size=3, fill_value=-1))
    (array([ 1,  3, -1]),)
    """
    x = as_tensor(x)
    size = _require_size("nonzero", size)
    if x.ndim == 0:
        raise ShapeError("nonzero", f"x: {x.type} has no axes", source=user_source())
    flat = reshape(x, (-1,))
    mask = flat if x.dtype.is_bool else not_equal(flat, 0)
    places = narrow(_first_positions(mask, size), 0, 0, size)
    is_there = less(places, size_tensor(flat))
    fillers = fill_value if isinstance(fill_value, tuple | list) else (fill_value,) * x.ndim
    if len(fillers) != x.ndim:
        raise ShapeError(
            "nonzero", f"{len(fillers)} fill values for x: {x.type}", source=user_source()
        )
    found = []
    for axis in reversed(range(x.ndim)):
        extent = as_tensor(x.shape[axis], dtypes.int64)
        index = places if axis == 0 else remainder(places, extent)
        filler = cast(as_tensor(fillers[axis]), dtypes.int64)
        found.append(where(is_there, index, filler))
        places = floor_divide(places, extent)
    return tuple(reversed(found))
