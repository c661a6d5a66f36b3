"""What a well-formed program is.

Checked is that every piece of memory a step is handed exists and is as large as the step takes it
to be: a kernel touches nothing outside of its parameters (`verify_kernel`), its parameters lie in
the arguments of its calls, the slices of a stack fill the stack, what a routine calls an input or
an output is one of that size at each of its runs, and the arena holds every temporary. Parameters
of a call do not overlap, unless it only reads them. Not checked is what depends on the order of
steps: whether memory is written before it is read, and whether it is still needed when it is
written; the interpreter of programs spoils what was not written, so that its results tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    Instr,
    Launch,
    Program,
    Routine,
    ScanInstr,
    Slice,
    SwitchInstr,
    WhileInstr,
    buffers_of,
    root,
)
from symgrad.graph.dtypes import DType, bool_, int64
from symgrad.graph.types import TensorType, is_unbounded
from symgrad.passes.fusion.buffers import Buffer

# Of which types the memory is that a buffer outside of the arena names, by place and number.
_Outside = Mapping[tuple[str, int], TensorType]


def verify_program(program: Program) -> None:
    """Raise AssertionError, with the step as a note, if the program is not well formed."""
    for kernel in program.kernels:
        verify_kernel(kernel)
    _verify_arena(program)
    graph = program.partition.graph
    places = {("variable", i): state.type for i, state in enumerate(program.variables)}
    places |= {("constant", i): literal.type for i, literal in enumerate(program.constants)}
    inputs = {("input", i): t.type for i, t in enumerate(graph.inputs)}
    outputs = {("output", i): t.type for i, t in enumerate(graph.outputs)}
    _Verifier(program, places | inputs | outputs).verify(program.instrs)
    for routine in program.routines:
        _Verifier(program, places | _interface(routine)).verify(routine.instrs)


# ---------------------------------------------------------------------------------- the arena


def _verify_arena(program: Program) -> None:
    """Verify that temporaries lie in the arena, and apart while they are needed together."""
    inner = {buffer for routine in program.routines for buffer in routine.offsets}
    for routine in program.routines:
        start = program.offsets[routine.scratch]
        for buffer in routine.offsets:
            _verify_inside(program, buffer, start, start + routine.scratch.type.nbytes)
    own = [buffer for buffer in program.lifetimes if buffer not in inner]
    for buffer in own:
        _verify_inside(program, buffer, 0, program.arena_bytes)
    alive: list[Buffer] = []
    for buffer in sorted(own, key=lambda b: program.lifetimes[b]):
        first, _ = program.lifetimes[buffer]
        alive = [other for other in alive if program.lifetimes[other][1] >= first]
        for other in alive:
            assert not _overlap(program, buffer, other), f"{buffer} and {other} overlap"
        alive.append(buffer)


def _verify_inside(program: Program, buffer: Buffer, low: int, high: int) -> None:
    start = program.offsets[buffer]
    end = start + buffer.type.nbytes
    is_inside = start >= low and end <= high
    assert is_inside, f"{buffer} is at {start}..{end}, outside {low}..{high}"
    assert start % buffer.type.dtype.itemsize == 0, f"{buffer} of {buffer.type} is at {start}"


def _overlap(program: Program, a: Buffer, b: Buffer) -> bool:
    start_a, start_b = program.offsets[a], program.offsets[b]
    return start_a < start_b + b.type.nbytes and start_b < start_a + a.type.nbytes


# ---------------------------------------------------------------------------------- the steps


def _interface(routine: Routine) -> dict[tuple[str, int], TensorType]:
    """Return the types of the inputs and outputs that a routine touches."""
    outside = (b for b in buffers_of(routine.instrs) if b.place in ("input", "output"))
    return {(buffer.place, buffer.number): buffer.type for buffer in outside}


@dataclass(frozen=True, slots=True)
class _Verifier:
    """Walks the steps of a program or routine; `outside` is the memory that is not its own."""

    program: Program
    outside: _Outside

    def verify(self, instrs: Sequence[Instr], slices: Mapping[int, int] | None = None) -> None:
        """Verify instructions; `slices` is how many slices the stacks of each loop around have."""
        for instr in instrs:
            try:
                self._instr(instr, slices or {})
            except AssertionError as error:
                error.add_note(f"in: {_described(instr)}")
                raise

    def _instr(self, instr: Instr, slices: Mapping[int, int]) -> None:
        match instr:
            case Launch():
                self._launch(instr, slices)
            case SwitchInstr():
                self._scalar(instr.index, int64, slices)
                assert instr.branches, "there is no branch to run"
                for branch in instr.branches:
                    self.verify(branch, slices)
            case WhileInstr():
                self._scalar(instr.test, bool_, slices)
                self._scalar(instr.count, int64, slices)
                inside = self._loop(instr, slices)
                self.verify(instr.condition, inside)
                self.verify(instr.body, inside)
            case ScanInstr():
                self._scalar(instr.trips, int64, slices)
                self.verify(instr.body, self._loop(instr, slices))
            case CallInstr():
                self._call(instr, slices)

    def _launch(self, launch: Launch, slices: Mapping[int, int]) -> None:
        kernel = launch.kernel
        assert kernel in self.program.kernels, f"@{kernel.name} is no kernel of the program"
        places = list(zip(kernel.params, launch.arguments, launch.starts, strict=True))
        for param, argument, start in places:
            self._argument(argument, slices)
            _verify_dtype(param.name, param.dtype, argument.type.dtype)
            held, end = argument.type.count, start + param.count
            is_inside = start >= 0 and end <= held
            assert is_inside, f"{param.name} is {start}..{end} of {held} elements"
            is_written = param.mode != "in"
            assert not (is_written and root(argument).place == "constant"), "a constant is written"
        for (param, first, low), (other, second, start) in combinations(places, 2):
            if param.mode != "in" or other.mode != "in":
                apart = low + param.count <= start or start + other.count <= low
                is_shared = root(first) == root(second) and param.count and other.count
                assert not is_shared or (first == second and apart), (
                    f"{param.name} and {other.name} overlap"
                )

    def _loop(self, loop: WhileInstr | ScanInstr, slices: Mapping[int, int]) -> dict[int, int]:
        """Verify the head of a loop; return the slices of the loops around a step within it."""
        assert loop.number not in slices, f"loop {loop.number} is within itself"
        assert loop.capacity >= 0, f"loop {loop.number} has {loop.capacity} slices"
        inside = {**slices, loop.number: loop.capacity}
        for tape in loop.tapes:
            assert root(tape).place == "tape", f"{root(tape)} grows and is no tape"
            assert tape.loop == loop.number, f"a tape of loop {tape.loop} grows"
            self._argument(tape, inside)
        for register in loop.registers:
            self._argument(register.buffer, inside)
        return inside

    def _call(self, call: CallInstr, slices: Mapping[int, int]) -> None:
        routine = call.routine
        assert routine in self.program.routines, f"@{routine.name} is no routine of the program"
        given = len(call.inputs), len(call.outputs)
        assert given == routine.arity, f"{given} inputs and outputs for {routine.arity}"
        touched = _interface(routine)
        for place, arguments in (("input", call.inputs), ("output", call.outputs)):
            for number, argument in enumerate(arguments):
                self._argument(argument, slices)
                wanted = touched.get((place, number), argument.type)
                _verify_same(f"{place} {number} of @{routine.name}", argument.type, wanted)

    # ----------------------------------------------------------------------------- arguments

    def _scalar(self, argument: Argument, dtype: DType, slices: Mapping[int, int]) -> None:
        self._argument(argument, slices)
        wanted = TensorType(dtype, ())
        _verify_same("what says how to go on", argument.type, wanted)

    def _argument(self, argument: Argument, slices: Mapping[int, int]) -> None:
        """Verify that an argument is memory of the program, and fills what it is a part of."""
        if isinstance(argument, Slice):
            self._slice(argument, slices)
            return
        if argument.place == "temporary":
            assert argument in self.program.offsets, f"{argument} has no place in the arena"
        elif argument.place == "tape":
            known = 0 <= argument.number < self.program.tapes and is_unbounded(argument.type)
            assert known, f"{argument} of {argument.type} is no tape of the program"
        else:
            wanted = self.outside.get((argument.place, argument.number))
            assert wanted is not None, f"{argument} does not exist"
            _verify_same(str(argument), argument.type, wanted)

    def _slice(self, part: Slice, slices: Mapping[int, int]) -> None:
        self._argument(part.stack, slices)
        assert part.loop in slices, f"a slice of loop {part.loop}, which is not around"
        _verify_dtype("a slice", part.type.dtype, part.stack.type.dtype)
        count, trips, held = part.type.count, slices[part.loop], part.stack.type.count
        if root(part).place != "tape":
            assert count * trips == held, f"{trips} slices of {count} elements do not fill {held}"
        else:
            per_slice = part.stack.type.with_shape(part.stack.type.shape[1:]).count
            assert count == per_slice, f"a slice of {count} elements on a tape of {per_slice} each"


def _verify_same(what: str, found: TensorType, held: TensorType) -> None:
    is_same = found.dtype == held.dtype and found.count == held.count
    assert is_same, f"{what} is {found}, but its memory holds {held}"


def _verify_dtype(what: str, dtype: DType, held: DType) -> None:
    assert dtype == held, f"{what} is {dtype}, but its memory holds {held}"


def _described(instr: Instr) -> str:
    match instr:
        case Launch():
            return f"launch @{instr.kernel.name}  // {instr.label}"
        case SwitchInstr():
            return "switch"
        case WhileInstr():
            return f"while loop {instr.number}"
        case ScanInstr():
            return f"scan loop {instr.number}"
        case CallInstr():
            return f"call @{instr.routine.name}"
