"""Sorting and searching: sort, argsort and search, which say where elements stand among others.

What is made of them, such as quantiles, is in `order_statistics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import as_tensor, meet_shapes, normalize_axis
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.gathering import iota, scatter_rows
from symgrad.graph.ops.indexing import take_along_axis
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim
from symgrad.graph.structures import Search, Sort
from symgrad.graph.types import Array, TensorType, static


@public(is_standard=True)
def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sort `x` along `axis`.

    The result has the shape and dtype of `x`. It is stable in both directions, also if `stable` is
    false: of equal elements, as the two zeros are, the first comes first. nan comes after every
    number in either direction. The gradient goes to the places that the elements come from.
    Raises `ShapeError` for an axis that `x` does not have.

    >>> sg.run(sg.sort(sg.constant([3, 1, 2])))
    array([1, 2, 3], dtype=int32)
    """
    x, axis = _with_axis("sort", x, axis)
    return apply(sort_op, x, axis=axis, descending=bool(descending))


def _with_axis(op: str, x: Any, axis: int) -> tuple[Tensor, int]:
    x = as_tensor(x)
    return x, normalize_axis(op, axis, x.ndim)


def _check_axis(op: str, x: TensorType, axis: int) -> None:
    if not 0 <= axis < x.ndim:
        raise ShapeError(op, f"axis {axis} is not one of x: {x}")


def _sort_infer(x: TensorType, *, axis: int, descending: bool) -> TensorType:
    _check_axis("sort", x, axis)
    return x


def _order(x: Array, axis: int, *, descending: bool) -> Array:
    """Return the positions of the elements of each row in order."""
    wide = x.astype(np.float32) if dtypes.as_dtype(x.dtype).is_half else x
    if not descending:
        return np.argsort(wide, axis=axis, kind="stable")
    # Backwards, of equal elements the last one comes first; nan is moved behind afterwards.
    flipped = np.flip(wide, axis)
    order = wide.shape[axis] - 1 - np.flip(np.argsort(flipped, axis=axis, kind="stable"), axis)
    is_nan = np.take_along_axis(wide != wide, order, axis)
    behind = np.argsort(is_nan, axis=axis, kind="stable")
    return np.take_along_axis(order, behind, axis)


def _sort_reference(x: Array, *, axis: int, descending: bool) -> Array:
    return np.take_along_axis(x, _order(x, axis, descending=descending), axis)


def _sort_grad(node: Node, g: Tensor, *, axis: int, descending: bool) -> Grads:
    (x,) = node.inputs
    order = _argsort(x, axis, x.shape[axis], descending=descending)
    last = x.ndim - 1
    rows, places = moveaxis(g, axis, last), moveaxis(order, axis, last)
    positions = [iota(places.shape, a) for a in range(last)]
    result = scatter_rows(filled_like(rows, 0), rows, [*positions, places], 0)
    return (moveaxis(result, last, axis),)


def _sort_tangent(
    node: Node, of_x: Tensor | None, *, axis: int, descending: bool
) -> Sequence[Tensor | None]:
    (x,) = node.inputs
    if of_x is None:
        return [None]
    order = _argsort(x, axis, x.shape[axis], descending=descending)
    return [take_along_axis(of_x, order, axis=axis)]


def _sort_kernel(x: TensorType, *, axis: int, descending: bool) -> Sort:
    return Sort(axis, static(x.shape[axis]), "values", descending)


def _sort_batch(operands: Operands, *, axis: int, descending: bool) -> Tensor:
    return operands.apply(*operands.tensors, axis=axis + 1, descending=descending)


sort_op = define(
    "sort",
    infer=_sort_infer,
    reference=_sort_reference,
    grad=_sort_grad,
    kernel=_sort_kernel,
    batch=_sort_batch,
    tangent=_sort_tangent,
)


