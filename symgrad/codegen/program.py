"""A program in the loop language: the order in which kernels are called, and the memory they use.

A program is a list of steps. A step calls a kernel, or runs other steps: one of several branches,
a body again and again, or a routine that is run from other places too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from symgrad.codegen.loops import Kernel
from symgrad.codegen.loops_print import print_kernel
from symgrad.graph.kernel_spec import KernelSpec
from symgrad.graph.node import Node
from symgrad.graph.types import Literal as ArrayLiteral
from symgrad.graph.types import State, TensorType
from symgrad.passes.buffers import Buffer
from symgrad.passes.partition import Group, Partition


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
class Call:
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
class Choice:
    """Runs the branch whose number is the int64 in `index`, the last one for any other number."""

    index: Argument
    branches: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """Runs `condition`, then `body` if the bool in `test` holds, and so on.

    `number` is that of the loop, which slices name; the number of iterations goes to `count`.
    A loop with stacks ends after `capacity` iterations at the latest. `tapes` grow with it.
    `registers` is a schedule (`registers.py`): it changes no result.
    """

    number: int
    condition: tuple[Step, ...]
    test: Buffer
    body: tuple[Step, ...]
    count: Buffer
    capacity: int
    tapes: tuple[Slice, ...]
    registers: tuple[Register, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """Runs `body` as often as the int64 in `trips` says, `capacity` times at the most.

    The slices of an iteration are those of its number, with `reverse` counted from the last.
    """

    number: int
    trips: Argument
    body: tuple[Step, ...]
    capacity: int
    reverse: bool
    tapes: tuple[Slice, ...]
    registers: tuple[Register, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Routine:
    """Steps that are in a program once and run from several places.

    Their inputs and outputs are what an `Invoke` gives. Their temporaries lie in the buffer
    `scratch`, at `offsets` from its start: no two runs of a routine overlap, so one piece of memory
    serves all. `inner` are the routines it runs, those that these run among them. `arity` is how
    many inputs and outputs there are.
    """

    name: str
    arity: tuple[int, int]
    steps: tuple[Step, ...]
    scratch: Buffer
    offsets: dict[Buffer, int]
    inner: tuple[Routine, ...]

    @property
    def can_fail(self) -> bool:
        """Return whether it may end early: by a kernel, or since there is no memory for a tape."""
        is_fallible = any(call.kernel.can_fail for call in calls_of(self.steps))
        has_tape = any(buffer.place == "tape" for buffer in buffers_of(self.steps))
        return is_fallible or has_tape or any(routine.can_fail for routine in self.inner)


@dataclass(frozen=True, slots=True, eq=False)
class Invoke:
    """Runs a routine on `inputs`; its results go to `outputs`."""

    routine: Routine
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]


Step = Call | Choice | Repeat | Sweep | Invoke


def calls_of(steps: Sequence[Step]) -> Iterator[Call]:
    """Yield the calls of kernels in `steps`, nested ones in their place."""
    for step in steps:
        match step:
            case Call():
                yield step
            case Choice():
                for branch in step.branches:
                    yield from calls_of(branch)
            case Repeat():
                yield from calls_of(step.condition)
                yield from calls_of(step.body)
            case Sweep():
                yield from calls_of(step.body)
            case Invoke():
                pass  # the calls of a routine are its own


def routines_of(steps: Sequence[Step]) -> tuple[Routine, ...]:
    """Return the routines that `steps` run, each once, after those it runs itself."""
    direct = dict.fromkeys(step.routine for step in invokes_of(steps))
    return tuple(dict.fromkeys(r for routine in direct for r in (*routine.inner, routine)))


def invokes_of(steps: Sequence[Step]) -> Iterator[Invoke]:
    """Yield the runs of routines in `steps`, nested ones in their place."""
    for step in steps:
        match step:
            case Call():
                pass
            case Choice():
                for branch in step.branches:
                    yield from invokes_of(branch)
            case Repeat():
                yield from invokes_of((*step.condition, *step.body))
            case Sweep():
                yield from invokes_of(step.body)
            case Invoke():
                yield step


def buffers_of(steps: Sequence[Step]) -> Iterator[Buffer]:
    """Yield the buffers that `steps` touch, at any depth."""
    for step in steps:
        match step:
            case Call():
                yield from map(root, step.arguments)
            case Choice():
                yield root(step.index)
                for branch in step.branches:
                    yield from buffers_of(branch)
            case Repeat():
                yield from (step.test, step.count)
                yield from buffers_of(step.condition)
                yield from buffers_of(step.body)
            case Sweep():
                yield root(step.trips)
                yield from buffers_of(step.body)
            case Invoke():
                yield from map(root, (*step.inputs, *step.outputs))


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
    steps: tuple[Step, ...]
    routines: tuple[Routine, ...]
    offsets: dict[Buffer, int]
    lifetimes: dict[Buffer, tuple[int, int]]
    arena_bytes: int
    failures: dict[int, tuple[Node, KernelSpec | None]]
    tapes: int

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call of a kernel, in the order of the text."""
        return tuple(calls_of(self.all_steps))

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """The steps of the routines, then those of the program."""
        return (*(step for routine in self.routines for step in routine.steps), *self.steps)

    def __str__(self) -> str:
        body = "\n".join(print_kernel(k) for k in self.kernels)
        return f"{body}\n{self.text_of_steps()}"

    def text_of_steps(self) -> str:
        """Return the text of the program without that of the kernels it calls."""
        routines = "".join(
            f"routine @{r.name} {{\n{self._print(r.steps, '  ')}}}\n" for r in self.routines
        )
        head = f"program @{self.partition.graph.name} arena({self.arena_bytes})"
        return f"{routines}{head} {{\n{self._print(self.steps, '  ')}}}\n"

    def _print(self, steps: Sequence[Step], indent: str) -> str:
        return "".join(self._print_step(step, indent) for step in steps)

    def _print_step(self, step: Step, indent: str) -> str:
        deeper = indent + "  "
        match step:
            case Call():
                places = zip(step.arguments, step.starts, strict=True)
                names = ", ".join(self._print_place(*place) for place in places)
                return f"{indent}call @{step.kernel.name}({names})  // {step.label}\n"
            case Choice():
                parts = "".join(
                    f"{indent}}} case {i} {{\n{self._print(branch, deeper)}"
                    for i, branch in enumerate(step.branches)
                )
                return f"{indent}switch {self._print_argument(step.index)} {{\n{parts}{indent}}}\n"
            case Repeat():
                head = f"while loop {step.number}{self._print_registers(step.registers)}"
                return (
                    f"{indent}{head} {{\n{self._print(step.condition, deeper)}"
                    f"{indent}}} {self._print_argument(step.test)} {{\n"
                    f"{self._print(step.body, deeper)}{indent}}}\n"
                )
            case Sweep():
                way = " backwards" if step.reverse else ""
                head = f"repeat loop {step.number} {self._print_argument(step.trips)}{way}"
                head += self._print_registers(step.registers)
                return f"{indent}{head} {{\n{self._print(step.body, deeper)}{indent}}}\n"
            case Invoke():
                given = ", ".join(map(self._print_argument, step.inputs))
                results = ", ".join(map(self._print_argument, step.outputs))
                return f"{indent}invoke @{step.routine.name}({given}) -> ({results})\n"

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
