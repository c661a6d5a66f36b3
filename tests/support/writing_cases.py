"""Rows of the table for what writes where indices say, and for blocks that begin there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.ops.scattering import (
    extreme_rows,
    multiply_rows,
    scatter_max_op,
    scatter_min_op,
)
from tests.support.case import BOOL, FLOATS, INTEGERS, NUMBERS, Case, Real, Truth, Whole

_EVERY = (*BOOL, *NUMBERS)
_WIDE = (dtypes.int8, dtypes.uint8, dtypes.int64, *FLOATS)
_SEVERAL = (((3, 2), (0,), (0, 2)), ((3, 2), (2, 2), (2, 2, 2)), ((3, 2), (), (2,)))


def combined(base: Any, key: Any, updates: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Return `base` with `updates` combined into what `key` chooses, one after another."""
    flat = base.flatten()
    chosen = np.arange(base.size).reshape(base.shape)[key]
    given = np.broadcast_to(updates, chosen.shape)
    for place, update in zip(chosen.flat, given.flat, strict=True):
        flat[place] = combine(flat[place], update)
    return flat.reshape(base.shape)


def _scatter(
    name: str, build: Callable[..., Any], ufunc: Any, updates: Real, slack: float = 1
) -> Case:
    return Case(
        name, name, build, lambda x, i, u: combined(x, i, u, ufunc),
        (Real((3, 2)), Whole((5,), -3, 3), updates), _WIDE, also=_SEVERAL, slack=slack,
    )  # fmt: skip


def _extreme(op: Any) -> Callable[..., Any]:
    return lambda x, i, u: extreme_rows(op, x, u, [i], 0)


_SCATTERS = (
    _scatter("scatter_multiply", lambda x, i, u: multiply_rows(x, u, [i], 0), np.multiply,
             Real((5, 2), 0.5, 1.5, zeros=3), slack=4),
    _scatter("scatter_min", _extreme(scatter_min_op), np.minimum, Real((5, 2))),
    _scatter("scatter_max", _extreme(scatter_max_op), np.maximum, Real((5, 2))),
    Case("scatter_multiply_inner", "scatter_multiply",
         lambda x, i, j, u: multiply_rows(x, u, [i, j], 1),
         lambda x, i, j, u: combined(x, (slice(None), i, j), u, np.multiply),
         (Real((2, 3, 4)), Whole((4,), -3, 3), Whole((4,), 0, 2), Real((2, 4), zeros=3)), FLOATS,
         also=(((2, 3, 4), (0,), (0,), (2, 0)), ((1, 3, 4), (1,), (1,), (1, 1))), slack=4),
    Case("scatter_max_inner", "scatter_max",
         lambda x, i, j, u: extreme_rows(scatter_max_op, x, u, [i, j], 1),
         lambda x, i, j, u: combined(x, (slice(None), i, j), u, np.maximum),
         (Real((2, 3, 4)), Whole((4,), -3, 3), Whole((4,), 0, 2), Real((2, 4))), NUMBERS),
)  # fmt: skip


def _block(x: Any, starts: Any, sizes: Any) -> tuple[slice, ...]:
    begins = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(b, b + k) for b, k in zip(begins, sizes, strict=True))


def _patched(x: Any, update: Any, starts: Any) -> Any:
    result = np.array(x)
    result[_block(x, starts, update.shape)] = update
    return result


