"""The arena of a program: how long each temporary is needed, and where it lies."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    Instr,
    Launch,
    Routine,
    ScanInstr,
    SwitchInstr,
    WhileInstr,
    root,
)
from symgrad.passes.fusion.buffers import Buffer
from symgrad.passes.plan_memory import Request, plan_memory


def lay_out(
    instrs: Sequence[Instr], routines: Sequence[Routine]
) -> tuple[dict[Buffer, int], dict[Buffer, tuple[int, int]], int]:
    """Return the offset and the lifetime of each temporary, and the size of the arena.

    The memory of one of `routines` is kept from its first run to its last, and what lies in it is
    alive for as long. That of other routines is not part of this arena.
    """
    lifetimes = _Lifetimes({routine.scratch for routine in routines})
    lifetimes.visit(instrs)
    requests = [Request(b.type.nbytes, *life) for b, life in lifetimes.of.items()]
    places, size = plan_memory(requests)
    offsets, lives = dict(zip(lifetimes.of, places, strict=True)), dict(lifetimes.of)
    for routine in routines:
        start, life = offsets[routine.scratch], lives[routine.scratch]
        offsets |= {buffer: start + offset for buffer, offset in routine.offsets.items()}
        lives |= dict.fromkeys(routine.offsets, life)
    return offsets, lives, size


class _Lifetimes:
    """From when to when each temporary is needed, in positions of the text of the program."""

    def __init__(self, scratch: Collection[Buffer]) -> None:
        self._scratch = scratch
        self.of: dict[Buffer, tuple[int, int]] = {}
        self._now = -1

    def visit(self, instrs: Sequence[Instr]) -> None:
        for instr in instrs:
            self._now += 1
            match instr:
                case Launch():
                    for argument in instr.arguments:
                        self._touch(argument)
                case SwitchInstr():
                    self._touch(instr.index)
                    for branch in instr.branches:
                        self.visit(branch)
                case WhileInstr():
                    self._visit_loop(instr)
                case ScanInstr():
                    self._visit_scan(instr)
                case CallInstr():
                    self._visit_call(instr)

    def _visit_loop(self, loop: WhileInstr) -> None:
        """Visit a loop: what it uses from before is needed until its last iteration."""
        start = self._now
        self.visit(loop.condition)
        self._touch(loop.test)
        self.visit(loop.body)
        self._now += 1
        self._extend(start)
        self._touch(loop.count)

    def _visit_scan(self, scan: ScanInstr) -> None:
        start = self._now
        self._touch(scan.trips)
        self.visit(scan.body)
        self._now += 1
        self._extend(start)

    def _visit_call(self, call: CallInstr) -> None:
        for argument in (*call.inputs, *call.outputs):
            self._touch(argument)
        for routine in (*call.routine.inner, call.routine):
            if routine.scratch in self._scratch:
                self._touch(routine.scratch)

    def _extend(self, start: int) -> None:
        for buffer, (first, last) in self.of.items():
            if first < start < last:
                self.of[buffer] = (first, self._now)

    def _touch(self, argument: Argument) -> None:
        buffer = root(argument)
        if buffer.place == "temporary":
            first, _ = self.of.get(buffer, (self._now, self._now))
            self.of[buffer] = (first, self._now)
