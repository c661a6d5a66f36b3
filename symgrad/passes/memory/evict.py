"""Eviction: which tensors are not kept over the peak of memory, and are computed again behind it.

Before, `%h` is alive from group 1 to group 7, over the peak at group 4:

    group 1 (%x, %w1) -> %h    group 2 (%h, %w2) -> %y    ...    group 7 (%h, %g) -> %d

After, it is forgotten behind group 2, and group 1 has another turn before group 7:

    group 1 (%x, %w1) -> %h    group 2 (%h, %w2) -> %y    ...    group 1 (%x, %w1) -> %h'
    group 7 (%h', %g) -> %d

Of all that is alive at the peak and not used there, what frees most bytes for the time that it
takes to compute again is evicted, until everything fits. What is computed again is made of what is
in memory then; where that has been forgotten too, of what that is made of. So the products of
several layers may follow one another once more, of which the last is used first (checkpoints).
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from symgrad.cost_model import FEW_OF_MANY
from symgrad.graph.node import Node, Tensor
from symgrad.passes.memory.turns import (
    Cell,
    Course,
    Ranges,
    Turn,
    Version,
    ranges_of,
)
from symgrad.records import dataclass

_MOST_AGAIN = 64  # groups that have another turn for one tensor
_LEAST_SHARE = 1024  # of the peak, a tensor that is worth the trouble
_MOST_EVICTED = 4  # times, for each turn there was
_PATIENCE = 64  # times that the peak gets no lower


@dataclass(frozen=True, slots=True)
class Evicted:
    """A tensor that was not kept: the bytes that this freed at the peak, and the time it cost."""

    tensor: Tensor
    nbytes: int
    picoseconds: int


@dataclass(slots=True)
class _Repetition:
    """How to have `version` once more before the turn at `place`, the first behind the peak.

    `nodes` are those to compute, by the turn that they were computed in first; `wanted` what of
    these has to be in memory. `joins` is what has another turn there already, and computes more in
    that; `absorbs` what has one later, which is then not needed. `reads` are versions that are read
    again; those of `kept` would have been forgotten.
    """

    version: Version
    place: int
    nodes: dict[Turn, list[Node]] = field(default_factory=dict)
    wanted: dict[Turn, list[Tensor]] = field(default_factory=dict)
    joins: dict[Turn, Turn] = field(default_factory=dict)
    absorbs: dict[Turn, Turn] = field(default_factory=dict)
    reads: dict[Tensor, Version] = field(default_factory=dict)
    kept: dict[Cell, None] = field(default_factory=dict)
    price: int = 1
    is_possible: bool = True

    @property
    def freed(self) -> int:
        """The bytes that are alive no longer at the peak."""
        return self.version.cell.nbytes - sum(cell.nbytes for cell in self.kept)


def evict(course: Course, budget: int, most: int | None = None) -> tuple[list[Evicted], list[int]]:
    """Change the turns of `course` until no more than `budget` bytes are alive at once.

    Return what was evicted, at `most` so many times, and the peak before each time and at the end.
    """
    evicted: list[Evicted] = []
    limit = _MOST_EVICTED * len(course.turns) if most is None else most
    peaks = []
    while True:
        ranges = ranges_of(course.turns)
        peaks.append(ranges.peak)
        is_stuck = len(peaks) > _PATIENCE and min(peaks[-_PATIENCE:]) >= min(peaks[:-_PATIENCE])
        if ranges.peak <= budget or len(evicted) >= limit or is_stuck:
            return evicted, peaks
        found = _cheapest(course, ranges, budget)
        if found is None:
            return evicted, peaks
        evicted.append(Evicted(found.version.tensor, found.freed, found.price))
        _repeat(course, found)


def _cheapest(course: Course, ranges: Ranges, budget: int) -> _Repetition | None:
    """Return what frees most bytes that are too many for the time that it costs.

    Bytes count at each turn that has too many. What else the same turn left, that is kept as well,
    counts with it: it costs little more to compute again.
    """
    peak = ranges.alive.index(ranges.peak)
    planning = _Planning(course, ranges, peak, budget)
    plans = (planning.plan(version, place) for version, place in _kept_over(course, ranges, peak))
    worth = [plan for plan in plans if plan is not None and plan.freed > 0]
    excess = _Excess(ranges, budget)
    gained: dict[Turn | None, int] = {}
    gains = [excess.gain(plan, peak) for plan in worth]
    for plan, gain in zip(worth, gains, strict=True):
        writer = plan.version.writer
        gained[writer] = gained.get(writer, 0) + max(gain, 0)
    best = [
        (gained[plan.version.writer] / plan.price, i)
        for i, (plan, gain) in enumerate(zip(worth, gains, strict=True))
        if gain > 0
    ]
    return worth[max(best, key=lambda found: found[0])[1]] if best else None


class _Excess:
    """How many bytes are too many, added up over turns."""

    def __init__(self, ranges: Ranges, budget: int) -> None:
        self._ranges = ranges
        self._above = np.asarray(ranges.alive) - budget

    def gain(self, plan: _Repetition, peak: int) -> int:
        """Return by how much less it is too much with `plan`."""
        place, size = plan.place, plan.version.cell.nbytes
        last = max(i for i in self._ranges.touches[plan.version] if i < peak)
        found = int(np.clip(self._above[last + 1 : place], 0, size).sum())
        for cell in {v.cell: None for v in plan.reads.values() if v.cell.nbytes}:
            above = self._above[self._ranges.last[cell] + 1 : place]
            found -= int(np.clip(above + cell.nbytes, 0, cell.nbytes).sum())
        return found


def _kept_over(course: Course, ranges: Ranges, peak: int) -> list[tuple[Version, int]]:
    """Return what is kept over the turn `peak`, with the first turn behind that reads it."""
    turns = course.turns
    touched = {v.cell for v in (*turns[peak].reads.values(), *turns[peak].writes.values())}
    found: dict[Version, int] = {}
    for place in range(peak + 1, len(turns)):
        for version in turns[place].reads.values():
            cell = version.cell
            is_large = cell.nbytes * _LEAST_SHARE >= max(ranges.peak, 1)
            if not is_large or cell.is_fixed or cell in touched or version in found:
                continue
            if ranges.first[cell] < peak:
                found[version] = place
    return [*found.items()]


class _Planning:
    """Finds out what it takes to compute versions again behind the turn `peak`."""

    def __init__(self, course: Course, ranges: Ranges, peak: int, budget: int) -> None:
        self._course = course
        self._ranges = ranges
        self._peak = peak
        self._budget = budget
        self._written: dict[Tensor, list[tuple[int, Version]]] = {}
        for place, turn in enumerate(course.turns):
            for tensor, version in turn.writes.items():
                self._written.setdefault(tensor, []).append((place, version))

    def plan(self, version: Version, place: int) -> _Repetition | None:
        """Return how to have `version` again before the turn at `place`, None if that cannot be."""
        found = _Repetition(version, place)
        pending, seen = [version.tensor], {version.tensor}
        while pending:
            tensor = pending.pop()
            first = self._course.first.get(tensor)
            if first is None or not self._course.is_repeatable(first.group):
                return None
            for operand, given in self._add(found, first, tensor):
                if operand in seen:
                    continue
                seen.add(operand)
                there = self._there(found, given)
                if there is not None:
                    found.reads[operand] = there
                else:
                    pending.append(operand)
            if len(found.nodes) > _MOST_AGAIN or not found.is_possible:
                return None
        return found

    def _add(self, plan: _Repetition, first: Turn, tensor: Tensor) -> list[tuple[Tensor, Version]]:
        """Plan to compute `tensor` again, as `first` did; return what is read for that."""
        stored, inner = self._course.partition.stored, set(first.nodes)
        nodes = self._course.cone(first, tensor)
        outer = {stored(t) for n in nodes for t in n.inputs if t.node not in inner}
        joined = self._joined(plan, first, outer)
        if joined is None and first not in plan.nodes:
            self._absorb(plan, first, outer)
        there = joined or plan.absorbs.get(first)
        known = {*plan.nodes.get(first, ()), *(() if there is None else there.nodes)}
        plan.price += self._course.price(n for n in nodes if n not in known)
        read = [] if known else outer
        plan.price += self._course.price_of_memory(read, [tensor])
        plan.nodes.setdefault(first, []).extend(n for n in nodes if n not in known)
        wanted = [tensor] if self._course.may_be_cut(first.group) else first.writes
        plan.wanted.setdefault(first, []).extend(wanted)
        if joined is not None:
            plan.joins[first] = joined
            plan.is_possible = outer <= joined.reads.keys()
            return []
        return [(t, v) for t, v in first.reads.items() if t in outer]

    def _joined(self, plan: _Repetition, first: Turn, outer: set[Tensor]) -> Turn | None:
        """Return what repeats `first` already and reads all of `outer`, if anything does."""
        if first in plan.nodes:
            return plan.joins.get(first)
        for turn in self._course.turns[self._peak + 1 : plan.place]:
            if turn.again is first and outer <= turn.reads.keys():
                return turn
        return None

    def _absorb(self, plan: _Repetition, first: Turn, outer: set[Tensor]) -> None:
        """Plan to do without a later turn of `first`, if what it leaves may be kept until there."""
        for place, turn in enumerate(self._course.turns[plan.place :], plan.place):
            if turn.again is not first:
                continue
            nbytes = sum(version.cell.nbytes for version in turn.writes.values())
            most = max(self._ranges.alive[plan.place : place], default=0)
            if most + nbytes <= self._budget and turn.reads.keys() <= outer:
                plan.absorbs[first] = turn
            return

    def _there(self, plan: _Repetition, given: Version) -> Version | None:
        """Return from what `given` can be read again, None if it has to be computed."""
        if given.writer is None:
            is_old = self._course.is_unwritten(given, plan.place)
            return given if is_old else None
        if given.cell.stays:
            return given
        if given.cell.is_fixed:
            return None
        for place, version in reversed(self._written[given.tensor]):
            is_other = place < plan.place and version is not plan.version
            is_alive = self._ranges.last.get(version.cell, -1) >= self._peak
            if is_other and version.cell.nbytes and is_alive:
                return version
        size = given.cell.nbytes
        if 0 < size * FEW_OF_MANY <= plan.version.cell.nbytes and given is not plan.version:
            plan.kept[given.cell] = None
            return given
        return None


def _repeat(course: Course, plan: _Repetition) -> None:
    """Give the turns of `plan` once more; who comes behind the peak reads what they leave."""
    turns = course.turns
    added: list[Turn] = []
    reads = dict(plan.reads)
    for first in [turn for turn in turns if turn in plan.nodes]:
        turn = plan.joins.get(first)
        if turn is None:
            turn = Turn(first.group, (), first.scratch, again=first)
            if first in plan.absorbs:  # the same turn, earlier
                turn = plan.absorbs[first]
                turn.reads.clear()
                turns.remove(turn)
            added.append(turn)
        nodes = {*turn.nodes, *plan.nodes[first]}
        turn.nodes = tuple(n for n in first.group.nodes if n in nodes)
        _read_for(course, turn, reads)
        for tensor in plan.wanted[first]:
            if tensor not in turn.writes:
                turn.writes[tensor] = Version(tensor, Cell(course.bytes_of(tensor)), turn)
            reads[tensor] = turn.writes[tensor]
    version = plan.version
    for later in turns[plan.place :]:
        if later.reads.get(version.tensor) is version:
            later.reads[version.tensor] = reads[version.tensor]
    turns[plan.place : plan.place] = added
    _drop_unread(course, version)


def _drop_unread(course: Course, version: Version) -> None:
    """Do not have `version` written where nobody reads it any more."""
    tensor, writer = version.tensor, version.writer
    is_read = any(turn.reads.get(tensor) is version for turn in course.turns)
    if not is_read and writer is not None and course.may_be_cut(writer.group):
        del writer.writes[tensor]


def _read_for(course: Course, turn: Turn, versions: dict[Tensor, Version]) -> None:
    """Say which versions a repeated turn reads."""
    inner, stored = set(turn.nodes), course.partition.stored
    outer = (stored(t) for n in turn.nodes for t in n.inputs if t.node not in inner)
    for tensor in dict.fromkeys(outer):
        if tensor not in turn.reads:
            turn.reads[tensor] = versions[tensor]
