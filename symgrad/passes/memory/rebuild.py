"""From turns back to a graph: what has several turns is computed by as many nodes."""

from __future__ import annotations

from collections.abc import Hashable

from symgrad.graph.build import are_same, inside, rebuild
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.passes.fusion.timetable import Timetable
from symgrad.passes.memory.turns import Course, Turn, Version


def rebuilt(course: Course) -> tuple[Graph, Timetable]:
    """Return the graph of which a partition has the turns of `course`, and when they are."""
    building = _Building(course)
    with inside(course.partition.graph.region):
        for place, turn in enumerate(course.turns):
            building.add(turn, place)
        graph = building.graph()
    return graph, Timetable(building.places, building.not_before)


class _Building:
    """Builds nodes turn by turn. Nodes stay as they are where their operands do."""

    def __init__(self, course: Course) -> None:
        self._partition = course.partition
        self._made: dict[Version, Tensor] = {}
        self._nodes: dict[Hashable, Node] = {}
        self._last: dict[Tensor, Version] = {}
        self._first = -1  # the place of the last turn that is no repetition
        self.places: dict[Node, int] = {}
        self.not_before: dict[Node, int] = {}

    def add(self, turn: Turn, place: int) -> None:
        """Build the nodes of a turn."""
        if turn.again is None:
            self._first = place
        inner: dict[Tensor, Tensor] = {}
        for node in turn.nodes:
            operands = tuple(
                [inner[t] if t in inner else self._outer(turn, t) for t in node.inputs]
            )
            new = self._node(node, operands, turn)
            inner.update(zip(node.outputs, new.outputs, strict=True))
            self.places.setdefault(new, place)
            if turn.again is not None:
                self.not_before.setdefault(new, self._first)
        for tensor, version in turn.writes.items():
            self._made[version] = inner.get(tensor, tensor)
            if turn.again is None:
                self._last[tensor] = version

    def _outer(self, turn: Turn, tensor: Tensor) -> Tensor:
        """Return what `tensor`, which is in memory or another shape of that, is in a turn."""
        stored = self._partition.stored(tensor)
        version = turn.reads.get(stored)
        assert version is not None, f"a turn does not say where it reads {tensor!r}"
        made = stored if version.writer is None else self._made[version]
        return self._in_shape(tensor, made)

    def _in_shape(self, tensor: Tensor, made: Tensor) -> Tensor:
        """Return `tensor`, where `made` is what holds its elements."""
        shapes = []
        while tensor in self._partition.storage:
            shapes.append(tensor.node)
            tensor = self._partition.storage[tensor]
        for node in reversed(shapes):
            made = self._node(node, (made,), None).output
        return made

    def _node(self, node: Node, operands: tuple[Tensor, ...], turn: Turn | None) -> Node:
        again = None if turn is None or turn.again is None else turn
        if again is None and are_same(operands, node.inputs):
            return node
        key = node, operands, again
        if key not in self._nodes:
            self._nodes[key] = rebuild(node, operands)
        return self._nodes[key]

    def graph(self) -> Graph:
        """Return the graph with its results as the turns leave them."""
        graph = self._partition.graph
        mapping = {}
        for root in graph.roots:
            stored = self._partition.stored(root)
            version = self._last.get(stored)
            if version is not None:
                mapping[root] = self._in_shape(root, self._made[version])
        return graph.with_roots(mapping)
