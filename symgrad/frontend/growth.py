"""Capacity inference: how large the arrays that grow in a loop get, before the loop is made.

A loop variable keeps its shape, so an array must be given, at the start, all the slots that the
loop can write. The body is traced for that beforehand: once to find the counters among the loop
variables, which give the range of an index, and once to see how far the arrays grow; and so is the
condition of a `while_loop`, for its bound. Those traces are thrown away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from symgrad.errors import GraphError, user_source
from symgrad.frontend.creation import zeros
from symgrad.frontend.nests import flatten_whole
from symgrad.frontend.while_trips import Trace, Trips, counters, most_trips
from symgrad.graph.nested import Traced
from symgrad.graph.node import Range, Tensor
from symgrad.graph.ops.slicing import concat

_looks_for_counters: ContextVar[bool] = ContextVar("looks_for_counters", default=False)


class GrowingArray:
    """What a nest holds as one leaf: rows, of which there may be more later."""

    __slots__ = ("dynamic_size",)

    dynamic_size: bool


def growing_leaves(tree: Any) -> list[bool]:
    """Return of each leaf of a nest whether it is the rows of an array of dynamic size."""
    wholes = flatten_whole(tree, GrowingArray)
    return [isinstance(w, GrowingArray) and w.dynamic_size for w in wholes]


def grown(rows: Tensor, size: int) -> Tensor:
    """Return `rows` with zeros behind them, `size` rows in all; as they are if there are more.

    Where their number is not known they do not grow.
    """
    present = rows.shape[0]
    if not isinstance(present, int) or size <= present:
        return rows
    more = zeros((size - present, *rows.shape[1:]), rows.dtype)
    return concat([rows, more], axis=0) if present else more


def looks_for_counters() -> bool:
    """Return whether what is traced now is thrown away, and an index may be of any size."""
    return _looks_for_counters.get()


@contextmanager
def _looking_for_counters() -> Iterator[None]:
    token = _looks_for_counters.set(True)
    try:
        yield
    finally:
        _looks_for_counters.reset(token)


def grow_for_loop(
    trace: Trace, initial: Sequence[Tensor], growing: Sequence[bool], trips: Trips | Trace
) -> tuple[list[Tensor], dict[int, Range]]:
    """Return what to start a loop of at most `trips` iterations with, and the ranges of counters.

    `trips` may also be what traces the condition of the loop. Where they are not known, a counter
    could be anything. `growing` says which of `initial` are rows of arrays that may grow.
    """
    if not any(growing):
        return list(initial), {}
    with _looking_for_counters():
        body = trace(initial, {})
        most = most_trips(body, trips, initial) if callable(trips) else trips
        ranges = counters(body, initial, most)
    # Of a loop around this one, counters may still be looked for: then sizes are of no interest.
    following = trace(initial, ranges).outputs
    pairs = zip(initial, following, growing, strict=False)
    started = [grown(t, _rows(new)) if grows else t for t, new, grows in pairs]
    return [*started, *initial[len(started) :]], ranges


def require_no_growth(op: str, traced: Traced, growing: Sequence[bool]) -> None:
    """Raise `GraphError` for an array that the body makes larger whatever its size is."""
    for position, (grows, old, new) in enumerate(
        zip(growing, traced.params, traced.outputs, strict=False)
    ):
        if grows and _rows(new) > _rows(old):
            raise GraphError(
                op,
                f"the array in loop variable {position} grows in every iteration, from "
                f"{_rows(old)} slots to {_rows(new)}",
                hint="write at the loop counter, or give a size that is large enough",
                source=user_source(),
            )


def _rows(tensor: Tensor) -> int:
    size = tensor.shape[0]
    return size if isinstance(size, int) else 0
