"""Walking graphs without recursion: a chain of any length is a graph like any other."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from symgrad.graph.node import Node, Tensor


def topological(tensors: Iterable[Tensor], stop: Collection[Tensor] = ()) -> list[Node]:
    """Return the nodes that `tensors` depend on, every node after those of its inputs.

    The order is that of a depth-first walk which takes operands from the left, so it is fixed by
    the graph alone. The walk does not pass through the tensors in `stop`; their nodes are left
    out unless something else reaches them.
    """
    stopped = {id(t) for t in stop}
    order: list[Node] = []
    done: set[Node] = set()
    for root in tensors:
        if id(root) in stopped or root.node in done:
            continue
        pending = [(root.node, iter(root.node.inputs))]
        entered = {root.node}
        while pending:
            node, operands = pending[-1]
            for operand in operands:
                below = operand.node
                if id(operand) not in stopped and below not in done and below not in entered:
                    pending.append((below, iter(below.inputs)))
                    entered.add(below)
                    break
            else:
                pending.pop()
                done.add(node)
                order.append(node)
    return order


def users(nodes: Iterable[Node]) -> dict[Tensor, list[Node]]:
    """Return for every tensor the nodes among `nodes` that use it, once for each use."""
    found: dict[Tensor, list[Node]] = {}
    for node in nodes:
        for operand in node.inputs:
            found.setdefault(operand, []).append(node)
    return found
