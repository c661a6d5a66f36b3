"""Legalisation: replace what a program cannot be made of, wherever it is left.

Before, where `linear_in` stands for its first operand:

    %0 = exp %x : f32[4]
    %1 = linear_in %0, %x : f32[4]
    return %1

After:

    %0 = exp %x : f32[4]
    return %0

So are all ops that stand for operands, and calls that take or give a tape are inlined. Passes that
may be left out do the same on their way: `prune_loops` and `share_calls` what stands for operands,
`inline_calls` calls of tapes. After these, nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.graph.build import are_same, rebuild
from symgrad.graph.compare import graphs_of, has_nested_graphs
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.stand_in import stands_for
from symgrad.graph.types import Attr
from symgrad.passes.calls.callees import graphs_within
from symgrad.passes.calls.inline_calls import inline_calls_of_tapes


def legalise(graph: Graph) -> Graph:
    """Return `graph` without calls of tapes and without nodes that stand for operands."""
    within = [graph]
    if has_nested_graphs(graph):
        graph = inline_calls_of_tapes(graph)
        within = graphs_within(graph)
    is_legal = not any(stands_for(node) for inner in within for node in inner.nodes)
    return graph if is_legal else _Replacing().graph(graph)


class _Replacing:
    """Replaces what stands for operands by these, in a graph and in all that are nested in it."""

    def __init__(self) -> None:
        self._made: dict[Graph, Graph] = {}

    def graph(self, graph: Graph) -> Graph:
        """Return what stands for `graph`."""
        if graph not in self._made:
            mapping: dict[Tensor, Tensor] = {}
            for node in graph.nodes:
                mapping.update(zip(node.outputs, self._again(node, mapping), strict=True))
            is_same = all(old is new for old, new in mapping.items())
            self._made[graph] = graph if is_same else graph.with_roots(mapping)
        return self._made[graph]

    def _again(self, node: Node, mapping: Mapping[Tensor, Tensor]) -> Sequence[Tensor]:
        """Return what stands for the results of a node."""
        operands = stands_for(node)
        if operands is not None:
            return [mapping[t] for t in operands]
        inputs = tuple(mapping[t] for t in node.inputs)
        is_same = all(self._attr(inner) is inner for _, inner in graphs_of(node))
        if is_same and are_same(inputs, node.inputs):
            return node.outputs
        return rebuild(node, inputs, self._attr).outputs

    def _attr(self, attr: Attr) -> Attr:
        if isinstance(attr, tuple):
            return tuple(map(self._attr, attr))
        return self.graph(attr) if isinstance(attr, Graph) else attr
