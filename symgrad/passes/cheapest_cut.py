"""The cheapest way to have some values: which to compute, and which to keep and read instead.

A value is there if it was kept, at a price, or if the node that gives it is computed, at another
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import pairwise

from symgrad.graph.node import Node, Tensor

NEVER = 1 << 60  # a price that no sum of others reaches


def cheapest_cut(
    nodes: Sequence[Node],
    needed: Collection[Tensor],
    *,
    compute: Callable[[Node], int],
    keep: Callable[[Tensor], int],
    read: Callable[[Tensor], int],
) -> dict[Tensor, None]:
    """Return which results of `nodes` to keep, so that all of `needed` are there at least cost.

    `compute` prices a node, `keep` one of its results, and `read` an operand that none of `nodes`
    gives. A price of `NEVER` rules a choice out.
    """
    network = _Network()
    own = set(nodes)
    outside: set[Tensor] = set()
    for node in nodes:
        network.connect(node, _SINK, compute(node))
        for tensor in node.outputs:
            network.connect(tensor, node, keep(tensor))
        for operand in node.inputs:
            network.connect(node, operand, NEVER)
            if operand.node not in own and operand not in outside:
                outside.add(operand)
                network.connect(operand, _SINK, read(operand))
    for tensor in needed:
        network.connect(_SOURCE, tensor, NEVER)
    there = network.source_side()
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

    def source_side(self) -> set[Hashable]:
        """Return the vertices before a minimum cut: what the source still reaches at the end."""
        while _SINK in (levels := self._levels()):
            self._block(levels)
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

    def _block(self, levels: dict[Hashable, int]) -> None:
        """Fill all shortest paths from source to sink: no vertex is tried again where it failed."""
        ahead = {v: iter(list(self._left[v])) for v in levels}
        path: list[Hashable] = [_SOURCE]
        while path:
            vertex = path[-1]
            if vertex is _SINK:  # a tensor would make a graph of ==
                del path[self._fill(path) :]
                continue
            deeper, left = levels[vertex] + 1, self._left[vertex]
            step = next((v for v in ahead[vertex] if left[v] and levels.get(v) == deeper), None)
            if step is None:
                path.pop()
            else:
                path.append(step)

    def _fill(self, path: Sequence[Hashable]) -> int:
        """Send as much as the path bears; return the length of it that is still open."""
        edges = list(pairwise(path))
        least = min(self._left[start][end] for start, end in edges)
        for start, end in edges:
            self._left[start][end] -= least
            self._left[end][start] += least
        return 1 + next(i for i, (start, end) in enumerate(edges) if not self._left[start][end])