_WINDOWS = (
    Case("dynamic_slice", "dynamic_slice", lambda x, s: sg.dynamic_slice(x, s, (2, 3)),
         lambda x, s: x[_block(x, s, (2, 3))], (Real((4, 5)), Whole((2,), -3, 7)), _EVERY,
         also=(((2, 3), (2,)),)),
    Case("dynamic_slice_of_rows", "dynamic_slice",
         lambda x, i: sg.dynamic_slice(x, [i, 0], (1, x.shape[1])) * 2,
         lambda x, i: x[_block(x, (i, 0), (1, x.shape[1]))] * 2, (Real((4, 5)), Whole((), -2, 6)),
         NUMBERS, also=(((1, 1), ()), ((3, 0), ()))),
    Case("dynamic_update_slice", "dynamic_update_slice", sg.dynamic_update_slice, _patched,
         (Real((4, 5)), Real((2, 3)), Whole((2,), -3, 7)), _EVERY,
         also=(((2, 3), (2, 3), (2,)), ((4, 5), (0, 3), (2,)), ((1, 1), (1, 1), (2,)))),
    Case("getitem_tensor_bounds", "dynamic_slice", lambda x, i: x[1:, i : i + 2, None],
         lambda x, i: x[1:, i : i + 2, None], (Real((3, 5)), Whole((), 0, 4)), _EVERY),
    Case("getitem_tensor_bounds_steps", "dynamic_slice", lambda x, i: x[i - 1 : i + 3 : 2, [1, 0]],
         lambda x, i: x[i - 1 : i + 3 : 2, [1, 0]], (Real((6, 2)), Whole((), 1, 4)), _EVERY),
    Case("at_tensor_bounds", "dynamic_update_slice",
         lambda x, u, i: x.at[i : i + 2, 1:].multiply(u),
         lambda x, u, i: combined(x, (slice(i, i + 2), slice(1, None)), u, np.multiply),
         (Real((4, 3)), Real((2, 2)), Whole((), 0, 3)), FLOATS),
)  # fmt: skip


def _at(
    name: str, method: str, key: Any, ufunc: Any, *shapes: Any, op: str | None = None,
    accepts: Any = FLOATS, symbolic: bool = True, slack: float = 4,
) -> Case:  # fmt: skip
    inputs = tuple(Real(s, 0.5, 1.5) if isinstance(s, tuple) else s for s in shapes)
    return Case(
        name, op, lambda x, u, *i: getattr(x.at[key(*i)], method)(u),
        lambda x, u, *i: combined(x, key(*i), u, ufunc), inputs, accepts,
        symbolic=symbolic, slack=slack,
    )  # fmt: skip


def _last(_old: Any, new: Any) -> Any:
    return new


_AT = (
    _at("at_set", "set", lambda i: i, _last, (4, 2), (3, 2), Whole((3,), -4, 4), op="scatter_set",
        accepts=_EVERY),
    _at("at_set_slices", "set", lambda: (slice(1, 3), slice(None, 2)), _last, (4, 3), (2,),
        op="dynamic_update_slice", accepts=_EVERY),
    _at("at_set_int", "set", lambda: 1, _last, (4, 3), (3,), op="dynamic_update_slice",
        accepts=_EVERY),
    _at("at_set_all", "set", lambda: Ellipsis, _last, (4, 3), (3,)),
    _at("at_set_steps", "set", lambda: (slice(None, None, 2), slice(None, None, -1)), _last, (4, 3),
        (3,), op="scatter_set", accepts=_EVERY),
    _at("at_set_apart", "set", lambda i, j: (i, slice(None), j), _last, (2, 3, 4), (3, 3),
        Whole((3,), -2, 2), Whole((), 0, 4), op="scatter_set"),
    _at("at_add", "add", lambda i: i, np.add, (4, 2), (2,), Whole((5,), -4, 4), op="scatter_add",
        accepts=_WIDE),
    _at("at_add_slices", "add", lambda: (slice(-2, None), 1), np.add, (4, 3), (2,)),
    _at("at_subtract", "subtract", lambda i: i, np.subtract, (4, 2), (5, 2), Whole((5,), -4, 4)),
    _at("at_multiply", "multiply", lambda i: (slice(None), i), np.multiply, (2, 4), (2, 5),
        Whole((5,), -4, 4), op="scatter_multiply"),
    _at("at_multiply_steps", "multiply", lambda: slice(None, None, -2), np.multiply, (4, 2),
        (2, 2)),
    _at("at_divide", "divide", lambda i: i, np.divide, (4, 2), (5, 2), Whole((5,), -4, 4)),
    _at("at_min", "min", lambda i: i, np.minimum, (4, 2), (5, 2), Whole((5,), -4, 4),
        op="scatter_min", accepts=NUMBERS),
    _at("at_max", "max", lambda i: i, np.maximum, (4, 2), (5, 2), Whole((5,), -4, 4),
        op="scatter_max", accepts=NUMBERS),
    _at("at_max_slices", "max", lambda: (slice(None), None, 0), np.maximum, (4, 2), (4, 1)),
    Case("at_mask", "where", lambda x, m, v: x.at[m].set(v),
         lambda x, m, v: np.where(m[:, None], v, x), (Real((4, 3)), Truth((4,)), Real((3,))),
         _EVERY, also=(((1, 1), (1,), (1,)), ((0, 3), (0,), (3,)))),
    Case("at_mask_add", "where", lambda x, m: x.at[:, m].add(1),
         lambda x, m: x + m.astype(x.dtype), (Real((4, 3)), Truth((3,))), NUMBERS),
    Case("put_along_axis", "scatter_set", lambda x, i, v: sg.put_along_axis(x, i, v, 1),
         lambda x, i, v: _put(x, i, v), (Real((2, 4, 3)), Whole((2, 5, 3), -4, 4), Real((5, 1))),
         _EVERY, symbolic=False),
)  # fmt: skip


