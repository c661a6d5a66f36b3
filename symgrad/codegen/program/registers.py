"""Register promotion, decision: which buffers are in registers while a loop runs.

Small kernels are written out in the loop rather than called, without loops of their own, and what
only they touch need not be in memory: a loop variable that goes through memory costs the time from
a store to a load of it in every iteration.

    while loop 0 -> temporary2 {           while loop 0 registers(inout temporary0) -> temporary2 {
      launch @k1(temporary0, temporary1)     launch @k1(temporary0, temporary1)
    } temporary1 {                     ->  } temporary1 {
      launch @k2(temporary0)                 launch @k2(temporary0)
    }                                      }

The schedule changes no result: in registers, the same operations are done in the same lanes. How
much fits depends on the machine. What is left over is for `llvm/instructions.py` to emit as calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from symgrad.codegen.kernel_costs import kernel_parts
from symgrad.codegen.loops.language import (
    BinarySearch,
    Check,
    Fold,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Op,
    Prefix,
    Product,
    SortRows,
    Stmt,
    Store,
    inside,
    square_of,
)
from symgrad.codegen.loops.rewrite import index_names, mentions
from symgrad.codegen.program.equal_loops import canonical_text
from symgrad.codegen.program.language import (
    Argument,
    CallInstr,
    ExternInstr,
    Instr,
    Launch,
    LoopInstr,
    Program,
    Register,
    RegisterMode,
    Routine,
    ScanInstr,
    Slice,
    SwitchInstr,
    WhileInstr,
    buffers_of,
    launches_of,
    root,
    routines_of,
    with_routines,
)
from symgrad.codegen.target import Target
from symgrad.cost_model import (
    COSTLY_FLOPS,
    MAX_KERNEL_INSTRUCTIONS,
    MAX_PROGRAM_INSTRUCTIONS,
)
from symgrad.forks import cached_property
from symgrad.graph.dtypes import DType
from symgrad.graph.scalars import SCALAR_OPS
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass, replace


def schedule_registers(program: Program, target: Target) -> Program:
    """Promote buffers to registers: return `program` with those loops marked that gain from it."""

    def scheduled(instrs: tuple[Instr, ...]) -> tuple[Instr, ...]:
        return _Registers(instrs, target).schedule(instrs)

    def of_routine(routine: Routine) -> Routine:
        return replace(routine, instrs=scheduled(routine.instrs))

    program = with_routines(program, of_routine)
    return replace(program, instrs=scheduled(program.instrs))


def is_written_out(kernel: Kernel, vector_bytes: int) -> bool:
    """Return whether `kernel` is inlined, written out, in a loop with registers, and not called.

    One that threads share is called: to them, its buffers are addresses.
    """
    if kernel_parts(kernel) > 1:
        return False
    return _instructions(kernel.body, _Lanes(None, 1, vector_bytes)) <= MAX_KERNEL_INSTRUCTIONS


def loops_around(loop: WhileInstr | ScanInstr) -> list[int]:
    """Return the numbers of the loops around `loop` of whose slices it takes some."""
    nested = list(_nested([loop]))
    inside = {instr.number for instr in nested if isinstance(instr, LoopInstr)}
    slices = (s for instr in nested for argument in _arguments(instr) for s in _slices(argument))
    return [n for n in dict.fromkeys(s.loop for s in slices) if n not in inside]


def timed_as_one(instrs: Sequence[Instr]) -> Iterator[WhileInstr | ScanInstr]:
    """Yield the loops with registers that a clock can be read around: those without routines.

    A loop within one of them is part of it. A routine reads a clock of its own.
    """
    for instr in instrs:
        match instr:
            case WhileInstr() | ScanInstr() if instr.registers and not routines_of([instr]):
                yield instr
            case WhileInstr():
                yield from timed_as_one((*instr.condition, *instr.body))
            case ScanInstr():
                yield from timed_as_one(instr.body)
            case SwitchInstr():
                for branch in instr.branches:
                    yield from timed_as_one(branch)
            case Launch() | CallInstr() | ExternInstr():
                pass


def written_out(instrs: Sequence[Instr], vector_bytes: int) -> dict[int, tuple[str, ...]]:
    """Return, by the number of each loop with registers, the names of the kernels inlined in it."""
    found = {}
    for loop in _nested(instrs):
        if isinstance(loop, LoopInstr) and loop.registers:
            kernels = (launch.kernel for launch in launches_of([loop]))
            names = (k.name for k in kernels if is_written_out(k, vector_bytes))
            found[loop.number] = tuple(dict.fromkeys(names))
    return found


class _Registers:
    def __init__(self, instrs: Sequence[Instr], target: Target) -> None:
        self._vector_bytes = target.vector_bytes
        self._capacity = target.vector_bytes * target.vector_registers
        self._loop_instructions = target.loop_instructions
        self._instrs = instrs
        self._instructions_left: float = MAX_PROGRAM_INSTRUCTIONS
        self._written_out: set[str] = set()  # canonical text of the loops that are marked

    @cached_property
    def _mentions(self) -> Counter[Buffer]:
        """How often each buffer is named: programs without loops are not asked."""
        return Counter(buffers_of(self._instrs))

    def schedule(self, instrs: Sequence[Instr]) -> tuple[Instr, ...]:
        return tuple(map(self._instr, instrs))

    def _instr(self, instr: Instr) -> Instr:
        match instr:
            case Launch() | CallInstr() | ExternInstr():
                return instr
            case SwitchInstr():
                return replace(instr, branches=tuple(map(self.schedule, instr.branches)))
            case WhileInstr() | ScanInstr():
                marked = replace(instr, registers=self._of_loop(instr))
                if marked.registers and self._has_room(marked):
                    return marked
                # Too much to write out, or nothing to gain: perhaps a loop inside of it has.
                instr = replace(instr, body=self.schedule(instr.body))
                if isinstance(instr, WhileInstr):
                    instr = replace(instr, condition=self.schedule(instr.condition))
                return instr

    def _has_room(self, loop: WhileInstr | ScanInstr) -> bool:
        """Return whether `loop` is not too long to write out; equal ones are written once."""
        text = canonical_text(loop)
        if text in self._written_out:
            return True
        lanes = _Lanes(None, 1, self._vector_bytes)
        kernels = (launch.kernel for launch in launches_of([loop]))
        inside = [k for k in kernels if is_written_out(k, self._vector_bytes)]
        instructions = sum(_instructions(kernel.body, lanes) for kernel in inside)
        if instructions > min(self._loop_instructions, self._instructions_left):
            return False
        self._instructions_left -= instructions
        self._written_out.add(text)
        return True

    def _of_loop(self, loop: WhileInstr | ScanInstr) -> tuple[Register, ...]:
        """Return the registers of `loop`; none if nothing would be written there."""
        in_memory = set(addressed([loop], self._vector_bytes))
        written = set(written_by([loop]))
        mentions = Counter(buffers_of([loop]))
        candidates = [b for b in mentions if b not in in_memory]
        candidates.sort(key=lambda b: (b not in written, b.type.nbytes))
        chosen = self._fitting(candidates)
        if written.isdisjoint(chosen):
            return ()
        return tuple(Register(b, self._mode(b, b in written, mentions[b])) for b in chosen)

    def _mode(self, buffer: Buffer, is_written: bool, mentions: int) -> RegisterMode:
        if not is_written:
            return "in"
        is_local = buffer.place == "temporary" and mentions == self._mentions[buffer]
        return "local" if is_local else "inout"

    def _fitting(self, candidates: Iterable[Buffer]) -> list[Buffer]:
        """Return the first candidates the vector registers have room for, and single elements."""
        room = self._capacity
        chosen = []
        for buffer in candidates:
            taken = buffer.type.nbytes if buffer.type.count > 1 else 0
            if taken <= room:
                chosen.append(buffer)
                room -= taken
        return chosen


# -------------------------------------------------------------------------- what a loop touches


def addressed(instrs: Sequence[Instr], vector_bytes: int) -> Iterator[Buffer]:
    """Yield the buffers that must have an address: launched kernels and slices take part of it."""
    for instr in _nested(instrs):
        match instr:
            case Launch(kernel=kernel, arguments=arguments):
                names = {param.name for param in kernel.params}
                if is_written_out(kernel, vector_bytes):
                    names = set(_indexed_by_values(kernel.body, set()))
                pairs = zip(kernel.params, arguments, strict=True)
                yield from (root(a) for p, a in pairs if p.name in names or isinstance(a, Slice))
            case SwitchInstr(index=Slice() as control) | ScanInstr(trips=Slice() as control):
                yield root(control)
            case CallInstr() | ExternInstr():
                yield from map(root, _arguments(instr))
            case SwitchInstr() | WhileInstr() | ScanInstr():
                pass


def _arguments(instr: Instr) -> tuple[Argument, ...]:
    match instr:
        case Launch():
            return instr.arguments
        case SwitchInstr():
            return (instr.index,)
        case WhileInstr():
            return instr.tapes
        case ScanInstr():
            return (instr.trips, *instr.tapes)
        case CallInstr():
            return (*instr.inputs, *instr.outputs)
        case ExternInstr():
            return instr.arguments


def _slices(argument: Argument) -> Iterator[Slice]:
    """Yield `argument` and what it is a slice of, as far as these are slices."""
    while isinstance(argument, Slice):
        yield argument
        argument = argument.stack


def _indexed_by_values(body: Sequence[Stmt], checked: set[str]) -> Iterator[str]:
    """Yield the buffers that are read or written at places that are data.

    Their index names a `Check`, and `checked` grows by those in `body`.
    """
    for statement in body:
        match statement:
            case Check():
                checked.add(statement.name)
            case Let(_, Load(buffer, index, _)) | Store(buffer, index, _):
                if not checked.isdisjoint(index_names(index)):
                    yield buffer
            case For() | Fold() | Prefix() | Product():
                yield from _indexed_by_values(inside(statement), checked)
            case SortRows():
                yield statement.source.buffer
                yield statement.result.buffer
            case Let(_, BinarySearch(buffer=buffer)):
                yield buffer
            case Let():
                pass


def written_by(instrs: Sequence[Instr]) -> Iterator[Buffer]:
    """Yield the buffers that `instrs` write to."""
    for instr in _nested(instrs):
        match instr:
            case Launch(kernel=kernel, arguments=arguments):
                pairs = zip(kernel.params, arguments, strict=True)
                yield from (root(argument) for param, argument in pairs if param.mode != "in")
            case WhileInstr():
                yield instr.count
            case CallInstr():
                yield from map(root, instr.outputs)
            case ExternInstr():
                yield from map(root, instr.arguments[len(instr.inputs) :])
            case SwitchInstr() | ScanInstr():
                pass


def _nested(instrs: Sequence[Instr]) -> Iterator[Instr]:
    """Yield `instrs` and those inside of them."""
    for instr in instrs:
        yield instr
        match instr:
            case Launch() | CallInstr() | ExternInstr():
                pass  # a routine is scheduled by itself
            case SwitchInstr():
                yield from (inner for branch in instr.branches for inner in _nested(branch))
            case WhileInstr():
                yield from _nested((*instr.condition, *instr.body))
            case ScanInstr():
                yield from _nested(instr.body)


# ------------------------------------------------------------------------------ how much it is


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The loop whose iterations lie side by side, how many, and the bytes of a register."""

    variable: str | None
    width: int
    vector_bytes: int

    def registers(self, dtype: DType) -> int:
        """Return how many registers a value takes."""
        return max(1, self.width * dtype.itemsize // self.vector_bytes)

    def accesses(self, index: Index, dtype: DType) -> int:
        """Return how many loads or stores `index` takes: one a lane if they are not in a row."""
        if self.variable is None:
            return 1
        rest = Index(0, tuple(term for term in index.terms if term[0] != self.variable))
        is_even = not mentions(rest, self.variable) and index.coefficient(self.variable) in (0, 1)
        return self.registers(dtype) if is_even else self.width


def _instructions(body: Sequence[Stmt], lanes: _Lanes) -> float:
    """Return about how many instructions `body` is, without loops."""
    return sum(_of_statement(statement, lanes) for statement in body)


def _of_statement(statement: Stmt, lanes: _Lanes) -> float:
    match statement:
        case Let(_, BinarySearch()) | Product() | SortRows():
            return float("inf")
        case Let(_, Load(_, index, dtype)):
            return lanes.accesses(index, dtype)
        case Store(_, index, value):
            return lanes.accesses(index, value.dtype)
        case Let(_, Op(name, (first, *_), _)):
            flops = SCALAR_OPS[name].flops
            # What a function of many operations does beside them is about as much again.
            instructions = max(1, flops) if flops < COSTLY_FLOPS else 2 * flops
            return instructions * lanes.registers(first.dtype)
        case Let(_, value):
            return lanes.registers(value.dtype)
        case Check():
            return 1
        case For():
            return _of_for(statement, lanes)
        case Fold():
            return _of_fold(statement, lanes)
        case Prefix():
            return _of_prefix(statement, lanes)


def _of_for(loop: For, lanes: _Lanes) -> float:
    if square_of(loop) is not None:
        return float("inf")  # what is held in registers is reached element by element
    total, rest = 0.0, loop.extent
    for width in loop.widths:
        side_by_side = replace(lanes, variable=loop.var, width=width) if width > 1 else lanes
        count, rest = divmod(rest, width)
        total += count * _instructions(loop.body, side_by_side) if count else 0
    return total


def _of_fold(fold: Fold, lanes: _Lanes) -> float:
    many, rest = divmod(fold.extent, fold.lanes) if fold.lanes > 1 else (0, fold.extent)
    instr = (*fold.body, *fold.combine)
    total = rest * _instructions(instr, lanes)
    if many:
        side_by_side = replace(lanes, variable=fold.var, width=fold.lanes)
        halves = fold.lanes.bit_length() * _instructions(fold.combine, side_by_side)
        total += many * _instructions(instr, side_by_side) + halves
    return total


def _of_prefix(prefix: Prefix, lanes: _Lanes) -> float:
    total = 0.0
    for start, stop, size in prefix.blocks:
        side_by_side = lanes if size == 1 else replace(lanes, variable=prefix.var, width=size)
        steps = size.bit_length() + (size > 1)
        block = _instructions(inside(prefix), side_by_side)
        block += steps * (1 + _instructions(prefix.combine, side_by_side))
        total += (stop - start) // size * block
    return total
