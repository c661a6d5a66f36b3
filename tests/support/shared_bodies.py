"""Graphs read from text in which what is written equal in the bodies of loops is the same.

A loop that records is built of the nodes of the one it is a copy of, and passes that run on a graph
as it was built compare bodies by identity. Text cannot say that two nodes are one.
"""

from __future__ import annotations

from collections.abc import Hashable

from symgrad.graph.build import rebuild
from symgrad.graph.graph import Graph, transform
from symgrad.graph.loop_view import LOOPS
from symgrad.graph.node import Node, Tensor
from symgrad.graph.types import Attr, attr_key


def with_shared_bodies(graph: Graph) -> Graph:
    """Return `graph` with the bodies and conditions of its loops made of the same nodes."""
    sharing = _Sharing()

    def shared(node: Node, inputs: tuple[Tensor, ...]) -> Node | None:
        return rebuild(node, inputs, sharing.attr) if node.definition in LOOPS else None

    return transform(graph, shared)


class _Sharing:
    def __init__(self) -> None:
        self._nodes: dict[Hashable, Node] = {}
        self._graphs: dict[Hashable, Graph] = {}

    def attr(self, attr: Attr) -> Attr:
        """Return a nested graph made of nodes met before; as it is if some of them are new."""
        if not isinstance(attr, Graph):
            return attr
        places = {tensor: (attr.name, i, len(attr.inputs)) for i, tensor in enumerate(attr.inputs)}
        mapping: dict[Tensor, Tensor] = {}
        for node in attr.nodes:
            attrs = tuple((name, attr_key(node.attrs[name])) for name in sorted(node.attrs))
            operands = tuple(id(mapping[t]) for t in node.inputs)
            key: Hashable = attr.name, node.op, attrs, operands, places.get(node.outputs[0])
            mapping.update(
                zip(node.outputs, self._nodes.setdefault(key, node).outputs, strict=True)
            )
        made = attr if any(old is new for old, new in mapping.items()) else _made_of(attr, mapping)
        key = attr.name, tuple(map(id, made.outputs)), tuple(map(id, made.inputs))
        return self._graphs.setdefault(key, made)


def _made_of(graph: Graph, mapping: dict[Tensor, Tensor]) -> Graph:
    outputs, inputs = ([mapping[t] for t in tensors] for tensors in (graph.outputs, graph.inputs))
    return Graph(outputs, inputs, name=graph.name, region=outputs[0].node.region)