@public(is_standard=True)
def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the positions along `axis`, as int64, that sort `x`, as `sort` does.

    The result has the shape of `x` and no gradient. Raises `ShapeError` for an axis that `x` does
    not have.

    >>> sg.run(sg.argsort(sg.constant([3, 1, 2])))
    array([1, 2, 0])
    """
    x, axis = _with_axis("argsort", x, axis)
    return _argsort(x, axis, x.shape[axis], descending=bool(descending))


def _argsort(x: Tensor, axis: int, count: Dim, *, descending: bool) -> Tensor:
    return apply(argsort_op, x, axis=axis, count=count, descending=descending)


def _argsort_infer(x: TensorType, *, axis: int, count: Dim, descending: bool) -> TensorType:
    _check_axis("argsort", x, axis)
    size = x.shape[axis]
    if isinstance(count, int) and (count < 0 or (isinstance(size, int) and count > size)):
        raise ShapeError("argsort", f"{count} of axis {axis} of x: {x}")
    return TensorType(dtypes.int64, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _argsort_reference(x: Array, *, axis: int, count: Dim, descending: bool) -> Array:
    order = _order(x, axis, descending=descending)
    return np.take(order, np.arange(static(count)), axis).astype(np.int64)


def _argsort_kernel(x: TensorType, *, axis: int, count: Dim, descending: bool) -> Sort:
    return Sort(axis, static(count), "positions", descending)


def _argsort_batch(operands: Operands, *, axis: int, count: Dim, descending: bool) -> Tensor:
    return operands.apply(*operands.tensors, axis=axis + 1, count=count, descending=descending)


argsort_op = define(
    "argsort",
    infer=_argsort_infer,
    reference=_argsort_reference,
    grad="none",
    kernel=_argsort_kernel,
    batch=_argsort_batch,
)


@public(known_as=["topk"])
def top_k(x: Any, k: int, *, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """Return the `k` largest elements of `x` along `axis`, the largest first, and their positions.

    If `largest` is false, the smallest, the smallest first. Of equal elements the first is taken
    first, and nan only after every number. The positions are int64, and the values have the
    gradient of a gather at them. Raises `ShapeError` for more elements than the axis has.

    >>> values, positions = sg.top_k(sg.constant([3, 1, 2]), 2)
    >>> sg.run([values, positions])
    [array([3, 2], dtype=int32), array([0, 2])]
    """
    x, axis = _with_axis("top_k", x, axis)
    size = x.shape[axis]
    count = as_int(k)
    if count is None:
        raise DTypeError("top_k", f"k must be an int, it is {k!r}", source=user_source())
    if count < 0 or (isinstance(size, int) and count > size):
        raise ShapeError(
            "top_k", f"k is {count}, axis {axis} of x: {x.type} has {size}", source=user_source()
        )
    positions = _argsort(x, axis, count, descending=bool(largest))
    return take_along_axis(x, positions, axis=axis), positions


def search(rows: Tensor, queries: Tensor, side: Literal["left", "right"]) -> Tensor:
    """Return where each query stands in its row: how many elements come before it.

    Both have the same axes but for the last.
    """
    return apply(search_op, rows, queries, side=side)


def _search_infer(rows: TensorType, queries: TensorType, *, side: str) -> TensorType:
    if side not in ("left", "right"):
        raise ShapeError("search", f"side {side!r} is neither 'left' nor 'right'")
    if rows.dtype != queries.dtype:
        raise DTypeError("search", f"queries: {queries} are looked for in rows: {rows}")
    if not rows.ndim or rows.ndim != queries.ndim:
        raise ShapeError("search", f"ranks differ: rows: {rows}, queries: {queries}")
    outer = [t.with_shape(t.shape[:-1]) for t in (rows, queries)]
    shape = meet_shapes("search", "rows", outer[0], "queries", outer[1])
    return TensorType(dtypes.int64, (*shape, queries.shape[-1]))


def _search_reference(rows: Array, queries: Array, *, side: str) -> Array:
    is_half = dtypes.as_dtype(rows.dtype).is_half
    wide, wanted = (a.astype(np.float32) if is_half else a for a in (rows, queries))
    result = np.zeros(queries.shape, np.int64)
    for place in np.ndindex(rows.shape[:-1]):
        # np.searchsorted takes nan to be the greatest, too.
        result[place] = np.searchsorted(
            wide[place], wanted[place], "left" if side == "left" else "right"
        )
    return result


def _search_kernel(_rows: TensorType, _queries: TensorType, *, side: str) -> Search:
    return Search("left" if side == "left" else "right")


def _search_batch(operands: Operands, *, side: str) -> Tensor:
    return operands.apply(*operands.lifted(), side=side)


search_op = define(
    "search",
    infer=_search_infer,
    reference=_search_reference,
    grad="none",
    kernel=_search_kernel,
    batch=_search_batch,
)
