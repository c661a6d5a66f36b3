"""Common subexpression elimination (CSE): compute equal things once.

Before:

    %0 = add %x, %y : f32[4]
    %1 = add %y, %x : f32[4]
    %2 = multiply %0, %1 : f32[4]

After:

    %0 = add %x, %y : f32[4]
    %1 = multiply %0, %0 : f32[4]

Nodes are equal if op and attributes are and their operands are the same tensors. Every op is a
function of its operands, so the first of equal nodes can stand for all. Placeholders are not
merged: each is an argument of its own.
"""

from __future__ import annotations

from collections.abc import Hashable

from symgrad.graph.graph import Graph, transform
from symgrad.graph.leaf import placeholder_op
from symgrad.graph.node import Node, Tensor
from symgrad.passes.rewrites.rewrite import Rewrites, with_inputs
from symgrad.passes.rewrites.value_numbering import value_key


def cse(graph: Graph, rewrites: Rewrites) -> Graph:
    """Return `graph` with the first of equal nodes in the place of the others."""
    first: dict[Hashable, Node] = {}

    def merge(node: Node, inputs: tuple[Tensor, ...]) -> Node:
        new = with_inputs(node, inputs)
        if node.definition is placeholder_op:
            return new
        # Of a node that is in the table the operands stay, and no other has their identity.
        key = value_key(node, [*map(id, inputs)])
        found = first.setdefault(key, new)
        return found if found is new or rewrites.allow("cse", node) else new

    return transform(graph, merge)
