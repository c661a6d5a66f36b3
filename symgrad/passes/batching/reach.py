"""Dependence on the case, through nested graphs: which results of a graph have the axis of vmap.

A loop variable that no iteration makes of what depends on the case does not depend on it, although
others of the same loop do. So the counter of a loop in segments, as checkpoints make one, is the
same for all cases, and the outer loop runs as often for each.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LoopView
from symgrad.graph.node import Node
from symgrad.graph.ops.branches import switch_case_op
from symgrad.graph.ops.calls import call_op, callee_of
from symgrad.graph.ops.scan import scan_op
from symgrad.graph.ops.while_loop import while_loop_op


def reached(graph: Graph, flags: Sequence[bool]) -> list[bool]:
    """Return which outputs depend on the inputs that `flags` mark, by any way.

    It is found once for all places that have the graph: there may be very many ways to one.
    """
    key = ("reached", tuple(flags))
    found = graph.derived.get(key)
    if found is None:
        found = graph.derived[key] = _reached(graph, flags)
    assert isinstance(found, tuple), f"{key} of {graph.name} is something else"
    return list(found)


def _reached(graph: Graph, flags: Sequence[bool]) -> tuple[bool, ...]:
    marked = {t for t, flag in zip(graph.inputs, flags, strict=True) if flag}
    for node in graph.nodes:
        given = [t in marked for t in node.inputs]
        if any(given):
            after = zip(node.outputs, _outputs_reached(node, given), strict=True)
            marked.update(t for t, flag in after if flag)
    return tuple(t in marked for t in graph.outputs)


def reached_in_loop(body: Graph, carried: int, flags: Sequence[bool]) -> list[bool]:
    """Return which operands of `body` depend on the case in some iteration."""
    found = list(flags)
    while True:
        after = reached(body, found)[:carried]
        following = [a or b for a, b in zip(found, after, strict=False)] + found[carried:]
        if following == found:
            return found
        found = following


def _outputs_reached(node: Node, flags: Sequence[bool]) -> list[bool]:
    """Return which outputs of a node have the axis, where `flags` say which operands have it.

    All of them where the cases part in which way they take, or how often.
    """
    if node.definition is call_op:
        return reached(callee_of(node), flags)
    if node.definition is switch_case_op and not flags[0]:
        branches = node.attrs["branches"]
        assert isinstance(branches, tuple), f"{node!r} has no branches"
        results = [reached(graph, flags[1:]) for graph in branches if isinstance(graph, Graph)]
        return [any(same) for same in zip(*results, strict=True)]
    if node.definition is while_loop_op:
        view = LoopView(node)
        assert view.condition is not None, f"{node!r} has no condition"
        inside = reached_in_loop(view.body, view.carried, flags)
        if not any(reached(view.condition, inside)):
            return [False, *_of_loop(view, inside)]
    if node.definition is scan_op and not flags[0]:
        view = LoopView(node)
        return _of_loop(view, reached_in_loop(view.body, view.carried, flags[1:]))
    return [True] * len(node.outputs)


def _of_loop(view: LoopView, inside: Sequence[bool]) -> list[bool]:
    """Return which loop variables and stacks have the axis."""
    return [*inside[: view.carried], *reached(view.body, inside)[view.carried :]]
