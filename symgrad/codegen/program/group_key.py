"""Memoisation of lowering: a key that groups share if only their buffers differ.

Lowering a group, scheduling it and printing it takes far longer than making its key, and a program
that updates a thousand parameters has a thousand groups and a few keys. Groups whose kernels name a
node of the graph, as those that check an index do, have no key. What a key says must be enough to
lower by: equal keys mean equal kernels. The reverse is not needed, since the pool of kernels
compares what is lowered.
"""

from __future__ import annotations

from collections.abc import Hashable

from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import checked_axes
from symgrad.graph.types import attr_key
from symgrad.passes.fusion.buffers import Buffer, Buffers
from symgrad.passes.fusion.partition import FusionGroup, Partition


def group_key(
    partition: Partition, buffers: Buffers, group: FusionGroup
) -> tuple[Hashable, list[Buffer]] | None:
    """Return the memo key of a group, and its buffers in an order which equal keys share."""
    # Such a kernel says whose index is out of range.
    if any([checked_axes(partition.specs[n]) for n in group.nodes]):
        return None
    return _KeyMaker(partition, buffers, group).key()


class _KeyMaker:
    def __init__(self, partition: Partition, buffers: Buffers, group: FusionGroup) -> None:
        self._partition = partition
        self._buffers = buffers
        self._group = group
        self._position = {node: i for i, node in enumerate(group.nodes)}
        self._numbers: dict[Buffer, int] = {}

    def key(self) -> tuple[Hashable, list[Buffer]]:
        group = self._group
        nodes = tuple(map(self._of_node, group.nodes))
        results = tuple(map(self._of_result, group.outputs))
        anchor = None if group.anchor is None else self._position[group.anchor]
        return (nodes, results, anchor, group.domain), list(self._numbers)

    def _of_node(self, node: Node) -> Hashable:
        own = node.attrs
        attrs = tuple([(name, attr_key(own[name])) for name in sorted(own)]) if own else ()
        return node.op, attrs, tuple(map(self._of_operand, node.inputs))

    def _of_operand(self, tensor: Tensor) -> Hashable:
        if tensor.node in self._position:
            return self._position[tensor.node], tensor.index
        return self._of_memory(tensor)

    def _of_memory(self, tensor: Tensor) -> Hashable:
        """Return what is read: a buffer, or the number a constant of one element is."""
        stored = self._partition.stored(tensor)
        if stored in self._partition.placed:
            return "placed", tensor.type
        buffer = self._buffers.read(stored)
        number: Hashable = self._numbers.setdefault(buffer, len(self._numbers))
        if buffer.place == "constant" and buffer.type.count == 1:
            number = self._buffers.constants[buffer.number].array.tobytes()
        return number, tensor.type, stored.type, buffer.type

    def _of_result(self, tensor: Tensor) -> Hashable:
        places = self._buffers.written(tensor)
        numbers = tuple(self._numbers.setdefault(b, len(self._numbers)) for b in places)
        place = self._partition.placed.get(tensor)
        if place is None:
            return self._of_operand(tensor), numbers, tensor.type
        maps, whole = place.spec.operands[place.number], place.node.output.type
        return self._of_operand(tensor), numbers, tensor.type, maps, whole
