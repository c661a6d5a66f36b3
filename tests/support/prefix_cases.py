"""Rows of the table for prefix scans: cumulative results, and the scans that are their adjoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.ops.cumulative import cumsum_op
from symgrad.graph.ops.exponential_scans import exponential_sum_op, logcumsumexp_op
from symgrad.graph.ops.prefix_scans import scan_along
from symgrad.graph.ops.running_extremes import cummax_op, cummin_op, restarting_sum
from symgrad.graph.ops.running_products import cumprod_op, linear_recurrence
from tests.support.case import FLOATS, NUMBERS, Array, Case, Real, Truth

# Longer than one block of elements, and no multiple of one.
_LONG = (2, 37)
_FEW = (dtypes.float32, dtypes.float64)  # where elements lie decides, and not what they are
_ONES = (((1, 1, 1),), ((2, 0, 3),), ((0, 3, 2),))

_SCANS: tuple[tuple[str, Any, Callable[..., Any], np.ufunc, float, Real, Any], ...] = (
    ("cumsum", cumsum_op, sg.cumsum, np.add, 0.0, Real((2, 5, 3)), NUMBERS),
    ("cumprod", cumprod_op, sg.cumprod, np.multiply, 1.0, Real((2, 5, 3), 0.5, 1.5), NUMBERS),
    ("cummax", cummax_op, sg.cummax, np.maximum, -np.inf, Real((2, 5, 3)), NUMBERS),
    ("cummin", cummin_op, sg.cummin, np.minimum, np.inf, Real((2, 5, 3)), NUMBERS),
    ("logcumsumexp", logcumsumexp_op, sg.logcumsumexp, np.logaddexp, -np.inf, Real((2, 5, 3)),
     FLOATS),
)  # fmt: skip


def accumulated(
    ufunc: np.ufunc, identity: float, axis: int, *, reverse: bool, exclusive: bool
) -> Callable[[Array], Array]:
    """Return what NumPy says of a scan: each element a reduction of a slice of its own."""

    def expected(x: Array) -> Array:
        moved = np.moveaxis(x, axis, 0)
        moved = moved[::-1] if reverse else moved
        result = np.full(moved.shape, identity if x.dtype.kind == "f" else 0, x.dtype)
        for place in range(len(moved)):
            taken = moved[: place + (not exclusive)]
            if len(taken):
                result[place] = ufunc.reduce(taken, axis=0)
        return np.moveaxis(result[::-1] if reverse else result, 0, axis)

    return expected


def _rows_of(
    name: str,
    op: Any,
    function: Callable[..., Any],
    ufunc: np.ufunc,
    identity: float,
    given: Real,
    accepts: Any,
) -> tuple[Case, ...]:
    expect = partial(accumulated, ufunc, identity)
    long = Real(_LONG, given.low, given.high)
    inner = Real((37, 2), given.low, given.high)
    return (
        Case(f"{name}_middle", name, lambda x: function(x, axis=1),
             expect(1, reverse=False, exclusive=False), (given,), accepts, also=_ONES, slack=16),
        Case(f"{name}_last", name, lambda x: function(x, axis=-1),
             expect(1, reverse=False, exclusive=False), (long,), _FEW, order=1, slack=64),
        Case(f"{name}_first_reversed", name, lambda x: scan_along(op, x, axis=0, reverse=True),
             expect(0, reverse=True, exclusive=False), (inner,), _FEW, order=1, slack=64),
        Case(f"{name}_last_reversed", name, lambda x: scan_along(op, x, axis=1, reverse=True),
             expect(1, reverse=True, exclusive=False), (long,), _FEW, order=1, slack=64),
    )  # fmt: skip


def _exclusive(
    name: str,
    op: Any,
    _function: Callable[..., Any],
    ufunc: np.ufunc,
    identity: float,
    given: Real,
    _accepts: Any,
) -> tuple[Case, ...]:
    """Return rows of a scan that leaves out an element's own; its result may begin with -inf."""
    return tuple(
        Case(
            f"{name}_exclusive" + "_reversed" * reverse,
            name,
            lambda x, reverse=reverse: scan_along(op, x, axis=1, reverse=reverse, exclusive=True),
            accumulated(ufunc, identity, 1, reverse=reverse, exclusive=True),
            (Real(_LONG, given.low, given.high),),
            _FEW,
            order=2 * np.isfinite(identity),
            also=(((1, 1),), ((2, 0),), ((0, 3),)),
            slack=64,
        )
        for reverse in (False, True)
    )


