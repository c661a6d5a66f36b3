"""Verifier of memory planning: temporaries lie in the arena, apart while they are alive together.

How long each is needed is found anew here, by liveness, and must be what the program says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.codegen.program.arena import Lifetimes, lifetimes_of, placed
from symgrad.codegen.program.language import Instr, Program, Routine, buffers_of
from symgrad.graph.dtypes import uint8
from symgrad.passes.fusion.buffers import Buffer


def verify_memory(program: Program) -> None:
    """Raise AssertionError if a temporary has no place of its own while it is needed."""
    owners: dict[int, tuple[Buffer, str]] = {}
    for routine in program.routines:
        _verify_scratch(program, routine, owners)
        _verify_owned(owners, f"@{routine.name}", routine.instrs)
        lives = lifetimes_of(routine.instrs, ())
        _verify_places(lives, routine.offsets, routine.scratch.type.nbytes)
        for buffer, offset in routine.offsets.items():
            is_there = program.offsets.get(buffer) == program.offsets[routine.scratch] + offset
            assert is_there, f"{buffer} is not where @{routine.name} says"
    _verify_owned(owners, "the program", program.instrs)
    lives = lifetimes_of(program.instrs, program.routines)
    _verify_places(lives, program.offsets, program.arena_bytes)
    expected = placed(program, program.offsets, lives, program.arena_bytes).lifetimes
    for buffer, life in expected.items():
        stated = program.lifetimes.get(buffer)
        assert stated == life, f"{buffer} is alive {_shown(life)}, not {_shown(stated)}"
    for buffer in program.lifetimes:
        assert buffer in expected, f"{buffer} is alive, and no instruction names it"


def _shown(life: tuple[int, int] | None) -> str:
    return "at no time" if life is None else "{} to {}".format(*life)


def _verify_scratch(
    program: Program, routine: Routine, owners: dict[int, tuple[Buffer, str]]
) -> None:
    """Verify the memory that the temporaries of a routine lie in, which no instruction names."""
    scratch = routine.scratch
    is_bytes = scratch.type.dtype == uint8 and scratch.type.ndim == 1
    is_memory = scratch.place == "temporary" and is_bytes
    assert is_memory, f"the scratch memory of @{routine.name} is {scratch}: {scratch.type}"
    assert scratch in program.offsets, f"{scratch} has no place in the arena"
    _claim(owners, scratch, f"the scratch memory of @{routine.name}")


def _verify_owned(
    owners: dict[int, tuple[Buffer, str]], owner: str, instrs: Sequence[Instr]
) -> None:
    for buffer in buffers_of(instrs):
        if buffer.place == "temporary":
            _claim(owners, buffer, owner)


def _claim(owners: dict[int, tuple[Buffer, str]], buffer: Buffer, owner: str) -> None:
    """Verify that a number stands for one temporary, of the program or of one routine."""
    first, other = owners.setdefault(buffer.number, (buffer, owner))
    assert first == buffer, f"{buffer} is {first.type} and {buffer.type}"
    assert other == owner, f"{buffer} is of {other} and of {owner}"


def _verify_places(lives: Lifetimes, offsets: Mapping[Buffer, int], size: int) -> None:
    """Verify that what is alive lies in `size` bytes, apart from what is alive with it."""
    alive: list[Buffer] = []
    for buffer in sorted(lives, key=lambda b: lives[b]):
        assert buffer in offsets, f"{buffer} has no place in the arena"
        start, end = offsets[buffer], offsets[buffer] + buffer.type.nbytes
        is_inside = start >= 0 and end <= size
        assert is_inside, f"{buffer} is at {start}..{end}, outside 0..{size}"
        is_aligned = start % buffer.type.dtype.itemsize == 0
        assert is_aligned, f"{buffer} of {buffer.type} is at {start}"
        alive = [other for other in alive if lives[other][1] >= lives[buffer][0]]
        for other in alive:
            is_apart = end <= offsets[other] or offsets[other] + other.type.nbytes <= start
            assert is_apart, f"{buffer} and {other} overlap"
        alive.append(buffer)
