"""Buffer assignment: in which buffer every tensor that is in memory lives.

A result of the program is written straight into the caller's array, and a new value that may be
written in place straight into the variable; everything else is a temporary. Where the temporaries
lie is for `plan_memory.py` to say, when kernels have told how much scratch memory they take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from symgrad.graph.graph import Update
from symgrad.graph.leaf import constant_op
from symgrad.graph.node import Tensor
from symgrad.graph.types import ArrayLiteral, State, TensorType
from symgrad.passes.fusion.order_groups import state_of
from symgrad.passes.fusion.partition import Partition
from symgrad.records import dataclass

BufferPlace = Literal["input", "output", "variable", "constant", "temporary", "tape"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of memory: the `number`-th of its kind."""

    place: BufferPlace
    number: int
    type: TensorType

    def __hash__(self) -> int:
        # Sets of buffers are what passes over programs ask most; few places have the same number.
        return self.number

    def __str__(self) -> str:
        return f"{self.place}{self.number}"


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """Where tensors are read and written.

    `source` is the buffer a tensor in memory is read from, `destinations` all those a result of a
    group is written to; `late` are copies (from, to) made after everything else.
    """

    source: Mapping[Tensor, Buffer]
    destinations: Mapping[Tensor, tuple[Buffer, ...]]
    late: tuple[tuple[Buffer, Buffer], ...]
    constants: tuple[ArrayLiteral, ...]
    variables: tuple[State, ...]
    temporaries: int

    def read(self, tensor: Tensor) -> Buffer:
        """Return the buffer from which `tensor`, which is in memory, is read."""
        assert tensor in self.source, (
            f"{tensor!r} is read from memory and no kernel leaves it there"
        )
        return self.source[tensor]

    def written(self, tensor: Tensor) -> tuple[Buffer, ...]:
        """Return the buffers to which `tensor`, a result of a group, is written."""
        assert tensor in self.destinations, f"{tensor!r} is written to memory and is no result"
        return self.destinations[tensor]


def assign_buffers(partition: Partition) -> Buffers:
    """Give every tensor that is in memory its buffer."""
    return _Assignment(partition).finished()


class _Assignment:
    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._last = partition.last_values()
        self._source: dict[Tensor, Buffer] = {}
        self._destinations: dict[Tensor, tuple[Buffer, ...]] = {}
        self._constants: dict[ArrayLiteral, Buffer] = {}
        self._variables: dict[State, Buffer] = {}
        self._temporaries = 0
        self._outputs: dict[Tensor, list[Buffer]] = {}
        self._updates: dict[Tensor, list[Update]] = {}
        for update in partition.graph.updates:
            self._updates.setdefault(partition.stored(update.value), []).append(update)
        for number, tensor in enumerate(partition.graph.outputs):
            over = partition.overwriting.get(number)
            # One buffer under one name: a kernel must know that what it reads is what it writes.
            buffer = Buffer("output", number, tensor.type)
            if over is not None:
                buffer = Buffer("input", over, partition.graph.inputs[over].type)
            self._outputs.setdefault(partition.stored(tensor), []).append(buffer)
        for variable in partition.graph.variables:
            self._variable(variable.state)
        self._place_leaves()
        for group in partition.groups:
            for tensor in group.outputs:
                if tensor in self._destinations or tensor in partition.placed:
                    continue
                is_leaf = partition.specs[tensor.node] is None
                self._place_result(tensor, is_leaf=is_leaf)
        for tensor, place in partition.placed.items():
            self._destinations[tensor] = self._destinations[place.node.output]

    def _variable(self, state: State) -> Buffer:
        if state not in self._variables:
            self._variables[state] = Buffer("variable", len(self._variables), state.type)
        return self._variables[state]

    def _place_leaves(self) -> None:
        for number, tensor in enumerate(self._partition.graph.inputs):
            self._source[tensor] = Buffer("input", number, tensor.type)
        for node in self._partition.graph.nodes:
            state = state_of(node)
            value = node.attrs.get("value")
            if state is not None:
                self._source[node.output] = self._variable(state)
            elif node.definition is constant_op and isinstance(value, ArrayLiteral):
                buffer = Buffer("constant", len(self._constants), value.type)
                self._source[node.output] = self._constants.setdefault(value, buffer)

    def _place_result(self, tensor: Tensor, is_leaf: bool) -> None:
        if tensor in self._last:
            self._place_in(tensor, self._last[tensor])
            return
        places = list(self._outputs.get(tensor, ()))
        updates = self._updates.get(tensor, [])
        places += [self._variable(u.variable.state) for u in updates if self._is_in_place(u)]
        if is_leaf:
            # The leaf goes on being read where it is; only a new value of another variable needs
            # a copy that stays what it was while variables change.
            if any(not self._is_in_place(u) for u in updates):
                places.insert(0, self._temporary(tensor.type))
        else:
            if not places:
                places.append(self._temporary(tensor.type))
            self._source[tensor] = places[0]
        self._destinations[tensor] = tuple(places)

    def _place_in(self, tensor: Tensor, last: Tensor) -> None:
        """Give `tensor` the first of the places of `last`, which is written over it."""
        if last not in self._destinations:
            self._place_result(last, is_leaf=False)
        self._source[tensor] = self._source[last]
        self._destinations[tensor] = (self._source[last],)

    def _is_in_place(self, update: Update) -> bool:
        return update in self._partition.in_place

    def _temporary(self, type_: TensorType) -> Buffer:
        self._temporaries += 1
        return Buffer("temporary", self._temporaries - 1, type_)

    def finished(self) -> Buffers:
        late = tuple(
            (
                self._destinations[self._partition.stored(u.value)][0],
                self._variable(u.variable.state),
            )
            for u in self._partition.graph.updates
            if not self._is_in_place(u)
        )
        return Buffers(
            self._source,
            self._destinations,
            late,
            tuple(self._constants),
            tuple(self._variables),
            self._temporaries,
        )
