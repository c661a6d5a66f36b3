"""Piecewise linear interpolation between points of a line; no op is declared here."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ShapeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, promote_operands
from symgrad.graph.ops.arithmetic import add, divide, multiply, remainder, subtract
from symgrad.graph.ops.comparison import equal, greater, isnan, less, less_equal, logical_or, where
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.ops.extrema import maximum as greater_of
from symgrad.graph.ops.extrema import minimum as lesser_of
from symgrad.graph.ops.gathering import gather
from symgrad.graph.ops.marks import require_least
from symgrad.graph.ops.ordering import argsort, search
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.public_ops import public


@public(functions=[np.interp])
def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Tensor:
    """Linear interpolation: the value at each of `x` of the line through the points (xp, fp).

    `xp` and `fp` are vectors of one size, `xp` increasing, which is not checked; the result has the
    shape of `x` and the float dtype that the three promote to. Before the first point it is `left`
    and beyond the last one `right`, if not given the first and the last of `fp`; with `period`
    everything repeats, `xp` may be in any order, and these two are not used. At a point it is
    exactly that of `fp`; where `x` is nan it is nan. Gradients flow to `x` (the slope to the right
    of it), `xp` and `fp`. Raises `ShapeError` for points that are no vectors of one size, or none.

    >>> sg.run(sg.interp([0.5, 9.0], [0.0, 1.0, 2.0], [0.0, 10.0, 40.0]))
    array([ 5., 40.], dtype=float32)
    """
    at, places, values = (float_operand(v) for v in (x, xp, fp))
    at, places, values = promote_operands("interp", at, places, values)
    if places.ndim != 1 or values.ndim != 1 or places.shape[0] == 0:
        raise ShapeError(
            "interp", f"xp: {places.type}, fp: {values.type} are no points", source=user_source()
        )
    if {*map(type, (*places.shape, *values.shape))} == {int} and places.shape != values.shape:
        raise ShapeError(
            "interp",
            f"sizes differ: {places.shape[0]} of xp: {places.type}, "
            f"{values.shape[0]} of fp: {values.type}",
            source=user_source(),
        )
    places = require_least(places, places.shape[0], 1, "interp", "xp: {x} are no points")
    if period is not None:
        at, places, values = _repeated(at, places, values, cast(as_tensor(period), at.dtype))
        return _between(at, places, values)
    found = _between(at, places, values)
    first, last = (narrow(places, 0, i, 1) for i in (0, places.shape[0] - 1))
    for limit, beyond, value in ((first, less, left), (last, greater, right)):
        if value is not None:
            is_beyond = beyond(at, broadcast_to(reshape(limit, (1,) * at.ndim), at.shape))
            found = where(is_beyond, cast(as_tensor(value), at.dtype), found)
    return found


def _repeated(
    at: Tensor, places: Tensor, values: Tensor, period: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what lies in one period, with one more point on either side."""
    places = remainder(places, period)
    order = argsort(places)
    places, values = gather(places, [order], 0), gather(values, [order], 0)
    last = places.shape[0] - 1
    before, after = narrow(places, 0, last, 1), narrow(places, 0, 0, 1)
    places = concat([subtract(before, period), places, add(after, period)], axis=0)
    values = concat([narrow(values, 0, last, 1), values, narrow(values, 0, 0, 1)], axis=0)
    return remainder(at, period), places, values


def _between(at: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Return the line at `at`, and its first and its last value on either side."""
    end = subtract(size_of(places.shape[0]), 1)
    number = subtract(search(places, reshape(at, (-1,)), "right"), 1)
    below = reshape(lesser_of(greater_of(number, 0), end), at.shape)
    above = lesser_of(add(below, 1), end)
    x0, y0 = gather(places, [below], 0), gather(values, [below], 0)
    x1, y1 = gather(places, [above], 0), gather(values, [above], 0)
    width = subtract(x1, x0)
    # Nothing is interpolated before the first point; from the last one there is no way on.
    is_point = logical_or(equal(width, 0), less_equal(at, x0))
    slope = divide(subtract(y1, y0), where(equal(width, 0), 1, width))
    line = add(multiply(slope, subtract(at, x0)), y0)
    return where(isnan(at), at, where(is_point, y0, line))
