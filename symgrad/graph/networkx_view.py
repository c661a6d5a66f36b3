"""A graph as a networkx graph: to look at, and to ask general questions of.

It is a view made anew each time and never how programs are stored; passes have their own analyses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.graph.compare import graphs_of, statements
from symgrad.graph.graph import Graph

if TYPE_CHECKING:
    import networkx


def to_networkx(graph: Graph) -> networkx.DiGraph:
    """Return the nodes of `graph`, each with `op`, `name` and the `types` of its results.

    An edge goes from a node to one that uses it; its `operands` are the positions at which it
    does: `x * x` has one edge, with (0, 1). The vertices are the nodes themselves. One with nested
    graphs has views of them as `graphs`, by their labels; all calls of a function have one.
    """
    return _view(graph, {})


def _view(graph: Graph, views: dict[Graph, networkx.DiGraph]) -> networkx.DiGraph:
    import networkx  # slow to import, and only who asks for a view waits for it

    if graph in views:
        return views[graph]
    view = networkx.DiGraph(name=graph.name)
    for node in statements(graph):
        types = tuple(t.type for t in node.outputs)
        view.add_node(node, op=node.op, name=node.name, types=types)
        nested = {label: _view(inner, views) for label, inner in graphs_of(node)}
        if nested:
            view.nodes[node]["graphs"] = nested
        for position, operand in enumerate(node.inputs):
            known = view.get_edge_data(operand.node, node, {"operands": ()})
            view.add_edge(operand.node, node, operands=(*known["operands"], position))
    views[graph] = view
    return view
