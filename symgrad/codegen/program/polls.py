"""Safepoint placement: which loops of a program poll, and what an iteration of each counts.

And, by the same count, which programs are brief.

A loop that its values or its operands can make long must be possible to interrupt. It counts the
cycles that its iterations take, by a nominal core, and polls when they are a `POLL_PERIOD`: then
what a poll takes is nothing beside the work, and it comes soon enough after whoever asks. All loops
of a program count down one number, so nested ones that are short by themselves come to poll as
well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from symgrad.codegen.kernel_costs import statement_cycles
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.language import (
    CallInstr,
    ExternInstr,
    Instr,
    Launch,
    Routine,
    ScanInstr,
    SwitchInstr,
    WhileInstr,
)
from symgrad.cost_model import BRIEF_CYCLES, CALL_CYCLES, POLL_PERIOD


def polled_loops(instrs: Sequence[Instr], routines: Sequence[Routine]) -> dict[int, int]:
    """Place safepoints: return the cycles of an iteration of each loop that polls, by its number.

    `routines` are in the order in which one can be counted after those it runs.
    """
    counter = _CycleCounter()
    for routine in routines:
        counter.routines[routine.name] = counter.cycles(routine.instrs)
    counter.cycles([instr for instr in instrs if not isinstance(instr, Launch)])  # in no loop
    return counter.polled


def is_brief(instrs: Sequence[Instr], routines: Sequence[Routine]) -> bool:
    """Return whether a program takes so little time, for certain, that others may wait for it.

    So it is not with a loop that polls, nor with a call of a function of which nothing is known.
    """
    counter = _CycleCounter()
    for routine in routines:
        counter.routines[routine.name] = counter.cycles(routine.instrs)
    total = 0.0
    for instr in instrs:
        total += counter.cycles([instr])
        if counter.polled or total > BRIEF_CYCLES:
            return False
    return not counter.polled


def polls_inside(instrs: Sequence[Instr], polled: Iterable[int]) -> bool:
    """Return whether a loop among `instrs` is one of `polled`; those of routines do not count."""
    return not set(polled).isdisjoint(_loops_of(instrs))


def _loops_of(instrs: Sequence[Instr]) -> Iterator[int]:
    for instr in instrs:
        match instr:
            case Launch() | CallInstr() | ExternInstr():
                pass
            case SwitchInstr():
                for branch in instr.branches:
                    yield from _loops_of(branch)
            case WhileInstr():
                yield instr.number
                yield from _loops_of((*instr.condition, *instr.body))
            case ScanInstr():
                yield instr.number
                yield from _loops_of(instr.body)


class _CycleCounter:
    """Counts what instructions take between two polls, and finds the loops that poll."""

    def __init__(self) -> None:
        self.polled: dict[int, int] = {}
        self.routines: dict[str, float] = {}
        self._kernels: dict[str, float] = {}

    def cycles(self, instrs: Sequence[Instr]) -> float:
        return sum(map(self._of_instr, instrs))

    def _of_instr(self, instr: Instr) -> float:
        match instr:
            case Launch():
                return self._of_kernel(instr.kernel)
            case SwitchInstr():
                return max(map(self.cycles, instr.branches), default=0)
            case WhileInstr():
                return self._of_loop(instr.number, (*instr.condition, *instr.body), instr.capacity)
            case ScanInstr():
                return self._of_loop(instr.number, instr.body, instr.capacity)
            case ExternInstr():
                return POLL_PERIOD  # nothing is known of it
            case CallInstr():
                return self.routines[instr.routine.name]

    def _of_loop(self, number: int, body: Sequence[Instr], capacity: int) -> float:
        """Return the cycles of a loop of `capacity` iterations, 0 for any number of them."""
        iteration = CALL_CYCLES + self.cycles(body)
        if capacity and capacity * iteration < POLL_PERIOD:
            return capacity * iteration
        self.polled[number] = round(iteration)
        return CALL_CYCLES  # the rest it counts itself

    def _of_kernel(self, kernel: Kernel) -> float:
        if kernel.name not in self._kernels:
            cycles = sum(map(statement_cycles, kernel.body))
            self._kernels[kernel.name] = max(CALL_CYCLES, cycles)
        return self._kernels[kernel.name]
