"""Live ranges of a partition: which tensors are in memory while each group has its turn.

A `Turn` is a group at its place in the order, a `Version` what one turn leaves of a tensor and
others read. At first there is one of each group and one of each tensor; what is computed again has
more. The memory of a version is a `Cell`, which several share where one is written over another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from symgrad.cost_model import PER_BYTE_READ, PER_BYTE_WRITTEN
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Contract
from symgrad.graph.types import State
from symgrad.passes.costs import picoseconds
from symgrad.passes.fusion.buffers import Buffers
from symgrad.passes.fusion.order_groups import is_surely_in_range, state_of
from symgrad.passes.fusion.partition import FusionGroup, Partition
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """Memory of the arena, nothing where `nbytes` is 0.

    One that `is_fixed` holds several tensors, one after another, or what is read in the end. What
    is in memory that `stays` can be read at any time from then on.
    """

    nbytes: int
    is_fixed: bool = False
    stays: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A tensor as `writer` leaves it in memory; a leaf has no writer."""

    tensor: Tensor
    cell: Cell
    writer: Turn | None = None


class Turn:
    """A group at its place. `again` is the turn that it repeats, in part, if it repeats one."""

    __slots__ = ("again", "group", "nodes", "reads", "scratch", "writes")

    def __init__(
        self,
        group: FusionGroup,
        nodes: tuple[Node, ...],
        scratch: int,
        reads: dict[Tensor, Version] | None = None,
        writes: dict[Tensor, Version] | None = None,
        again: Turn | None = None,
    ) -> None:
        self.group = group
        self.nodes = nodes
        self.scratch = scratch
        self.reads = {} if reads is None else reads
        self.writes = {} if writes is None else writes
        self.again = again


@dataclass(frozen=True, slots=True)
class TakenBytes:
    """What buffers take: of tensors in memory, and beside those of what a group needs meanwhile."""

    tensors: Mapping[Tensor, int]
    scratch: Mapping[FusionGroup, int]


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """The first and the last turn that touches each cell, and the bytes alive at each turn.

    `touches` are all turns that write or read a version.
    """

    first: Mapping[Cell, int]
    last: Mapping[Cell, int]
    touches: Mapping[Version, Sequence[int]]
    alive: Sequence[int]

    @property
    def peak(self) -> int:
        """The most bytes that are alive at once."""
        return max(self.alive, default=0)


def ranges_of(turns: Sequence[Turn]) -> Ranges:
    """Return from which turn to which each cell is alive."""
    first: dict[Cell, int] = {}
    last: dict[Cell, int] = {}
    touches: dict[Version, list[int]] = {}
    for place, turn in enumerate(turns):
        for version in (*turn.reads.values(), *turn.writes.values()):
            if version.cell.nbytes:
                touches.setdefault(version, []).append(place)
                first.setdefault(version.cell, place)
                last[version.cell] = place
    changes = [0] * (len(turns) + 1)
    for cell, start in first.items():
        changes[start] += cell.nbytes
        changes[last[cell] + 1] -= cell.nbytes
    alive = [n + t.scratch for n, t in zip(accumulate(changes[:-1]), turns, strict=True)]
    return Ranges(first, last, touches, alive)


