"""Verifier of the program IR: what a well-formed program is.

Checked is that every piece of memory an instruction is handed exists and is as large as it is taken
to be: a kernel touches nothing outside of its parameters (`verify_kernel`), its parameters lie in
the arguments of its launches, the slices of a stack fill the stack, and what a routine calls an
input or an output is one of that size at each of its calls. What is written overlaps nothing else
that the same instruction is handed. Loops are counted by one int64, statuses say where each failure
goes, and registers are a schedule that changes no result. That the arena holds every temporary is
checked in `verify_memory.py`. Not checked is what depends on the order of instructions: whether
memory is written before it is read; the interpreter spoils what was not written, so that its
results tell.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import assert_never

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.verify import verify_kernel
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
    buffers_of,
    root,
    routines_of,
)
from symgrad.codegen.program.registers import addressed, written_by
from symgrad.codegen.program.verify_memory import verify_memory
from symgrad.codegen.schedule.relocate import statuses_of
from symgrad.graph.aligned import ALIGNMENT
from symgrad.graph.dtypes import DType, bool_, int64
from symgrad.graph.foreign_functions import PassedOperand, PassedWorkspace
from symgrad.graph.types import TensorType, is_unbounded
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass

# Of which types the memory is that a buffer outside of the arena names, by place and number.
_Outside = Mapping[tuple[str, int], TensorType]


def verify_program(program: Program) -> None:
    """Raise AssertionError, with the instruction as a note, if a program is not well formed."""
    verify_instrs(program)
    verify_memory(program)


def verify_instrs(program: Program) -> None:
    """Verify what holds before the memory is laid out, too."""
    _verify_kernels(program.kernels)
    _verify_unique("kernels", [kernel.name for kernel in program.kernels])
    _verify_unique("routines", [routine.name for routine in program.routines])
    loops = [loop.number for loop in _loops_of(program.all_instrs)]
    _verify_unique("loops", list(map(str, loops)))
    for number, cycles in program.polled.items():
        assert number in loops, f"loop {number} polls and does not exist"
        assert cycles > 0, f"an iteration of loop {number} counts {cycles} cycles"
    places = {("variable", i): state.type for i, state in enumerate(program.variables)}
    places |= {("constant", i): literal.type for i, literal in enumerate(program.constants)}
    places |= {("tape", i): type_ for i, type_ in enumerate(program.tapes)}
    assert all(map(is_unbounded, program.tapes)), "a tape has a bound"
    kernels = {kernel.name: kernel for kernel in program.kernels}
    known: list[Routine] = []
    for routine in program.routines:
        assert set(routine.inner) <= set(known), f"@{routine.name} stands before what it calls"
        _verify_whole(routine, kernels, known, places)
        known.append(routine)
    _verify_whole(program, kernels, known, places)


def _verify_kernels(kernels: tuple[Kernel, ...]) -> None:
    """Verify kernels, but for those that are among the ones found well formed last.

    Passes over programs hand on most kernels that they were given, and each pass is verified.
    """
    last = _well_formed.kernels
    if kernels is last:
        return
    known = set(map(id, last))
    for kernel in kernels:
        if id(kernel) not in known:
            verify_kernel(kernel)
    _well_formed.kernels = kernels


class _WellFormed(threading.local):
    """The kernels that a thread has verified last; they are kept here, and cannot change."""

    kernels: tuple[Kernel, ...] = ()


_well_formed = _WellFormed()


def _verify_whole(
    whole: Program | Routine,
    kernels: Mapping[str, Kernel],
    known: Sequence[Routine],
    places: _Outside,
) -> None:
    """Verify the instructions of a program or of a routine."""
    inputs = {("input", i): type_ for i, type_ in enumerate(whole.inputs)}
    outputs = {("output", i): type_ for i, type_ in enumerate(whole.outputs)}
    if isinstance(whole, Routine):
        called = routines_of(whole.instrs)
        assert whole.inner == called, f"@{whole.name} calls others than it says"
    mentions = Counter(buffers_of(whole.instrs))
    outside = {**places, **inputs, **outputs}
    _InstrVerifier(kernels, known, outside, mentions).verify(whole.instrs, {})


def _verify_unique(what: str, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    assert not twice, f"two {what} are called {', '.join(twice)}"


def _loops_of(instrs: Sequence[Instr]) -> Iterator[WhileInstr | ScanInstr]:
    """Yield the loops among `instrs`, at any depth."""
    for instr in instrs:
        match instr:
            case Launch() | CallInstr() | ExternInstr():
                pass
            case SwitchInstr():
                yield from (loop for branch in instr.branches for loop in _loops_of(branch))
            case WhileInstr():
                yield instr
                yield from _loops_of((*instr.condition, *instr.body))
            case ScanInstr():
                yield instr
                yield from _loops_of(instr.body)
            case _:
                assert_never(instr)


@dataclass(frozen=True, slots=True)
class _InstrVerifier:
    """Walks the instructions of a program or routine.

    `outside` is the memory that is not in the arena; `mentions` is how often a buffer is named.
    """

    kernels: Mapping[str, Kernel]
    routines: Sequence[Routine]
    outside: _Outside
    mentions: Mapping[Buffer, int]

    def verify(self, instrs: Sequence[Instr], slices: Mapping[int, int]) -> None:
        """Verify instructions; `slices` is how many slices the stacks of each loop around have."""
        for instr in instrs:
            try:
                self._instr(instr, slices)
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
                _verify_written(instr.count)
                inside = self._loop(instr, slices)
                self.verify(instr.condition, inside)
                self.verify(instr.body, inside)
            case ScanInstr():
                self._scalar(instr.trips, int64, slices)
                self.verify(instr.body, self._loop(instr, slices))
            case CallInstr():
                self._call(instr, slices)
            case ExternInstr():
                self._extern(instr, slices)
            case _:
                assert_never(instr)

    def _launch(self, launch: Launch, slices: Mapping[int, int]) -> None:
        kernel = launch.kernel
        is_known = self.kernels.get(kernel.name) == kernel
        assert is_known, f"@{kernel.name} is no kernel of the program"
        assert "\n" not in launch.label, "a label is one line"
        _verify_statuses(launch)
        given, wanted = (len(launch.arguments), len(launch.starts)), len(kernel.params)
        assert given == (wanted, wanted), f"{given[0]} arguments for {wanted} parameters"
        places = list(zip(kernel.params, launch.arguments, launch.starts, strict=True))
        for param, argument, start in places:
            self._argument(argument, slices)
            _verify_dtype(param.name, param.dtype, argument.type.dtype)
            held, end = argument.type.count, start + param.count
            is_inside = start >= 0 and end <= held
            assert is_inside, f"{param.name} is {start}..{end} of {held} elements"
        for (param, first, low), (other, second, start) in combinations(places, 2):
            if param.mode != "in" or other.mode != "in":
                apart = low + param.count <= start or start + other.count <= low
                is_shared = root(first) == root(second) and param.count and other.count
                assert not is_shared or (first == second and apart), (
                    f"{param.name} and {other.name} overlap"
                )
        for param, argument, _ in places:
            if param.mode != "in":
                _verify_written(argument)

    def _loop(self, loop: WhileInstr | ScanInstr, slices: Mapping[int, int]) -> dict[int, int]:
        """Verify the head of a loop; return the slices of the loops around what is within it."""
        assert loop.capacity >= 0, f"loop {loop.number} has {loop.capacity} slices"
        inside = {**slices, loop.number: loop.capacity}
        for tape in loop.tapes:
            assert root(tape).place == "tape", f"{root(tape)} grows and is no tape"
            assert tape.loop == loop.number, f"a tape of loop {tape.loop} grows"
            assert isinstance(tape.stack, Buffer), "a slice of a tape grows"
            self._argument(tape, inside)
        self._registers(loop, inside)
        return inside

    def _registers(self, loop: WhileInstr | ScanInstr, slices: Mapping[int, int]) -> None:
        """Verify that the registers of a loop hold all that it does to them."""
        if not loop.registers:
            return
        body = loop.body if isinstance(loop, ScanInstr) else (*loop.condition, *loop.body)
        is_outermost = not any(inner.registers for inner in _loops_of(body))
        assert is_outermost, "a loop within one that has registers has some of its own"
        mentions, written = Counter(buffers_of([loop])), set(written_by([loop]))
        in_memory = set(addressed([loop], ALIGNMENT))  # no vector register is wider
        _verify_unique("registers", [str(register.buffer) for register in loop.registers])
        for register in loop.registers:
            buffer, mode = register.buffer, register.mode
            self._argument(buffer, slices)
            assert mentions[buffer], f"{buffer} is in a register and not in the loop"
            assert buffer not in in_memory, f"{buffer} is in a register and needs an address"
            if mode == "in":
                assert buffer not in written, f"{buffer} is written and not written back"
            if mode == "local":
                is_local = buffer.place == "temporary" and mentions[buffer] == self.mentions[buffer]
                assert is_local, f"{buffer} is in a register only, and named outside of the loop"

    def _call(self, call: CallInstr, slices: Mapping[int, int]) -> None:
        routine = call.routine
        assert routine in self.routines, f"@{routine.name} is no routine of the program"
        given = len(call.inputs), len(call.outputs)
        assert given == routine.arity, f"{given} inputs and outputs for {routine.arity}"
        for place, arguments, types in (
            ("input", call.inputs, routine.inputs),
            ("output", call.outputs, routine.outputs),
        ):
            for number, (argument, wanted) in enumerate(zip(arguments, types, strict=True)):
                self._argument(argument, slices)
                _verify_same(f"{place} {number} of @{routine.name}", argument.type, wanted)
        for number, output in enumerate(call.outputs):
            _verify_written(output)
            others = (*call.inputs, *call.outputs[:number])
            is_apart = not output.type.count or root(output) not in map(root, others)
            assert is_apart, f"output {number} of @{routine.name} overlaps another operand"

    def _extern(self, call: ExternInstr, slices: Mapping[int, int]) -> None:
        assert "\n" not in call.label, "a label is one line"
        assert call.status > 0, "a status of a failure is not positive"
        counts = {"in": len(call.inputs), "out": len(call.outputs)}
        for passed in call.layout:
            if isinstance(passed, PassedOperand):
                is_there = 0 <= passed.number < counts[passed.place]
                assert is_there, f"there is no {passed.place} {passed.number}"
            if isinstance(passed, PassedWorkspace):
                held = 0 if call.workspace is None else call.workspace.type.nbytes
                assert 0 <= passed.offset < held, f"byte {passed.offset} of a workspace of {held}"
        for argument in call.arguments:
            self._argument(argument, slices)
        written = call.arguments[len(call.inputs) :]
        operands = (a for a in call.layout if isinstance(a, PassedOperand) and a.place == "in")
        read = [call.inputs[a.number] for a in operands]
        for number, argument in enumerate(written):
            _verify_written(argument)
            others = map(root, (*read, *written[:number]))
            is_apart = not argument.type.count or root(argument) not in others
            assert is_apart, f"{root(argument)}, which the function writes, is handed twice"

    # ----------------------------------------------------------------------------- arguments

    def _scalar(self, argument: Argument, dtype: DType, slices: Mapping[int, int]) -> None:
        self._argument(argument, slices)
        wanted = TensorType(dtype, ())
        _verify_same("what says how to go on", argument.type, wanted)

    def _argument(self, argument: Argument, slices: Mapping[int, int]) -> None:
        """Verify that an argument is memory of the program, and fills what it is a part of."""
        if isinstance(argument, Slice):
            self._slice(argument, slices)
        elif argument.place != "temporary":
            wanted = self.outside.get((argument.place, argument.number))
            assert wanted is not None, f"{argument} does not exist"
            _verify_same(str(argument), argument.type, wanted)

    def _slice(self, part: Slice, slices: Mapping[int, int]) -> None:
        self._argument(part.stack, slices)
        assert part.loop in slices, f"a slice of loop {part.loop}, which is not around"
        _verify_dtype("a slice", part.type.dtype, part.stack.type.dtype)
        count, trips, held = part.type.count, slices[part.loop], part.stack.type.count
        # A slice of a tape may be a stack itself, which the slices of a loop inside fill.
        if not isinstance(part.stack, Buffer) or part.stack.place != "tape":
            assert count * trips == held, f"{trips} slices of {count} elements do not fill {held}"
        else:
            per_slice = part.stack.type.with_shape(part.stack.type.shape[1:]).count
            assert count == per_slice, f"a slice of {count} elements on a tape of {per_slice} each"


def _verify_written(argument: Argument) -> None:
    place = root(argument).place
    assert place not in ("constant", "input"), f"{root(argument)} is written"


def _verify_statuses(launch: Launch) -> None:
    """Verify that each failure of the kernel is one of the program."""
    wanted = statuses_of(launch.kernel)
    given = len(launch.statuses)
    assert given == wanted, f"{given} statuses for the {wanted} of @{launch.kernel.name}"
    assert all(status > 0 for status in launch.statuses), "a status of a failure is not positive"


def _verify_same(what: str, found: TensorType, held: TensorType) -> None:
    is_same = found.dtype == held.dtype and found.count == held.count
    assert is_same, f"{what} is {found}, but its memory holds {held}"


def _verify_dtype(what: str, dtype: DType, held: DType) -> None:
    assert dtype == held, f"{what} is {dtype}, but its memory holds {held}"


def _described(instr: Instr) -> str:
    match instr:
        case Launch():
            return f"launch @{instr.kernel.name}  // {instr.label}".removesuffix("  // ")
        case SwitchInstr():
            return "switch"
        case WhileInstr():
            return f"while loop {instr.number}"
        case ScanInstr():
            return f"scan loop {instr.number}"
        case CallInstr():
            return f"call @{instr.routine.name}"
        case ExternInstr():
            return f"extern {instr.function.name}"
        case _:
            assert_never(instr)
