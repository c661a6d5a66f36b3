"""Shape manipulation composed of the structural ops; no op is declared here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph.given_arrays import as_int, as_size, require_int, within_memory
from symgrad.graph.late_binding import provide, provided
from symgrad.graph.node import Tensor
from symgrad.graph.operands import (
    as_tensor,
    made_by_numpy,
    normalize_axes,
    normalize_axis,
    refuse_tensors,
)
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.structure import broadcast_to, expand_dims, permute_dims, reshape, squeeze
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, Size, divide
from symgrad.graph.types import ArrayLiteral, require_node_count


@public(is_standard=True, functions=[np.matrix_transpose], known_as=["adjoint"])
def matrix_transpose(x: Any, /) -> Tensor:
    """Exchange the last two axes. On a tensor also `x.mT`.

    >>> sg.run(sg.matrix_transpose([[1, 2, 3], [4, 5, 6]]))
    array([[1, 4],
           [2, 5],
           [3, 6]], dtype=int32)
    """
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(
            "matrix_transpose", f"x: {x.type} has fewer than two axes", source=user_source()
        )
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@provide
def reverse_axes(x: Any, /) -> Tensor:
    """Reverse the order of the axes."""
    x = as_tensor(x)
    return permute_dims(x, tuple(reversed(range(x.ndim))))


@public(is_standard=True)
def moveaxis(x: Any, source: Any, destination: Any, /) -> Tensor:
    """Move the axes `source` to the positions `destination`; the others keep their order.

    >>> sg.moveaxis(sg.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_tensor(x)
    moved = _axes_in_order("moveaxis", source, x.ndim)
    places = _axes_in_order("moveaxis", destination, x.ndim)
    if len(moved) != len(places):
        raise ShapeError(
            "moveaxis", f"{len(moved)} axes to {len(places)} places", source=user_source()
        )
    rest = iter(axis for axis in range(x.ndim) if axis not in moved)
    by_place = dict(zip(places, moved, strict=True))
    return permute_dims(x, [by_place[p] if p in by_place else next(rest) for p in range(x.ndim)])


def _axes_in_order(op: str, axis: Any, ndim: int) -> list[int]:
    normalize_axes(op, axis, ndim)
    given = axis if isinstance(axis, tuple | list) else (axis,)
    return [normalize_axis(op, a, ndim) for a in given]


@public(functions=[np.swapaxes])
def swapaxes(x: Any, axis1: int, axis2: int, /) -> Tensor:
    """Exchange two axes.

    >>> sg.swapaxes(sg.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = as_tensor(x)
    first, second = (normalize_axis("swapaxes", a, x.ndim) for a in (axis1, axis2))
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return permute_dims(x, order)


def narrow(x: Tensor, axis: int, start: Dim, size: Dim) -> Tensor:
    """Return `size` elements of `axis`, which is counted from 0, from `start` on."""
    starts = [start if a == axis else 0 for a in range(x.ndim)]
    sizes = [size if a == axis else n for a, n in enumerate(x.shape)]
    return slice_axes(x, starts, sizes, [1] * x.ndim)


@public(functions=[np.split])
def split(x: Any, indices_or_sections: int | Sequence[int], /, axis: int = 0) -> list[Tensor]:
    """Cut `x` along `axis` into so many equal parts, or at the given indices, as NumPy does.

    >>> sg.run(sg.split([1, 2, 3, 4], [1, 3]))
    [array([1], dtype=int32), array([2, 3], dtype=int32), array([4], dtype=int32)]
    """
    x = as_tensor(x)
    axis = normalize_axis("split", axis, x.ndim)
    size = x.shape[axis]
    given = cuts_or_count("split", indices_or_sections)
    if isinstance(given, int):
        return _split_evenly(x, given, axis)
    cuts: list[Dim] = [0]
    for cut in given:
        if cut < 0 or cut < _as_int(cuts[-1]) or (isinstance(size, int) and cut > size):
            raise ShapeError(
                "split",
                f"{given} does not cut axis {axis} of x: {x.type}",
                source=user_source(),
            )
        cuts.append(cut)
    ends = [*cuts[1:], size]
    return [narrow(x, axis, a, b - a) for a, b in zip(cuts, ends, strict=True)]


def cuts_or_count(op: str, indices_or_sections: Any) -> int | list[int]:
    """Return at which ints to cut, or the int that says into how many parts."""
    count = as_int(indices_or_sections)
    if count is not None:
        return count
    name = "indices_or_sections"
    if isinstance(indices_or_sections, str) or not np.iterable(indices_or_sections):
        return require_int(op, name, indices_or_sections)
    return [require_int(op, f"an index of {name}", i) for i in indices_or_sections]


def _as_int(cut: Dim) -> int:
    assert isinstance(cut, int), "a cut is a plain index"
    return cut


def _split_evenly(x: Tensor, sections: int, axis: int) -> list[Tensor]:
    size = x.shape[axis]
    if sections < 1 or (isinstance(size, int) and size % sections):
        raise ShapeError(
            "split",
            f"axis {axis} of x: {x.type} does not divide into {sections} parts",
            source=user_source(),
        )
    require_node_count("split", sections, "parts")
    part = divide(size, sections)
    problem = f"axis {axis} of x: {{x}} does not divide into {sections} parts"
    x = require_least(x, part * sections - size, 0, "split", problem)
    # The last part reaches to the end: all together have the size of the axis.
    parts = [narrow(x, axis, part * i, part) for i in range(sections - 1)]
    return [*parts, narrow(x, axis, part * (sections - 1), size - part * (sections - 1))]


@public(is_standard=True, functions=[np.unstack], known_as=["unbind"])
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices of `x` along `axis`, whose size must be known.

    >>> sg.run(sg.unstack([[1, 2], [3, 4]], axis=1))
    (array([1, 3], dtype=int32), array([2, 4], dtype=int32))
    """
    x = as_tensor(x)
    axis = normalize_axis("unstack", axis, x.ndim)
    size = x.shape[axis]
    if not isinstance(size, int):
        raise ShapeError(
            "unstack", f"axis {axis} of x: {x.type} has no known size", source=user_source()
        )
    require_node_count("unstack", size, "slices")
    return tuple(squeeze(narrow(x, axis, i, 1), axis) for i in range(size))


@public(is_standard=True)
def tile(x: Any, repetitions: Any, /) -> Tensor:
    """Repeat `x` as a whole along each axis; missing axes are added in front.

    `repetitions` is a number, or one for each axis. Raises `ShapeError` for a negative one and
    `DTypeError` for what is no integer.

    >>> sg.run(sg.tile([1, 2], 2))
    array([1, 2, 1, 2], dtype=int32)
    """
    x = as_tensor(x)
    given = _repetitions(repetitions)
    ndim = x.ndim if x.ndim > len(given) else len(given)
    counts = (1,) * (ndim - len(given)) + given
    shape = (1,) * (ndim - x.ndim) + x.shape
    paired = [size for n in shape for size in (1, n)]
    repeated = [size for n, count in zip(shape, counts, strict=True) for size in (count, n)]
    tiled = broadcast_to(reshape(x, paired), repeated)
    return reshape(tiled, [n * count for n, count in zip(shape, counts, strict=True)])


def _repetitions(repetitions: Any) -> tuple[Dim, ...]:
    is_one = isinstance(repetitions, Size) or not np.iterable(repetitions)
    given = (repetitions,) if is_one else tuple(repetitions)
    refuse_tensors("tile", given)
    counts = tuple(n for n in map(as_size, given) if n is not None)
    if len(counts) < len(given):
        problem = f"repetitions {repetitions!r} are no integers"
        raise DTypeError("tile", problem, source=user_source())
    if any(isinstance(n, int) and n < 0 for n in counts):
        problem = f"repetitions {repetitions!r} has negative numbers"
        raise ShapeError("tile", problem, source=user_source())
    return counts


@public(is_standard=True, known_as=["repeat_interleave"])
def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Repeat each element `repeats` times along `axis`; flattened first for None.

    `repeats` is a number, or an array with a number for each element along the axis, which must be
    known when the graph is built, as the size of the result is. Raises `ShapeError` for a negative
    number and where the array does not fit the axis, `DTypeError` for what is no integer.

    >>> sg.run(sg.repeat(sg.constant([1, 2, 3]), [0, 1, 2]))
    array([2, 3, 3], dtype=int32)
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    axis = normalize_axis("repeat", axis, x.ndim)
    if not isinstance(repeats, int | Size):
        counts = _known_counts(x, repeats, axis)
        if counts.size != 1:
            return _repeat_each(x, counts, axis)
        repeats = int(counts.reshape(()))
    if isinstance(repeats, int) and repeats < 0:
        raise ShapeError("repeat", f"repeats {repeats} is negative", source=user_source())
    wide = expand_dims(x, axis=axis + 1)
    shape = list(wide.shape)
    shape[axis + 1] = repeats
    merged = [*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]]
    return reshape(broadcast_to(wide, shape), merged)