def _recurrence(a: Array, b: Array, *, reverse: bool) -> Array:
    state = np.zeros(b.shape[:1] + b.shape[2:], b.dtype)
    result = np.zeros_like(b)
    places = range(b.shape[1])
    for place in reversed(places) if reverse else places:
        result[:, place] = state
        state = a[:, place] * state + b[:, place]
    return result


def _exponential_sums(w: Array, x: Array, z: Array, *, reverse: bool) -> Array:
    terms = w[:, np.newaxis] * np.exp(x[:, np.newaxis] + z[:, :, np.newaxis])
    places = np.arange(w.shape[1])
    is_taken = (
        np.less_equal.outer(places, places) if reverse else np.greater_equal.outer(places, places)
    )
    return np.asarray(np.where(is_taken, terms, 0).sum(2))


def _adjoints(reverse: bool) -> tuple[Case, ...]:
    mark = "_reversed" * reverse
    one, none = (1, 1, 1), (2, 0, 3)
    return (
        Case(
            f"linear_recurrence{mark}", "linear_recurrence",
            lambda a, b: linear_recurrence(a, b, axis=1, reverse=reverse),
            partial(_recurrence, reverse=reverse),
            (Real((2, 5, 3)), Real((2, 5, 3))), FLOATS, also=((one, one), (none, none)), slack=64,
        ),
        Case(
            f"linear_recurrence_last{mark}", "linear_recurrence",
            lambda a, b: linear_recurrence(a, b, axis=1, reverse=reverse),
            partial(_recurrence, reverse=reverse),
            (Real(_LONG, -1.0, 1.0), Real(_LONG)), _FEW, order=1, slack=64,
        ),
        Case(
            f"restarting_sum{mark}", "restarting_sum",
            lambda x, starts: restarting_sum(x, starts, axis=1, reverse=reverse),
            lambda x, starts: _recurrence(np.where(starts, 0.0, 1.0), x, reverse=reverse),
            (Real(_LONG), Truth(_LONG)), FLOATS, also=(((1, 1), (1, 1)), ((2, 0), (2, 0))),
            slack=64,
        ),
        Case(
            f"exponential_sum{mark}", "exponential_sum",
            lambda w, x, z: scan_along(exponential_sum_op, w, x, z, axis=1, reverse=reverse),
            partial(_exponential_sums, reverse=reverse),
            (Real((2, 19)), Real((2, 19)), Real((2, 19))), FLOATS,
            also=(((1, 1),) * 3, ((2, 0),) * 3), slack=256,
        ),
    )  # fmt: skip


_PUBLIC = (
    Case("cumsum_flat", "cumsum", sg.cumsum, np.cumsum, (Real((3, 4)),), NUMBERS, slack=16),
    Case("cumprod_flat", "cumprod", sg.cumprod, np.cumprod, (Real((3, 4)),), NUMBERS, slack=16),
    Case("cumprod_with_zeros", "cumprod", lambda x: sg.cumprod(x, axis=1),
         lambda x: np.cumprod(x, axis=1), (Real((2, 5), 0.5, 2.0, zeros=3),), slack=16),
    Case("cumulative_sum", "cumsum", lambda x: sg.cumulative_sum(x, axis=1, include_initial=True),
         lambda x: np.cumulative_sum(x, axis=1, include_initial=True), (Real((2, 5)),), NUMBERS,
         also=(((1, 1),), ((2, 0),)), slack=16),
    Case("cumulative_prod", "cumprod", lambda x: sg.cumulative_prod(x, include_initial=True),
         lambda x: np.cumulative_prod(x, include_initial=True), (Real((5,)),), NUMBERS,
         also=(((1,),), ((0,),)), slack=16),
    Case("cumulative_prod_axis", "cumprod", lambda x: sg.cumulative_prod(x, axis=-2),
         lambda x: np.cumulative_prod(x, axis=-2), (Real((3, 2)),), NUMBERS, slack=16),
)  # fmt: skip

PREFIX_SCANS = (
    *(row for scan in _SCANS for row in _rows_of(*scan)),
    *(row for scan in _SCANS for row in _exclusive(*scan)),
    *_adjoints(False),
    *_adjoints(True),
    *_PUBLIC,
)
