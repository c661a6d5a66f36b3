"""A program in the loop language: the order in which kernels are called, and the memory they use.

A program is a list of steps. A step calls a kernel, or runs other steps: one of several branches,
a body again and again, or a routine that is run from other places too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.graph.node import Node
from symgrad.graph.structures import KernelSpec
from symgrad.graph.types import Literal as ArrayLiteral
from symgrad.graph.types import State, TensorType
from symgrad.passes.fusion.buffers import Buffer
from symgrad.passes.fusion.partition import Group, Partition


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a stack that belongs to the current iteration of a loop."""

    stack: Argument
    loop: int
    type: TensorType


Argument = Buffer | Slice


def root(argument: Argument) -> Buffer:
    """Return the buffer that an argument is, or is a part of."""
    while isinstance(argument, Slice):
        argument = argument.stack
    return argument


RegisterMode = Literal["in", "inout", "local"]


@dataclass(frozen=True, slots=True)
class Register:
    """A buffer that is in registers while a loop runs.

    `in` is read from memory before the loop, `inout` also written back after it; `local` is
    nowhere in memory, since nothing around the loop reads it.
    """

    buffer: Buffer
    mode: RegisterMode


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """A kernel on buffers. `label` names it in reports.

    `starts` says at which element of each buffer the kernel begins, and `statuses` what its status
    1, 2, ... are as a status of the program. `group` is what is computed; None for a copy or fill.
    """

    label: str
    kernel: Kernel
    arguments: tuple[Argument, ...]
    starts: tuple[int, ...]
    statuses: tuple[int, ...]
    group: Group | None


