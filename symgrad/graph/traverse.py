"""Topological order: graphs are walked without recursion, so that chains may be of any length."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from types import MappingProxyType

from symgrad.graph.node import Node, Tensor

NOTHING_OUTSIDE: Mapping[Tensor, Tensor] = MappingProxyType({})


def operands_of(node: Node, outer: Mapping[Tensor, Tensor]) -> Sequence[Tensor]:
    """Return the inputs of `node`: for what stands for a tensor of `outer`, that tensor."""
    if outer and not node.inputs and node.outputs[0] in outer:
        return (outer[node.outputs[0]],)
    return node.inputs


def topological(
    tensors: Iterable[Tensor],
    stop: Collection[Tensor] = (),
    outer: Mapping[Tensor, Tensor] = NOTHING_OUTSIDE,
) -> list[Node]:
    """Return the nodes that `tensors` depend on, every node after those of its inputs.

    The order is that of a depth-first walk which takes operands from the left, so it is fixed by
    the graph alone. The walk does not pass through the tensors in `stop`; their nodes are left
    out unless something else reaches them. It goes on from a tensor in `outer` to the one it
    stands for.
    """
    stopped = {id(t) for t in stop}
    order: list[Node] = []
    entered: set[Node] = set()
    for root in tensors:
        if id(root) not in stopped and root.node not in entered:
            _visit(root.node, order, entered, stopped, outer)
    return order


def _visit(
    root: Node,
    order: list[Node],
    entered: set[Node],
    stopped: Set[int],
    outer: Mapping[Tensor, Tensor],
) -> None:
    """Add `root` to `order`, behind what it depends on."""
    pending = [(root, iter(operands_of(root, outer)))]
    entered.add(root)
    while pending:
        node, operands = pending[-1]
        for operand in operands:
            below = operand.node
            if below in entered or id(operand) in stopped:
                continue
            entered.add(below)
            if not (below.inputs or outer):
                order.append(below)  # a leaf
                continue
            pending.append((below, iter(operands_of(below, outer))))
            break
        else:
            pending.pop()
            order.append(node)