class Course:
    """The turns of a partition, and what can be asked about its groups."""

    def __init__(self, partition: Partition, buffers: Buffers, taken: TakenBytes) -> None:
        self.partition = partition
        self._taken = taken
        self._cells = _cells(partition, buffers, taken)
        self._price: dict[Node, int] = {}
        self.turns: list[Turn] = []
        versions: dict[Tensor, Version] = {}
        for group in partition.groups:
            turn = Turn(group, group.nodes, taken.scratch.get(group, 0))
            for tensor in group.inputs:
                leaf = Version(tensor, self._cells.get(tensor, Cell(0)))
                turn.reads[tensor] = versions.setdefault(tensor, leaf)
            for tensor in group.outputs:
                cell = self._cells.get(tensor, Cell(0))
                turn.writes[tensor] = versions[tensor] = Version(tensor, cell, turn)
            self.turns.append(turn)
        self._first_of = {turn.group: turn for turn in self.turns}
        self.first = {t: turn for turn in self.turns for t in turn.writes}
        self._written = _written_states(partition)
        self._may_be_cut = {g: self._can_cut(g) for g in partition.groups}
        self._repeatable = {g: self._can_repeat(g) for g in partition.groups}

    def bytes_of(self, tensor: Tensor) -> int:
        """Return what a buffer for `tensor` takes."""
        return self._taken.tensors.get(tensor, tensor.type.nbytes)

    def is_unwritten(self, version: Version, place: int) -> bool:
        """Return whether a leaf has its old value still when the turn at `place` begins."""
        writer = self._written.get(state_of(version.tensor.node))
        return writer is None or self.turns.index(self._first_of[writer]) >= place

    def is_repeatable(self, group: FusionGroup) -> bool:
        """Return whether `group` may run again: it runs nothing nested, and can not fail."""
        return self._repeatable[group]

    def may_be_cut(self, group: FusionGroup) -> bool:
        """Return whether part of `group` gives the bits that all of it does.

        The order of a fold may depend on what is done with it.
        """
        return self._may_be_cut[group]

    def _can_cut(self, group: FusionGroup) -> bool:
        spec = None if group.anchor is None else self.partition.specs[group.anchor]
        is_plain = group.anchor is None or isinstance(spec, Contract)
        return is_plain and all(len(node.outputs) == 1 for node in group.nodes)

    def cone(self, turn: Turn, tensor: Tensor) -> list[Node]:
        """Return what a turn computes to have `tensor`, one of its results."""
        if not self.may_be_cut(turn.group):
            return [*turn.nodes]
        return cone(turn.nodes, [tensor.node])

    def _can_repeat(self, group: FusionGroup) -> bool:
        specs = self.partition.specs
        for node in group.nodes:
            traits = self.partition.traits(node)
            if traits.is_instruction or traits.writes_rows or node.definition.is_leaf:
                return False
            if not is_surely_in_range(node, specs[node]):
                return False
        return bool(group.nodes) and (self._may_be_cut[group] or len(group.outputs) == 1)

    def price(self, nodes: Iterable[Node]) -> int:
        """Return how long `nodes` take, in picoseconds."""
        for node in (nodes := list(nodes)):
            if node not in self._price:
                self._price[node] = picoseconds(node)
        return sum(self._price[node] for node in nodes)

    def price_of_memory(self, read: Iterable[Tensor], written: Iterable[Tensor]) -> int:
        """Return how long it takes to read and write tensors, in picoseconds."""
        bytes_read = sum(t.type.nbytes for t in read)
        return PER_BYTE_READ * bytes_read + PER_BYTE_WRITTEN * sum(t.type.nbytes for t in written)


def cone(nodes: Sequence[Node], last: Iterable[Node]) -> list[Node]:
    """Return those of `nodes` that the `last` ones are computed of, and these."""
    needed = set(last)
    for node in reversed(nodes):
        if node in needed:
            needed.update(t.node for t in node.inputs)
    return [node for node in nodes if node in needed]


def _cells(partition: Partition, buffers: Buffers, taken: TakenBytes) -> dict[Tensor, Cell]:
    """Return the memory of each tensor that is in the arena."""
    places = {t: ends[0] for t, ends in buffers.destinations.items()} | dict(buffers.source)
    sharing = Counter(places.values())
    late = {source for source, _ in buffers.late}
    roots = {partition.stored(t) for t in partition.graph.roots}
    cells: dict[object, Cell] = {}
    found: dict[Tensor, Cell] = {}
    for tensor, buffer in places.items():
        is_temporary = buffer.place == "temporary"
        size = taken.tensors.get(tensor, 0) if is_temporary else 0
        is_fixed = not is_temporary or sharing[buffer] > 1 or buffer in late or tensor in roots
        stays = buffer.place == "output" and sharing[buffer] == 1
        found[tensor] = cells.setdefault(buffer, Cell(size, is_fixed, stays))
    return found


def _written_states(partition: Partition) -> dict[State | None, FusionGroup]:
    """Return the group that writes a new value over that of each variable, where one does."""
    writers = {t: group for group in partition.groups for t in group.outputs if group.nodes}
    last = {base: value for base, value in partition.last_values().items()}
    found: dict[State | None, FusionGroup] = {}
    for update in partition.in_place:
        found[update.variable.state] = writers[partition.stored(update.value)]
    for base, value in last.items():
        for update in partition.in_place:
            if partition.stored(update.value) is value and base in writers:
                found[update.variable.state] = writers[base]
    return found
