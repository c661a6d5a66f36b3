"""Indexed updates: `x.at[key].set(v)`, which gives `x` with the elements at `key` written anew.

Nothing changes: the result is another tensor, for which a compiler may use the memory of `x`. What
stands between the brackets is as in `subscript`. A block of slices becomes one window, index arrays
become one scatter and a mask becomes a where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.late_binding import provide
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.arithmetic import add, divide, multiply, negative
from symgrad.graph.ops.comparison import where
from symgrad.graph.ops.elementwise import broadcast_target, common_shape, filled_like
from symgrad.graph.ops.extrema import maximum, minimum
from symgrad.graph.ops.gathering import scatter_rows, set_rows
from symgrad.graph.ops.index_grid import IndexGrid
from symgrad.graph.ops.scattering import extreme_rows, multiply_rows, scatter_max_op, scatter_min_op
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.subscript import (
    AxisPart,
    bounds_of,
    cuts_of,
    getitem,
    is_array,
    is_truth,
    items_of,
    with_axes_of_truths,
    with_room,
)
from symgrad.graph.ops.windows import update_like, write_window
from symgrad.graph.sizes import Dim
from symgrad.records import dataclass

Rows = Callable[[Tensor, Tensor, Sequence[Tensor], int], Tensor]
_OP = "at"


@dataclass(frozen=True, slots=True)
class _Mode:
    """A way to write: `combined(old, new)` gives an element, `rows` is its scatter."""

    name: str
    combined: Callable[[Tensor, Tensor], Tensor]
    rows: Rows


def _divide_rows(x: Tensor, updates: Tensor, indices: Sequence[Tensor], axis: int) -> Tensor:
    return divide(x, multiply_rows(filled_like(x, 1), updates, indices, axis))


_SET = _Mode("set", lambda old, new: new, set_rows)
_ADD = _Mode("add", add, scatter_rows)
_MULTIPLY = _Mode("multiply", multiply, multiply_rows)
_DIVIDE = _Mode("divide", divide, _divide_rows)
_MIN = _Mode("min", minimum, lambda x, v, i, a: extreme_rows(scatter_min_op, x, v, i, a))
_MAX = _Mode("max", maximum, lambda x, v, i, a: extreme_rows(scatter_max_op, x, v, i, a))


@provide
def at(x: Tensor) -> At:
    """Return what is chosen from by `x.at[key]`."""
    return At(x)


class At:
    """The elements of `x`, to be chosen: `x.at[key]`."""

    __slots__ = ("_x",)

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, key: Any) -> IndexedUpdate:
        return IndexedUpdate(self._x, key)


class IndexedUpdate:
    """Indexed update: the elements of `x` at `key`, and what `x` is when they are written.

    A key is what indexing takes, and out of range is what is for indexing: an error, when the
    program runs if the index is a tensor. A bool tensor may be a key as well, and an array of bools
    need not be as large as the axes it faces if it broadcasts to them.

    Each method returns a tensor of the type of `x`. `v` broadcasts to `x[key]`, and its dtype must
    promote to that of `x`: a Python scalar is weak, and what would lose its kind or its width is a
    `DTypeError`. With a mask, `v` broadcasts to what one true element stands for.

    Where a key names an element several times, `set` leaves the last `v` in row-major order, and
    the gradient is that one's; the other methods combine them all, one after another.

        >>> x = sg.placeholder((4,))
        >>> y = x.at[[0, 2, 2]].add(1.0)
        >>> sg.compile([x], y)(np.zeros(4, "float32"))
        array([1., 0., 2., 0.], dtype=float32)

    If nothing else reads `x`, a variable that is updated or a loop variable whose next value this
    is, only what is chosen is written.
    """

    __slots__ = ("_key", "_x")

    def __init__(self, x: Tensor, key: Any) -> None:
        self._x = x
        self._key = key if isinstance(key, tuple) else (key,)

    def get(self) -> Tensor:
        """Return `x[key]`."""
        return getitem(self._x, self._key)

    def set(self, v: Any) -> Tensor:
        """Return `x` with `v` at the key; of what meets there the last stays."""
        return _written(self._x, self._key, v, _SET)

    def add(self, v: Any) -> Tensor:
        """Return `x` with `v` added at the key."""
        return _written(self._x, self._key, v, _ADD)

    def subtract(self, v: Any) -> Tensor:
        """Return `x` with `v` subtracted at the key."""
        return _written(self._x, self._key, negative(update_like(_OP, self._x, v)), _ADD)

    def multiply(self, v: Any) -> Tensor:
        """Return `x` multiplied by `v` at the key. The gradient is exact where factors are 0."""
        return _written(self._x, self._key, v, _MULTIPLY)

    def divide(self, v: Any) -> Tensor:
        """Return `x` divided by `v` at the key, by the product of what meets. Floats only."""
        if not self._x.dtype.is_float:
            raise DTypeError(
                _OP, f"the quotients of x: {self._x.type} are floats", source=user_source()
            )
        return _written(self._x, self._key, v, _DIVIDE)

    def min(self, v: Any) -> Tensor:
        """Return `x` with the least of it and `v` at the key, nan if one of them is.

        Of equals `x` has the gradient, or else the first of `v`.
        """
        return _written(self._x, self._key, v, _MIN)

    def max(self, v: Any) -> Tensor:
        """Return `x` with the greatest of it and `v` at the key, nan if one of them is.

        Of equals `x` has the gradient, or else the first of `v`.
        """
        return _written(self._x, self._key, v, _MAX)


def _written(x: Tensor, key: tuple[Any, ...], v: Any, mode: _Mode) -> Tensor:
    if x.dtype.is_bool and mode is not _SET:
        raise DTypeError(_OP, f"{mode.name}: x: {x.type} is no number", source=user_source())
    if any(map(is_truth, key)):
        return reshape(_written(*with_axes_of_truths(x, key), v, mode), x.shape)
    value = update_like(_OP, x, v)
    masks = [place for place, item in enumerate(key) if _is_mask(item)]
    if masks and (written := _masked(x, key, masks, value, mode)) is not None:
        return written
    items = items_of(x, key)
    if any(bounds_of(item) is not None for item in items):
        return _windowed(x, items, value, mode)
    cuts = cuts_of(x, items)
    x = with_room(x, cuts)  # before what is written, which would say so in other words
    if any(map(is_array, items)) or any(cut.step != 1 for cut in cuts):
        written = _scattered(x, items, cuts, value, mode)
    else:
        starts, sizes = [cut.start for cut in cuts], [cut.size for cut in cuts]
        written = _placed(x, items, starts, sizes, value, mode)
    return with_room(written, cuts)  # as well: the gradient to v is of the result alone


# ------------------------------------------------------------------------------------ windows


def _placed(
    x: Tensor,
    items: list[Any],
    starts: Sequence[Dim | Tensor],
    sizes: Sequence[Dim],
    value: Tensor,
    mode: _Mode,
) -> Tensor:
    """Write a block: each element once, so that what was there can be read before."""
    old = getitem(x, tuple(items))
    new = mode.combined(old, _like(value, old))
    pairs = enumerate(zip(starts, sizes, strict=True))
    moved = [
        a for a, (start, n) in pairs if isinstance(start, Tensor) or (start, n) != (0, x.shape[a])
    ]
    if not moved:
        return reshape(new, x.shape)
    first, last = min(moved), max(moved)
    begins = [as_tensor(start, dtypes.int64) for start in starts[first : last + 1]]
    clamps = not any(isinstance(start, Tensor) for start in starts)
    return write_window(x, reshape(new, tuple(sizes)), begins, first, clamps)


def _like(value: Tensor, wanted: Tensor, name: str = "v") -> Tensor:
    """Broadcast `value` to the shape of what is chosen."""
    given = value.type
    lead = value.ndim - wanted.ndim
    if lead > 0 and all(n == 1 for n in value.shape[:lead]):
        value = reshape(value, value.shape[lead:])
    if value.ndim <= wanted.ndim:
        shape = common_shape(_OP, **{name: value.type, "what is chosen": wanted.type})
        if len(shape) == wanted.ndim and all(
            n != 1 or m == 1 for n, m in zip(wanted.shape, shape, strict=True)
        ):
            return broadcast_to(value, broadcast_target(value.type, wanted.shape))
    raise ShapeError(
        _OP,
        f"{name}: {given} does not broadcast to what is chosen: {wanted.type}",
        source=user_source(),
    )


def _windowed(x: Tensor, items: list[Any], value: Tensor, mode: _Mode) -> Tensor:
    """Write to what slices bounded by tensors choose, and other items perhaps of that."""
    on_axes = [item for item in items if item is not None and item is not Ellipsis]
    bounds = [bounds_of(item) for item in on_axes]
    plain = [slice(None) if b is not None else i for b, i in zip(bounds, on_axes, strict=True)]
    rest = [
        slice(None, None, b.step) if (b := bounds_of(item)) is not None else item for item in items
    ]
    is_block = not any(map(is_array, plain)) and all(b is None or b.step == 1 for b in bounds)
    cuts = cuts_of(x, plain) if is_block else []
    if is_block and all(cut.step == 1 for cut in cuts):
        pairs = list(zip(bounds, cuts, strict=True))
        starts = [cut.start if b is None else b.start for b, cut in pairs]
        sizes = [cut.size if b is None else b.length for b, cut in pairs]
        return _placed(x, items, starts, sizes, value, mode)
    pairs_on_axes = zip(bounds, on_axes, strict=True)
    outer = tuple(slice(None) if b is None else slice(i.start, i.stop) for b, i in pairs_on_axes)
    inner = _written(getitem(x, outer), tuple(rest), value, mode)
    return _written(x, outer, inner, _SET)


# ----------------------------------------------------------------------------------- scatters


def _scattered(
    x: Tensor, items: list[Any], cuts: list[AxisPart], value: Tensor, mode: _Mode
) -> Tensor:
    """Write where arrays say, among slices of which the elements count as indices too."""
    grid = IndexGrid(x, items, cuts)
    indices = grid.indices()
    chosen = _like(value, getitem(x, tuple(items)))
    updates = grid.in_order(chosen)
    if mode is not _SET and mode is not _ADD and not grid.can_meet:
        old = grid.in_order(getitem(x, tuple(items)))
        return set_rows(x, mode.combined(old, updates), indices, grid.first)
    return mode.rows(x, updates, indices, grid.first)


# -------------------------------------------------------------------------------------- masks


def _is_mask(item: Any) -> bool:
    if isinstance(item, Tensor | np.ndarray):
        return bool(item.dtype == dtypes.bool_ if isinstance(item, Tensor) else item.dtype == bool)
    return isinstance(item, list) and np.asarray(item).dtype == bool and np.asarray(item).ndim > 0


def _masked(
    x: Tensor, key: tuple[Any, ...], places: Sequence[int], value: Tensor, mode: _Mode
) -> Tensor | None:
    """Write where a mask is true; None for an array of bools that is better taken as indices.

    That is one beside arrays, or with a value for each true element.
    """
    items = list(key)
    mask = as_tensor(items[places[0]])
    is_known = not isinstance(items[places[0]], Tensor)
    has_arrays = any(
        is_array(i) or isinstance(i, list) for p, i in enumerate(items) if p not in places
    )
    if len(places) > 1 or has_arrays:
        if is_known and len(places) == sum(not isinstance(items[p], Tensor) for p in places):
            return None
        raise DTypeError(
            _OP,
            f"mask: {mask.type} stands beside arrays",
            hint="use sg.where",
            source=user_source(),
        )
    others = items[: places[0]] + [slice(None)] * mask.ndim + items[places[0] + 1 :]
    if not all(isinstance(i, type(Ellipsis)) or i == slice(None) for i in others):
        part = getitem(x, tuple(others))
        # An axis is gone for each int, and there is one more for each None.
        inside = [i if i is Ellipsis else slice(None) for i in others if _stays(i)]
        at = sum(_stays(i) for i in others[: places[0]])
        inner = (*inside[:at], items[places[0]], *inside[at + mask.ndim :])
        if _is_apart(items):
            if is_known:
                return None
            value = _moved(value, part.ndim - mask.ndim, _faced(part, inner, at, mask), mask)
        return _written(x, tuple(others), _written(part, inner, value, mode), _SET)
    axis = _faced(x, items, places[0], mask)
    rest = x.ndim - axis - mask.ndim
    if axis < 0 or rest < 0:
        raise ShapeError(
            _OP,
            f"mask: {mask.type} has more axes than it faces in x: {x.type}",
            source=user_source(),
        )
    if is_known and value.ndim > rest:
        return None
    return _where(x, mask, axis, value, mode)


def _stays(item: Any) -> bool:
    return item is None or item is Ellipsis or isinstance(item, slice)


def _is_apart(items: list[Any]) -> bool:
    """Return whether something stands between a mask and an int, which counts as an array."""
    places = [place for place, item in enumerate(items) if not _stays(item)]
    return places[-1] - places[0] >= len(places)


def _faced(x: Tensor, items: Sequence[Any], place: int, mask: Tensor) -> int:
    """Return the first axis of `x` that a mask at a place of a key faces."""
    if Ellipsis in items[:place]:
        return x.ndim - mask.ndim - (len(items) - place - 1)
    return place


def _moved(value: Tensor, rest: int, axis: int, mask: Tensor) -> Tensor:
    """Return `value`, whose axis of true elements is the first one, with it at `axis`.

    As in NumPy it comes first where a slice stands between a mask and an int. There are `rest`
    other axes.
    """
    over = value.ndim - rest
    if over > 0 and any(n != 1 for n in value.shape[:over]):
        raise _one_for_each(value, mask)
    shape = value.shape[max(over, 0) :]
    place = len(shape) - (rest - axis)
    return value if place < 0 else reshape(value, (*shape[:place], 1, *shape[place:]))


def _one_for_each(value: Tensor, mask: Tensor) -> ShapeError:
    return ShapeError(
        _OP,
        f"v: {value.type} has a value for each true element of mask: {mask.type}",
        hint="use sg.where(mask, v, x) with a v of the shape of x",
        source=user_source(),
    )


def _where(x: Tensor, mask: Tensor, axis: int, value: Tensor, mode: _Mode) -> Tensor:
    """Write where `mask`, which faces the axes from `axis` on, is true."""
    rest = x.ndim - axis - mask.ndim
    over = value.ndim - rest
    # Of the shape of x[..., mask, ...] the axis that counts true elements can only be 1.
    if over > 0 and (over > axis + 1 or value.shape[over - 1] != 1):
        raise _one_for_each(value, mask)
    if over > 0:
        shape = (*value.shape[: over - 1], *(1,) * mask.ndim, *value.shape[over:])
        value = reshape(value, shape)
    wide = reshape(mask, (*mask.shape, *(1,) * rest))
    return where(_like(wide, x, "mask"), mode.combined(x, _like(value, x)), x)
