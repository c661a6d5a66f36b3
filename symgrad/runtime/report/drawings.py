"""Layout of drawings: how kernels feed each other, and memory over time, as numbers.

How they look is in the page's template; here is where things lie, in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from symgrad.codegen.program.language import Launch, Program, root
from symgrad.passes.fusion.buffers import Buffer

COLUMN, ROW = 118, 40  # pixels from box to box
BOX = (100, 26)
MEMORY = (960, 280)
_LEFT = 70  # for the marks of the axis


@dataclass(frozen=True, slots=True)
class Box:
    """A call in the picture of the kernels."""

    x: int
    y: int
    kernel: str
    label: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes, and arrows as the four numbers of a line each."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    arrows: tuple[tuple[int, int, int, int], ...]


def draw_calls(calls: Sequence[Launch]) -> Picture:
    """Lay out the calls: each to the right of what it reads from, in columns."""
    needs = _needs(calls)
    columns: list[int] = []
    for before in needs:
        columns.append(max((columns[i] + 1 for i in before), default=0))
    filled: dict[int, int] = {}
    boxes = []
    for call, column in zip(calls, columns, strict=True):
        row = filled.get(column, 0)
        filled[column] = row + 1
        boxes.append(Box(column * COLUMN, row * ROW, call.kernel.name, call.label))
    width, height = BOX
    arrows = tuple(
        (boxes[i].x + width, boxes[i].y + height // 2, boxes[j].x, boxes[j].y + height // 2)
        for j, before in enumerate(needs)
        for i in sorted(before)
    )
    return Picture(
        (max(filled, default=0) + 1) * COLUMN,
        max(filled.values(), default=0) * ROW,
        tuple(boxes),
        arrows,
    )


def _needs(calls: Sequence[Launch]) -> list[set[int]]:
    """Return for each call the earlier ones that last wrote what it reads."""
    writers: dict[Buffer, int] = {}
    needs: list[set[int]] = []
    for number, call in enumerate(calls):
        modes = [(root(a), p.mode) for a, p in zip(call.arguments, call.kernel.params, strict=True)]
        read = (buffer for buffer, mode in modes if mode in ("in", "inout"))
        needs.append({writers[buffer] for buffer in read if buffer in writers})
        writers |= {buffer: number for buffer, mode in modes if mode in ("out", "inout")}
    return needs


@dataclass(frozen=True, slots=True)
class Bar:
    """A buffer in the picture of the arena: how long, where, how much, and whose."""

    x: float
    y: float
    width: float
    height: float
    kernels: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Arena:
    """The arena over time: along x the calls, along y the bytes. `marks` are heights and bytes."""

    width: int
    height: int
    bars: tuple[Bar, ...]
    marks: tuple[tuple[float, str], ...]


def draw_arena(program: Program) -> Arena:
    """Lay out the buffers of the arena over the calls in which they are alive."""
    width, height = MEMORY
    users = _users(program.launches)
    end = max((last for _, last in program.lifetimes.values()), default=0) + 1
    across, down = (width - _LEFT) / end, height / max(program.arena_bytes, 1)
    bars = tuple(
        Bar(
            round(_LEFT + first * across, 2),
            round(program.offsets[buffer] * down, 2),
            round((last - first + 1) * across, 2),
            round(buffer.type.nbytes * down, 2),
            users.get(buffer, ()),
            f"{buffer.type}: {buffer.type.nbytes:,} bytes at {program.offsets[buffer]:,}, "
            f"calls {first} to {last}",
        )
        for buffer, (first, last) in program.lifetimes.items()
    )
    marks = [(height * i / 4, f"{program.arena_bytes * i // 4:,}") for i in range(5)]
    return Arena(width, height, bars, tuple(marks))


def _users(calls: Iterable[Launch]) -> Mapping[Buffer, tuple[str, ...]]:
    users: dict[Buffer, dict[str, None]] = {}
    for call in calls:
        for argument in call.arguments:
            users.setdefault(root(argument), {})[call.kernel.name] = None
    return {buffer: tuple(names) for buffer, names in users.items()}
