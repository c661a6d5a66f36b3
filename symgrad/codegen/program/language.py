"""Program IR: structured control flow over kernels, and the memory it uses.

A program is a list of instructions. One launches a kernel, calls a function of C, or runs other
instructions: one of several branches, a body again and again, or a routine that is called from
other places too. What
it takes to run is all that is here: which groups of which graph a program was built of is in its
source map (`program/source_map.py`). `program/print.py` shows the text of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, assert_never

from symgrad.codegen.loops.language import Kernel
from symgrad.graph.foreign_functions import ForeignFunction, Layout, symbols_in
from symgrad.graph.types import ArrayLiteral, State, TensorType
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass, replace


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
    1, 2, ... are as a status of the program. `fused` are the launches that this one came in the
    place of, if a pass over programs made one of them.
    """

    label: str
    kernel: Kernel
    arguments: tuple[Argument, ...]
    starts: tuple[int, ...]
    statuses: tuple[int, ...]
    fused: tuple[Launch, ...] = ()
    _known: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        """That of the kernel."""
        return self.kernel.name

    @property
    def touched(self) -> frozenset[Buffer]:
        """The buffers it reads or writes: found once, and sets that meet need no hashes anew."""
        known: frozenset[Buffer] | None = self._known.get("touched")
        if known is None:
            known = self._known["touched"] = frozenset(map(root, self.arguments))
        return known

    @property
    def written(self) -> frozenset[Buffer]:
        """The buffers that it writes."""
        known: frozenset[Buffer] | None = self._known.get("written")
        if known is None:
            pairs = zip(self.kernel.params, self.arguments, strict=True)
            written = [root(argument) for param, argument in pairs if param.mode != "in"]
            known = self._known["written"] = frozenset(written)
        return known

    @property
    def can_fail(self) -> bool:
        """Whether its kernel returns a status: found once, since that reads all of the kernel."""
        known: bool | None = self._known.get("can_fail")
        if known is None:
            known = self._known["can_fail"] = self.kernel.can_fail
        return known


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
    """A function of a program: instructions that are there once and called from several places.

    Their inputs and outputs, of the types in `inputs` and `outputs`, are what a `CallInstr` gives.
    Their temporaries lie in the buffer `scratch`, at `offsets` from its start: no two calls of a
    routine overlap, so one piece of memory serves all. `inner` are the routines it calls, those
    that these call among them.
    """

    name: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    instrs: tuple[Instr, ...]
    scratch: Buffer
    offsets: dict[Buffer, int]
    inner: tuple[Routine, ...]

    @property
    def arity(self) -> tuple[int, int]:
        """How many inputs and outputs there are."""
        return len(self.inputs), len(self.outputs)

    @property
    def can_fail(self) -> bool:
        """Return whether it may end early: by a kernel, a function of C, or for want of memory."""
        is_fallible = any(launch.can_fail for launch in launches_of(self.instrs))
        is_fallible = is_fallible or any(True for _ in externs_of(self.instrs))
        has_tape = any(buffer.place == "tape" for buffer in buffers_of(self.instrs))
        return is_fallible or has_tape or any(routine.can_fail for routine in self.inner)


@dataclass(frozen=True, slots=True, eq=False)
class CallInstr:
    """Runs a routine on `inputs`; its results go to `outputs`."""

    routine: Routine
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ExternInstr:
    """Calls a function of C with the arguments that `layout` lists; `label` names it in reports.

    What it says of operands are `inputs`, of results `outputs`, and of the workspace `workspace`,
    if there is one. If the function returns another status than 0 the program ends with `status`,
    and that of the function is in the watch.
    """

    label: str
    function: ForeignFunction
    layout: Layout
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    workspace: Buffer | None
    status: int

    @property
    def name(self) -> str:
        """That of the function, written so that no kernel has it."""
        return f"{self.function.name}()"

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """All memory that the function is handed."""
        workspace = () if self.workspace is None else (self.workspace,)
        return (*self.inputs, *self.outputs, *workspace)


LoopInstr = WhileInstr | ScanInstr
NativeCall = Launch | ExternInstr
Instr = NativeCall | SwitchInstr | LoopInstr | CallInstr


def native_calls_of(instrs: Sequence[Instr]) -> Iterator[NativeCall]:
    """Yield the calls of kernels and of functions of C in `instrs`, nested ones in their place."""
    for instr in instrs:
        match instr:
            case Launch() | ExternInstr():
                yield instr
            case SwitchInstr():
                for branch in instr.branches:
                    yield from native_calls_of(branch)
            case WhileInstr():
                yield from native_calls_of(instr.condition)
                yield from native_calls_of(instr.body)
            case ScanInstr():
                yield from native_calls_of(instr.body)
            case CallInstr():
                pass  # the calls of a routine are its own


