"""Dead code elimination (DCE): leave out updates that change nothing.

Before:

    update %w = %w
    return %y

After:

    return %y

A graph holds only what its outputs and updates depend on, so whatever only such an update needed
goes with it. An output is never left out, though another one is equal: it is part of what a
program promises.
"""

from __future__ import annotations

from symgrad.graph.graph import Graph, Update
from symgrad.passes.rewrites.rewrite import Rewrites


def dce(graph: Graph, rewrites: Rewrites) -> Graph:
    """Return `graph` without updates that write back the old value."""
    kept = [u for u in graph.updates if not (_is_idle(u) and _may_drop(u, rewrites))]
    if len(kept) == len(graph.updates):
        return graph
    return Graph(graph.outputs, graph.inputs, kept, name=graph.name)


def _is_idle(update: Update) -> bool:
    return update.value.node.attrs.get("state") is update.variable.state


def _may_drop(update: Update, rewrites: Rewrites) -> bool:
    return rewrites.allow("dce", update.value.node)
