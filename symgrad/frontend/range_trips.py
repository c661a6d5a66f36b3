"""Trip counts of ranges: how often a loop over one runs, known now or when it starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.frontend.control import scalar_tensor
from symgrad.graph import dtypes
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, constant, promote_operands
from symgrad.graph.ops.arithmetic import subtract
from symgrad.graph.ops.comparison import less, where
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.extrema import minimum
from symgrad.graph.sizes import Dim, Size, at_least
from symgrad.graph.types import UNBOUNDED

MOST_TRIPS = int(np.iinfo(np.int64).max)


def read_range(lower: Any, upper: Any) -> tuple[Tensor, Tensor, Dim]:
    """Return where to start, the number of iterations, and a bound on it that is known now."""
    if isinstance(lower, Size) or isinstance(upper, Size):
        if isinstance(lower, int | Size) and isinstance(upper, int | Size):
            span = at_least(upper - lower, 0)
            return size_of(lower), size_of(span), span
        lower, upper = (as_tensor(b) if isinstance(b, Size) else b for b in (lower, upper))
    for label, value in (("lower", lower), ("upper", upper)):
        if isinstance(value, Tensor):
            if not value.dtype.is_integer:
                raise not_an_integer("fori_loop", label, value.type)
        elif as_int(value) is None:
            raise not_an_integer("fori_loop", label, repr(value))
    if not isinstance(lower, Tensor) and not isinstance(upper, Tensor):
        trips = max(0, int(upper) - int(lower))
        if trips > MOST_TRIPS:
            raise GraphError(
                "fori_loop",
                f"from lower = {lower} up to upper = {upper} are {trips} iterations, "
                f"an int64 counts to {MOST_TRIPS}",
                source=user_source(),
            )
        return constant(int(lower), dtypes.int64), constant(trips, dtypes.int64), trips
    start, stop = (
        scalar_tensor("fori_loop", label, value)
        for label, value in zip(
            ("lower", "upper"), promote_operands("fori_loop", lower, upper), strict=True
        )
    )
    return start, _distance(start, stop), UNBOUNDED


def _distance(start: Tensor, stop: Tensor) -> Tensor:
    """Return how far `stop` lies above `start` as int64: 0 if below, the most there is if farther.

    The difference of two int64 may be no int64, and the one of two uint64 is one of uint64.
    """
    none, most = constant(0, dtypes.int64), constant(MOST_TRIPS, dtypes.int64)
    if start.dtype == dtypes.uint64:
        difference = cast(minimum(subtract(stop, start), cast(most, dtypes.uint64)), dtypes.int64)
    else:
        wrapped = subtract(cast(stop, dtypes.int64), cast(start, dtypes.int64))
        difference = where(less(wrapped, none), most, wrapped)
    return where(less(start, stop), difference, none)


def not_an_integer(op: str, label: str, given: object) -> DTypeError:
    """Return the error for an argument `label` that is `given` and should be an integer."""
    return DTypeError(op, f"{label} is {given}, not an integer", source=user_source())
