"""Memoisation of lowering: a key that groups share if only their buffers and sizes differ.

Lowering a group, scheduling it and printing it takes far longer than making its key, and a program
that updates a thousand parameters has a thousand groups and a few keys. Groups whose kernels name a
node of the graph, as those that check an index do, have no key. What a key and the sizes say must
be enough to lower by: where both are equal, kernels are. The reverse is not needed, since the pool
of kernels compares what is lowered.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import checked_axes
from symgrad.graph.types import Attr, TensorType, attr_key
from symgrad.passes.fusion.buffers import Buffer, Buffers
from symgrad.passes.fusion.partition import FusionGroup, Partition
from symgrad.records import dataclass

LEAST_SIZE = 8  # what is smaller is written out or decides how loops are, and is part of the key


@dataclass(frozen=True, slots=True)
class GroupKey:
    """What a group is, and its `sizes` and `buffers` in an order which equal keys share."""

    key: Hashable
    sizes: tuple[int, ...]
    buffers: list[Buffer]

    def order_of(self, arguments: Sequence[Buffer]) -> list[int]:
        """Return which of the buffers a kernel is called with."""
        places = {buffer: place for place, buffer in enumerate(self.buffers)}
        return [places[argument] for argument in arguments]


def group_key(partition: Partition, buffers: Buffers, group: FusionGroup) -> GroupKey | None:
    """Return the memo key of a group."""
    # Such a kernel says whose index is out of range.
    if any([n.definition.can_fail and checked_axes(partition.specs[n]) for n in group.nodes]):
        return None
    return _KeyMaker(partition, buffers, group).key()


class _KeyMaker:
    def __init__(self, partition: Partition, buffers: Buffers, group: FusionGroup) -> None:
        self._partition = partition
        self._buffers = buffers
        self._group = group
        self._position = {node: i for i, node in enumerate(group.nodes)}
        self._numbers: dict[Buffer, int] = {}
        self._sizes: dict[int, str] = {}
        # By identity, which is asked faster: tensors and buffers keep their types.
        self._types: dict[int, Hashable] = {}

    def key(self) -> GroupKey:
        group = self._group
        domain = self._of_shape(group.domain)
        nodes = tuple(map(self._of_node, group.nodes))
        results = tuple(map(self._of_result, group.outputs))
        anchor = None if group.anchor is None else self._position[group.anchor]
        key = nodes, results, anchor, domain
        return GroupKey(key, tuple(self._sizes), list(self._numbers))

    def _of_node(self, node: Node) -> Hashable:
        own, position = node.attrs, self._position
        operands = tuple(
            [
                (position[t.node], t.index) if t.node in position else self._of_memory(t)
                for t in node.inputs
            ]
        )
        names = sorted(own) if len(own) > 1 else own
        attrs = tuple([(name, self._of_attr(own[name])) for name in names]) if own else ()
        return node.definition.name, attrs, operands

    def _of_shape(self, shape: Sequence[Any]) -> Hashable:
        """Return a shape with the names of its sizes, which are given out in order."""
        sizes = self._sizes
        return tuple(
            [n if n < LEAST_SIZE else sizes.setdefault(n, f"n{len(sizes)}") for n in shape]
        )

    def _of_type(self, type_: TensorType) -> Hashable:
        known = self._types.get(id(type_))
        if known is None:
            known = self._types[id(type_)] = type_.dtype, self._of_shape(type_.shape)
        return known

    def _of_attr(self, attr: Attr) -> Hashable:
        """Return the key of an attribute, in which what equals a size is that size."""
        if type(attr) is tuple:
            return tuple([self._of_attr(part) for part in attr])
        if type(attr) is int and attr in self._sizes:
            return self._sizes[attr]
        return attr_key(attr)

    def _of_operand(self, tensor: Tensor) -> Hashable:
        if tensor.node in self._position:
            return self._position[tensor.node], tensor.index
        return self._of_memory(tensor)

    def _of_memory(self, tensor: Tensor) -> Hashable:
        """Return what is read: a buffer, or the number a constant of one element is."""
        stored = self._partition.stored(tensor)
        if stored in self._partition.placed:
            return "placed", self._of_type(tensor.type)
        buffer = self._buffers.read(stored)
        number: Hashable = self._numbers.setdefault(buffer, len(self._numbers))
        if buffer.place == "constant" and buffer.type.count == 1:
            number = self._buffers.constants[buffer.number].array.tobytes()
        read = self._of_type(tensor.type)
        given, kept, held = tensor.type, stored.type, buffer.type
        if (given is kept or given == kept) and (given is held or given == held):
            return number, read
        return number, read, self._of_type(kept), self._of_type(held)

    def _of_result(self, tensor: Tensor) -> Hashable:
        places = self._buffers.written(tensor)
        numbers = tuple(self._numbers.setdefault(b, len(self._numbers)) for b in places)
        place = self._partition.placed.get(tensor)
        if place is None:
            return self._of_operand(tensor), numbers, self._of_type(tensor.type)
        maps, whole = place.spec.operands[place.number], place.node.output.type
        return self._of_operand(tensor), numbers, tensor.type, maps, whole
