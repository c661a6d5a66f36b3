"""NumPy's functions on tensors that shape, join and split them, where an op has other arguments.

Those of values are in `numpy_values.py`, reductions in `numpy_reductions.py`. A function whose
arguments an op takes as they are stands in the op's declaration (`symgrad/graph/public_ops.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, user_source
from symgrad.frontend import creation
from symgrad.frontend.numpy_arguments import adapts, refuse
from symgrad.graph.dtypes import DTypeLike, as_dtype
from symgrad.graph.given_arrays import without_axes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, normalize_axis
from symgrad.graph.ops import indexing, joining, padding, rolling, slicing, structure, views
from symgrad.graph.types import Shape

# ------------------------------------------------------------------------------------------ shapes


@adapts("moveaxis", np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    return views.moveaxis(a, source, destination)


@adapts("permute_dims", np.transpose, np.permute_dims)
def _transpose(a: Any, axes: Any = None) -> Tensor:
    return views.reverse_axes(a) if axes is None else structure.permute_dims(a, axes)


@adapts("moveaxis", np.rollaxis)
def _rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    x = as_tensor(a)
    source = normalize_axis("rollaxis", axis, x.ndim)
    place = start + x.ndim if start < 0 else start
    return views.moveaxis(x, source, place - (source < place))


@adapts("reshape", np.reshape)
def _reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    if not _is_column_major("reshape", order):
        return structure.reshape(a, shape)
    shape = without_axes(shape)
    sizes = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    return views.reverse_axes(structure.reshape(views.reverse_axes(a), sizes[::-1]))


def _is_column_major(op: str, order: str) -> bool:
    """Return whether the first axis runs fastest; "A" and "K" ask memory, which is row-major."""
    if order not in ("C", "F", "A", "K"):
        problem = f"order {order!r} is neither 'C' nor 'F'"
        raise ShapeError(f"numpy.{op}", problem, source=user_source())
    return order == "F"


@adapts("ravel", np.ravel)
def _ravel(a: Any, order: str = "C") -> Tensor:
    return joining.ravel(views.reverse_axes(a) if _is_column_major("ravel", order) else a)


@adapts("expand_dims", np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Tensor:
    return structure.expand_dims(a, axis)


@adapts("broadcast_to", np.broadcast_to)
def _broadcast_to(array: Any, shape: Any) -> Tensor:
    return structure.broadcast_to(array, creation.as_shape("broadcast_to", shape))


@adapts("repeat", np.repeat)
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    return views.repeat(a, repeats, axis=axis)


@adapts("tile", np.tile)
def _tile(A: Any, reps: Any) -> Tensor:  # noqa: N803 - NumPy's name
    return views.tile(A, reps)


@adapts("roll", np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    return rolling.roll(a, shift, axis=axis)


@adapts("rot90", np.rot90)
def _rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    return joining.rot90(m, k, axes)


@adapts("shape", np.shape)
def _shape(a: Tensor) -> Shape:
    return a.shape


@adapts("shape", np.ndim)
def _ndim(a: Tensor) -> int:
    return a.ndim


@adapts("shape", np.size)
def _size(a: Tensor, axis: int | None = None) -> Any:
    return a.size if axis is None else a.shape[axis]


# ------------------------------------------------------------------------------ joining, splitting


@adapts("concat", np.concatenate, np.concat)
def _concatenate(arrays: Any, /, axis: int | None = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    joined = slicing.concat(list(arrays), axis=axis)
    return joined if dtype is None else cast(joined, as_dtype(dtype))


@adapts("stack", np.stack)
def _stack(arrays: Any, axis: int = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    joined = slicing.stack(list(arrays), axis=axis)
    return joined if dtype is None else cast(joined, as_dtype(dtype))


@adapts("hstack", np.hstack)
def _hstack(tup: Any) -> Tensor:
    return joining.hstack(list(tup))


@adapts("vstack", np.vstack)
def _vstack(tup: Any) -> Tensor:
    return joining.vstack(list(tup))


@adapts("dstack", np.dstack)
def _dstack(tup: Any) -> Tensor:
    return joining.dstack(list(tup))


@adapts("column_stack", np.column_stack)
def _column_stack(tup: Any) -> Tensor:
    return joining.column_stack(list(tup))


@adapts("concat", np.append)
def _append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    return slicing.concat([arr, values], axis=axis)


@adapts("concat", np.block)
def _block(arrays: Any) -> Tensor:
    depth = _depth(arrays)
    leaf = max(depth, _most_axes(arrays))
    return _block_at(arrays, depth, leaf)


def _depth(nest: Any) -> int:
    return 1 + max(map(_depth, nest)) if isinstance(nest, list) else 0


def _most_axes(nest: Any) -> int:
    return max(map(_most_axes, nest)) if isinstance(nest, list) else as_tensor(nest).ndim


def _block_at(nest: Any, depth: int, ndim: int) -> Tensor:
    """Join what is nested `depth` lists deep: the innermost lists along the last axis."""
    if not isinstance(nest, list):
        x = as_tensor(nest)
        return structure.reshape(x, (*(1,) * (ndim - x.ndim), *x.shape))
    return slicing.concat([_block_at(part, depth - 1, ndim) for part in nest], axis=-depth)


@adapts("array_split", np.array_split)
def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return joining.array_split(ary, indices_or_sections, axis)


@adapts("atleast_1d", np.atleast_1d)
def _atleast_1d(*arys: Any) -> Any:
    return _one_or_all(map(joining.atleast_1d, arys))


@adapts("atleast_2d", np.atleast_2d)
def _atleast_2d(*arys: Any) -> Any:
    return _one_or_all(map(joining.atleast_2d, arys))


@adapts("atleast_3d", np.atleast_3d)
def _atleast_3d(*arys: Any) -> Any:
    return _one_or_all(map(joining.atleast_3d, arys))


def _one_or_all(tensors: Iterable[Tensor]) -> Any:
    found = tuple(tensors)
    return found[0] if len(found) == 1 else found


@adapts("meshgrid", np.meshgrid)
def _meshgrid(*xi: Any, sparse: bool = False, indexing: Any = "xy") -> tuple[Tensor, ...]:
    if sparse:
        raise refuse(np.meshgrid, "sparse= has no meaning for a tensor", "sg.expand_dims")
    return creation.meshgrid(*xi, indexing=indexing)


@adapts("pad", np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    strange = options.keys() - {"constant_values"}
    if strange or not isinstance(mode, str):
        what = f"{min(strange)}=" if strange else "a function as mode"
        raise refuse(np.pad, f"{what} has no meaning for a tensor", "sg.pad")
    return padding.pad(array, pad_width, mode, **options)


@adapts("take", np.delete)
def _delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    x = as_tensor(arr)
    if axis is None:
        x, axis = joining.ravel(x), 0
    axis = normalize_axis("delete", axis, x.ndim)
    size = x.shape[axis]
    if not isinstance(size, int) or isinstance(obj, Tensor):
        raise refuse(np.delete, "the shape of the result would depend on data", "sg.where")
    return indexing.take(x, np.delete(np.arange(size), obj), axis=axis)