def _put(x: Any, indices: Any, values: Any) -> Any:
    result, given = np.array(x), np.broadcast_to(values, indices.shape)
    for a, j, b in np.ndindex(indices.shape):
        result[a, indices[a, j, b], b] = given[a, j, b]
    return result


def _segments(name: str, start: float, ufunc: Any, data: Real) -> Case:
    """Return the row of a segment reduction; an infinity has no difference, and is cut off."""

    def build(x: Any, ids: Any) -> Any:
        found = getattr(sg, name)(x, ids, 3)
        return sg.clip(found, 0, 9) if name in ("segment_max", "segment_min") else found

    def expected(x: Any, ids: Any) -> Any:
        kept = (ids >= 0) & (ids < 3)
        base = np.full((3, *x.shape[ids.ndim :]), start, x.dtype)
        return combined(base, ids[kept], x[kept], ufunc)

    return Case(
        name, None, build, expected,
        (data, Whole(data.shape[:1], -2, 5)), NUMBERS, slack=4,
        also=(((0, 2), (0,)), ((1, 1), (1,)), ((4, 2), (4, 2)), ((4, 0), (4,))),
    )  # fmt: skip


def _means(x: Any, ids: Any) -> Any:
    rows = [x[ids == s].sum(0) / max(np.sum(ids == s), 1) for s in range(3)]
    return np.stack(rows).astype(x.dtype if np.issubdtype(x.dtype, np.floating) else np.float32)


_SEGMENTS = (
    _segments("segment_sum", 0, np.add, Real((6, 2), 0.5, 1.5)),
    _segments("segment_prod", 1, np.multiply, Real((6, 2), 0.5, 1.5, zeros=3)),
    _segments("segment_max", 0, np.maximum, Real((6, 2), 0.5, 2.5)),
    _segments("segment_min", 9, np.minimum, Real((6, 2), 0.5, 2.5)),
    Case("segment_mean", None, lambda x, ids: sg.segment_mean(x, ids, 3), _means,
         (Real((6, 2)), Whole((6,), -2, 5)), (*INTEGERS, *FLOATS), slack=4,
         also=(((0, 2), (0,)), ((1, 1), (1,)))),
    Case("gather_nd", "gather", sg.gather_nd, lambda x, i: x[i[..., 0], i[..., 1]],
         (Real((3, 4, 2)), Whole((5, 2), -3, 3)), _EVERY, symbolic=False),
    Case("scatter_nd", "scatter_add", lambda i, u: sg.scatter_nd(i, u, (3, 4, 2)),
         lambda i, u: combined(np.zeros((3, 4, 2), u.dtype), (i[..., 0], i[..., 1]), u, np.add),
         (Whole((5, 2), -3, 3), Real((5, 2))), NUMBERS, symbolic=False),
)  # fmt: skip

WRITING = (*_SCATTERS, *_WINDOWS, *_AT, *_SEGMENTS)
