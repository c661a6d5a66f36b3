"""Liveness analysis and memory planning: how long a temporary is needed, and where it lies.

temporary0: f32[64]                      temporary0: f32[64] at 0 alive 0..1
temporary1: f32[64]                  ->  temporary1: f32[64] at 256 alive 1..2
temporary2: f32[64]                      temporary2: f32[64] at 0 alive 2..3
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    ExternInstr,
    Instr,
    Launch,
    Program,
    Routine,
    ScanInstr,
    Slice,
    SwitchInstr,
    WhileInstr,
    root,
    with_routines,
)
from symgrad.codegen.program.phases import phases_of
from symgrad.codegen.program.plan_memory import Request, plan_memory
from symgrad.errors import ShapeError
from symgrad.graph.aligned import ALIGNMENT
from symgrad.graph.dtypes import uint8
from symgrad.graph.types import INT64_MAX, TensorType
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import replace

Lifetimes = dict[Buffer, tuple[int, int]]


def lay_out(program: Program) -> Program:
    """Return `program` with a place in the arena for each temporary."""
    program = with_routines(program, _lay_out_routine)
    lives = lifetimes_of(program.instrs, program.routines)
    offsets, size = _planned(lives, program.instrs)
    if size > INT64_MAX - ALIGNMENT:
        problem = f"temporaries take {size} bytes of memory, an int64 counts to {INT64_MAX}"
        raise ShapeError(program.name, problem)
    return placed(program, offsets, lives, size)


def placed(program: Program, offsets: Mapping[Buffer, int], lives: Lifetimes, size: int) -> Program:
    """Return `program` with the places that its own temporaries have, and those of its routines.

    What lies in the memory of a routine is alive for as long as that is.
    """
    all_offsets, all_lives = dict(offsets), dict(lives)
    for routine in program.routines:
        # Memory without a place, or that nobody needs, is for the verifier to name.
        if routine.scratch in offsets:
            start = offsets[routine.scratch]
            all_offsets |= {buffer: start + n for buffer, n in routine.offsets.items()}
        if routine.scratch in lives:
            all_lives |= dict.fromkeys(routine.offsets, lives[routine.scratch])
    return replace(program, offsets=all_offsets, lifetimes=all_lives, arena_bytes=size)


def lifetimes_of(instrs: Sequence[Instr], routines: Sequence[Routine]) -> Lifetimes:
    """Return from which instruction to which each temporary is needed, in the order of the text.

    The memory of one of `routines` is kept from its first call to its last. That of other routines
    is not part of this arena.
    """
    lifetimes = _Lifetimes({routine.scratch for routine in routines})
    lifetimes.visit(instrs)
    return lifetimes.of


def _lay_out_routine(routine: Routine) -> Routine:
    offsets, size = _planned(lifetimes_of(routine.instrs, ()), routine.instrs)
    scratch = replace(routine.scratch, type=TensorType(uint8, (size,)))
    return replace(routine, scratch=scratch, offsets=offsets)


def _planned(lives: Lifetimes, instrs: Sequence[Instr]) -> tuple[dict[Buffer, int], int]:
    phases = phases_of(instrs)
    requests = [Request(b.type.nbytes + phases.get(b, 0), *life) for b, life in lives.items()]
    places, size = plan_memory(requests)
    starts = zip(lives, places, strict=True)
    return {buffer: start + phases.get(buffer, 0) for buffer, start in starts}, size


class _Lifetimes:
    """From when to when each temporary is needed, in positions of the text of the program."""

    def __init__(self, scratch: Collection[Buffer]) -> None:
        self._scratch = scratch
        self._stacks: dict[int, dict[Buffer, None]] = defaultdict(dict)  # by the loop's number
        self.of: Lifetimes = {}
        self._now = -1

    def visit(self, instrs: Sequence[Instr]) -> None:
        for instr in instrs:
            self._now += 1
            match instr:
                case Launch() | ExternInstr():
                    for argument in instr.arguments:
                        self._touch(argument)
                case SwitchInstr():
                    self._touch(instr.index)
                    for branch in instr.branches:
                        self.visit(branch)
                case WhileInstr():
                    self._while(instr)
                case ScanInstr():
                    self._scan(instr)
                case CallInstr():
                    self._call(instr)

    def _while(self, loop: WhileInstr) -> None:
        """Visit a loop: what it uses from before is needed until its last iteration."""
        start = self._now
        self.visit(loop.condition)
        self._touch(loop.test)
        self.visit(loop.body)
        self._now += 1
        self._extend(start, loop.number)
        self._touch(loop.count)

    def _scan(self, scan: ScanInstr) -> None:
        start = self._now
        self._touch(scan.trips)
        self.visit(scan.body)
        self._now += 1
        self._extend(start, scan.number)

    def _call(self, call: CallInstr) -> None:
        for argument in (*call.inputs, *call.outputs):
            self._touch(argument)
        for routine in (*call.routine.inner, call.routine):
            if routine.scratch in self._scratch:
                self._touch(routine.scratch)

    def _extend(self, start: int, loop: int) -> None:
        for buffer, (first, last) in self.of.items():
            if first < start < last:
                self.of[buffer] = (first, self._now)
        # A slice that an iteration has written stays there while the others run.
        for buffer in self._stacks.pop(loop, ()):
            self.of[buffer] = (min(start, self.of[buffer][0]), self._now)

    def _touch(self, argument: Argument) -> None:
        buffer = root(argument)
        if buffer.place == "temporary":
            first, _ = self.of.get(buffer, (self._now, self._now))
            self.of[buffer] = (first, self._now)
            while isinstance(argument, Slice):
                self._stacks[argument.loop][buffer] = None
                argument = argument.stack