def launches_of(instrs: Sequence[Instr]) -> Iterator[Launch]:
    """Yield the launches of kernels in `instrs`, nested ones in their place."""
    return (call for call in native_calls_of(instrs) if isinstance(call, Launch))


def externs_of(instrs: Sequence[Instr]) -> Iterator[ExternInstr]:
    """Yield the calls of functions of C in `instrs`, nested ones in their place."""
    return (call for call in native_calls_of(instrs) if isinstance(call, ExternInstr))


def routines_of(instrs: Sequence[Instr]) -> tuple[Routine, ...]:
    """Return the routines that `instrs` call, each once, after those it calls itself."""
    direct = dict.fromkeys(instr.routine for instr in calls_of(instrs))
    return tuple(dict.fromkeys(r for routine in direct for r in (*routine.inner, routine)))


def calls_of(instrs: Sequence[Instr]) -> Iterator[CallInstr]:
    """Yield the calls of routines in `instrs`, nested ones in their place."""
    for instr in instrs:
        match instr:
            case Launch() | ExternInstr():
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
    """Yield the buffers that `instrs` touch, at any depth."""
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
            case ExternInstr():
                yield from map(root, instr.arguments)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A compiled graph in the loop language.

    `kernels` are the different ones; launches of equal kernels share one. `tapes` are the types of
    the stacks without a bound. `offsets` says where in the arena of `arena_bytes` each temporary
    lies, those of `routines` too, and `lifetimes` from which instruction to which it is needed;
    before `lay_out` has run, both are empty. `polled` are the cycles of an iteration of each
    loop that polls whether the step is to stop, by its number.
    """

    name: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    variables: tuple[State, ...]
    constants: tuple[ArrayLiteral, ...]
    tapes: tuple[TensorType, ...]
    kernels: tuple[Kernel, ...]
    instrs: tuple[Instr, ...]
    routines: tuple[Routine, ...]
    offsets: dict[Buffer, int]
    lifetimes: dict[Buffer, tuple[int, int]]
    arena_bytes: int
    polled: Mapping[int, int] = field(default_factory=dict)
    _counted: list[Counter[Buffer]] = field(default_factory=list, init=False, repr=False)

    @property
    def mentions(self) -> Counter[Buffer]:
        """How often all instructions name each buffer: counted once, and not to be changed."""
        if not self._counted:
            self._counted.append(Counter(buffers_of(self.all_instrs)))
        return self._counted[0]

    @property
    def native_calls(self) -> tuple[NativeCall, ...]:
        """Every call of a kernel or of a function of C, in the order of the text."""
        return tuple(native_calls_of(self.all_instrs))

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Every launch of a kernel, in the order of the text."""
        return tuple(launches_of(self.all_instrs))

    @property
    def functions(self) -> tuple[ForeignFunction, ...]:
        """The functions of C and other symbols of libraries, one for each name."""
        calls = externs_of(self.all_instrs)
        found = (f for call in calls for f in symbols_in(call.function, call.layout))
        return tuple({f.name: f for f in found}.values())

    @property
    def all_instrs(self) -> tuple[Instr, ...]:
        """The instructions of the routines, then those of the program."""
        return (*(instr for routine in self.routines for instr in routine.instrs), *self.instrs)


def with_routines(program: Program, change: Callable[[Routine], Routine]) -> Program:
    """Return `program` with every routine changed, each after those it calls."""
    if not program.routines:
        return program
    changed: dict[Routine, Routine] = {}
    for routine in program.routines:
        inner = tuple(changed[called] for called in routine.inner)
        instrs = _calling(routine.instrs, changed)
        changed[routine] = change(replace(routine, instrs=instrs, inner=inner))
    instrs = _calling(program.instrs, changed)
    return replace(program, instrs=instrs, routines=tuple(changed.values()))


def _calling(instrs: Sequence[Instr], routines: Mapping[Routine, Routine]) -> tuple[Instr, ...]:
    """Return `instrs` with calls of other routines in the place of those in `routines`."""

    def renamed(instr: Instr) -> Instr:
        match instr:
            case Launch() | ExternInstr():
                return instr
            case SwitchInstr():
                branches = tuple(_calling(branch, routines) for branch in instr.branches)
                return replace(instr, branches=branches)
            case WhileInstr():
                condition = _calling(instr.condition, routines)
                return replace(instr, condition=condition, body=_calling(instr.body, routines))
            case ScanInstr():
                return replace(instr, body=_calling(instr.body, routines))
            case CallInstr():
                return replace(instr, routine=routines[instr.routine])
            case _:
                assert_never(instr)

    return tuple(map(renamed, instrs))
