"""Rematerialisation under a limit of memory: a program is planned again until its arena fits.

First groups run in an order that frees memory early, which costs nothing. Then what is alive at the
peak is computed again behind it (`passes/memory/evict.py`), on a model: bytes of tensors between
groups, and of what a group needs meanwhile, as they were in the program. How large the arena is
then says its plan; where that is more than the model told, the model is held to less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from symgrad.codegen.program.arena import lifetimes_of
from symgrad.codegen.program.language import (
    Instr,
    NativeCall,
    Program,
)
from symgrad.codegen.program.source_map import BuiltProgram
from symgrad.errors import CompileError, Source
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Nested
from symgrad.passes.fusion.buffers import Buffer, assign_buffers
from symgrad.passes.fusion.partition import FusionGroup, Partition
from symgrad.passes.memory.evict import Evicted, evict
from symgrad.passes.memory.rebuild import rebuilt
from symgrad.passes.memory.turns import Course, TakenBytes, ranges_of
from symgrad.passes.rewrites.rewrite import Decision
from symgrad.records import dataclass

RULE = "memory-limit"
_MOST_TRIED = 8  # programs; most fit at the second or third
_SHOWN = 3  # buffers that an error lists

Lower = Callable[[Partition], BuiltProgram]


@dataclass(frozen=True, slots=True, eq=False)
class Limited:
    """Groups whose temporaries fit into a limit, and what has been decided for that."""

    partition: Partition
    decisions: tuple[Decision, ...]


def limit_memory(before: int, freeing: Partition, limit: int, lower: Lower) -> Limited:
    """Return what `freeing` becomes to take `limit` bytes, whose groups free memory early.

    A program in the order of the graph takes more: `before` bytes. `lower` makes programs. Raises
    `CompileError` where none is found that fits.
    """
    reordered = lower(freeing)
    graph, arena = freeing.graph, reordered.program.arena_bytes
    first = _order_decision(graph, before, arena, limit)
    if arena <= limit:
        return Limited(freeing, (first,))
    search = _Search(reordered, limit, lower)
    found = search.found()
    if found is None:
        raise _refusal(graph, before, search.least, limit)
    partition, evicted = found
    least = search.least.program.arena_bytes
    return Limited(partition, (first, *(_decision(e, least, limit) for e in evicted)))


class _Search:
    """Tries budgets for the model of a program until the program that comes out fits."""

    def __init__(self, start: BuiltProgram, limit: int, lower: Lower) -> None:
        self.least = start
        self._start = start
        self._limit = limit
        self._lower = lower
        self._taken = taken_bytes(start)

    def found(self) -> tuple[Partition, list[Evicted]] | None:
        """Return groups that fit with what they do not keep, None if none were found."""
        peak = ranges_of(self._course().turns).peak
        budget = self._limit - max(self._start.program.arena_bytes - peak, 0)
        for _ in range(_MOST_TRIED):
            course = self._course()
            evicted, peaks = evict(course, budget)
            if peaks[-1] > budget:  # there is no more: the least that there was
                most = peaks.index(min(peaks))
                course = self._course()
                evicted, peaks = evict(course, budget, most)
            if not evicted:
                return None
            partition = rebuilt(course)
            program = self._lower(partition)
            arena = program.program.arena_bytes
            if arena < self.least.program.arena_bytes:
                self.least = program
            if arena <= self._limit:
                return partition, evicted
            if peaks[-1] > budget:
                return None
            budget = min(budget, peaks[-1]) - max(arena - self._limit, 1)
        return None

    def _course(self) -> Course:
        partition = self._start.sources.partition
        return Course(partition, assign_buffers(partition), self._taken)


# ------------------------------------------------------------------------- what a program takes


def taken_bytes(built: BuiltProgram) -> TakenBytes:
    """Return what the buffers of a program take, as passes over programs have left them."""
    program, sources = built.program, built.sources
    alive = {buffer.number: buffer for buffer in program.lifetimes}
    numbers = {t: b.number for t, b in sources.temporaries.items()}
    tensors = {t: alive[n].type.nbytes if n in alive else 0 for t, n in numbers.items()}
    own = set(numbers.values())
    nested = [g for g in sources.partition.groups if _is_nested(built, g)]
    scratch: Counter[FusionGroup] = Counter()
    for instr in program.instrs:
        needed = _scratch(program, instr, own)
        if isinstance(instr, NativeCall):
            for group in sources.groups_of(instr):
                scratch[group] = max(scratch[group], needed)
        elif nested:
            group = nested.pop(0)
            scratch[group] = max(scratch[group], needed)
    return TakenBytes(tensors, dict(scratch))


def _is_nested(built: BuiltProgram, group: FusionGroup) -> bool:
    spec = None if group.anchor is None else built.sources.partition.specs[group.anchor]
    return isinstance(spec, Nested)


def _scratch(program: Program, instr: Instr, own: set[int]) -> int:
    """Return the bytes that an instruction needs of buffers which are no tensors between groups."""
    lives = lifetimes_of([instr], program.routines)
    changes: Counter[int] = Counter()
    for buffer, (first, last) in lives.items():
        if buffer.number not in own:
            changes[first] += buffer.type.nbytes
            changes[last + 1] -= buffer.type.nbytes
    most = alive = 0
    for at in sorted(changes):
        alive += changes[at]
        most = max(most, alive)
    return most


# ---------------------------------------------------------------------------- what is said of it


def _order_decision(graph: Graph, before: int, after: int, limit: int) -> Decision:
    reason = (
        f"temporaries take {before:,} bytes, of a limit of {limit:,}; "
        f"{after:,} where kernels run first that free memory"
    )
    return Decision(RULE, _last_node(graph), reason)


def _last_node(graph: Graph) -> Node:
    return graph.roots[0].node


def _decision(evicted: Evicted, arena: int, limit: int) -> Decision:
    reason = (
        f"computed again: {evicted.nbytes:,} bytes at the peak, and {evicted.picoseconds:,} ps to "
        f"compute it again; temporaries take {arena:,} of {limit:,} bytes"
    )
    return Decision(RULE, evicted.tensor.node, reason)


def _refusal(graph: Graph, before: int, least: BuiltProgram, limit: int) -> CompileError:
    """Return the error for a program that does not fit."""
    program = least.program
    tensors = {b.number: t for t, b in least.sources.temporaries.items()}
    largest = sorted(_alive_at_peak(program), key=lambda b: -b.type.nbytes)[:_SHOWN]
    listed = "; ".join(_described(buffer, tensors.get(buffer.number)) for buffer in largest)
    problem = (
        f"memory_limit={limit:,} bytes cannot be kept: the temporaries of {graph.name} take "
        f"{before:,} bytes, and {program.arena_bytes:,} at the least with what is computed again. "
        f"The largest that are needed at once: {listed}"
    )
    hint = "smaller batches take less, and recompute_grad does in what loops record"
    return CompileError("compile", problem, hint=hint)


def _alive_at_peak(program: Program) -> list[Buffer]:
    """Return the buffers that are alive where most bytes are."""
    lives = program.lifetimes
    moments = {first for first, _ in lives.values()}

    def alive(at: int) -> list[Buffer]:
        return [b for b, (first, last) in lives.items() if first <= at <= last]

    return max(map(alive, sorted(moments)), key=lambda found: sum(b.type.nbytes for b in found))


def _described(buffer: Buffer, tensor: Tensor | None) -> str:
    if tensor is None:
        return f"{buffer.type.nbytes:,} bytes of a kernel's own"
    source = _source_of(tensor.node)
    where = "" if source is None else f" ({source})"
    return f"{buffer.type.nbytes:,} bytes of {tensor.node.op}: {buffer.type}{where}"


def _source_of(node: Node) -> Source | None:
    """Return the user's line of `node`; for what a gradient made, that of the op it is of."""
    return node.source if node.origin is None else node.origin.source
