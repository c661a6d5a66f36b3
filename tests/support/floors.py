"""The ways to run a graph, floor by floor: each must give what the one below it gives.

    reference       the NumPy meaning of each op
    passes          the same, of the graph the passes made
    loops           the kernels in the loop interpreter, on buffers laid out as the plan of memory
    native          machine code, for this machine and for the levels below it

`run_everywhere` takes a graph through all of them and names the first that disagrees.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from symgrad.codegen.build_program import build_program
from symgrad.codegen.llvm.target import target_named
from symgrad.codegen.loops_run import run_kernel
from symgrad.codegen.program import (
    Argument,
    Call,
    Choice,
    Invoke,
    Program,
    Repeat,
    Slice,
    Step,
    Sweep,
)
from symgrad.codegen.share_work import ONE_THREAD, Threads
from symgrad.graph.dtypes import DType, as_dtype, bfloat16, float16, float32, float64
from symgrad.graph.graph import Graph, specialize
from symgrad.graph.reference import bind_sizes, evaluate
from symgrad.graph.types import State, aligned_empty
from symgrad.passes.buffers import Buffer
from symgrad.passes.fuse import fuse
from symgrad.passes.pipeline import optimize
from symgrad.runtime.executable import CompileOptions, Executable

Array = np.ndarray[Any, Any]

TARGETS = ("native", "x86-64-v3", "x86-64")

# What is never written reads as this byte: a large negative float, a negative integer.
_POISON = 0xE7


# ------------------------------------------------------------------------------------ results


@dataclass(frozen=True, slots=True)
class Results:
    """What a step gives: its outputs, and the values of its variables afterwards."""

    outputs: list[Array]
    state: dict[State, Array]


def run_reference(graph: Graph, inputs: Sequence[Array]) -> Results:
    """Run the NumPy meaning of each op."""
    outputs, new = evaluate(graph, inputs)
    state = {variable.state: variable.value for variable in graph.variables}
    state.update(zip((u.variable.state for u in graph.updates), new, strict=True))
    return Results(outputs, state)


def run_native(executable: Executable, inputs: Sequence[Array]) -> Results:
    """Run machine code, in an arena full of garbage. The state is put back as it was."""
    ctypes.memset(int(executable.table[0]), _POISON, executable.program.arena_bytes)
    outputs = [_poisoned(t.type.static_shape, t.dtype) for t in executable.graph.outputs]
    entry = executable.entry(name="native", single=False, slow_path=_refuse, into_slow_path=_refuse)
    arrays = [np.require(a, requirements=["C", "A", "E"]) for a in inputs]
    with kept_state(executable.graph):
        entry.into(*arrays, *outputs)
        state = {variable.state: variable.value for variable in executable.graph.variables}
    return Results(outputs, state)


def _refuse(*_arguments: object) -> None:
    raise AssertionError("the arguments of the step do not fit")


@contextmanager
def kept_state(graph: Graph) -> Iterator[None]:
    """Put the variables of `graph` back to what they were when the block ends."""
    kept = {variable.state: variable.value for variable in graph.variables}
    try:
        yield
    finally:
        for state, value in kept.items():
            state.array[...] = value


# ------------------------------------------------------------------------------------- loops


class LoopMachine:
    """The memory of a program, and its calls in the loop interpreter.

    Temporaries lie in one arena of bytes at the offsets of the plan, so that two which overlap
    while both are needed spoil the result.
    """

    def __init__(self, program: Program, inputs: Sequence[Array]) -> None:
        self.program = program
        graph = program.partition.graph
        self._arena = np.full(program.arena_bytes, _POISON, np.uint8)
        self._inputs = [np.array(a).reshape(-1) for a in inputs]
        self._outputs = [_poisoned(t.type.static_shape, t.dtype) for t in graph.outputs]
        self._variables = [state.array.copy() for state in program.variables]
        self._constants = [literal.array.reshape(-1) for literal in program.constants]

        self._tapes: dict[Buffer, Array] = {}
        self._iterations: dict[int, int] = {}

    def run(self) -> int:
        """Run the steps in order, up to one that fails; return its status, else 0."""
        return self._run(self.program.steps)

    def _run(self, steps: Sequence[Step]) -> int:
        return next(filter(None, map(self._step, steps)), 0)

    def _step(self, step: Step) -> int:
        match step:
            case Call():
                return self._call(step)
            case Choice():
                index = int(self._place(step.index)[0])
                chosen = index if 0 <= index < len(step.branches) else -1
                return self._run(step.branches[chosen])
            case Repeat():
                return self._repeat(step)
            case Sweep():
                return self._sweep(step)
            case Invoke():
                return self._invoke(step)

    def _invoke(self, invoke: Invoke) -> int:
        """Run a routine; what it calls inputs and outputs are pieces of memory of the caller."""
        outside = self._inputs, self._outputs
        inputs = [self._place(argument) for argument in invoke.inputs]
        outputs = [self._place(argument) for argument in invoke.outputs]
        self._inputs, self._outputs = inputs, outputs
        status = self._run(invoke.routine.steps)
        self._inputs, self._outputs = outside
        return status

    def _repeat(self, loop: Repeat) -> int:
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

    def _sweep(self, loop: Sweep) -> int:
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

    def _call(self, call: Call) -> int:
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


def _poisoned(shape: tuple[int, ...], dtype: DType) -> Array:
    array = aligned_empty(shape, dtype.numpy)
    array.reshape(-1).view(np.uint8)[...] = 1 if dtype.is_bool else _POISON
    return array


# -------------------------------------------------------------------------------- comparison

# How far results of different floors may be apart, relative to the largest element: functions
# differ in their last bits, and sums in their order and in what is fused.
TOLERANCES = {float64: 1e-11, float32: 1e-4, float16: 2e-2, bfloat16: 1e-1}


@dataclass(frozen=True, slots=True)
class Disagreement:
    """The first floor that differs from the reference, and in what."""

    floor: str
    result: str
    found: Array
    wanted: Array

    def __str__(self) -> str:
        return (
            f"{self.floor} differs from the reference in {self.result}:\n"
            f"  found  {_head(self.found)}\n  wanted {_head(self.wanted)}"
        )


def _head(array: Array) -> str:
    shown = ", ".join(str(v) for v in array.reshape(-1)[:6])
    return f"{array.dtype.name}{list(array.shape)} [{shown}{', ...' if array.size > 6 else ''}]"


def run_everywhere(
    graph: Graph,
    inputs: Sequence[Array],
    *,
    targets: Sequence[str] = TARGETS,
    opt_level: int = 1,
    slack: float = 1.0,
    threads: Threads = ONE_THREAD,
) -> Disagreement | None:
    """Run `graph` on all floors; return the first that disagrees with the reference, or None.

    Integers and bools must be equal, floats within `TOLERANCES` times `slack`.
    """
    graph = specialize(graph, bind_sizes(graph, inputs))
    wanted = run_reference(graph, inputs)
    for target in targets:
        executable = compile_for(graph, target, opt_level=opt_level, threads=threads)
        for floor, run in _floors(executable, inputs):
            try:
                found = run()
            except Exception as error:
                error.add_note(f"raised by {floor} for {target}")
                raise
            different = _difference(f"{floor} for {target}", found, wanted, slack)
            if different is not None:
                return different
    return None


def compile_for(
    graph: Graph,
    target: str = "native",
    *,
    opt_level: int = 1,
    threads: Threads = ONE_THREAD,
) -> Executable:
    """Compile a graph of known sizes, without a share in machine code compiled before."""
    return Executable(graph, CompileOptions(target_named(target), opt_level, False, False, threads))


def program_for(graph: Graph, target: str = "native") -> Program:
    """Return the kernels for a graph of known sizes; no machine code is made."""
    partition = fuse(optimize(graph))
    return build_program(partition, target_named(target))


def _floors(
    executable: Executable, inputs: Sequence[Array]
) -> Iterator[tuple[str, Callable[[], Results]]]:
    yield "the graph after the passes", partial(run_reference, executable.optimized, inputs)
    yield "the loops", partial(run_loops, executable.program, inputs)
    yield "native code", partial(run_native, executable, inputs)


def _difference(floor: str, found: Results, wanted: Results, slack: float) -> Disagreement | None:
    pairs = [
        (f"output {i}", a, b)
        for i, (a, b) in enumerate(zip(found.outputs, wanted.outputs, strict=True))
    ]
    # What a floor knows nothing of, since nothing of it is left, stays what it is.
    pairs += [
        (f"variable {s.name}", found.state.get(s, s.array), b) for s, b in wanted.state.items()
    ]
    for name, a, b in pairs:
        if not agree(a, b, slack):
            return Disagreement(floor, name, a, b)
    return None


def agree(found: Array, wanted: Array, slack: float = 1.0) -> bool:
    """Return whether two arrays are of one type, and equal up to `TOLERANCES`."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    dtype = as_dtype(wanted.dtype)
    if not dtype.is_float:
        return np.array_equal(found, wanted)
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    largest = np.max(np.abs(b), where=np.isfinite(b), initial=1.0)
    return np.allclose(a, b, rtol=0.0, atol=slack * TOLERANCES[dtype] * largest, equal_nan=True)
