"""vmap of control flow: branches, calls and loops on operands with one more axis in front.

All cases must take the same branch and run as often: then the branches, or the body, are built
with the axis, on the operands and loop variables that depend on the case. Where the cases differ
in that, there is no rule, and None is returned, but for loops that record without a bound
(`symgrad/passes/batching/masked_loops.py`). How a graph as a whole is built with the axis is
in `symgrad/passes/batching/vmap.py`, which hands itself to the functions here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.graph.batch_rules import Entry, Operands
from symgrad.graph.build import gradient_keys_in_force
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LoopView
from symgrad.graph.nested import Traced
from symgrad.graph.node import OpDef, Tensor
from symgrad.graph.ops.branches import branch, switch_case_op
from symgrad.graph.ops.calls import call, call_op, callee_of
from symgrad.graph.ops.scan import scan_loop, scan_op
from symgrad.graph.ops.stand_in import custom_gradient_op, recompute_op
from symgrad.graph.ops.views import moveaxis
from symgrad.graph.ops.while_loop import loop, while_loop_op
from symgrad.graph.types import is_unbounded
from symgrad.passes.batching.masked_loops import (
    batch_scan_masked,
    batch_while_masked,
    is_maskable,
)
from symgrad.passes.batching.reach import reached, reached_in_loop
from symgrad.passes.batching.stand_ins import batch_custom_gradient, batch_recompute
from symgrad.records import dataclass

Build = Callable[[Graph, Sequence[Entry]], Sequence[Entry]]


def batch_switch_case(operands: Operands, build: Build) -> list[Entry] | None:
    """Build each branch with the axis, if the index is the same for all cases."""
    index, *entries = operands.entries
    branches = operands.node.attrs["branches"]
    assert isinstance(branches, tuple), f"{operands.node!r} has no branches"
    graphs = [g for g in branches if isinstance(g, Graph)]
    if index.is_batched:
        return None
    functions = [Traced(graph.name, ()) for graph in graphs]
    found = []
    for graph, function in zip(graphs, functions, strict=True):
        with function.open():
            found.append(build(graph, entries))
    flags = [any(e.is_batched for e in same) for same in zip(*found, strict=True)]
    for function, results in zip(functions, found, strict=True):
        with function.open():
            tensors = _with_axis(operands, results, flags)
        function.give(tensors)
    outputs = branch(index.tensor, functions).outputs
    return [Entry(t, flag) for t, flag in zip(outputs, flags, strict=True)]


def batch_call(operands: Operands, build: Build) -> list[Entry]:
    """Build the function with the axis on those of its operands that have it, and call that.

    It is built once for all calls: there may be very many ways to a function that others call.
    """
    graph, entries = callee_of(operands.node), operands.entries
    kinds = tuple((e.tensor.type, e.is_batched) for e in entries)
    key = ("batch", operands.size, kinds, tuple(sorted(gradient_keys_in_force().items())))
    found = graph.derived.get(key)
    if found is None:
        found = _batched_callee(graph, entries, build)
        # A gradient of the user's may use tensors of the place where it was asked for.
        if not found.captures:
            graph.derived[key] = found
    assert isinstance(found, _Batched), f"{key} of {graph.name} is something else"
    node = call(found.callee, [*(e.tensor for e in entries), *found.captures])
    return [Entry(t, flag) for t, flag in zip(node.outputs, found.flags, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class _Batched:
    """A function with the axis, over its operands and `captures`, and which results have it."""

    callee: Graph
    captures: tuple[Tensor, ...]
    flags: tuple[bool, ...]


def _batched_callee(graph: Graph, entries: Sequence[Entry], build: Build) -> _Batched:
    flags: list[bool] = []

    def step(*params: Tensor) -> list[Tensor]:
        pairs = zip(params, entries, strict=True)
        found = build(graph, [Entry(t, entry.is_batched) for t, entry in pairs])
        flags.extend(entry.is_batched for entry in found)
        return [entry.tensor for entry in found]

    traced = Traced(graph.name, [e.tensor.type for e in entries])
    traced.run(step)
    captures = traced.captures
    return _Batched(traced.graph(captures), tuple(captures), tuple(flags))


def batch_while_loop(operands: Operands, build: Build) -> list[Entry] | None:
    """Build the loop with the axis, if the condition is the same for all cases."""
    node = operands.node
    view = LoopView(node)
    body, condition, carried = view.body, view.condition, view.carried
    assert condition is not None, f"{node!r} has no condition"
    initial, invariants = operands.entries[:carried], operands.entries[carried:]
    flags = reached_in_loop(body, carried, [e.is_batched for e in operands.entries])
    if any(reached(condition, flags)):
        if not is_maskable(node):
            return None
        counts, *results_of = batch_while_masked(operands, build)
        return [Entry(counts, True), *_from_loop(results_of, carried, [True] * len(results_of))]
    start = _with_axis(operands, initial, flags[:carried])
    types = [t.type for t in start]
    results = reached(body, flags)
    results[:carried] = flags[:carried]

    def entries(params: Sequence[Tensor]) -> list[Entry]:
        variables = (Entry(t, flag) for t, flag in zip(params, flags, strict=False))
        return [*variables, *invariants]

    traced, test = Traced(body.name, types), Traced(condition.name, types)
    traced.run(lambda *params: _with_axis(operands, build(body, entries(params)), results))
    test.run(lambda *params: [e.tensor for e in build(condition, entries(params))])
    count, *outputs = loop(start, test, traced, view.capacity).outputs
    return [Entry(count, False), *_from_loop(outputs, carried, results)]


def batch_scan(operands: Operands, build: Build) -> list[Entry] | None:
    """Build the loop with the axis, if the number of iterations is the same for all cases."""
    node = operands.node
    view = LoopView(node)
    body, carried, width = view.body, view.carried, view.changing
    count, *entries = operands.entries
    if count.is_batched:
        if not is_maskable(node):
            return None
        stacks_of = [Entry(_for_slices(e), e.is_batched) for e in entries[carried:width]]
        found = batch_scan_masked(operands, stacks_of, build)
        return _from_loop(found, carried, [True] * len(found))
    flags = reached_in_loop(body, carried, [e.is_batched for e in entries])
    start = _with_axis(operands, entries[:carried], flags[:carried])
    stacks = [_for_slices(e) for e in entries[carried:width]]
    types = [*(t.type for t in start), *(t.type.with_shape(t.shape[1:]) for t in stacks)]
    results = reached(body, flags)
    results[:carried] = flags[:carried]

    def step(*params: Tensor) -> list[Tensor]:
        given = (Entry(t, flag) for t, flag in zip(params, flags, strict=False))
        return _with_axis(operands, build(body, [*given, *entries[width:]]), results)

    traced = Traced(body.name, types)
    traced.run(step)
    again = scan_loop(count.tensor, start, stacks, traced, view.capacity, reverse=view.reverse)
    return _from_loop(again.outputs, carried, results)


def _with_axis(operands: Operands, entries: Sequence[Entry], flags: Sequence[bool]) -> list[Tensor]:
    """Return the tensors, those with the axis that `flags` say."""
    return [operands.lift(e) if flag else e.tensor for e, flag in zip(entries, flags, strict=True)]


def _for_slices(stack: Entry) -> Tensor:
    """Return a stack with the axis behind that of the iterations."""
    is_in_front = stack.is_batched and not is_unbounded(stack.tensor.type)
    return moveaxis(stack.tensor, 0, 1) if is_in_front else stack.tensor


def _from_loop(outputs: Sequence[Tensor], carried: int, flags: Sequence[bool]) -> list[Entry]:
    """Return loop variables and stacks, of these the axis in front where there is a bound."""
    entries = []
    for i, (tensor, flag) in enumerate(zip(outputs, flags, strict=True)):
        is_behind = flag and i >= carried and not is_unbounded(tensor.type)
        entries.append(Entry(moveaxis(tensor, 1, 0) if is_behind else tensor, flag))
    return entries


CONTROL_RULES: dict[OpDef, Callable[[Operands, Build], list[Entry] | None]] = {
    call_op: batch_call,
    switch_case_op: batch_switch_case,
    while_loop_op: batch_while_loop,
    scan_op: batch_scan,
    custom_gradient_op: batch_custom_gradient,
    recompute_op: batch_recompute,
}