@dataclass(frozen=True, slots=True, eq=False)
class SwitchInstr:
    """Runs the branch whose number is the int64 in `index`, the last one for any other number."""

    index: Argument
    branches: tuple[tuple[Instr, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class WhileInstr:
    """Runs `condition`, then `body` if the bool in `test` holds, and so on.

    `number` is that of the loop, which slices name; the number of iterations goes to `count`.
    A loop with stacks ends after `capacity` iterations at the latest. `tapes` grow with it.
    `registers` is a schedule (`program/registers.py`): it changes no result.
    """

    number: int
    condition: tuple[Instr, ...]
    test: Buffer
    body: tuple[Instr, ...]
    count: Buffer
    capacity: int
    tapes: tuple[Slice, ...]
    registers: tuple[Register, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ScanInstr:
    """Runs `body` as often as the int64 in `trips` says, `capacity` times at the most.

    The slices of an iteration are those of its number, with `reverse` counted from the last.
    """

    number: int
    trips: Argument
    body: tuple[Instr, ...]
    capacity: int
    reverse: bool
    tapes: tuple[Slice, ...]
    registers: tuple[Register, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Routine:
    """Steps that are in a program once and run from several places.

    Their inputs and outputs are what an `CallInstr` gives. Their temporaries lie in the buffer
    `scratch`, at `offsets` from its start: no two runs of a routine overlap, so one piece of memory
    serves all. `inner` are the routines it runs, those that these run among them. `arity` is how
    many inputs and outputs there are.
    """

    name: str
    arity: tuple[int, int]
    instrs: tuple[Instr, ...]
    scratch: Buffer
    offsets: dict[Buffer, int]
    inner: tuple[Routine, ...]

    @property
    def can_fail(self) -> bool:
        """Return whether it may end early: by a kernel, or since there is no memory for a tape."""
        is_fallible = any(launch.kernel.can_fail for launch in launches_of(self.instrs))
        has_tape = any(buffer.place == "tape" for buffer in buffers_of(self.instrs))
        return is_fallible or has_tape or any(routine.can_fail for routine in self.inner)


@dataclass(frozen=True, slots=True, eq=False)
class CallInstr:
    """Runs a routine on `inputs`; its results go to `outputs`."""

    routine: Routine
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]


Instr = Launch | SwitchInstr | WhileInstr | ScanInstr | CallInstr


def launches_of(instrs: Sequence[Instr]) -> Iterator[Launch]:
    """Yield the calls of kernels in `steps`, nested ones in their place."""
    for instr in instrs:
        match instr:
            case Launch():
                yield instr
            case SwitchInstr():
                for branch in instr.branches:
                    yield from launches_of(branch)
            case WhileInstr():
                yield from launches_of(instr.condition)
                yield from launches_of(instr.body)
            case ScanInstr():
                yield from launches_of(instr.body)
            case CallInstr():
                pass  # the calls of a routine are its own


def routines_of(instrs: Sequence[Instr]) -> tuple[Routine, ...]:
    """Return the routines that `steps` run, each once, after those it runs itself."""
    direct = dict.fromkeys(instr.routine for instr in calls_of(instrs))
    return tuple(dict.fromkeys(r for routine in direct for r in (*routine.inner, routine)))


def calls_of(instrs: Sequence[Instr]) -> Iterator[CallInstr]:
    """Yield the runs of routines in `steps`, nested ones in their place."""
    for instr in instrs:
        match instr:
            case Launch():
                pass
            case SwitchInstr():
                for branch in instr.branches:
                    yield from calls_of(branch)
            case WhileInstr():
                yield from calls_of((*instr.condition, *instr.body))
            case ScanInstr():
                yield from calls_of(instr.body)
            case CallInstr():
                yield instr


def buffers_of(instrs: Sequence[Instr]) -> Iterator[Buffer]:
    """Yield the buffers that `steps` touch, at any depth."""
    for instr in instrs:
        match instr:
            case Launch():
                yield from map(root, instr.arguments)
            case SwitchInstr():
                yield root(instr.index)
                for branch in instr.branches:
                    yield from buffers_of(branch)
            case WhileInstr():
                yield from (instr.test, instr.count)
                yield from buffers_of(instr.condition)
                yield from buffers_of(instr.body)
            case ScanInstr():
                yield root(instr.trips)
                yield from buffers_of(instr.body)
            case CallInstr():
                yield from map(root, (*instr.inputs, *instr.outputs))


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A compiled graph in the loop language.

    `kernels` are the different ones; calls of equal kernels share one. `offsets` says where in the
    arena of `arena_bytes` each temporary lies, those of `routines` too; `failures` which node each
    status stands for. `nested` are the groups of branches, bodies and functions, each after the
    graph it is in.
    """

    partition: Partition
    nested: tuple[Partition, ...]
    variables: tuple[State, ...]
    constants: tuple[ArrayLiteral, ...]
    kernels: tuple[Kernel, ...]
    instrs: tuple[Instr, ...]
    routines: tuple[Routine, ...]
    offsets: dict[Buffer, int]
    lifetimes: dict[Buffer, tuple[int, int]]
    arena_bytes: int
    failures: dict[int, tuple[Node, KernelSpec | None]]
    tapes: int

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Every call of a kernel, in the order of the text."""
        return tuple(launches_of(self.all_instrs))

    @property
    def all_instrs(self) -> tuple[Instr, ...]:
        """The steps of the routines, then those of the program."""
        return (*(instr for routine in self.routines for instr in routine.instrs), *self.instrs)

    def __str__(self) -> str:
        body = "\n".join(print_kernel(k) for k in self.kernels)
        return f"{body}\n{self.text_of_instrs()}"

    def text_of_instrs(self) -> str:
        """Return the text of the program without that of the kernels it calls."""
        routines = "".join(
            f"routine @{r.name} {{\n{self._print(r.instrs, '  ')}}}\n" for r in self.routines
        )
        head = f"program @{self.partition.graph.name} arena({self.arena_bytes})"
        return f"{routines}{head} {{\n{self._print(self.instrs, '  ')}}}\n"

    def _print(self, instrs: Sequence[Instr], indent: str) -> str:
        return "".join(self._print_instr(instr, indent) for instr in instrs)

    def _print_instr(self, instr: Instr, indent: str) -> str:
        deeper = indent + "  "
        match instr:
            case Launch():
                places = zip(instr.arguments, instr.starts, strict=True)
                names = ", ".join(self._print_place(*place) for place in places)
                return f"{indent}launch @{instr.kernel.name}({names})  // {instr.label}\n"
            case SwitchInstr():
                parts = "".join(
                    f"{indent}}} case {i} {{\n{self._print(branch, deeper)}"
                    for i, branch in enumerate(instr.branches)
                )
                return f"{indent}switch {self._print_argument(instr.index)} {{\n{parts}{indent}}}\n"
            case WhileInstr():
                head = f"while loop {instr.number}{self._print_registers(instr.registers)}"
                return (
                    f"{indent}{head} {{\n{self._print(instr.condition, deeper)}"
                    f"{indent}}} {self._print_argument(instr.test)} {{\n"
                    f"{self._print(instr.body, deeper)}{indent}}}\n"
                )
            case ScanInstr():
                way = " backwards" if instr.reverse else ""
                head = f"scan loop {instr.number} {self._print_argument(instr.trips)}{way}"
                head += self._print_registers(instr.registers)
                return f"{indent}{head} {{\n{self._print(instr.body, deeper)}{indent}}}\n"
            case CallInstr():
                given = ", ".join(map(self._print_argument, instr.inputs))
                results = ", ".join(map(self._print_argument, instr.outputs))
                return f"{indent}call @{instr.routine.name}({given}) -> ({results})\n"

    def _print_registers(self, registers: Sequence[Register]) -> str:
        places = (f"{r.mode} {self._print_argument(r.buffer)}" for r in registers)
        return f" registers({', '.join(places)})" if registers else ""

    def _print_place(self, argument: Argument, start: int) -> str:
        if isinstance(argument, Buffer) and argument.place == "temporary":
            return f"arena[{self.offsets[argument] + start * argument.type.dtype.itemsize}]"
        return self._print_argument(argument) + (f"[{start}]" if start else "")

    def _print_argument(self, argument: Argument) -> str:
        if isinstance(argument, Slice):
            return f"{self._print_argument(argument.stack)}[iteration of loop {argument.loop}]"
        if argument.place == "temporary":
            return f"arena[{self.offsets[argument]}]"
        return str(argument)
