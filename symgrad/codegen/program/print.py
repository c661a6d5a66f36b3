"""The text of programs: kernels, and the memory, routines and instructions that run them.

    kernel @k0(in b0: f32[64], out b1: f32[64]) {
      ...
    }

    program @step arena(256) polls(0: 137) {
      input0: f32[8, 8]
      output0: f32[8, 8]
      variable0: f32[8, 8] {name = "w", trainable = true}
      constant0: f32[] = 0.5
      tape0: slices of f32[8]
      temporary0: f32[8, 8] at 0 alive 0 to 3

      routine @f.0 scratch(temporary1) {
        ...
      }
      launch @k0(input0, temporary0[8]) else (1)  // einsum tanh
      switch temporary0 {
        case 0 {
          ...
        }
      }
      while loop 0 tapes(tape0[iteration of loop 0]) registers(inout temporary0) -> temporary3 {
        ...
      } temporary2 {
        ...
      }
      scan loop 1 constant0 at most 8 backwards {
        launch @k1(input0[iteration of loop 1: f32[2, 4]], output0)  // exp
      }
      call @f.0(temporary0) -> (output0)
      extern "f"(temporary0) -> (output0) passing [["in", 0], ["out", 0]] else (2)  // extern
    }

Memory comes first: where a temporary lies in the arena, in a routine from the start of its scratch
memory, and from which instruction to which it is needed. After a name, `[8]` is the element a
kernel begins at, and `[iteration of loop 1]` the slice of a stack, whose type follows if it is not
that of the stack less its first axis. `else` says which statuses of the program those of the kernel
are. `polls` names the loops that ask whether the program is to stop, each with the cycles that an
iteration counts. A loop with a condition goes on while the bool between its blocks holds; behind
the arrow is what counts its iterations. `passing` is the layout of what a function of C is passed.
A label is the comment behind a launch. `program/parse.py` reads all of it back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    ExternInstr,
    Instr,
    Launch,
    Program,
    Register,
    Routine,
    ScanInstr,
    Slice,
    SwitchInstr,
    WhileInstr,
    buffers_of,
)
from symgrad.graph.foreign_functions import layout_attribute
from symgrad.graph.text.print import NAME, print_array, print_attribute
from symgrad.graph.types import ArrayLiteral, State, TensorType
from symgrad.passes.fusion.buffers import Buffer


def print_program(program: Program) -> str:
    """Return the text of a program: its kernels, and the instructions that launch them."""
    kernels = "".join(f"{print_kernel(kernel)}\n" for kernel in program.kernels)
    return kernels + print_instrs(program)


def print_instrs(program: Program, *, elide: int | None = None) -> str:
    """Return the text of a program without that of its kernels.

    `elide` leaves out the values of constants with more elements than that: such text cannot be
    parsed.
    """
    return "".join(f"{line}\n" for line in _program(program, elide))


def print_argument(argument: Argument) -> str:
    """Return the name of a buffer, or of a slice of it."""
    if not isinstance(argument, Slice):
        return str(argument)
    plain = slice_type(argument.stack)
    type_ = "" if argument.type == plain else f": {argument.type}"
    return f"{print_argument(argument.stack)}[iteration of loop {argument.loop}{type_}]"


def slice_type(stack: Argument) -> TensorType | None:
    """Return the type of the slices of a stack where none is named; None for one without axes."""
    return stack.type.with_shape(stack.type.shape[1:]) if stack.type.shape else None


# ----------------------------------------------------------------------------------- memory


def _program(program: Program, elide: int | None) -> Iterator[str]:
    polled = ", ".join(f"{loop}: {cycles}" for loop, cycles in program.polled.items())
    polls = f" polls({polled})" if polled else ""
    yield f"program @{_name(program.name)} arena({program.arena_bytes}){polls} {{"
    memory = [*_interface(program), *_outside(program, elide), *_temporaries(program)]
    routines = (line for routine in program.routines for line in _routine(routine))
    body = (*routines, *_lines(program.instrs))
    yield from _indented((*memory, *([""] if memory and body else []), *body))
    yield "}"


def _routine(routine: Routine) -> Iterator[str]:
    yield f"routine @{_name(routine.name)} scratch({routine.scratch}) {{"
    named = _named(routine.instrs, routine.offsets)
    temporaries = [_temporary(buffer, routine.offsets, {}) for buffer in named]
    memory = [*_interface(routine), *temporaries]
    yield from _indented((*memory, *([""] if memory else []), *_lines(routine.instrs)))
    yield from ("}", "")


def _interface(whole: Program | Routine) -> Iterator[str]:
    for place, types in (("input", whole.inputs), ("output", whole.outputs)):
        yield from (f"{place}{number}: {type_}" for number, type_ in enumerate(types))


def _outside(program: Program, elide: int | None) -> Iterator[str]:
    """Yield the lines of the memory that is neither the caller's nor in the arena."""
    yield from (f"variable{i}: {_state(state)}" for i, state in enumerate(program.variables))
    constants = (_constant(literal, elide) for literal in program.constants)
    yield from (f"constant{i}: {constant}" for i, constant in enumerate(constants))
    slices = (tape.with_shape(tape.shape[1:]) for tape in program.tapes)
    yield from (f"tape{i}: slices of {type_}" for i, type_ in enumerate(slices))


