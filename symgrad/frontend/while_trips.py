"""Induction variables and trip counts: how often a `while_loop` runs at most.

Its condition and its body tell.

A counter is a loop variable to which each iteration adds the same int. A condition that compares
one with a bound which no iteration changes, alone or joined with others by `and`, ends the loop:

    while_loop(lambda i, ...: i < 7, lambda i, ...: (i + 3, ...), (0, ...))      3 trips: 0, 3, 6

Both functions have been traced for this and are thrown away; nothing is built here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from symgrad.graph.nested import Traced
from symgrad.graph.node import EMPTY, OpDef, Range, Tensor
from symgrad.graph.ops.arithmetic import add_op, subtract_op
from symgrad.graph.ops.comparison import (
    greater_equal_op,
    greater_op,
    less_equal_op,
    less_op,
    logical_and_op,
    not_equal_op,
)
from symgrad.graph.ops.conversion import astype_op
from symgrad.graph.ranges import is_empty, range_of

# Traces a function on loop variables that start so, with the ranges of some of its parameters.
Trace = Callable[[Sequence[Tensor], Mapping[int, Range]], Traced]
Trips = int | None  # None: not known


def counters(traced: Traced, initial: Sequence[Tensor], trips: Trips) -> dict[int, Range]:
    """Return the ranges of the loop variables to which each of `trips` iterations adds the same."""
    found: dict[int, Range] = {}
    for position, start in enumerate(initial):
        first, step = range_of(start), _step(traced, position)
        if first is None or step is None or (trips is None and step):
            continue
        way = step * ((trips or 1) - 1)
        is_never = is_empty(first) or trips == 0
        found[position] = EMPTY if is_never else (first[0] + min(way, 0), first[1] + max(way, 0))
    return found


def most_trips(body: Traced, trace_condition: Trace, initial: Sequence[Tensor]) -> Trips:
    """Return how often a loop of `body` runs at most, None if that is not known."""
    # A variable that no iteration changes is a bound like any other.
    test = trace_condition(initial, counters(body, initial, None))
    found = [
        _trips_until(comparison, test, body, initial) for comparison in _joined(test.outputs[0])
    ]
    return min((trips for trips in found if trips is not None), default=None)


def _joined(condition: Tensor) -> Iterator[Tensor]:
    """Yield what must all hold for `condition` to hold."""
    pending = [condition]
    while pending:
        tensor = pending.pop()
        if tensor.node.definition is logical_and_op:
            pending += tensor.node.inputs
        else:
            yield tensor


def _trips_until(
    comparison: Tensor, test: Traced, body: Traced, initial: Sequence[Tensor]
) -> Trips:
    """Return how many iterations there are at most before `comparison` no longer holds."""
    op = comparison.node.definition
    if op not in _MIRRORED:
        return None
    counter, bound = comparison.node.inputs
    for relation, one, other in ((op, counter, bound), (_MIRRORED[op], bound, counter)):
        position = _parameter(one, test)
        if position is None:
            continue
        with test.open():
            limit = range_of(other)
        start, step = range_of(initial[position]), _step(body, position)
        if limit is None or start is None or step is None:
            continue
        trips = _count(relation, start, step, limit)
        if trips is not None and _stays_within(initial[position], start, step * trips):
            return trips
    return None


def _parameter(tensor: Tensor, traced: Traced) -> int | None:
    """Return which loop variable `tensor` is, perhaps as a wider integer."""
    while tensor.node.definition is astype_op:
        (narrow,) = tensor.node.inputs
        if not np.can_cast(narrow.dtype.numpy, tensor.dtype.numpy, "safe"):
            return None
        tensor = narrow
    return next((i for i, param in enumerate(traced.params) if param is tensor), None)


def _count(relation: OpDef, start: Range, step: int, limit: Range) -> Trips:
    """Return the most trips from a value of `start` by `step` while `relation` to `limit` holds."""
    if is_empty(start) or is_empty(limit):
        return 0
    if relation is not_equal_op:
        is_exact = start[0] == start[1] and limit[0] == limit[1]
        way = limit[0] - start[0]
        is_met = is_exact and (way == 0 or (step and way % step == 0 and way // step > 0))
        return way // (step or 1) if is_met else None
    if relation in (greater_op, greater_equal_op):  # count down as if the axis were turned round
        start, limit, step = (-start[1], -start[0]), (-limit[1], -limit[0]), -step
    # The last value for which the relation may hold, less the first one there may be.
    way = limit[1] - (relation in (less_op, greater_op)) - start[0]
    if way < 0:
        return 0
    return way // step + 1 if step > 0 else None


def _stays_within(counter: Tensor, start: Range, way: int) -> bool:
    """Return whether a counter reaches the value that ends the loop without an overflow."""
    limits = np.iinfo(counter.dtype.numpy)
    return bool(limits.min <= start[0] + min(way, 0) and start[1] + max(way, 0) <= limits.max)


def _step(traced: Traced, position: int) -> int | None:
    """Return what an iteration adds to a loop variable, None if it is no counter."""
    old, new = traced.params[position], traced.outputs[position]
    if new is old:
        return 0
    inputs = new.node.inputs
    with traced.open():
        if new.node.definition is add_op and any(t is old for t in inputs):
            return _exact(range_of(inputs[0] if inputs[1] is old else inputs[1]))
        if new.node.definition is subtract_op and inputs[0] is old:
            taken = _exact(range_of(inputs[1]))
            return None if taken is None else -taken
    return None


def _exact(range_: Range | None) -> int | None:
    return range_[0] if range_ is not None and range_[0] == range_[1] else None


# What `a op b` is as a relation of b to a.
_MIRRORED = {
    less_op: greater_op,
    less_equal_op: greater_equal_op,
    greater_op: less_op,
    greater_equal_op: less_equal_op,
    not_equal_op: not_equal_op,
}
