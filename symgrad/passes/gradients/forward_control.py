"""Forward mode (JVP) of control flow: tangents through branches, calls and loops.

A branch gives the tangents of what was taken. A loop is built once more with the tangents of its
variables as loop variables behind them: it needs no record of its iterations. Which variables have
a tangent is known from the body alone, so each body is built once.

How tangents pass any other op is in `symgrad/passes/gradients/forward_mode.py`, which hands itself
to the functions here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.frontend.creation import zeros_like
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LoopView
from symgrad.graph.nested import Traced, inline
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.branches import branch
from symgrad.graph.ops.calls import call_derived, callee_of
from symgrad.graph.ops.marks import match_shape
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.subgraph import inline_argument
from symgrad.graph.ops.while_loop import loop
from symgrad.passes.gradients.sweep import live_tensors

Tangents = Sequence[Tensor | None]
Push = Callable[[Sequence[Tensor], Sequence[Tensor], Tangents], Tangents]


def push_through_branches(node: Node, tangents: Tangents, push: Push) -> Tangents:
    """Return the tangents of the outputs of a switch_case, given those of its inputs."""
    branches = node.attrs["branches"]
    assert isinstance(branches, tuple), f"{node!r} has no branches"
    graphs = [g for g in branches if isinstance(g, Graph)]
    index, *operands = node.inputs
    functions = [Traced(f"{graph.name}_jvp", ()) for graph in graphs]
    found = []
    for graph, function in zip(graphs, functions, strict=True):
        with function.open():
            found.append(_push_through_graph(graph, operands, tangents[1:], push))
    reached = [
        i for i in range(len(node.outputs)) if any(pushed[i] is not None for _, pushed in found)
    ]
    if not reached:
        return [None] * len(node.outputs)
    for function, (outputs, pushed) in zip(functions, found, strict=True):
        with function.open():
            chosen = [_or_zeros(pushed[i], outputs[i]) for i in reached]
        function.give(chosen)
    return _at(reached, branch(index, functions).outputs, len(node.outputs))


def push_through_call(
    node: Node, tangents: Tangents, push: Push, is_needed: Sequence[bool]
) -> Tangents:
    """Return the tangents of the needed results of a call, from a call of one function for all.

    What is costly in a function is a result, too, and may have no tangent: a gradient of the user's
    stands for it.
    """
    has_tangent = [t is not None for t in tangents]

    def derive(xs: Sequence[Tensor], ys: Sequence[Tensor], given: Sequence[Tensor]) -> Tangents:
        known = iter(given)
        seeds = [next(known) if is_given else None for is_given in has_tangent]
        wanted = [y for y, needed in zip(ys, is_needed, strict=True) if needed]
        found = iter(push(wanted, xs, seeds))
        return [next(found) if needed else None for needed in is_needed]

    further = [
        match_shape(t, x.shape)
        for t, x in zip(tangents, callee_of(node).inputs, strict=True)
        if t is not None
    ]
    return call_derived(node, "jvp", (*has_tangent, *is_needed), further, derive)


def push_through_while_loop(node: Node, tangents: Tangents, push: Push) -> Tangents:
    """Return the tangents of the outputs of a while_loop, given those of its inputs."""
    view = LoopView(node)
    body, condition, carried = view.body, view.condition, view.carried
    assert condition is not None, f"{node!r} has no condition"
    initial, invariants = node.inputs[:carried], node.inputs[carried:]
    moving, results = _with_tangents(body, carried, tangents)
    start = [*initial, *(_or_zeros(tangents[i], initial[i]) for i in moving)]
    types = [t.type for t in start]

    def step(*params: Tensor) -> list[Tensor]:
        given = [*_at(moving, params[carried:], carried), *tangents[carried:]]
        outputs, pushed = _push_through_graph(body, [*params[:carried], *invariants], given, push)
        return _arranged(outputs, pushed, results, carried)

    traced = Traced(f"{body.name}_jvp", types)
    traced.run(step)
    test = Traced(condition.name, types)
    test.run(lambda *params: inline(condition, [*params[:carried], *invariants]))
    found = loop(start, test, traced, view.capacity).outputs[1:]
    return [None, *_tangents_among(found, results, carried, len(body.outputs))]


def push_through_scan(node: Node, tangents: Tangents, push: Push) -> Tangents:
    """Return the tangents of the outputs of a scan, given those of its inputs."""
    view = LoopView(node)
    body, carried, scanned, width = view.body, view.carried, view.scanned, view.changing
    count, *operands = node.inputs
    given = tangents[1:]
    moving, results = _with_tangents(body, carried, given)
    start = [*operands[:carried], *(_or_zeros(given[i], operands[i]) for i in moving)]
    sliced = [i for i in range(carried, width) if given[i] is not None]
    stacks = [*operands[carried:width], *(t for t in given[carried:width] if t is not None)]
    types = [*(t.type for t in start), *(t.type.with_shape(t.shape[1:]) for t in stacks)]

    def step(*params: Tensor) -> list[Tensor]:
        variables, slices = params[: len(start)], params[len(start) :]
        known = [*moving, *sliced]
        changes = [*variables[carried:], *slices[scanned:]]
        values = [*variables[:carried], *slices[:scanned], *operands[width:]]
        outputs, pushed = _push_through_graph(
            body, values, [*_at(known, changes, width), *given[width:]], push
        )
        return _arranged(outputs, pushed, results, carried)

    traced = Traced(f"{body.name}_jvp", types)
    traced.run(step)
    found = scan_loop(count, start, stacks, traced, view.capacity, reverse=view.reverse)
    return _tangents_among(found.outputs, results, carried, len(body.outputs))


def _push_through_graph(
    graph: Graph, operands: Sequence[Tensor], tangents: Tangents, push: Push
) -> tuple[list[Tensor], Tangents]:
    """Build `graph` again on `operands`; return its outputs and their tangents."""
    arguments = [inline_argument(t) for t in operands]
    outputs = inline(graph, arguments)
    return outputs, push(outputs, arguments, tangents)


def _with_tangents(body: Graph, carried: int, tangents: Tangents) -> tuple[list[int], list[int]]:
    """Return which loop variables have a tangent in some iteration, and which results have one."""
    moving = {i for i, t in enumerate(tangents) if t is not None}
    while True:
        live = live_tensors(body.nodes, [body.inputs[i] for i in sorted(moving)])
        results = [i for i, t in enumerate(body.outputs) if t in live]
        found = {i for i in results if i < carried}
        if found <= moving:
            variables = [i for i in sorted(moving) if i < carried]
            # One that only starts with a tangent has zeros from the first iteration on.
            return variables, sorted({*results, *variables})
        moving |= found


def _arranged(
    outputs: Sequence[Tensor], pushed: Tangents, results: Sequence[int], carried: int
) -> list[Tensor]:
    """Return the results of a body: loop variables, their tangents, slices, their tangents."""
    changes = {i: _or_zeros(pushed[i], outputs[i]) for i in results}
    return [
        *outputs[:carried],
        *(t for i, t in changes.items() if i < carried),
        *outputs[carried:],
        *(t for i, t in changes.items() if i >= carried),
    ]


def _tangents_among(
    found: Sequence[Tensor], results: Sequence[int], carried: int, width: int
) -> Tangents:
    """Return the tangent of each of `width` results of a body that was arranged so."""
    variables = sum(i < carried for i in results)
    stacks = len(results) - variables
    last = len(found) - stacks
    return _at(results, [*found[carried : carried + variables], *found[last:]], width)


def _at(positions: Sequence[int], values: Sequence[Tensor], width: int) -> Tangents:
    """Return `width` entries, `values` at `positions` and None elsewhere."""
    by_position = dict(zip(positions, values, strict=True))
    return [by_position.get(i) for i in range(width)]


def _or_zeros(tangent: Tensor | None, like: Tensor) -> Tensor:
    return zeros_like(like) if tangent is None else tangent
