"""From turns back to a partition: what has several turns is a group of other nodes in each.

Groups are the same kernels as before, so results have the same bits; only what is no longer read of
the result of a product, or of what is element by element, is left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from symgrad.graph.build import are_same, inside, rebuild
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import KernelSpec
from symgrad.passes.fusion.partition import FusionGroup, Partition
from symgrad.passes.memory.turns import Course, Turn, Version, cone
from symgrad.records import dataclass, replace

AGAIN = "it is computed again, so that it takes no memory in between"


def rebuilt(course: Course) -> Partition:
    """Return the partition with a group for each turn of `course`."""
    building = _Building(course)
    with inside(course.partition.graph.region):
        for turn, needed in _live_turns(course):
            building.add(turn, needed)
        return building.partition()


@dataclass(frozen=True, slots=True, eq=False)
class _Needed:
    """What is computed in a turn, and what it leaves in memory."""

    nodes: Sequence[Node]
    outputs: Sequence[Tensor]


def _live_turns(course: Course) -> list[tuple[Turn, _Needed]]:
    """Return the turns that are needed, with what they compute and leave in memory."""
    partition = course.partition
    pinned = {partition.stored(t) for t in partition.graph.roots}
    pinned |= {*partition.placed, *partition.rewriting, *partition.rewriting.values()}
    read: set[Version] = set()
    found = []
    for turn in reversed(course.turns):
        last = [t.node for t, v in turn.writes.items() if v in read or t in pinned]
        if not last:
            continue
        nodes = cone(turn.nodes, last)
        outputs = [t for t in turn.writes if t.node in last]
        found.append((turn, _Needed(nodes, outputs)))
        inner = set(nodes)
        outer = {partition.stored(t) for n in nodes for t in n.inputs if t.node not in inner}
        read |= {version for t, version in turn.reads.items() if t in outer}
    return found[::-1]


class _Building:
    """Builds groups turn by turn. Nodes stay as they are where their operands do."""

    def __init__(self, course: Course) -> None:
        self._old = course.partition
        self._made: dict[Version, Tensor] = {}
        self._nodes: dict[Hashable, Node] = {}
        self._first: dict[Tensor, Tensor] = {}  # what the first turn leaves of each
        self._specs: dict[Node, KernelSpec | None] = dict(self._old.specs)
        # As before, also of what is computed again, which cannot fail: for each target the same.
        self._status: dict[Node, int] = dict(self._old.status)
        self._storage: dict[Tensor, Tensor] = {}
        self._reasons: dict[Tensor, str] = {}
        self._anchors: dict[Node, Node] = {}
        self._groups: list[FusionGroup] = []

    def add(self, turn: Turn, needed: _Needed) -> None:
        """Build the group of a turn."""
        inner: dict[Tensor, Tensor] = {}
        again = None if turn.again is None else turn
        nodes: list[Node] = []
        inputs: dict[Tensor, None] = {}
        for node in needed.nodes:
            outer = [t for t in node.inputs if t not in inner]
            inputs.update((self._read(turn, t), None) for t in outer)
            operands = tuple(
                [inner[t] if t in inner else self._outer(turn, t) for t in node.inputs]
            )
            nodes.append(self._node(node, operands, again))
            inner.update(zip(node.outputs, nodes[-1].outputs, strict=True))
        for tensor in needed.outputs:
            made = self._made[turn.writes[tensor]] = inner.get(tensor, tensor)
            if again is None:
                self._first[tensor] = made
            reason = self._old.reasons.get(tensor) if again is None else AGAIN
            if reason is not None:
                self._reasons[made] = reason
        anchor = turn.group.anchor
        if anchor is not None:
            self._anchors.setdefault(anchor, inner[anchor.outputs[0]].node)
        group = FusionGroup(
            tuple(nodes),
            None if anchor is None else inner[anchor.outputs[0]].node,
            tuple(inner.get(t, t) for t in needed.outputs),
            tuple(inputs) if nodes else turn.group.inputs,
            turn.group.domain,
        )
        self._groups.append(group)

    def _read(self, turn: Turn, tensor: Tensor) -> Tensor:
        """Return what holds `tensor`, which a turn reads from memory."""
        version = turn.reads[self._old.stored(tensor)]
        return version.tensor if version.writer is None else self._made[version]

    def _outer(self, turn: Turn, tensor: Tensor) -> Tensor:
        """Return what `tensor`, which is in memory or another shape of that, is in a turn."""
        return self._in_shape(tensor, self._read(turn, tensor))

    def _in_shape(self, tensor: Tensor, made: Tensor) -> Tensor:
        """Return `tensor`, where `made` is what holds its elements."""
        shapes = []
        while tensor in self._old.storage:
            shapes.append(tensor.node)
            tensor = self._old.storage[tensor]
        for node in reversed(shapes):
            made = self._node(node, (made,), None).output
        return made

    def _node(self, node: Node, operands: tuple[Tensor, ...], again: Turn | None) -> Node:
        key = node, operands, again
        if key not in self._nodes:
            is_same = again is None and are_same(operands, node.inputs)
            self._nodes[key] = node if is_same else rebuild(node, operands)
        new = self._nodes[key]
        self._specs[new] = self._old.specs[node]
        self._status[new] = self._old.status[node]
        if node.outputs[0] in self._old.storage:
            self._storage[new.output] = operands[0]
        return new

    def partition(self) -> Partition:
        """Return the partition with its results as the turns leave them."""
        old = self._old
        mapping = {t: self._in_shape(t, self._of(old.stored(t))) for t in old.graph.roots}
        graph = old.graph.with_roots(mapping)
        place = {node: i for i, node in enumerate(graph.nodes)}
        groups = [
            replace(g, nodes=tuple(sorted(g.nodes, key=place.__getitem__))) for g in self._groups
        ]
        in_place = {update.variable.state for update in old.in_place}
        return Partition(
            graph,
            self._specs,
            tuple(groups),
            self._storage,
            frozenset(u for u in graph.updates if u.variable.state in in_place),
            old.overwriting,
            {self._of(value): self._of(base) for value, base in old.rewriting.items()},
            {
                self._of(t): replace(placed, node=self._anchors[placed.node])
                for t, placed in old.placed.items()
            },
            self._reasons,
            self._status,
        )

    def _of(self, tensor: Tensor) -> Tensor:
        return self._first.get(tensor, tensor)
