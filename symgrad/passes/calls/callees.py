"""Call graph: which functions a program calls, at any depth, and which of them are equal.

A function that is traced anew, as within a branch or a body, gives an equal graph and not the
same one. Nothing is changed here; see `calls/inline_calls.py` and `calls/share_calls.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from symgrad.graph.compare import graphs_of, nesting_nodes, structurally_equal
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node
from symgrad.graph.ops.calls import call_op
from symgrad.graph.ops.stand_in import stands_for


def graphs_within(graph: Graph) -> list[Graph]:
    """Return `graph` and the graphs nested in it at any depth, each once."""
    found = {graph: None}
    pending = [graph]
    while pending:
        new = dict.fromkeys(g for g in _nested_in(pending.pop()) if g not in found)
        found |= new
        pending += new
    return list(found)


def _nested_in(graph: Graph) -> list[Graph]:
    """Return the graphs of the nodes of `graph`, which may repeat, without those nested in them."""
    # What stands for its operands has its graph for the gradient only.
    nodes = (node for node in nesting_nodes(graph) if stands_for(node) is None)
    return [inner for node in nodes for _, inner in graphs_of(node)]


def calls_in(graph: Graph) -> Iterator[Node]:
    """Yield the call sites in `graph`, without those in graphs nested in it."""
    return (node for node in graph.nodes if node.definition is call_op)


class Callees:
    """Hash-consing of functions: finds for each one the first that is equal to it."""

    def __init__(self) -> None:
        self._known: dict[Graph, Graph] = {}
        self._by_key: dict[Hashable, list[Graph]] = {}
        self._lines: dict[Graph, int] = {}
        self._numbers: dict[Hashable, int] = {}

    def first_of(self, graph: Graph) -> Graph:
        """Return the first graph this was asked for that is equal to `graph`."""
        if graph not in self._known:
            alike = self._by_key.setdefault(self._key(graph), [])
            same = next((g for g in alike if structurally_equal(g, graph)), None)
            if same is None:
                alike.append(graph)
            self._known[graph] = same or graph
        return self._known[graph]

    def _key(self, graph: Graph) -> Hashable:
        """Return what equal functions share: types with the names of unknown sizes, and ops.

        And the lines of what can fail, since an error names them.
        """
        types = tuple(t.type for t in (*graph.inputs, *graph.outputs))
        return types, tuple(node.op for node in graph.nodes), self._lines_of(graph)

    def _lines_of(self, graph: Graph) -> int:
        """Return a number for the lines of what can fail in `graph` and in graphs nested in it."""
        if graph not in self._lines:
            lines = tuple(str(n.source) for n in graph.nodes if n.definition.can_fail)
            within = tuple(self._lines_of(inner) for inner in _nested_in(graph))
            number = self._numbers.setdefault((lines, within), len(self._numbers))
            self._lines[graph] = number
        return self._lines[graph]
