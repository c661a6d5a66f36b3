"""Broadcasting, stacking and splitting of several tensors, as NumPy has them; no op is declared."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, called, user_source
from symgrad.graph.given_arrays import require_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, normalize_axis
from symgrad.graph.ops.elementwise import broadcast_together
from symgrad.graph.ops.slicing import concat, flip, require_several
from symgrad.graph.ops.structure import expand_dims, reshape
from symgrad.graph.ops.views import cuts_or_count, narrow, split, swapaxes
from symgrad.graph.public_ops import public
from symgrad.graph.types import require_node_count


@public(is_standard=True, functions=[np.broadcast_arrays])
def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """Broadcast tensors to the one shape they meet in; dtypes stay.

    The gradient of each is a sum over the axes it was repeated along. Raises `ShapeError` for
    shapes that do not broadcast.

    >>> row, column = sg.broadcast_arrays(sg.zeros(3), sg.zeros((2, 1)))
    >>> row.shape, column.shape
    ((2, 3), (2, 3))
    """
    tensors = {f"operand {place}": as_tensor(x) for place, x in enumerate(arrays)}
    return tuple(broadcast_together("broadcast_arrays", **tensors)) if tensors else ()


def _at_least(ndim: int, x: Any) -> Tensor:
    tensor = as_tensor(x)
    missing = ndim - tensor.ndim
    if missing <= 0:
        return tensor
    # Of three axes NumPy puts a vector in the middle, and a matrix first.
    after = 1 if ndim == 3 and missing < 3 else 0
    return reshape(tensor, ((1,) * (missing - after) + tensor.shape + (1,) * after))


@public()
def atleast_1d(x: Any, /) -> Tensor:
    """Return `x` with at least one axis: a scalar becomes a vector of one element.

    >>> sg.atleast_1d(3.0).shape
    (1,)
    """
    return _at_least(1, x)


@public()
def atleast_2d(x: Any, /) -> Tensor:
    """Return `x` with at least two axes: a vector becomes a row.

    >>> sg.atleast_2d([1.0, 2.0, 3.0]).shape
    (1, 3)
    """
    return _at_least(2, x)


@public()
def atleast_3d(x: Any, /) -> Tensor:
    """Return `x` with at least three axes: (n,) becomes (1, n, 1) and (m, n) becomes (m, n, 1).

    >>> sg.atleast_3d([1.0, 2.0, 3.0]).shape
    (1, 3, 1)
    """
    return _at_least(3, x)


@public()
def hstack(arrays: Sequence[Any], /) -> Tensor:
    """Join tensors along the second axis, vectors along the first (stack horizontally).

    >>> sg.run(sg.hstack([[1, 2], [3]]))
    array([1, 2, 3], dtype=int32)
    """
    with called("hstack"):
        require_several("hstack", arrays)
        parts = [_at_least(1, x) for x in arrays]
        return concat(parts, axis=0 if parts and parts[0].ndim == 1 else 1)


@public()
def vstack(arrays: Sequence[Any], /) -> Tensor:
    """Join tensors along the first axis, vectors as rows (stack vertically).

    >>> sg.run(sg.vstack([[1, 2], [3, 4]]))
    array([[1, 2],
           [3, 4]], dtype=int32)
    """
    with called("vstack"):
        require_several("vstack", arrays)
        return concat([_at_least(2, x) for x in arrays], axis=0)


@public()
def dstack(arrays: Sequence[Any], /) -> Tensor:
    """Join tensors along the third axis, after `atleast_3d` (stack in depth).

    >>> sg.dstack([sg.zeros((2, 3)), sg.ones((2, 3))]).shape
    (2, 3, 2)
    """
    with called("dstack"):
        require_several("dstack", arrays)
        return concat([_at_least(3, x) for x in arrays], axis=2)


@public()
def column_stack(arrays: Sequence[Any], /) -> Tensor:
    """Join matrices, and vectors as columns, along the second axis.

    >>> sg.run(sg.column_stack([[1, 2], [10, 20]]))
    array([[ 1, 10],
           [ 2, 20]], dtype=int32)
    """
    with called("column_stack"):
        require_several("column_stack", arrays)
        tensors = [_at_least(1, x) for x in arrays]
        return concat([expand_dims(t, 1) if t.ndim == 1 else t for t in tensors], axis=1)


@public()
def array_split(x: Any, indices_or_sections: int | Sequence[int], /, axis: int = 0) -> list[Tensor]:
    """Cut `x` along `axis` as `split` does, but into parts that need not be equal.

    Of n parts of a size that does not divide the first ones are longer by one element.

    >>> [part.shape for part in sg.array_split(sg.zeros(7), 3)]
    [(3,), (2,), (2,)]
    """
    x = as_tensor(x)
    axis = normalize_axis("array_split", axis, x.ndim)
    size = x.shape[axis]
    sections = cuts_or_count("array_split", indices_or_sections)
    if not isinstance(sections, int):
        places = [i + size if i < 0 and isinstance(size, int) else i for i in sections]
        return _split_at(x, places, axis)
    if sections < 1 or not isinstance(size, int):
        raise ShapeError(
            "array_split",
            f"axis {axis} of x: {x.type} is not cut into {sections} parts",
            source=user_source(),
        )
    require_node_count("array_split", sections, "parts")
    short, longer = divmod(size, sections)
    ends = np.cumsum([short + (part < longer) for part in range(sections)])
    return split(x, [int(end) for end in ends[:-1]], axis)


def _split_at(x: Tensor, places: list[int], axis: int) -> list[Tensor]:
    """Cut at places of any order, as slices: what lies beyond the end is empty."""
    size = x.shape[axis]
    if not isinstance(size, int):
        return split(x, places, axis)
    ends = [0, *(min(max(place, 0), size) for place in places), size]
    return [narrow(x, axis, a, max(0, b - a)) for a, b in itertools.pairwise(ends)]


@public(functions=[np.hsplit])
def hsplit(x: Any, indices_or_sections: int | Sequence[int], /) -> list[Tensor]:
    """Cut `x` along its second axis, a vector along its first.

    >>> sg.run(sg.hsplit([1, 2, 3, 4], 2))
    [array([1, 2], dtype=int32), array([3, 4], dtype=int32)]
    """
    x = _split_operand("hsplit", x, 1)
    return split(x, indices_or_sections, 0 if x.ndim == 1 else 1)


@public(functions=[np.vsplit])
def vsplit(x: Any, indices_or_sections: int | Sequence[int], /) -> list[Tensor]:
    """Cut `x`, of at least two axes, along its first axis.

    >>> [part.shape for part in sg.vsplit(sg.zeros((4, 3)), 2)]
    [(2, 3), (2, 3)]
    """
    return split(_split_operand("vsplit", x, 2), indices_or_sections, 0)


@public(functions=[np.dsplit])
def dsplit(x: Any, indices_or_sections: int | Sequence[int], /) -> list[Tensor]:
    """Cut `x`, of at least three axes, along its third axis.

    >>> [part.shape for part in sg.dsplit(sg.zeros((2, 2, 6)), 3)]
    [(2, 2, 2), (2, 2, 2), (2, 2, 2)]
    """
    return split(_split_operand("dsplit", x, 3), indices_or_sections, 2)


def _split_operand(op: str, x: Any, least: int) -> Tensor:
    tensor = as_tensor(x)
    if tensor.ndim < least:
        problem = f"x: {tensor.type} has fewer than {least} axes"
        raise ShapeError(op, problem, source=user_source())
    return tensor


@public()
def rot90(x: Any, /, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Rotate by 90 degrees, `k` times, in the plane of two axes, from the first to the second.

    >>> sg.run(sg.rot90([[1, 2], [3, 4]]))
    array([[2, 4],
           [1, 3]], dtype=int32)
    """
    x = as_tensor(x)
    if len(axes) != 2:
        raise ShapeError("rot90", f"axes {axes!r} are not two", source=user_source())
    first, second = (normalize_axis("rot90", a, x.ndim, "axes") for a in axes)
    if first == second:
        raise ShapeError("rot90", f"axis {first} is given twice", source=user_source())
    turns = require_int("rot90", "k", k) % 4
    if turns in (0, 2):
        return flip(x, (first, second)) if turns else x
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)


@public(functions=[np.flipud])
def flipud(x: Any, /) -> Tensor:
    """Reverse the order of the rows: the first axis.

    >>> sg.run(sg.flipud([[1, 2, 3], [4, 5, 6]]))
    array([[4, 5, 6],
           [1, 2, 3]], dtype=int32)
    """
    return flip(_split_operand("flipud", x, 1), 0)


@public(functions=[np.fliplr])
def fliplr(x: Any, /) -> Tensor:
    """Reverse the order of the columns: the second axis.

    >>> sg.run(sg.fliplr([[1, 2, 3], [4, 5, 6]]))
    array([[3, 2, 1],
           [6, 5, 4]], dtype=int32)
    """
    return flip(_split_operand("fliplr", x, 2), 1)


@public()
def ravel(x: Any, /) -> Tensor:
    """Return the elements in row-major order, along one axis (flatten).

    >>> sg.run(sg.ravel([[1, 2], [3, 4]]))
    array([1, 2, 3, 4], dtype=int32)
    """
    x = as_tensor(x)
    return reshape(x, (x.size,))
