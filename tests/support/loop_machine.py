"""The loop interpreter for whole programs: steps, slices, tapes, and the planned arena.

What is never written reads as garbage, and temporaries lie where the plan of memory puts them, so
that two which overlap while both are needed spoil the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    Instr,
    Launch,
    Program,
    ScanInstr,
    Slice,
    SwitchInstr,
    WhileInstr,
)
from symgrad.graph.dtypes import DType
from symgrad.graph.types import State, aligned_empty
from symgrad.passes.fusion.buffers import Buffer

Array = np.ndarray[Any, Any]

# What is never written reads as this byte: a large negative float, a negative integer.
POISON = 0xE7


@dataclass(frozen=True, slots=True)
class Results:
    """What a step gives: its outputs, and the values of its variables afterwards."""

    outputs: list[Array]
    state: dict[State, Array]


class LoopMachine:
    """The memory of a program, and its calls in the loop interpreter.

    Temporaries lie in one arena of bytes at the offsets of the plan, so that two which overlap
    while both are needed spoil the result.
    """

    def __init__(self, program: Program, inputs: Sequence[Array]) -> None:
        self.program = program
        graph = program.partition.graph
        self._arena = np.full(program.arena_bytes, POISON, np.uint8)
        self._inputs = [np.array(a).reshape(-1) for a in inputs]
        self._outputs = [poisoned(t.type.static_shape, t.dtype) for t in graph.outputs]
        self._variables = [state.array.copy() for state in program.variables]
        self._constants = [literal.array.reshape(-1) for literal in program.constants]

        self._tapes: dict[Buffer, Array] = {}
        self._iterations: dict[int, int] = {}

    def run(self) -> int:
        """Run the steps in order, up to one that fails; return its status, else 0."""
        return self._run(self.program.instrs)

    def _run(self, steps: Sequence[Instr]) -> int:
        return next(filter(None, map(self._step, steps)), 0)

    def _step(self, step: Instr) -> int:
        match step:
            case Launch():
                return self._call(step)
            case SwitchInstr():
                index = int(self._place(step.index)[0])
                chosen = index if 0 <= index < len(step.branches) else -1
                return self._run(step.branches[chosen])
            case WhileInstr():
                return self._repeat(step)
            case ScanInstr():
                return self._sweep(step)
            case CallInstr():
                return self._invoke(step)

    def _invoke(self, invoke: CallInstr) -> int:
        """Run a routine; what it calls inputs and outputs are pieces of memory of the caller."""
        outside = self._inputs, self._outputs
        inputs = [self._place(argument) for argument in invoke.inputs]
        outputs = [self._place(argument) for argument in invoke.outputs]
        self._inputs, self._outputs = inputs, outputs
        status = self._run(invoke.routine.instrs)
        self._inputs, self._outputs = outside
        return status

    def _repeat(self, loop: WhileInstr) -> int:
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

    def _sweep(self, loop: ScanInstr) -> int:
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

    def _call(self, call: Launch) -> int:
        names = [param.name for param in call.kernel.params]
        pieces = (
            self._place(argument)[start : start + param.count]
            for argument, start, param in zip(
                call.arguments, call.starts, call.kernel.params, strict=True
            )
        )
        status = run_kernel(call.kernel, dict(zip(names, pieces, strict=True)))
        return call.statuses[status - 1] if status else 0

    def _place(self, argument: Argument) -> Array:
        if isinstance(argument, Slice):
            start = self._iterations[argument.loop] * argument.type.count
            return self._place(argument.stack)[start : start + argument.type.count]
        buffer = argument
        match buffer.place:
            case "tape":
                return self._tapes[buffer]
            case "input":
                return self._inputs[buffer.number]
            case "output":
                return self._outputs[buffer.number].reshape(-1)
            case "variable":
                return self._variables[buffer.number].reshape(-1)
            case "constant":
                return self._constants[buffer.number]
            case "temporary":
                start = self.program.offsets[buffer]
                piece = self._arena[start : start + buffer.type.nbytes]
                return piece.view(buffer.type.dtype.numpy)

    @property
    def results(self) -> Results:
        """The outputs and the state as they are now."""
        states = self.program.variables
        return Results(self._outputs, dict(zip(states, self._variables, strict=True)))


def run_loops(program: Program, inputs: Sequence[Array]) -> Results:
    """Run the kernels of `program` in the loop interpreter."""
    machine = LoopMachine(program, inputs)
    status = machine.run()
    assert status == 0, f"status {status}"
    return machine.results


def poisoned(shape: tuple[int, ...], dtype: DType) -> Array:
    array = aligned_empty(shape, dtype.numpy)
    array.reshape(-1).view(np.uint8)[...] = 1 if dtype.is_bool else POISON
    return array
