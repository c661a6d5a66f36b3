"""Rematerialisation as an s-t minimum cut: what to compute, and what to keep and read instead.

A value is there if it was kept, at the price of memory, or if the node that gives it is computed,
at the price of its arithmetic. The network has an edge with that price for each of the two choices,
and the cheapest set of choices is its minimum cut, found by Dinic's algorithm of blocking flows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from symgrad.graph.node import Node, Tensor
from symgrad.records import dataclass

NEVER = 1 << 60  # a price that no sum of others reaches


def cheapest_cut(
    nodes: Sequence[Node],
    needed: Collection[Tensor],
    *,
    compute: Callable[[Node], int],
    keep: Callable[[Tensor], int],
    read: Callable[[Tensor], int],
) -> dict[Tensor, None]:
    """Return the minimum s-t cut: the results of `nodes` to keep, so that `needed` costs least.

    `compute` prices a node, `keep` one of its results, and `read` an operand that none of `nodes`
    gives. A price of `NEVER` rules a choice out. What nothing is to be paid for but reading, such
    as a view, is not kept: only a part of what it is of may be read.
    """
    network = _Network()
    own = set(nodes)
    costly: set[Node] = set()
    outside: set[Tensor] = set()
    for node in nodes:
        price = compute(node)
        if price or any(t.node in costly for t in node.inputs):
            costly.add(node)
        network.connect(node, _SINK, price)
        for tensor in node.outputs:
            network.connect(tensor, node, keep(tensor) if node in costly else NEVER)
        for operand in node.inputs:
            network.connect(node, operand, NEVER)
            if operand.node not in own and operand not in outside:
                outside.add(operand)
                network.connect(operand, _SINK, read(operand))
    for tensor in needed:
        network.connect(_SOURCE, tensor, NEVER)
    # From what is needed down to what is read: a result, its node, the operands of that.
    line: list[object] = [v for n in reversed(nodes) for v in (*n.outputs, n)]
    line = [_SOURCE, *line, *outside, _SINK]
    there = network.source_side({v: i for i, v in enumerate(line)})
    return dict.fromkeys(t for n in nodes for t in n.outputs if t in there and n not in there)


_SOURCE, _SINK = "source", "sink"


class _Network:
    """Capacities between vertices, and what is left of them."""

    def __init__(self) -> None:
        self._left: dict[Hashable, dict[Hashable, int]] = {_SOURCE: {}, _SINK: {}}

    def connect(self, start: Hashable, end: Hashable, capacity: int) -> None:
        forward, backward = (self._left.setdefault(v, {}) for v in (start, end))
        forward[end] = min(NEVER, forward.get(end, 0) + capacity)
        backward.setdefault(start, 0)

    def source_side(self, order: Mapping[Hashable, int]) -> set[Hashable]:
        """Return the vertices before a minimum cut: what the source still reaches at the end.

        Each edge goes up in `order`. So the first round may use them all, and finds almost all of
        the flow; were it held to shortest paths, a long chain would take a round for each node.
        """
        levels = order
        while _SINK in levels:
            self._block(levels)
            levels = self._levels()
        return set(levels)

    def _levels(self) -> dict[Hashable, int]:
        """Return the distance from the source of all that it reaches."""
        levels: dict[Hashable, int] = {_SOURCE: 0}
        pending: deque[Hashable] = deque([_SOURCE])
        while pending:
            vertex = pending.popleft()
            for following, left in self._left[vertex].items():
                if left and following not in levels:
                    levels[following] = levels[vertex] + 1
                    pending.append(following)
        return levels

    def _block(self, levels: Mapping[Hashable, int]) -> None:
        """Send on paths that go up in `levels` until each has an edge with nothing left."""
        exhausted: set[Hashable] = set()
        visits = [_Visit(_SOURCE, NEVER)]
        while visits:
            visit = visits[-1]
            vertex, left = visit.vertex, self._left[visit.vertex]
            step = None
            if vertex is _SINK:  # a tensor would make a graph of ==
                visit.sent = visit.limit
            elif visit.sent < visit.limit:
                ways = (v for v in left if left[v] and levels.get(v, -1) > levels[vertex])
                step = next((v for v in ways if v not in exhausted), None)
            if step is not None:
                visits.append(_Visit(step, min(visit.limit - visit.sent, left[step])))
                continue
            visits.pop()
            if visit.sent < visit.limit:
                exhausted.add(vertex)
            if visits:
                before = visits[-1]
                before.sent += visit.sent
                self._left[before.vertex][vertex] -= visit.sent
                left[before.vertex] += visit.sent


@dataclass(slots=True)
class _Visit:
    """A vertex on the way: how much may come through, and how much has been sent on from it."""

    vertex: Hashable
    limit: int
    sent: int = 0
