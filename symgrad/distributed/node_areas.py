"""Shared mappings: the memory of a file, at addresses where huge pages can be.

A step walks through pages of 4 KiB more slowly than through those of 2 MiB, which the system gives
the memory of one process by itself, and the memory of a file only where addresses and places in the
file are both multiples of 2 MiB, and somebody asks for it. Where it has none, pages stay small.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from symgrad.graph.huge_pages import HUGE_BYTES
from symgrad.graph.types import Array
from symgrad.records import dataclass

# Pages are made huge once and by copying, which takes some milliseconds a MiB.
_MOST_HUGE_BYTES = 64 << 20
# Of Linux; the module mmap of Python has no names for them in each version.
_MADV_COLLAPSE, _MAP_FIXED, _MAP_NORESERVE = 25, 0x10, 0x4000
# A map needs no file any more, of which a process has few; Python 3.12 and before keep one of each.
_UNTRACKED: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """The memory of a file: `size` bytes from `start` on of what is mapped."""

    mapped: mmap.mmap
    start: int
    size: int

    @property
    def address(self) -> int:
        """Where the first byte is."""
        return int(self.bytes_at(0, 1).ctypes.data)

    def bytes_at(self, place: int, count: int) -> Array:
        """Return `count` bytes from `place` on, which keep the map alive."""
        return np.frombuffer(self.mapped, np.uint8, count, self.start + place)

    def remove(self, place: int, count: int) -> None:
        """Give pages back to the system."""
        with suppress(OSError, ValueError):
            self.mapped.madvise(mmap.MADV_REMOVE, self.start + place, count)

    def make_huge(self, place: int, count: int) -> None:
        """Ask for huge pages for bytes that begin one, which nobody uses yet; they become 0."""
        whole = min(count, _MOST_HUGE_BYTES) // HUGE_BYTES * HUGE_BYTES
        if not whole or not sys.platform.startswith("linux"):
            return
        self.bytes_at(place, whole)[...] = 0  # only pages that there are become a huge one
        with suppress(OSError):
            self.mapped.madvise(_MADV_COLLAPSE, self.start + place, whole)


def map_file(file: int, size: int) -> Area:
    """Map a file, from a multiple of `HUGE_BYTES` on where that can be; raises `OSError`."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    with suppress(OSError):
        # Whoever lets the addresses go lets go what is mapped over them, too.
        area = Area(mmap.mmap(-1, size + HUGE_BYTES, flags), 0, size)
        start = -area.address % HUGE_BYTES
        if _map_over(area.address + start, size, file):
            return Area(area.mapped, start, size)
    return Area(mmap.mmap(file, size, **_UNTRACKED), 0, size)


def _map_over(address: int, size: int, file: int) -> bool:
    """Map a file in the place of addresses that this process has; return whether it is."""
    function = ctypes.CDLL(None).mmap
    function.restype = ctypes.c_void_p
    word, number = ctypes.c_size_t, ctypes.c_int
    function.argtypes = [ctypes.c_void_p, word, number, number, number, ctypes.c_int64]
    access, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED
    return bool(function(address, size, access, kind, file, 0) == address)
