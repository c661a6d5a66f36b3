"""Rows of the table for sorting, searching, counting and sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.ops.ordering import search
from tests.support.case import BOOL, NUMBERS, Array, Case, Real, Whole

_EVERY = (*BOOL, *NUMBERS)
# For all but one row of each op.
_SOME = (dtypes.int8, dtypes.uint64, dtypes.float16, dtypes.float64)
_INTEGERS = (dtypes.int32, dtypes.uint64)
_FLOATS = (dtypes.bfloat16, dtypes.float32)
Shapes = tuple[tuple[tuple[int, ...], ...], ...]


def _order(x: Array, axis: int = -1, *, descending: bool = False) -> Array:
    """Return the stable order of numbers, by keys whose order is reversed where x is descending."""
    _, ranks = np.unique(x, return_inverse=True)
    ranks = ranks.reshape(x.shape)
    return np.argsort(-ranks if descending else ranks, axis=axis, kind="stable")


def _sorted(x: Array, axis: int = -1, *, descending: bool = False) -> Array:
    return np.take_along_axis(x, _order(x, axis, descending=descending), axis)


def _row(
    name: str,
    op: str | None,
    build: Callable[..., Any],
    expected: Callable[..., Any],
    *shapes: tuple[int, ...],
    order: int = 0,
    also: Shapes = (),
    accepts: tuple[dtypes.DType, ...] = _SOME,
) -> Case:
    return Case(name, op, build, expected, tuple(map(Real, shapes)), accepts, order, also)


_MATRICES: Shapes = (((1, 1),), ((0, 3),), ((3, 0),), ((4, 1),))

_SORTS = (
    _row("sort", "sort", sg.sort, _sorted, (3, 5), order=2, also=_MATRICES, accepts=_EVERY),
    _row("sort_descending", "sort", lambda x: sg.sort(x, axis=0, descending=True),
         lambda x: _sorted(x, 0, descending=True), (5, 3), order=2, also=_MATRICES),
    _row("sort_middle", "sort", lambda x: sg.sort(x, axis=1), lambda x: _sorted(x, 1), (2, 5, 3),
         order=1, also=(((0, 2, 1),), ((3, 1, 2),))),
    _row("sort_vector", "sort", sg.sort, _sorted, (7,), order=2, also=(((0,),), ((1,),))),
    _row("argsort", "argsort", sg.argsort, _order, (3, 5), also=_MATRICES, accepts=_EVERY),
    _row("argsort_descending", "argsort", lambda x: sg.argsort(x, axis=0, descending=True),
         lambda x: _order(x, 0, descending=True), (5, 3), also=_MATRICES),
    _row("top_k", "argsort", lambda x: sg.top_k(x, 2)[0],
         lambda x: _sorted(x, descending=True)[:, :2], (3, 5), order=2,
         also=(((1, 2),), ((0, 3),))),
    _row("top_k_smallest", "argsort", lambda x: sg.top_k(x, 2, axis=0, largest=False)[1],
         lambda x: _order(x, 0)[:2], (5, 3), also=(((2, 1),), ((3, 0),))),
)  # fmt: skip


def _found(rows: Array, queries: Array, side: Any) -> Array:
    result = np.zeros(queries.shape, np.int64)
    for place in np.ndindex(queries.shape):
        query = queries[place]
        before = rows[place[:-1]] <= query if side == "right" else rows[place[:-1]] < query
        result[place] = np.count_nonzero(before)
    return result


_SEARCHES = (
    _row("search", "search", lambda x, y: search(sg.sort(x), y, "left"),
         lambda x, y: _found(x, y, "left"), (3, 5), (3, 4),
         also=(((1, 1), (1, 1)), ((0, 3), (0, 2)), ((2, 0), (2, 3)), ((2, 3), (2, 0)))),
    _row("search_right", "search", lambda x, y: search(sg.sort(x), y, "right"),
         lambda x, y: _found(x, y, "right"), (3, 5), (3, 4), accepts=_EVERY),
    _row("searchsorted", "search", lambda x, y: sg.searchsorted(sg.sort(x), y, side="right"),
         lambda x, y: np.searchsorted(np.sort(x), y, side="right"), (5,), (2, 3),
         also=(((0,), (2, 1)), ((1,), (0, 2)), ((4,), ()))),
    _row("searchsorted_sorter", "search",
         lambda x, y: sg.searchsorted(x, y, sorter=sg.argsort(x)),
         lambda x, y: np.searchsorted(x, y, sorter=np.argsort(x)), (5,), (4,)),
    _row("digitize", "search", lambda x, y: sg.digitize(x, sg.sort(y)),
         lambda x, y: np.digitize(x, np.sort(y)), (2, 3), (4,)),
    _row("digitize_falling", "search",
         lambda x, y: sg.digitize(x, sg.sort(y, descending=True), right=True),
         lambda x, y: np.digitize(x, np.sort(y)[::-1], right=True), (2, 3), (4,)),
    _row("lexsort", "argsort", lambda x, y: sg.lexsort([x, y]), lambda x, y: np.lexsort([x, y]),
         (3, 7), (3, 7), also=(((1, 1), (1, 1)), ((2, 0), (2, 0)))),
)  # fmt: skip


def _quantile(x: Array, q: Any, **options: Any) -> Any:
    return np.quantile(x.astype(np.float64), q, **options)


_STATISTICS = (
    _row("median", "sort", sg.median, lambda x: np.median(x.astype(np.float64)), (3, 4), order=2,
         accepts=_SOME, also=(((1, 1),),)),
    _row("median_of_rows", "sort", lambda x: sg.median(x, axis=1, keepdims=True),
         lambda x: np.median(x.astype(np.float64), axis=1, keepdims=True), (3, 5), order=2,
         accepts=_FLOATS, also=(((0, 3),), ((2, 1),))),
    _row("quantile", "sort", lambda x: sg.quantile(x, [0.1, 0.7], axis=(0, 2)),
         lambda x: _quantile(x, [0.1, 0.7], axis=(0, 2)), (2, 3, 4), order=2, accepts=_FLOATS,
         also=(((1, 1, 1),),)),
    *(
        _row(f"quantile_{method}", "sort", lambda x, m=method: sg.quantile(x, 0.4, method=m),
             lambda x, m=method: _quantile(x, 0.4, method=m), (3, 4), order=1, accepts=_FLOATS)
        for method in ("lower", "higher", "midpoint", "nearest")
    ),
    _row("percentile", "sort", lambda x: sg.percentile(x, 30, axis=0),
         lambda x: np.percentile(x.astype(np.float64), 30, axis=0), (5, 2), order=1,
         accepts=_FLOATS),
    Case("quantile_at_data", "sort", lambda x, q: sg.quantile(x, q, axis=-1),
         lambda x, q: _quantile(x, q, axis=-1), (Real((2, 5)), Real((3,), 0.3, 0.4)), _FLOATS,
         order=1, slack=20),
)  # fmt: skip

_SMALL = Real((9,), 0.0, 5.0)
_HALF = (0.0, 0.25, 0.5, 0.75, 1.0)

_COUNTS = (
    Case("bincount", "scatter_add", lambda x: sg.bincount(x, length=4),
         lambda x: np.bincount(x, minlength=4)[:4], (_SMALL,), _INTEGERS, order=0,
         also=(((0,),), ((1,),))),
    Case("bincount_weights", "scatter_add", lambda i, w: sg.bincount(i, w, length=6),
         lambda i, w: np.bincount(i, w, minlength=6), (Whole((9,), 0, 6), Real((9,))), _FLOATS,
         also=(((0,), (0,)), ((1,), (1,)))),
    _row("histogram", "scatter_add", lambda x: sg.histogram(x, _HALF)[0],
         lambda x: np.histogram(x, _HALF)[0], (3, 7), accepts=_FLOATS, also=(((0, 2),), ((1, 1),))),
    _row("histogram_of_range", "scatter_add", lambda x: sg.histogram(x, 4, (-1, 1))[0],
         lambda x: np.histogram(x, 4, (-1, 1))[0], (21,)),
    Case("histogram_weights", "scatter_add",
         lambda x, w: sg.histogram(x, 4, (-1, 1), weights=w)[0],
         lambda x, w: np.histogram(x, 4, (-1, 1), weights=w)[0],
         (Whole((21,), -2, 3), Real((21,))), _FLOATS),
    Case("histogram_edges", None, lambda x: sg.histogram(x, 4)[1],
         lambda x: np.histogram(x, 4)[1], (Real((3, 7)),), _FLOATS, slack=4),
    Case("histogram_density", "scatter_add",
         lambda x: sg.histogram(x, _HALF, density=True)[0],
         lambda x: np.histogram(x, _HALF, density=True)[0], (Real((3, 7), 0.0, 1.0),), _FLOATS,
         order=0),
)  # fmt: skip


def _values(x: Array) -> Array:
    """Return the first 4 different elements, the least one where there are fewer."""
    found = np.unique(x)
    return np.concatenate([found, [found[0]] * 4])[:4].astype(x.dtype)


def _counted(x: Array) -> Array:
    _, counts = np.unique(x, return_counts=True)
    return np.concatenate([counts, [0] * 4])[:4]


def _first(x: Array) -> Array:
    _, first = np.unique(x, return_index=True)
    return np.concatenate([first, [first[0]] * 4])[:4]


def _nonzero(x: Array, fill: int) -> list[Array]:
    return [np.concatenate([i, [fill] * 5])[:5] for i in np.nonzero(x)]


_SETS = (
    _row("unique_values", "argsort", lambda x: sg.unique_values(x, size=4), _values, (3, 4),
         order=1, also=(((1, 1),), ((1, 2),))),
    _row("unique_counts", "argsort", lambda x: sg.unique_counts(x, size=4).counts, _counted,
         (3, 4), also=(((1, 1),),)),
    _row("unique_inverse", "argsort", lambda x: sg.unique_inverse(x, size=4).inverse_indices,
         lambda x: np.unique(x, return_inverse=True)[1].reshape(x.shape), (3, 4),
         also=(((1, 1),),)),
    _row("unique_all", "argsort", lambda x: sg.unique_all(x, size=4).indices, _first, (3, 4)),
    Case("nonzero", "sort", lambda x: sg.stack(sg.nonzero(x, size=5, fill_value=-1)),
         lambda x: np.stack(_nonzero(x, -1)), (Real((3, 4), zeros=6),), _SOME, order=0,
         also=(((0, 2),), ((1, 1),), ((2, 1),))),
)  # fmt: skip

SORTING = (*_SORTS, *_SEARCHES, *_STATISTICS, *_COUNTS, *_SETS)
