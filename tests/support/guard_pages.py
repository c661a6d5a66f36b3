"""Guard pages: memory that ends, or begins, where no page is mapped.

What touches an element too many is ended by the operating system (SIGSEGV), instead of reading or
changing what happens to be beside it. So whoever runs code between guard pages does that in a
process of its own (`fuzz_worker.py`).
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from unittest import mock

import numpy as np

from symgrad.codegen.program.language import Program
from symgrad.codegen.program.plan_memory import Request

Array = np.ndarray[Any, Any]
Side = Literal["end", "start"]

PAGE = mmap.PAGESIZE
_PROT_NONE = 0


def _pages(size: int) -> int:
    """Return `size` in bytes, rounded up to whole pages; one at least."""
    return max(-(-size // PAGE), 1) * PAGE


def _protect(memory: mmap.mmap, start: int, end: int) -> None:
    """Make the pages from `start` to `end` of `memory` such that any access is a fault."""
    assert start % PAGE == 0, f"{start} is not where a page starts"
    assert end % PAGE == 0, f"{end} is not where a page ends"
    if start == end:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + start
    status = libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(end - start), _PROT_NONE)
    assert status == 0, f"mprotect failed: {ctypes.get_errno()}"


def guarded_empty(shape: Sequence[int], dtype: np.dtype[Any], side: Side = "end") -> Array:
    """Return an array with a page that cannot be touched directly behind, or before it."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    inside = _pages(size)
    memory = mmap.mmap(-1, inside + 2 * PAGE)
    _protect(memory, 0, PAGE)
    _protect(memory, PAGE + inside, inside + 2 * PAGE)
    start = PAGE + (inside - size if side == "end" else 0)
    return np.frombuffer(memory, np.uint8, size, start).view(dtype).reshape(tuple(shape))


def guarded_copy(array: Array, side: Side = "end") -> Array:
    """Return a copy of `array` between guard pages."""
    copy = guarded_empty(array.shape, array.dtype, side)
    copy[...] = array
    return copy


# ------------------------------------------------------------------------------- temporaries


def plan_apart(requests: Sequence[Request]) -> tuple[list[int], int]:
    """Plan an arena in which every temporary has pages of its own and ends where the last ends.

    A page of nothing is between two of them.
    """
    offsets, end = [], PAGE
    for request in requests:
        end += _pages(request.size)
        offsets.append(end - request.size)
        end += PAGE
    return offsets, end


@contextmanager
def temporaries_apart() -> Iterator[None]:
    """Have programs that are built meanwhile keep every temporary between guard pages."""
    with mock.patch("symgrad.codegen.program.arena.plan_memory", plan_apart):
        yield


def arena_apart(program: Program) -> Array:
    """Return the arena of a program built with `temporaries_apart`: only temporaries are mapped.

    Those of a routine lie in its scratch memory, which is itself no temporary here.
    """
    memory = mmap.mmap(-1, _pages(program.arena_bytes))
    scratch = {routine.scratch for routine in program.routines}
    own = [buffer for buffer in program.offsets if buffer not in scratch]
    free = 0
    for start, size in sorted((program.offsets[b], b.type.nbytes) for b in own):
        first = start // PAGE * PAGE
        if first > free:
            _protect(memory, free, first)
        free = max(free, -(-(start + size) // PAGE) * PAGE)
    _protect(memory, free, _pages(program.arena_bytes))
    return np.frombuffer(memory, np.uint8, program.arena_bytes)
