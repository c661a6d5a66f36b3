"""Shared memory of the ranks of one machine: where steps have what other ranks read and write.

Each rank reserves addresses for as much as the machine has, in a file that is in memory alone and
has no name, and maps those of the others. Memory is taken when it is written, and given back with
the step it is of, or as the ranks end, in whatever way. Where ranks are on several machines, or a
system has no such files, there is none, and messages go by the library of MPI.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import secrets
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cache
from typing import Any

import numpy as np

from symgrad.codegen.native.jit import LoadedCode, load_object
from symgrad.codegen.native.objects import object_of
from symgrad.codegen.target import target_named
from symgrad.distributed.mpi_library import constant_value, load_mpi, mpi_function, word
from symgrad.distributed.node_areas import Area, map_file
from symgrad.distributed.node_requests import (
    MAX_OPEN,
    OPEN,
    OPEN_BYTES,
    OPEN_HANDLE,
    OPEN_REQUEST,
    STARTS,
)
from symgrad.distributed.node_sums import (
    HANDLES,
    LIBRARY,
    START,
    STATUS_BYTES,
    WAIT,
    emit_node_sums,
)
from symgrad.distributed.node_words import (
    BASE,
    BASES,
    BYTES,
    GROUP,
    GROUP_BYTES,
    GROUPS,
    HANDLE,
    MAX_GROUPS,
    MAX_PENDING,
    PENDING,
    PENDING_BYTES,
    RANK,
    REQUEST,
    SIZE,
    SLOT_BYTES,
    SLOTS,
)
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.huge_pages import HUGE_BYTES
from symgrad.graph.types import Array
from symgrad.records import dataclass, replace

_TOKEN_BYTES = 16
# Before what is allocated: the slots of sums, and a page with what tells the file from another.
_TOKEN_AT = SLOTS * SLOT_BYTES
_FIRST = _TOKEN_AT + mmap.PAGESIZE


@dataclass(slots=True, eq=False)
class NodeMemory:
    """The memory of this rank that others of its machine see, and what is free in it."""

    own: Area
    areas: Sequence[Area]  # of all ranks
    free: list[tuple[int, int]]
    returned: list[tuple[int, int]] = field(default_factory=list)
    process: int = field(default_factory=os.getpid)

    def allocate(self, count: int) -> Array | None:
        """Return `count` bytes, which begin a page; None where so many are not free.

        Pages are huge where those of a process would be.
        """
        size = max(1, -(-count // mmap.PAGESIZE)) * mmap.PAGESIZE
        step = HUGE_BYTES if size >= HUGE_BYTES else mmap.PAGESIZE
        self._take_back()
        starts = [-(-first // step) * step for first, _ in self.free]
        rooms = [stop - start for start, (_, stop) in zip(starts, self.free, strict=True)]
        place = next((i for i, room in enumerate(rooms) if room >= size), None)
        if place is None:
            return None
        start, (first, stop) = starts[place], self.free[place]
        remaining = [(first, start), (start + size, stop)]
        self.free[place : place + 1] = [(a, b) for a, b in remaining if a < b]
        self.own.make_huge(start, size)
        array = self.own.bytes_at(start, count)
        weakref.finalize(array, self._give_back, start, size)
        return array

    def _give_back(self, start: int, size: int) -> None:
        # It may be called at any moment, so what is free is counted at the next allocation; and in
        # a process that this one has forked, whose steps end while those of this one go on.
        if os.getpid() != self.process:
            return
        node_sums().forget(self.own.address + start, size)
        self.own.remove(start, size)
        self.returned.append((start, start + size))

    def _take_back(self) -> None:
        returned, self.returned = self.returned, []
        merged: list[tuple[int, int]] = []
        for start, stop in sorted([*self.free, *returned]):
            if merged and merged[-1][1] == start:
                merged[-1] = merged[-1][0], stop
            else:
                merged.append((start, stop))
        self.free = merged


@dataclass(frozen=True, slots=True, eq=False)
class NodeSums:
    """The code that adds in shared memory, and what it knows of groups and of what is on its way.

    It stays for good.
    """

    code: LoadedCode
    words: dict[str, ctypes.c_int64]
    groups: Array
    pending: Array
    opened: Array
    tables: dict[int, Array] = field(default_factory=dict)

    def make_room(self, mpi: Any) -> bool:
        """Return whether there is room for a communicator; forget one that has been freed.

        The library may give the handle of that to another one.
        """
        handles = self.groups[:, HANDLE.offset // 8]
        self.groups[handles == _handle_of(mpi)] = 0
        return bool((handles == 0).any())

    def settle(self, mpi: Any) -> None:
        """End what a step that failed has started on a communicator: others wait for it."""
        kind = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_void_p)
        wait = kind(self.code.address(WAIT))
        status = ctypes.create_string_buffer(STATUS_BYTES)
        handles = self.groups[:, HANDLE.offset // 8]
        for number in np.flatnonzero(handles == _handle_of(mpi)):
            owner = self.groups.ctypes.data + int(number) * GROUP_BYTES
            rows = self.pending[self.pending[:, GROUP.offset // 8] == owner]
            for request in rows[:, REQUEST.offset // 8]:
                if request:
                    wait(int(request), status)
        handles = self.opened[:, OPEN_HANDLE.offset // 8]
        for request in self.opened[handles == _handle_of(mpi), OPEN_REQUEST.offset // 8]:
            if request:
                wait(int(request), status)

    def forget(self, start: int, size: int) -> None:
        """Forget what requests there stood for: they are of a step that is no more."""
        requests = self.pending[:, REQUEST.offset // 8]
        requests[(start <= requests) & (requests < start + size)] = 0

    @contextmanager
    def alone(self, mpi: Any) -> Iterator[None]:
        """Let sums of a communicator be those of this rank alone meanwhile, which all ranks do.

        What sums take is what a step takes longer without it; sums on their way must have come.
        """
        handles = self.groups[:, HANDLE.offset // 8]
        row = self.groups[int(np.flatnonzero(handles == _handle_of(mpi))[0])]
        kept, own = row.copy(), row[[BASE.offset // 8]]
        for at, value in ((RANK, 0), (SIZE, 1), (BASES, own.ctypes.data)):
            row[at.offset // 8] = value
        try:
            yield
        finally:
            for at in (RANK, SIZE, BASES):
                row[at.offset // 8] = kept[at.offset // 8]

    def register(self, mpi: Any, memory: NodeMemory) -> None:
        """Add what a communicator sums in its memory from now on."""
        bases = np.array([area.address for area in memory.areas], np.int64)
        number = int(np.flatnonzero(self.groups[:, HANDLE.offset // 8] == 0)[0])
        self.tables[number] = bases
        for at, value in (
            (RANK, mpi.rank), (SIZE, mpi.size), (BASE, bases[mpi.rank]),
            (BYTES, memory.own.size), (BASES, bases.ctypes.data), (HANDLE, _handle_of(mpi)),
        ):  # fmt: skip
            self.groups[number, at.offset // 8] = value


@cache
def node_sums() -> NodeSums:
    """Return the code of the process."""
    words = {name: ctypes.c_int64(constant_value(name)) for name in HANDLES}
    groups = np.zeros((MAX_GROUPS, GROUP_BYTES // 8), np.int64)
    pending = np.zeros((MAX_PENDING, PENDING_BYTES // 8), np.int64)
    opened = np.zeros((MAX_OPEN, OPEN_BYTES // 8), np.int64)
    imports = {name: ctypes.addressof(value) for name, value in words.items()}
    imports |= {name: mpi_function(name).address or 0 for name in (*LIBRARY, *STARTS.values())}
    imports |= {GROUPS: groups.ctypes.data, PENDING: pending.ctypes.data}
    imports |= {OPEN: opened.ctypes.data}
    native = target_named("native")
    image = object_of(str(emit_node_sums(native)), native, 2)
    code = load_object(image, [START, WAIT, *STARTS], imports)
    return NodeSums(code, words, groups, pending, opened)


@cache
def pending_function(name: str) -> ForeignFunction:
    """Return a function of MPI that starts something, or `MPI_Wait`, or what stands for it here."""
    function = mpi_function(name)
    if load_mpi("distributed").COMM_WORLD.size == 1:
        return function
    sums = node_sums()
    own = {"MPI_Iallreduce": START, "MPI_Wait": WAIT} | {mpi: own for own, mpi in STARTS.items()}
    address = sums.code.address(own[name])
    return replace(function, address=address, owner=(function.owner, sums))


def _can_share() -> bool:
    return hasattr(os, "memfd_create") and load_mpi("distributed").COMM_WORLD.size > 1


def share_memory(mpi: Any) -> NodeMemory | None:
    """Return memory that all ranks of a communicator see, if there is any; all ranks call it."""
    is_here = False
    if _can_share():
        node = mpi.Split_type(load_mpi("distributed").COMM_TYPE_SHARED)
        is_here = node_sums().make_room(mpi) and node.size == mpi.size
        node.Free()
    if not mpi.allreduce(is_here, load_mpi("distributed").LAND):
        return None
    own, place, file = _reserve()
    found = [_map(given) for given in mpi.allgather(place)]
    areas = [area for area in found if area is not None]
    is_mapped = own is not None and len(areas) == mpi.size
    is_shared = mpi.allreduce(is_mapped, load_mpi("distributed").LAND)
    if file is not None:
        os.close(file)
    if not is_shared or own is None:
        return None
    areas[mpi.rank] = own
    memory = NodeMemory(own, areas, [(_FIRST, own.size)])
    node_sums().register(mpi, memory)
    mpi.Barrier()
    return memory


_MemoryFile = tuple[str, int, bytes]  # a path of a file, its size, and what is written in it


def _reserve() -> tuple[Area | None, _MemoryFile | None, int | None]:
    """Return memory of a file, where other processes find it, and the file, to be closed then."""
    size = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    file = None
    try:
        file = os.memfd_create("symgrad")
        os.ftruncate(file, size)
        area = map_file(file, size)
    except OSError:
        return None, None, file
    token = secrets.token_bytes(_TOKEN_BYTES)
    area.bytes_at(_TOKEN_AT, _TOKEN_BYTES)[...] = np.frombuffer(token, np.uint8)
    return area, (f"/proc/{os.getpid()}/fd/{file}", size, token), file


def _map(place: _MemoryFile | None) -> Area | None:
    """Return the memory of another process, None where that may not be read."""
    if place is None:
        return None
    path, size, token = place
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        area = map_file(file, size)
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)
    # Of a process that runs apart from this one, the path may be that of another file.
    return area if area.bytes_at(_TOKEN_AT, _TOKEN_BYTES).tobytes() == token else None


def _handle_of(mpi: Any) -> int:
    return word(load_mpi("distributed")._handleof(mpi))
