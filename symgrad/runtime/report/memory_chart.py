"""Layout of the memory plan over time: buffers as bars, along x the program, along y the bytes.

Units of the drawing are instructions and thousandths of the arena's height, so that it can be
stretched to any size; marks are at shares of the width and of the height.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from symgrad.codegen.program.language import (
    CallInstr,
    ExternInstr,
    Instr,
    Launch,
    NativeCall,
    Program,
    ScanInstr,
    SwitchInstr,
    WhileInstr,
    root,
)
from symgrad.display.units import bytes_text, seconds_text
from symgrad.passes.fusion.buffers import Buffer
from symgrad.records import dataclass
from symgrad.runtime.inspection.profile import Profile

HEIGHT = 1000.0
_MARKS_ACROSS, _MARKS_DOWN = 8, 4


@dataclass(frozen=True, slots=True)
class Bar:
    """A buffer in the picture of the arena: how long, where, how much, and which calls use it."""

    x: float
    y: float
    width: float
    height: float
    calls: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class MemoryChart:
    """The arena over time. Marks are a share of the width or of the height, and a text.

    `living` is the outline of how many bytes are in use at each instruction, as points.
    """

    instructions: int
    bars: tuple[Bar, ...]
    across: tuple[tuple[float, str], ...]
    down: tuple[tuple[float, str], ...]
    living: str
    peak: int


def chart_memory(program: Program, measured: Profile | None) -> MemoryChart:
    """Lay out the buffers of the arena over the instructions in which they are alive."""
    lifetimes = program.lifetimes
    users = _users(program.native_calls)
    count = max((last + 1 for _, last in lifetimes.values()), default=1)
    down = HEIGHT / max(program.arena_bytes, 1)
    bars = tuple(
        Bar(
            first,
            round(HEIGHT - (program.offsets[buffer] + buffer.type.nbytes) * down, 2),
            last - first + 1,
            round(buffer.type.nbytes * down, 2),
            users.get(buffer, ()),
            f"{buffer.type}: {bytes_text(buffer.type.nbytes)} at {program.offsets[buffer]:,}, "
            f"instructions {first} to {last}",
        )
        for buffer, (first, last) in lifetimes.items()
    )
    changes = [0] * (count + 1)
    for buffer, (first, last) in lifetimes.items():
        changes[first] += buffer.type.nbytes
        changes[last + 1] -= buffer.type.nbytes
    alive = list(itertools.accumulate(changes[:count]))
    points = (f"{x},{HEIGHT - bytes_ * down:.1f}" for x, bytes_ in _stairs(alive))
    marks = ((1 - i / _MARKS_DOWN, i * program.arena_bytes / _MARKS_DOWN) for i in range(5))
    return MemoryChart(
        count,
        bars,
        tuple(_marks_across(program, count, measured)),
        tuple((place, bytes_text(round(size))) for place, size in marks),
        " ".join(points),
        max(alive),
    )


def _marks_across(
    program: Program, count: int, measured: Profile | None
) -> Iterable[tuple[float, str]]:
    """Yield marks of instructions, with the time until then if it was measured."""
    step = max(1, -(-count // _MARKS_ACROSS))
    seconds = _seconds_until(program, count, measured) if measured else None
    for position in range(0, count, step):
        time = f" \u00b7 {seconds_text(seconds[position])}" if seconds and position else ""
        yield position / count, f"{position}{time}"


def _seconds_until(program: Program, count: int, measured: Profile) -> list[float]:
    """Return when each instruction begins, for which those of routines take no time."""
    took = {
        id(call): row.seconds for call, row in zip(program.native_calls, measured.rows, strict=True)
    }
    spent = [took.get(id(instr), 0.0) for instr in _at_positions(program.instrs)]
    return [0.0, *itertools.accumulate(spent[:count])]


def _at_positions(instrs: Sequence[Instr]) -> Iterator[Instr]:
    """Yield what is at each position that lifetimes are told in: a loop has one behind it too."""
    for instr in instrs:
        yield instr
        match instr:
            case SwitchInstr():
                for branch in instr.branches:
                    yield from _at_positions(branch)
            case WhileInstr():
                yield from _at_positions((*instr.condition, *instr.body))
                yield instr
            case ScanInstr():
                yield from _at_positions(instr.body)
                yield instr
            case Launch() | CallInstr() | ExternInstr():
                pass


def _stairs(alive: Iterable[int]) -> Iterable[tuple[int, int]]:
    for call, size in enumerate(alive):
        yield call, size
        yield call + 1, size


def _users(calls: Iterable[NativeCall]) -> Mapping[Buffer, tuple[int, ...]]:
    users: dict[Buffer, dict[int, None]] = {}
    for number, call in enumerate(calls):
        for argument in call.arguments:
            users.setdefault(root(argument), {})[number] = None
    return {buffer: tuple(numbers) for buffer, numbers in users.items()}
