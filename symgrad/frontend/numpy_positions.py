"""NumPy's functions on tensors about positions: indices, parts by conditions, insertions, orders.

What a condition that only a run tells would choose has no known size: such a call is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.errors import GraphError, ShapeError, user_source
from symgrad.frontend.numpy_arguments import adapts, refuse
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, normalize_axis, promote_operands
from symgrad.graph.ops import (
    arithmetic,
    comparison,
    extrema,
    indexing,
    joining,
    ordering,
    slicing,
    structure,
    views,
)
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.sizes import Dim

# ------------------------------------------------------------------------------------------ orders


def _sorted_along(
    function: Any, order: Callable[..., Tensor], a: Any, kth: Any, axis: int | None
) -> Tensor:
    """Sort whole: what is before and after the `kth` may be in any order, and so in this."""
    x = joining.ravel(a) if axis is None else as_tensor(a)
    axis = normalize_axis(function.__name__, -1 if axis is None else axis, x.ndim)
    size = x.shape[axis]
    if isinstance(kth, Tensor):
        raise refuse(function, "kth is a tensor", "sg.sort")
    if isinstance(size, int):
        indexing.known_index(f"numpy.{function.__name__}", kth, size, axis)
    return order(x, axis=axis)


@adapts("sort", np.partition)
def _partition(a: Any, kth: Any, axis: int | None = -1, kind: Any = None) -> Tensor:
    return _sorted_along(np.partition, ordering.sort, a, kth, axis)


@adapts("argsort", np.argpartition)
def _argpartition(a: Any, kth: Any, axis: int | None = -1, kind: Any = None) -> Tensor:
    return _sorted_along(np.argpartition, ordering.argsort, a, kth, axis)


# -------------------------------------------------------------------------------- choice and parts


@adapts("take_along_axis", np.choose)
def _choose(a: Any, choices: Any, mode: str = "raise") -> Tensor:
    parts = list(views.unstack(choices)) if isinstance(choices, Tensor) else list(choices)
    index, *values = joining.broadcast_arrays(a, *promote_operands("choose", *parts))
    if not index.dtype.is_integer:
        index = cast(index, dtypes.int64)
    places = _within(index, len(values), mode)
    chosen = indexing.take_along_axis(
        slicing.stack(values), structure.expand_dims(places, 0), axis=0
    )
    return structure.squeeze(chosen, 0)


def _within(index: Tensor, size: Dim, mode: str) -> Tensor:
    """Return indices that `mode` brings into range; for "raise" the op that uses them looks."""
    if mode == "wrap":
        return arithmetic.remainder(index, size)
    return extrema.clip(index, 0, size - 1) if mode == "clip" else index


@adapts("take", np.compress)
def _compress(condition: Any, a: Any, axis: int | None = None) -> Tensor:
    x = joining.ravel(a) if axis is None else as_tensor(a)
    places = np.flatnonzero(_known(np.compress, condition, "sg.nonzero with size="))
    return indexing.take(x, places, axis=0 if axis is None else axis)


@adapts("take", np.extract)
def _extract(condition: Any, arr: Any) -> Tensor:
    places = np.flatnonzero(_known(np.extract, condition, "sg.nonzero with size="))
    return indexing.take(joining.ravel(arr), places, axis=0)


def _known(function: Any, value: Any, instead: str) -> np.ndarray[Any, Any]:
    if isinstance(value, Tensor):
        raise refuse(function, "the shape of the result would depend on data", instead)
    return np.asarray(value)


@adapts("where", np.piecewise)
def _piecewise(
    x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **keywords: Any
) -> Tensor:
    """Return of each element what the function of its last condition gives; all are computed."""
    at = as_tensor(x)
    is_one = isinstance(condlist, Tensor) and condlist.ndim == at.ndim
    conditions = [condlist] if is_one else list(condlist)
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        problem = f"{len(conditions)} conditions for {len(funclist)} functions"
        raise ShapeError("numpy.piecewise", problem, source=user_source())
    values = [f(at, *args, **keywords) if callable(f) else f for f in funclist]
    last = values[-1] if len(values) > len(conditions) else 0
    found = structure.broadcast_to(cast(as_tensor(last), at.dtype), at.shape)
    for condition, value in zip(conditions, values, strict=False):
        found = comparison.where(condition, cast(as_tensor(value), at.dtype), found)
    return found


@adapts("sum", np.apply_over_axes)
def _apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Tensor:
    found = as_tensor(a)
    for axis in [axes] if isinstance(axes, int) else axes:
        place = normalize_axis("apply_over_axes", axis, found.ndim)
        reduced = as_tensor(func(found, place))
        found = reduced if reduced.ndim == found.ndim else structure.expand_dims(reduced, place)
    return found


# -------------------------------------------------------------------------------------- insertions


@adapts("concat", np.insert)
def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    x = joining.ravel(arr) if axis is None else as_tensor(arr)
    axis = normalize_axis("insert", 0 if axis is None else axis, x.ndim)
    size = x.shape[axis]
    if not isinstance(size, int):
        raise refuse(np.insert, f"the size of axis {axis} is not known", "sg.concat of slices")
    places = np.arange(size)[obj] if isinstance(obj, slice) else _known(np.insert, obj, "sg.concat")
    if places.dtype == bool:
        places = np.flatnonzero(places)
    if places.size == 0:
        return x
    added = cast(as_tensor(values), x.dtype)
    added = structure.reshape(added, (*(1,) * (x.ndim - added.ndim), *added.shape))
    count: Dim = places.size
    if places.size == 1:
        # For one place the values say how many come there, a scalar place along the first axis.
        added = views.moveaxis(added, 0, axis) if places.ndim == 0 else added
        count = added.shape[axis]
        places = np.full(count, places.reshape(-1)[0])
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    joined = slicing.concat([x, structure.broadcast_to(added, shape)], axis=axis)
    order = np.insert(np.arange(size), places, np.arange(size, size + len(places)))
    return indexing.take(joined, order, axis=axis)


@adapts("tile", np.resize)
def _resize(a: Any, new_shape: Any) -> Tensor:
    x = joining.ravel(a)
    shape = (new_shape,) if isinstance(new_shape, int | np.integer) else tuple(new_shape)
    wanted, (size,) = math.prod(shape), x.shape
    if not isinstance(size, int):
        raise refuse(np.resize, f"the size of {x.type} is not known", "sg.tile")
    if wanted == 0 or size == 0:
        return filled(shape, 0, x.dtype)
    places = np.arange(wanted) % size
    return structure.reshape(indexing.take(x, places, axis=0), shape)


# ------------------------------------------------------------------------------------ flat indices


@adapts("floor_divide", np.unravel_index)
def _unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Tensor, ...]:
    sizes = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    rest = cast(as_tensor(indices), dtypes.int64)
    found = []
    for size in sizes if order == "F" else sizes[::-1]:
        found.append(arithmetic.remainder(rest, size))
        rest = arithmetic.floor_divide(rest, size)
    return tuple(found if order == "F" else found[::-1])


@adapts("multiply", np.ravel_multi_index)
def _ravel_multi_index(
    multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C"
) -> Tensor:
    parts = [as_tensor(part) for part in multi_index]
    sizes = (dims,) if isinstance(dims, int | np.integer) else tuple(dims)
    if len(parts) != len(sizes):
        problem = f"{len(parts)} indices for {len(sizes)} axes"
        raise ShapeError("numpy.ravel_multi_index", problem, source=user_source())
    modes = [mode] * len(sizes) if isinstance(mode, str) else list(mode)
    if "raise" in modes:
        problem = "mode 'raise' would look at indices that only a run tells"
        hint = "give mode='wrap' or mode='clip'"
        raise GraphError("numpy.ravel_multi_index", problem, hint=hint, source=user_source())
    flat: Any = 0
    rows = list(zip(parts, sizes, modes, strict=True))
    for part, size, how in rows[::-1] if order == "F" else rows:
        flat = arithmetic.add(arithmetic.multiply(flat, size), _within(part, size, how))
    return cast(as_tensor(flat), dtypes.int64)


@adapts("reshape", np.ix_)
def _ix(*args: Any) -> tuple[Tensor, ...]:
    found = []
    for place, given in enumerate(args):
        vector = as_tensor(given)
        if vector.ndim != 1 or vector.dtype.is_bool:
            raise refuse(np.ix_, f"{vector.type} is no vector of indices", "sg.nonzero with size=")
        shape = (*(1,) * place, -1, *(1,) * (len(args) - place - 1))
        found.append(structure.reshape(vector, shape))
    return tuple(found)


def _known_shape(function: Any, arr: Tensor) -> tuple[int, ...]:
    sizes = tuple(size for size in arr.shape if isinstance(size, int))
    if len(sizes) < arr.ndim:
        problem = f"a size of {arr.type} is not known"
        raise refuse(function, problem, "sg.arange and sg.expand_dims")
    return sizes


@adapts("diagonal", np.diag_indices_from)
def _diag_indices_from(arr: Tensor) -> Any:
    return np.diag_indices_from(np.empty(_known_shape(np.diag_indices_from, arr), bool))


@adapts("tril", np.tril_indices_from)
def _tril_indices_from(arr: Tensor, k: int = 0) -> Any:
    return np.tril_indices_from(np.empty(_known_shape(np.tril_indices_from, arr), bool), k)


@adapts("triu", np.triu_indices_from)
def _triu_indices_from(arr: Tensor, k: int = 0) -> Any:
    return np.triu_indices_from(np.empty(_known_shape(np.triu_indices_from, arr), bool), k)
