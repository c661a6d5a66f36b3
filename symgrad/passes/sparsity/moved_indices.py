"""Dependences of what moves elements: views, places, gathers and scatters.

Numbers of index sets move as the elements do. Where indices are data, an element depends on all
that it may be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from symgrad.graph.structures import AxisMap, Bound, Gather, Place, Scatter
from symgrad.graph.types import Array
from symgrad.passes.sparsity.index_sets import IndexSets, Indices, Numbers

Shape = tuple[int, ...]


def seen(numbers: Numbers, index: Sequence[AxisMap], shape: Shape) -> Numbers:
    """Return the numbers of a view of `shape`, in no memory of its own."""
    if 0 in shape:
        return np.zeros(shape, np.int64)
    strides = [0] * len(shape)
    for axis_map, stride in zip(index, numbers.strides, strict=True):
        for axis, coefficient in axis_map.terms:
            strides[axis] += coefficient * stride
    first = numbers[tuple(slice(m.offset, m.offset + 1) for m in index)]
    return as_strided(first, shape, strides, writeable=False)


def placed(
    sets: IndexSets, operands: Sequence[Numbers | None], spec: Place, shape: Shape
) -> Numbers:
    """Return the numbers of a result of `shape` that operands are written, or added, into."""
    result = np.zeros(int(np.prod(shape, dtype=np.int64)), np.int64)
    owners, members = [], []
    for numbers, index in zip(operands, spec.operands, strict=True):
        if numbers is None or not numbers.size:
            continue
        places = _places(index, numbers.shape, shape)
        if spec.adds:
            owners.append(places)
            members.append(numbers.reshape(-1))
        else:
            result[places] = numbers.reshape(-1)
    if owners:
        result = sets.united(np.concatenate(owners), np.concatenate(members), result.size)
    return result.reshape(shape)


def _places(index: Sequence[AxisMap], shape: Shape, target: Shape) -> Indices:
    """Return where the elements of an operand of `shape` are in a target, in row-major order."""
    total = np.zeros(shape, np.int64)
    for axis_map, stride in zip(index, _strides(target), strict=True):
        total += axis_map.offset * stride
        for axis, coefficient in axis_map.terms:
            along = np.arange(shape[axis]) * (coefficient * stride)
            total += along.reshape(-1, *(1,) * (len(shape) - axis - 1))
    return total.reshape(-1)


def _strides(shape: Shape) -> list[int]:
    return [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]


# ------------------------------------------------------------------------- indices that are data


def gathered(
    sets: IndexSets,
    numbers: Numbers,
    indices: Sequence[Array | None],
    spec: Gather,
    index_shape: Shape,
) -> Numbers:
    """Return the numbers of what a gather reads; of an index that is None, all it may be."""
    axis, last = spec.axis, spec.axis + spec.count
    window = spec.window or ()
    known = [index for index in indices if index is not None]
    shape = (*numbers.shape[:axis], *index_shape, *window, *numbers.shape[last:])
    if len(known) < spec.count:
        total = sets.union_over(numbers, range(axis, last))
        wide = total.reshape((*total.shape[:axis], *(1,) * len((*index_shape, *window)),
                              *total.shape[axis:]))  # fmt: skip
        return np.broadcast_to(wide, shape)
    merged = int(np.prod(numbers.shape[axis:last], dtype=np.int64))
    rows = numbers.reshape((*numbers.shape[:axis], merged, *numbers.shape[last:]))
    places = _rows(known, numbers.shape[axis:last], window, spec.bound)
    if places is None:
        return np.zeros(shape, np.int64)
    return rows[(slice(None),) * axis + (places,)].reshape(shape)


def scattered(
    sets: IndexSets,
    base: Numbers | None,
    updates: Numbers | None,
    indices: Sequence[Array | None],
    spec: Scatter,
    shape: Shape,
) -> Numbers:
    """Return the numbers of a result of `shape` with `updates` where the indices say."""
    axis, last = spec.axis, spec.axis + spec.count
    start = np.zeros(shape, np.int64) if base is None else base
    known = [index for index in indices if index is not None]
    if len(known) < spec.count:
        return _scattered_anywhere(sets, start, updates, spec)
    places = _rows(known, shape[axis:last], spec.window or (), spec.bound)
    if places is None or not places.size:
        return start
    inner = int(np.prod(shape[last:], dtype=np.int64))
    outer = int(np.prod(shape[:axis], dtype=np.int64))
    rows = start.reshape(outer, int(np.prod(shape[axis:last], dtype=np.int64)), inner)
    new = np.zeros((outer, places.size, inner), np.int64)
    if updates is not None:
        new[:] = updates.reshape(new.shape)
    targets = np.arange(rows.size).reshape(rows.shape)[:, places].reshape(-1)
    if spec.combine is None:
        result = rows.reshape(-1).copy()
        result[targets] = new.reshape(-1)  # of what meets, NumPy keeps the last one too
        return result.reshape(shape)
    owners = np.concatenate([np.arange(rows.size), targets])
    members = np.concatenate([rows.reshape(-1), new.reshape(-1)])
    return sets.united(owners, members, rows.size).reshape(shape)


def _scattered_anywhere(
    sets: IndexSets, base: Numbers, updates: Numbers | None, spec: Scatter
) -> Numbers:
    if updates is None:
        return base
    axis, last = spec.axis, spec.axis + spec.count
    behind = base.ndim - last
    total = sets.union_over(updates, range(axis, updates.ndim - behind))
    wide = total.reshape((*total.shape[:axis], *(1,) * spec.count, *total.shape[axis:]))
    return sets.union(base, np.broadcast_to(wide, base.shape))


def _rows(
    indices: Sequence[Array], sizes: Shape, window: Shape, bound: Bound
) -> NDArray[np.int64] | None:
    """Return where indices point in the indexed axes as one; None if one is out of range."""
    total = np.zeros((*indices[0].shape, *(1,) * len(window)), np.int64)
    blocks = window or (1,) * len(sizes)
    for position, (index, size, block) in enumerate(zip(indices, sizes, blocks, strict=True)):
        first = index.astype(np.int64)
        if bound == "clamp":
            first = np.clip(first, 0, max(size - block, 0))
        elif bound == "wrap":
            first = np.where(first < 0, first + size, first)
        if first.size and (first.min() < 0 or first.max() + block > size):
            return None  # an error of the run that meets it
        within = first.reshape((*first.shape, *(1,) * len(window)))
        if window:
            along = np.arange(block).reshape(-1, *(1,) * (len(window) - position - 1))
            within = within + along
        total = total + within * int(np.prod(sizes[position + 1 :], dtype=np.int64))
    return total.reshape(-1)
