"""What two loops over steps have in common if the code of one is the code of the other.

Buffers and loops are numbered in the order in which a loop names them, so that loops of the same
steps on other buffers, like those of equal layers, have equal text.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen.program import (
    Argument,
    Call,
    Choice,
    Invoke,
    Register,
    Repeat,
    Slice,
    Step,
    Sweep,
)
from symgrad.passes.buffers import Buffer


def canonical_text(loop: Repeat | Sweep) -> str:
    """Return text that is equal for loops which differ in their buffers and numbers only."""
    return _Canonical().step(loop)


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

    def _steps(self, steps: Sequence[Step]) -> str:
        return "".join(f"{{{self.step(step)}}}" for step in steps)

    def step(self, step: Step) -> str:
        match step:
            case Call(_, kernel, arguments, starts, statuses):
                return f"{kernel.name}({self._arguments(arguments)}) {starts} {statuses}"
            case Invoke(routine, inputs, outputs):
                return f"{routine.name}({self._arguments((*inputs, *outputs))})"
            case Choice(index, branches):
                parts = " or ".join(f"{{{self._steps(branch)}}}" for branch in branches)
                return f"switch {self._argument(index)} {parts}"
            case Repeat(number, condition, test, body, count, capacity, tapes, registers):
                head = f"while {self._loop(number)} {capacity} {self._arguments((test, count))}"
                inside = f"{self._steps(condition)} {self._steps(body)}"
                return f"{head} {inside} {self._arguments(tapes)} {self._registers(registers)}"
            case Sweep(number, trips, body, capacity, reverse, tapes, registers):
                head = f"repeat {self._loop(number)} {capacity} {reverse} {self._argument(trips)}"
                inside = f"{self._steps(body)} {self._arguments(tapes)}"
                return f"{head} {inside} {self._registers(registers)}"
