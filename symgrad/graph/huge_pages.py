"""Huge pages (THP): memory of several MiB, which the system may give in pages of 2 MiB.

A step that walks through weights and slots of an optimizer meets another page of 4 KiB every 64
lines, and each of these is looked up in tables, and followed anew by what fetches ahead. What an
allocator hands out may have been used before, and keeps the small pages that it had; so this is
memory of its own, fresh from the system, and goes back to it with the array.
"""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

HUGE_BYTES = 2 << 20
# Arrays that are walked through together begin at several places of pages: 9 lines further each.
_SPACE_BYTES, _PLACES = 576, 7
_NUMBERS = itertools.count()


def aligned_bytes(make: Callable[..., Bytes], count: int, alignment: int) -> Bytes:
    """Return `count` bytes at a multiple of `alignment`, fresh ones or of those of `make`."""
    fresh = fresh_zeros(count)
    if fresh is not None:
        return fresh
    raw = make(count + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + count]


def fresh_zeros(count: int) -> Bytes | None:
    """Return `count` zeros at a multiple of 64 bytes, in huge pages if the system has some.

    None where they would not fill one, and where nobody can ask for them.
    """
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if count < HUGE_BYTES or advice is None:
        return None
    space = next(_NUMBERS) % _PLACES * _SPACE_BYTES
    # The last one is huge where half of it is needed.
    huge = (space + count + HUGE_BYTES // 2) // HUGE_BYTES * HUGE_BYTES
    size = max(space + count, huge) + HUGE_BYTES
    with suppress(OSError, OverflowError, ValueError):
        pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = -np.frombuffer(pages, np.uint8, 1).ctypes.data % HUGE_BYTES
        with suppress(OSError):  # a system that has none gives small ones
            pages.madvise(advice, start, huge)
        return np.frombuffer(pages, np.uint8, count, start + space)
    return None