def _known_counts(x: Tensor, repeats: Any, axis: int) -> np.ndarray[Any, Any]:
    if isinstance(repeats, Tensor):
        repeats = repeats.node.attrs.get("value", repeats)
    if isinstance(repeats, Tensor):
        raise DTypeError(
            "repeat",
            f"repeats: {repeats.type} is a tensor: the shape of the result would depend on data",
            hint="give an array, or sg.take with indices of a known shape",
            source=user_source(),
        )
    counts = made_by_numpy(repeats.array if isinstance(repeats, ArrayLiteral) else repeats)
    if counts.dtype.kind not in "iu" and counts.size:
        raise DTypeError("repeat", f"repeats {repeats!r} are no integers", source=user_source())
    size = x.shape[axis]
    if counts.ndim > 1 or counts.size not in (1, size):
        problem = f"repeats of shape {counts.shape} do not fit axis {axis} of x: {x.type}"
        raise ShapeError("repeat", problem, source=user_source())
    if (counts < 0).any():
        raise ShapeError(
            "repeat", f"repeats {repeats!r} has negative numbers", source=user_source()
        )
    return counts


def _repeat_each(x: Tensor, counts: np.ndarray[Any, Any], axis: int) -> Tensor:
    with within_memory("repeat", "repeats"):
        places = np.repeat(np.arange(counts.size, dtype=np.int64), counts.astype(np.int64))
    taken: Tensor = provided("take")(x, places, axis=axis)  # it is made of what is here
    return taken
