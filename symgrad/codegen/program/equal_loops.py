"""Identical code folding for loops: equal text for loops of which the code is the same.

Buffers and loops are numbered in the order in which a loop names them, so that loops of the same
instructions on other buffers, like those of equal layers, have equal text.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    ExternInstr,
    Instr,
    Launch,
    Register,
    ScanInstr,
    Slice,
    SwitchInstr,
    WhileInstr,
)
from symgrad.passes.fusion.buffers import Buffer


def canonical_text(loop: WhileInstr | ScanInstr) -> str:
    """Return canonical text: equal for loops which differ in their buffers and numbers only."""
    return _Canonical().instr(loop)


class _Canonical:
    def __init__(self) -> None:
        self._buffers: dict[Buffer, int] = {}
        self._loops: dict[int, int] = {}

    def _argument(self, argument: Argument) -> str:
        kind = argument.type
        if isinstance(argument, Slice):
            return f"{self._argument(argument.stack)}[{self._loop(argument.loop)}]: {kind}"
        tape = "tape" if argument.place == "tape" else ""
        return f"{tape}{self._buffers.setdefault(argument, len(self._buffers))}: {kind}"

    def _arguments(self, arguments: Sequence[Argument]) -> str:
        return ", ".join(map(self._argument, arguments))

    def _registers(self, registers: Sequence[Register]) -> str:
        return ", ".join(f"{r.mode} {self._argument(r.buffer)}" for r in registers)

    def _loop(self, number: int) -> int:
        return self._loops.setdefault(number, len(self._loops))

    def _instrs(self, instrs: Sequence[Instr]) -> str:
        return "".join(f"{{{self.instr(instr)}}}" for instr in instrs)

    def instr(self, instr: Instr) -> str:
        match instr:
            case Launch(_, kernel, arguments, starts, statuses):
                return f"{kernel.name}({self._arguments(arguments)}) {starts} {statuses}"
            case CallInstr(routine, inputs, outputs):
                return f"{routine.name}({self._arguments((*inputs, *outputs))})"
            case ExternInstr(_, function, layout, inputs, outputs, workspace, status):
                memory = (*inputs, *outputs, *(() if workspace is None else (workspace,)))
                return f"extern {function.name} {layout} ({self._arguments(memory)}) {status}"
            case SwitchInstr(index, branches):
                parts = " or ".join(f"{{{self._instrs(branch)}}}" for branch in branches)
                return f"switch {self._argument(index)} {parts}"
            case WhileInstr(number, condition, test, body, count, capacity, tapes, registers):
                head = f"while {self._loop(number)} {capacity} {self._arguments((test, count))}"
                inside = f"{self._instrs(condition)} {self._instrs(body)}"
                return f"{head} {inside} {self._arguments(tapes)} {self._registers(registers)}"
            case ScanInstr(number, trips, body, capacity, reverse, tapes, registers):
                head = f"scan {self._loop(number)} {capacity} {reverse} {self._argument(trips)}"
                inside = f"{self._instrs(body)} {self._arguments(tapes)}"
                return f"{head} {inside} {self._registers(registers)}"
