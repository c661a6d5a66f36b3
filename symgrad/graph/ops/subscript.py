"""Basic and advanced indexing: what stands between brackets, with NumPy's meaning.

Slices and ints become one slice of the tensor; integer arrays and tensors become one gather of
what that leaves. A slice of an axis of unknown size is clipped by sizes that are computed from it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.errors import AxisError, DTypeError, IndexOutOfRangeError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.foreign_arrays import as_numpy
from symgrad.graph.late_binding import provide
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, holds_size
from symgrad.graph.ops.elementwise import broadcast_together
from symgrad.graph.ops.gathering import gather
from symgrad.graph.ops.indexing import gather_axes, index_tensor
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.slice_bounds import TensorBounds, tensor_bounds
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.windows import read_window
from symgrad.graph.sizes import Dim, Size, at_least, at_most, divide
from symgrad.graph.types import Shape
from symgrad.records import dataclass

_OP = "getitem"


@provide
def getitem(x: Any, key: Any, /) -> Tensor:
    """Return `x[key]` as NumPy does: ints, slices, `...`, None, integer arrays and tensors.

    A boolean array stands for the integer arrays of its true places, and a bool of no axes for
    those of a new axis of one element, which it keeps or drops. A slice may be bounded by
    integer scalars if it is seen to be of a static length, as in `x[i : i + 3]`. All of it must
    then lie within `x`: what NumPy would cut off, or count from the end, is out of range. Raises
    `IndexOutOfRangeError`, `ShapeError` for too many indices, and `DTypeError` for what is no
    index, such as a boolean tensor: the shape of the result would depend on data.
    """
    x, key = with_axes_of_truths(as_tensor(x), key if isinstance(key, tuple) else (key,))
    x, items = _windowed(x, items_of(x, key))
    cuts = cuts_of(x, items)
    x = with_room(x, cuts)
    sliced = slice_axes(x, [c.start for c in cuts], [c.size for c in cuts], [c.step for c in cuts])
    kept = reshape(sliced, tuple(n for n, c in zip(sliced.shape, cuts, strict=True) if not c.drops))
    arrays = [item for item in items if is_array(item)]
    if not arrays:
        return _with_new_axes(kept, items, (), 0)
    return _gathered(kept, items, arrays)


def items_of(x: Tensor, key: Any) -> list[Any]:
    """Return the items of a key, with masks as integer arrays and a slice for what is missing."""
    return _with_all_axes(x, _without_masks(x, key if isinstance(key, tuple) else (key,)))


def is_truth(item: Any) -> bool:
    """Return whether an item of a key is a bool of no axes, which NumPy takes for a mask."""
    item = as_numpy(_OP, item)
    if isinstance(item, np.ndarray):
        return item.dtype == np.bool_ and item.ndim == 0
    return isinstance(item, bool | np.bool_)


def with_axes_of_truths(x: Tensor, key: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """Return `x` with an axis of size 1 for each bool of no axes, and the key with its places."""
    if not any(map(is_truth, key)):
        return x, key
    given = [_as_item(item) for item in key]
    places = [place for place, item in enumerate(given) if is_truth(item)]
    dots = [place for place, item in enumerate(given) if item is Ellipsis]
    on_axes = (slice, type(None), type(Ellipsis))
    is_alone = len(places) == 1 and sum(not isinstance(item, on_axes) for item in given) == 1
    axes = list(x.shape)
    for done, place in enumerate(places):
        behind = sum(_axes_taken(item) for item in given[place:])
        before = sum(_axes_taken(item) for item in given[:place])
        is_behind_dots = any(dot < place for dot in dots)
        axes.insert(max(x.ndim - behind, 0) + done if is_behind_dots else before + done, 1)
    for place in places:
        if is_alone:
            given[place] = slice(0, 1 if given[place] else 0)
        else:
            given[place] = np.zeros(1 if given[place] else 0, np.int64)
    return reshape(x, tuple(axes)), tuple(given)


def _windowed(x: Tensor, items: list[Any]) -> tuple[Tensor, list[Any]]:
    """Return what slices bounded by tensors leave of `x`, and the items with slices of all that."""
    on_axes = [item for item in items if item is not None and item is not Ellipsis]
    bounds = {a: found for a, i in enumerate(on_axes) if (found := bounds_of(i)) is not None}
    if not bounds:
        return x, items
    first, last = min(bounds), max(bounds)
    axes = range(first, last + 1)
    starts = [bounds[a].start if a in bounds else as_tensor(0, dtypes.int64) for a in axes]
    sizes = [bounds[a].length if a in bounds else x.shape[a] for a in axes]
    taken = read_window(x, starts, sizes, first, clamps=False)
    return taken, [i if (b := bounds_of(i)) is None else slice(None, None, b.step) for i in items]


def bounds_of(item: Any) -> TensorBounds | None:
    """Return what a slice that tensors bound takes, None for any other item of a key."""
    return tensor_bounds(item) if isinstance(item, slice) else None


@dataclass(frozen=True, slots=True)
class AxisPart:
    """What a key takes of one axis; `drops` if the axis then disappears."""

    start: Dim
    size: Dim
    step: int
    drops: bool = False


def is_array(item: Any) -> bool:
    """Return whether an item of a key is an array or a tensor."""
    return isinstance(item, Tensor | np.ndarray)


def _without_masks(x: Tensor, key: tuple[Any, ...]) -> list[Any]:
    """Return the items of a key with lists as arrays and masks as integer arrays."""
    given = [_as_item(item) for item in key]
    items: list[Any] = []
    axis = 0
    for place, item in enumerate(given):
        if is_mask(item):
            _check_mask(x, item, axis)
            items.extend(np.nonzero(item))
        else:
            _check_item(item)
            items.append(item)
        axis += _axes_taken(item)
        if item is Ellipsis:
            axis = x.ndim - sum(_axes_taken(later) for later in given[place + 1 :])
    return items


def _as_item(item: Any) -> Any:
    """Return an item of a key, a list as an array and a size, or a list of them, as a tensor."""
    if holds_size(item):
        return as_tensor(item)
    return np.asarray(item) if isinstance(item, list | range) else as_numpy(_OP, item)


def is_mask(item: Any) -> bool:
    """Return whether an item of a key is an array of bools."""
    return isinstance(item, np.ndarray) and item.dtype == np.bool_ and item.ndim > 0


def _check_mask(x: Tensor, mask: np.ndarray[Any, Any], axis: int) -> None:
    facing = x.shape[axis : axis + mask.ndim]
    fits = len(facing) == mask.ndim and all(
        m in (n, 0) or not isinstance(n, int) for m, n in zip(mask.shape, facing, strict=True)
    )
    if not fits:
        raise AxisError(
            _OP,
            f"a mask of shape {mask.shape} does not fit axis {axis} on of x: {x.type}",
            source=user_source(),
        )


def _check_item(item: Any) -> None:
    if isinstance(item, Tensor) and item.dtype.is_bool:
        raise DTypeError(
            _OP,
            f"index: {item.type} is a mask: the shape of the result would depend on data",
            hint="use sg.where, or multiply by the mask",
            source=user_source(),
        )
    if item is None or item is Ellipsis or isinstance(item, slice | Tensor):
        return
    if isinstance(item, int | np.integer | np.ndarray):
        return
    raise DTypeError(_OP, f"{item!r} is no index", source=user_source())


def _axes_taken(item: Any) -> int:
    if item is None or item is Ellipsis or is_truth(item):
        return 0
    return int(item.ndim) if is_mask(item) else 1


def _with_all_axes(x: Tensor, items: list[Any]) -> list[Any]:
    """Return the items with full slices after `...` and for what is missing at the end.

    The `...` stays, since it separates arrays even where it stands for no axis.
    """
    taken = sum(_axes_taken(item) for item in items)
    dots = [place for place, item in enumerate(items) if item is Ellipsis]
    if taken > x.ndim or len(dots) > 1:
        problem = f"{taken} indices for x: {x.type}" if taken > x.ndim else "more than one ..."
        raise AxisError(_OP, problem, source=user_source())
    rest = [slice(None)] * (x.ndim - taken)
    if not dots:
        return [*items, *rest]
    return [*items[: dots[0] + 1], *rest, *items[dots[0] + 1 :]]


def cuts_of(x: Tensor, items: list[Any]) -> list[AxisPart]:
    """Return what the slices and ints of a key take of each axis, all of one that has an array."""
    cuts: list[AxisPart] = []
    for item in items:
        if item is None or item is Ellipsis:
            continue
        axis = len(cuts)
        size = x.shape[axis]
        if isinstance(item, slice):
            cuts.append(_cut_of_slice(item, size))
        elif is_array(item):
            cuts.append(AxisPart(0, size, 1))
        else:
            cuts.append(_cut_of_int(int(item), size, axis))
    return cuts


def _cut_of_int(index: int, size: Dim, axis: int) -> AxisPart:
    if isinstance(size, int) and not -size <= index < size:
        raise IndexOutOfRangeError(
            _OP, f"index {index} is outside of axis {axis} of size {size}", source=user_source()
        )
    return AxisPart(index if index >= 0 else size + index, 1, 1, drops=True)


def with_room(x: Tensor, cuts: Sequence[AxisPart]) -> Tensor:
    """Return `x`, whose axes of unknown sizes have the places that ints stand for.

    A window to write to that begins beyond the end would be moved, to other elements.
    """
    for axis, cut in enumerate(cuts):
        size = x.shape[axis]
        if cut.drops and not isinstance(size, int):
            least = cut.start + 1 if isinstance(cut.start, int) else size - cut.start
            assert isinstance(least, int), "an int stands for a place from one of both ends"
            index = least - 1 if isinstance(cut.start, int) else -least
            problem = f"index {index} is outside of axis {axis} of size {{size}} of x: {{x}}"
            x = require_least(x, size, least, _OP, problem, is_index=True)
    return x


def _cut_of_slice(item: slice, size: Dim) -> AxisPart:
    start, stop, step = (_bound(b) for b in (item.start, item.stop, item.step))
    stride = 1 if step is None else step
    if not isinstance(stride, int) or stride == 0:
        raise ShapeError(_OP, f"{stride} is no step of a slice", source=user_source())
    if isinstance(size, int) and not isinstance(start, Size) and not isinstance(stop, Size):
        places = range(*slice(start, stop, stride).indices(size))
        return AxisPart(places.start if places else 0, len(places), stride)
    if stride > 0:
        return _forward_cut(start, stop, stride, size)
    return _backward_cut(start, stop, stride, size)


def _bound(bound: Any) -> Dim | None:
    if bound is None or isinstance(bound, Size):
        return bound
    try:
        return operator.index(bound)
    except TypeError as error:
        raise DTypeError(_OP, f"{bound!r} does not bound a slice", source=user_source()) from error


def _forward_cut(start: Dim | None, stop: Dim | None, step: int, size: Dim) -> AxisPart:
    if stop is None and step == 1 and isinstance(start, int) and start < 0:
        count = at_most(-start, size)
        return AxisPart(size - count, count, 1)
    low = 0 if start is None else start if _is_from_start(start) else at_least(size + start, 0)
    high = size if stop is None else _place(stop, size, 0, size)
    # A start beyond the end leaves nothing, so it needs no clipping: x[1:] has the same size as
    # x[:-1], and the two are seen to be equal.
    return AxisPart(low, at_least(divide(high - low + (step - 1), step), 0), step)


def _backward_cut(start: Dim | None, stop: Dim | None, step: int, size: Dim) -> AxisPart:
    high = size - 1 if start is None else _place(start, size, -1, size - 1)
    low = -1 if stop is None else _place(stop, size, -1, size - 1)
    return AxisPart(high, at_least(divide(high - low + (-step - 1), -step), 0), step)


def _is_from_start(bound: Dim) -> bool:
    return not isinstance(bound, int) or bound >= 0


def _place(bound: Dim, size: Dim, least: Dim, most: Dim) -> Dim:
    """Return the bound counted from the start and clipped; from the end it is below `most`."""
    return at_most(bound, most) if _is_from_start(bound) else at_least(size + bound, least)


def _gathered(x: Tensor, items: list[Any], arrays: list[Any]) -> Tensor:
    """Index `x`, from which the axes of ints are gone, with the arrays among the items."""
    axes = [a for a, item in enumerate(_on_axes(items)) if is_array(item)]
    pairs = zip(axes, arrays, strict=True)
    indices = [index_tensor(_OP, array, x.shape[axis], axis) for axis, array in pairs]
    names = {f"index {place}": index for place, index in enumerate(indices)}
    indices = broadcast_together(_OP, **names)
    # NumPy: the axes of the arrays come where the arrays stood, or first if something stood
    # between them; among arrays an int counts as one.
    others = (slice, type(None), type(Ellipsis))
    places = [p for p, item in enumerate(items) if not isinstance(item, others)]
    if places == list(range(places[0], places[-1] + 1)):
        block = sum(isinstance(item, slice) for item in items[: places[0]])
        return _with_new_axes(gather(x, indices, block), items, indices[0].shape, places[0])
    return _with_new_axes(gather_axes(x, axes, indices), items, indices[0].shape, 0)


def _on_axes(items: list[Any]) -> list[Any]:
    """Return the items that stand for an axis which is still there."""
    return [item for item in items if isinstance(item, slice) or is_array(item)]


def _with_new_axes(x: Tensor, items: list[Any], block: Shape, place: int) -> Tensor:
    """Insert the axes of size 1 for None; `block` are the axes of the arrays, before `place`."""
    before = sum(isinstance(item, slice) for item in items[:place])
    sizes = iter((*x.shape[:before], *x.shape[before + len(block) :]))
    shape: list[Dim] = []
    for position, item in enumerate(items):
        if position == place:
            shape.extend(block)
        if item is None:
            shape.append(1)
        elif isinstance(item, slice):
            shape.append(next(sizes))
    return reshape(x, tuple(shape))
