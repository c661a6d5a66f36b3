"""Interpreter of programs: instructions, slices, tapes and the planned arena, with NumPy kernels.

What is never written reads as garbage, and temporaries lie where the plan of memory puts them, so
that two which overlap while both are needed spoil the result. Schedules of registers change no
result, and are not looked at. Kernels are run by `loops/run.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import assert_never

import numpy as np

from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    ExternInstr,
    Instr,
    Launch,
    Program,
    ScanInstr,
    Slice,
    SwitchInstr,
    WhileInstr,
)
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.dtypes import DType
from symgrad.graph.foreign_calls import call_foreign
from symgrad.graph.types import Array, State, as_reals
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass

# What is never written reads as this byte: a large negative float, a negative integer.
POISON = 0xE7


@dataclass(frozen=True, slots=True)
class Results:
    """What a program gives: its outputs, and the values of its variables afterwards."""

    outputs: list[Array]
    state: dict[State, Array]


def run_program(program: Program, inputs: Sequence[Array]) -> Results:
    """Run `program` in the interpreter; its variables stay as they are, the new ones are results.

    A complex array is given as it is, and read as the reals that are in its memory.
    Raises AssertionError, with the status, if it fails.
    """
    interpreter = ProgramInterpreter(program, inputs)
    status = interpreter.run()
    assert status == 0, f"status {status}"
    return interpreter.results


def poisoned(shape: tuple[int, ...], dtype: DType) -> Array:
    """Return an array of garbage; bools are true, as other bytes are none."""
    array = aligned_empty(shape, dtype.numpy)
    array.reshape(-1).view(np.uint8)[...] = 1 if dtype.is_bool else POISON
    return array


def _flat_reals(array: Array) -> Array:
    return (as_reals(array) if np.iscomplexobj(array) else array).reshape(-1)


class ProgramInterpreter:
    """The memory of a program, and its instructions one after another."""

    def __init__(self, program: Program, inputs: Sequence[Array]) -> None:
        self.program = program
        self._arena = np.full(program.arena_bytes, POISON, np.uint8)
        self._inputs = [_flat_reals(np.array(a)) for a in inputs]
        self._outputs = [poisoned(t.static_shape, t.dtype) for t in program.outputs]
        self._variables = [state.array.copy() for state in program.variables]
        self._constants = [literal.array.reshape(-1) for literal in program.constants]
        self._tapes: dict[Buffer, Array] = {}
        self._iterations: dict[int, int] = {}

    @property
    def results(self) -> Results:
        """The outputs and the state as they are now."""
        states = self.program.variables
        return Results(self._outputs, dict(zip(states, self._variables, strict=True)))

    def run(self) -> int:
        """Run the instructions in order, up to one that fails; return its status, else 0."""
        return self._run(self.program.instrs)

    def _run(self, instrs: Sequence[Instr]) -> int:
        return next(filter(None, map(self._instr, instrs)), 0)

    def _instr(self, instr: Instr) -> int:
        match instr:
            case Launch():
                return self._launch(instr)
            case SwitchInstr():
                index = int(self._place(instr.index)[0])
                chosen = index if 0 <= index < len(instr.branches) else -1
                return self._run(instr.branches[chosen])
            case WhileInstr():
                return self._while(instr)
            case ScanInstr():
                return self._scan(instr)
            case CallInstr():
                return self._call(instr)
            case ExternInstr():
                return self._extern(instr)
            case _:
                assert_never(instr)

    def _launch(self, launch: Launch) -> int:
        params = launch.kernel.params
        pieces = {
            param.name: self._place(argument)[start : start + param.count]
            for argument, start, param in zip(launch.arguments, launch.starts, params, strict=True)
        }
        status = run_kernel(launch.kernel, pieces)
        return launch.statuses[status - 1] if status else 0

    def _call(self, call: CallInstr) -> int:
        """Run a routine; what it calls inputs and outputs are pieces of memory of the caller."""
        outside = self._inputs, self._outputs
        inputs = [self._place(argument) for argument in call.inputs]
        outputs = [self._place(argument) for argument in call.outputs]
        self._inputs, self._outputs = inputs, outputs
        status = self._run(call.routine.instrs)
        self._inputs, self._outputs = outside
        return status

    def _extern(self, call: ExternInstr) -> int:
        inputs = [self._place(argument) for argument in call.inputs]
        outputs = [self._place(argument) for argument in call.outputs]
        size = 0 if call.workspace is None else call.workspace.type.nbytes
        status = call_foreign(call.function, call.layout, inputs, outputs, size)
        return call.status if status else 0

    def _while(self, loop: WhileInstr) -> int:
        for iteration in itertools.count():
            self._iterations[loop.number] = iteration
            status = self._run(loop.condition)
            is_full = loop.capacity and iteration >= loop.capacity
            if status or is_full or not self._place(loop.test)[0]:
                self._place(loop.count)[0] = iteration
                return status
            self._grow(loop.tapes, iteration + 1)
            status = self._run(loop.body)
            if status:
                return status
        raise AssertionError("the loop has no end")

    def _scan(self, loop: ScanInstr) -> int:
        trips = min(max(int(self._place(loop.trips)[0]), 0), loop.capacity)
        self._grow(loop.tapes, trips)
        for i in reversed(range(trips)) if loop.reverse else range(trips):
            self._iterations[loop.number] = i
            status = self._run(loop.body)
            if status:
                return status
        return 0

    def _grow(self, tapes: Sequence[Slice], slices: int) -> None:
        for tape in tapes:
            assert isinstance(tape.stack, Buffer), "a tape is a buffer"
            old = self._tapes.get(tape.stack, np.zeros(0, tape.type.dtype.numpy))
            new = np.full(max(slices * tape.type.count, old.size), 1, tape.type.dtype.numpy)
            new[: old.size] = old
            self._tapes[tape.stack] = new

    def _place(self, argument: Argument) -> Array:
        if isinstance(argument, Slice):
            start = self._iterations[argument.loop] * argument.type.count
            return self._place(argument.stack)[start : start + argument.type.count]
        match argument.place:
            case "tape":
                return self._tapes[argument]
            case "input":
                return self._inputs[argument.number]
            case "output":
                return self._outputs[argument.number].reshape(-1)
            case "variable":
                return self._variables[argument.number].reshape(-1)
            case "constant":
                return self._constants[argument.number]
            case "temporary":
                start = self.program.offsets[argument]
                piece = self._arena[start : start + argument.type.nbytes]
                return piece.view(argument.type.dtype.numpy)
            case _:
                assert_never(argument.place)
