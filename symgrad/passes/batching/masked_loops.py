"""Predication of loops in vmap: those that record without a bound, each case with its own count.

Such a loop cannot be run for one case after the other: its record is a tape, which only a loop may
touch. So it goes on until no case goes on, and what a case has that stands still is kept by a
select; each case has its own count. The scan that reads the tapes runs as often as the largest
count says, and a case takes part in the iterations below its own.

    while: active = condition(v)              scan over i: active = i < counts
        v = where(active, body(v), v)             v = where(active, body(v, slices), v)
        counts += active                          y = where(active, y, 0)
        active = active and condition(v)

A body is then computed for cases that stand still as well, on what they ended with. That changes
nothing only where it can neither fail nor run on for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.graph import dtypes
from symgrad.graph.batch_rules import Entry, Operands
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LoopView
from symgrad.graph.nested import Traced
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, subtract
from symgrad.graph.ops.comparison import less, logical_and, where
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.reduction import any as any_of
from symgrad.graph.ops.reduction import max as max_of
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.while_loop import loop, while_loop_op
from symgrad.graph.types import UNBOUNDED, is_unbounded

Build = Callable[[Graph, Sequence[Entry]], Sequence[Entry]]


def is_maskable(node: Node) -> bool:
    """Return whether the loop `node` records without a bound, and may run on for a case."""
    if not any(is_unbounded(t.type) for t in (*node.inputs, *node.outputs)):
        return False
    pending = [graph for _, graph in graphs_of(node)]
    while pending:
        for below in pending.pop().nodes:
            if below.definition.can_fail or _may_run_on(below):
                return False
            pending += [graph for _, graph in graphs_of(below)]
    return True


def _may_run_on(node: Node) -> bool:
    """Return whether a node is a loop that nothing ends but its data; a segment has a capacity."""
    return node.definition is while_loop_op and LoopView(node).capacity in (0, UNBOUNDED)


def batch_while_masked(operands: Operands, build: Build) -> list[Tensor]:
    """Build a loop that goes on until no case does; return its results, all with the axis.

    A stack has it behind the axis of the iterations.
    """
    view = LoopView(operands.node)
    carried, body, condition = view.carried, view.body, view.condition
    assert condition is not None, f"{operands.node!r} has no condition"
    start = [operands.lift(entry) for entry in operands.entries[:carried]]
    invariants = operands.entries[carried:]

    def built(graph: Graph, values: Sequence[Tensor]) -> list[Tensor]:
        given = [Entry(t, True) for t in values]
        return [operands.lift(entry) for entry in build(graph, [*given, *invariants])]

    def step(*params: Tensor) -> list[Tensor]:
        values, (active, counts) = params[:carried], params[carried:]
        results = built(body, values)
        after = _kept(active, results[:carried], values)
        (goes_on,) = built(condition, after)
        return [
            *after,
            logical_and(active, goes_on),
            add(counts, astype(active, dtypes.int64)),
            *results[carried:],
        ]

    (active,) = built(condition, start)
    variables = [*start, active, filled((operands.size,), 0, dtypes.int64)]
    types = [t.type for t in variables]
    traced, test = Traced(body.name, types), Traced(condition.name, types)
    traced.run(step)
    test.run(lambda *params: [any_of(params[carried])])
    _, *results = loop(variables, test, traced, view.capacity).outputs
    return [results[carried + 1], *results[:carried], *results[carried + 2 :]]


def batch_scan_masked(operands: Operands, stacks: Sequence[Entry], build: Build) -> list[Tensor]:
    """Build a scan in which each case has a count of its own; return its results with the axis.

    `stacks` are those that it scans, with the axis behind that of the iterations.
    """
    view = LoopView(operands.node)
    carried, width = view.carried, view.changing
    counts, *entries = operands.entries
    start = [operands.lift(entry) for entry in entries[:carried]]
    one = constant(1, dtypes.int64)
    # Also of no cases there is a maximum.
    total = max_of(concat([constant([0], dtypes.int64), counts.tensor], axis=0))
    variables = [*start, subtract(total, one) if view.reverse else constant(0, dtypes.int64)]

    def step(*params: Tensor) -> list[Tensor]:
        values, i, slices = params[:carried], params[carried], params[carried + 1 :]
        active = less(i, counts.tensor)
        given = [
            *(Entry(t, True) for t in values),
            *(Entry(t, stack.is_batched) for t, stack in zip(slices, stacks, strict=True)),
        ]
        found = build(view.body, [*given, *entries[width:]])
        results = [operands.lift(entry) for entry in found]
        rows = results[carried:]
        return [
            *_kept(active, results[:carried], values),
            subtract(i, one) if view.reverse else add(i, one),
            *_kept(active, rows, [filled_like(row, 0) for row in rows]),
        ]

    slices = [s.tensor.type.with_shape(s.tensor.shape[1:]) for s in stacks]
    traced = Traced(view.body.name, [*(t.type for t in variables), *slices])
    traced.run(step)
    tensors = [stack.tensor for stack in stacks]
    again = scan_loop(total, variables, tensors, traced, view.capacity, reverse=view.reverse)
    return [*again.outputs[:carried], *again.outputs[carried + 1 :]]


def _kept(active: Tensor, news: Sequence[Tensor], olds: Sequence[Tensor]) -> list[Tensor]:
    """Return what is new where a case is active, and what is old where it is not."""
    size = active.shape[0]
    return [
        where(reshape(active, (size, *(1,) * (new.ndim - 1))), new, old)
        for new, old in zip(news, olds, strict=True)
    ]
