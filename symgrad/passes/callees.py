"""Which functions a program calls, at any depth, and which of them are one.

A function that is traced anew, as within a branch or a body, gives an equal graph and not the
same one. Nothing is changed here; see `inline_calls.py` and `share_calls.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from symgrad.graph.compare import graphs_of, structurally_equal
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node
from symgrad.graph.ops.calls import call_op
from symgrad.graph.ops.gathering import gather_op, scatter_add_op, scatter_set_op
from symgrad.graph.ops.stand_in import stands_for

_CAN_FAIL = (gather_op, scatter_add_op, scatter_set_op)


def graphs_within(graph: Graph) -> list[Graph]:
    """Return `graph` and the graphs nested in it at any depth, each once."""
    found = {graph: None}
    pending = [graph]
    while pending:
        for node in pending.pop().nodes:
            # What stands for its operands has its graph for the gradient only.
            nested = graphs_of(node) if stands_for(node) is None else ()
            new = [inner for _, inner in nested if inner not in found]
            found.update(dict.fromkeys(new))
            pending += new
    return list(found)


def calls_in(graph: Graph) -> Iterator[Node]:
    """Yield the calls of functions in `graph`, without those in graphs nested in it."""
    return (node for node in graph.nodes if node.definition is call_op)


class Callees:
    """Finds for each function the first one that is equal to it."""

    def __init__(self) -> None:
        self._known: dict[Graph, Graph] = {}
        self._by_key: dict[Hashable, list[Graph]] = {}

    def first_of(self, graph: Graph) -> Graph:
        """Return the first graph this was asked for that is equal to `graph`."""
        if graph not in self._known:
            alike = self._by_key.setdefault(_key(graph), [])
            same = next((g for g in alike if structurally_equal(g, graph)), None)
            if same is None:
                alike.append(graph)
            self._known[graph] = same or graph
        return self._known[graph]


def _key(graph: Graph) -> Hashable:
    """Return what equal functions share: types with the names of unknown sizes, and ops.

    And the lines of what can fail, since an error names them.
    """
    lines = tuple(
        str(node.source)
        for inner in graphs_within(graph)
        for node in inner.nodes
        if node.definition in _CAN_FAIL
    )
    types = tuple(t.type for t in (*graph.inputs, *graph.outputs))
    return types, tuple(node.op for node in graph.nodes), lines