def _state(state: State) -> str:
    trainable = str(state.trainable).lower()
    return f"{state.type} {{name = {json.dumps(state.name)}, trainable = {trainable}}}"


def _constant(literal: ArrayLiteral, elide: int | None) -> str:
    return f"{literal.type} = {print_array(literal.array, elide)}"


def _temporaries(program: Program) -> Iterator[str]:
    inner = {b for r in program.routines for b in _named(r.instrs, r.offsets)}
    known = (*program.lifetimes, *program.offsets, *(r.scratch for r in program.routines))
    for buffer in _named(program.instrs, [b for b in known if b not in inner]):
        yield _temporary(buffer, program.offsets, program.lifetimes)


def _named(instrs: Sequence[Instr], known: Iterable[Buffer]) -> list[Buffer]:
    """Return the temporaries in `known`, then others that `instrs` name."""
    touched = (buffer for buffer in buffers_of(instrs) if buffer.place == "temporary")
    return list(dict.fromkeys((*known, *touched)))


def _temporary(
    buffer: Buffer, offsets: Mapping[Buffer, int], lifetimes: Mapping[Buffer, tuple[int, int]]
) -> str:
    place = f" at {offsets[buffer]}" if buffer in offsets else ""
    alive = " alive {} to {}".format(*lifetimes[buffer]) if buffer in lifetimes else ""
    return f"{buffer}: {buffer.type}{place}{alive}"


def _name(name: str) -> str:
    return name if re.fullmatch(NAME, name) else json.dumps(name)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in lines)


# ----------------------------------------------------------------------------- instructions


def _lines(instrs: Sequence[Instr]) -> Iterator[str]:
    for instr in instrs:
        yield from _instr(instr)


def _instr(instr: Instr) -> Iterator[str]:
    match instr:
        case Launch():
            yield _launch(instr)
        case SwitchInstr():
            yield f"switch {print_argument(instr.index)} {{"
            for number, branch in enumerate(instr.branches):
                lines = (f"case {number} {{", *_indented(_lines(branch)), "}")
                yield from _indented(lines)
            yield "}"
        case WhileInstr():
            limit = f" at most {instr.capacity}" if instr.capacity else ""
            yield f"while loop {instr.number}{limit}{_schedule(instr)} -> {instr.count} {{"
            yield from _indented(_lines(instr.condition))
            yield f"}} {instr.test} {{"
            yield from _indented(_lines(instr.body))
            yield "}"
        case ScanInstr():
            trips = f"{print_argument(instr.trips)} at most {instr.capacity}"
            way = " backwards" if instr.reverse else ""
            yield f"scan loop {instr.number} {trips}{way}{_schedule(instr)} {{"
            yield from _indented(_lines(instr.body))
            yield "}"
        case CallInstr():
            inputs, outputs = map(_listed, (instr.inputs, instr.outputs))
            yield f"call @{_name(instr.routine.name)}({inputs}) -> ({outputs})"
        case ExternInstr():
            yield _extern(instr)
        case _:
            assert_never(instr)


def _extern(call: ExternInstr) -> str:
    inputs, outputs = _listed(call.inputs), _listed(call.outputs)
    workspace = "" if call.workspace is None else f" workspace({call.workspace})"
    passed = print_attribute(layout_attribute(call.layout))
    label = f"  // {call.label}" if call.label else ""
    head = f"extern {json.dumps(call.function.name)}({inputs}) -> ({outputs}){workspace}"
    return f"{head} passing {passed} else ({call.status}){label}"


def _launch(launch: Launch) -> str:
    pairs = zip(launch.arguments, launch.starts, strict=True)
    arguments = (print_argument(a) + (f"[{start}]" if start else "") for a, start in pairs)
    statuses = f" else ({', '.join(map(str, launch.statuses))})" if launch.statuses else ""
    label = f"  // {launch.label}" if launch.label else ""
    return f"launch @{launch.kernel.name}({', '.join(arguments)}){statuses}{label}"


def _schedule(loop: WhileInstr | ScanInstr) -> str:
    tapes = f" tapes({_listed(loop.tapes)})" if loop.tapes else ""
    registers = ", ".join(map(_register, loop.registers))
    return tapes + (f" registers({registers})" if registers else "")


def _register(register: Register) -> str:
    return f"{register.mode} {register.buffer}"


def _listed(arguments: Iterable[Argument]) -> str:
    return ", ".join(map(print_argument, arguments))
