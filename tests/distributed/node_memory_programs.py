"""Sums in memory that ranks of a machine share: the same as the library's, and what goes to it."""

from __future__ import annotations

import gc
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.distributed.communicator import Communicator
from symgrad.distributed.mpi_library import load_mpi, mpi_function
from symgrad.distributed.node_memory import node_sums, pending_function, share_memory
from symgrad.distributed.node_words import MAX_GROUPS, MAX_PENDING
from symgrad.distributed.pending import (
    start_exchange,
    start_gather,
    start_scatter,
    start_sum,
)
from symgrad.errors import IndexOutOfRangeError
from symgrad.graph.foreign_functions import ForeignFunction
from symgrad.graph.huge_pages import HUGE_BYTES

COMM = sg.distributed.world()
RANK, SIZE = COMM.rank, COMM.size
_MPI = load_mpi("world")
COUNTS = (0, 1, 15, 16, 17, 100, 1031, 70_001)


def make_sums(comm: Any, dtype: str) -> sg.Step:
    """Return a step that sums arrays of several sizes, of which all are on their way at once."""
    xs = [sg.placeholder((count,), dtype, name=f"x{count}") for count in COUNTS]
    made = [start_sum("sum", x * 2, comm) for x in xs]
    return sg.compile(xs, [pending.wait() * 1 for pending in made], opt_level=1)


def is_shared(step: sg.Step) -> bool:
    """Return whether the arena of a step, the first entry of its table, is in shared memory."""
    memory = COMM._memory
    assert memory is not None, "ranks of one machine share memory"
    return bool(0 < step.executable.table[0] - memory.own.address < memory.own.size)


def arrays_of(rank: int, dtype: str) -> list[Any]:
    random = np.random.default_rng(rank)
    return [random.normal(size=count).astype(dtype) for count in COUNTS]


def add_as_the_library_does() -> None:
    """Compare sums with those of all ranks' arrays, added in the order of ranks."""
    for dtype in ("float32", "float64"):
        step = make_sums(COMM, dtype)
        for _ in range(3):
            found = step(*arrays_of(RANK, dtype))
        for number, got in enumerate(found):
            terms = [2 * arrays_of(rank, dtype)[number] for rank in range(SIZE)]
            want = terms[0]
            for term in terms[1:]:
                want = want + term
            np.testing.assert_array_equal(got, want, strict=True)
        assert is_shared(step), "buffers are where other ranks see them"


def add_what_others_leave() -> None:
    """Let one rank come late: the others add its part as well, of sums of many pieces."""
    x = sg.placeholder((300_001,), name="x")
    made = [start_sum("sum", x * factor, COMM) for factor in (1, 2, 3)]
    step = sg.compile([x], [pending.wait() * 1 for pending in made], opt_level=1)
    values = np.arange(300_001, dtype="float32") % 1000
    for late in (*range(SIZE), None):
        time.sleep(0.05 * (late == RANK))
        for factor, total in enumerate(step(values + RANK), 1):
            np.testing.assert_array_equal(total, factor * (SIZE * values + sum(range(SIZE))))


def add_alone() -> None:
    """Let each rank have sums of its own for a while, between those of all."""
    x = sg.placeholder((70_001,), name="x")
    step = sg.compile([x], start_sum("sum", x * 2, COMM).wait() * 1, opt_level=1)
    ones = np.ones(70_001, "float32")
    for _ in range(3):
        np.testing.assert_array_equal(step(ones), 2 * SIZE * ones)
        COMM.mpi.Barrier()
        with node_sums().alone(COMM.mpi):
            np.testing.assert_array_equal(step(ones), 2 * ones)


def add_what_is_elsewhere() -> None:
    """Sum what is an input; what one rank has no shared memory for; what is no float."""
    x = sg.placeholder((1000,), name="x")
    step = sg.compile([x], start_sum("sum", x, COMM).wait() * 1, opt_level=1)
    values = np.arange(1000, dtype="float32")
    np.testing.assert_array_equal(step(values + RANK), SIZE * values + sum(range(SIZE)))
    for dtype in ("float32", "int32", "complex64"):
        apart = make_sums(ApartOnRank0(COMM.mpi.Dup(), f"apart_{dtype}"), dtype)
        for got, count in zip(apart(*[np.ones(n, dtype) for n in COUNTS]), COUNTS, strict=True):
            np.testing.assert_array_equal(got, np.full(count, 2 * SIZE, dtype))


class ApartOnRank0(Communicator):
    """A communicator whose rank 0 runs steps in memory of its own."""

    def allocate(self, count: int) -> Any:
        self.share_memory()
        return None if self.rank == 0 else super().allocate(count)


def finish_what_a_step_left() -> None:
    """Let a step fail between a start and its wait on one rank: the others get the sum."""
    x, place = sg.placeholder((500,), name="x"), sg.placeholder((), "int64", name="place")
    pending = start_sum("sum", x * 2, COMM)
    step = sg.compile([x, place], [pending.wait() * 1, sg.take(x, place)], opt_level=1)
    ones = np.ones(500, "float32")
    has_failed = False
    try:
        total, _ = step(ones, 0 if RANK else 501)
        np.testing.assert_array_equal(total, 2 * SIZE * ones)
    except IndexOutOfRangeError:
        has_failed = True
    assert has_failed == (RANK == 0)
    for factor in (3, 5):
        total, _ = step(factor * ones, 1)
        np.testing.assert_array_equal(total, 2 * factor * SIZE * ones)


def finish_what_the_library_has_begun() -> None:
    """Let a step fail behind what it has started by the library, which has messages of its own."""
    comm = Communicator(COMM.mpi.Dup(), "of_the_library")
    x, place = sg.placeholder((300_000,), name="x"), sg.placeholder((), "int64", name="place")
    rows = sg.reshape(x, (1, 300_000)) * np.arange(1, SIZE + 1, dtype="float32")[:, None]
    pending = [start_sum("sum", x * 2, comm), start_gather("gather", x * 3, comm)]
    pending += [start_scatter("scatter", rows, comm), start_exchange("exchange", rows, comm)]
    step = sg.compile([x, place], [*(p.wait() * 1 for p in pending), sg.take(x, place)])
    ones = np.ones(300_000, "float32")
    for factor, index in ((1, 0 if RANK else 300_001), (3, 1), (5, 1)):
        try:
            total, gathered, part, moved, _ = step(factor * ones, index)
        except IndexOutOfRangeError:
            assert (RANK, factor) == (0, 1)
            assert not node_sums().opened[:, 0].any(), "no request is open"
            continue
        assert (RANK, factor) != (0, 1)
        np.testing.assert_array_equal(total, 2 * factor * SIZE * ones)
        np.testing.assert_array_equal(gathered, 3 * factor * np.ones((SIZE, 300_000)))
        np.testing.assert_array_equal(part, (RANK + 1) * factor * SIZE * ones)
        np.testing.assert_array_equal(moved, (RANK + 1) * factor * np.ones((SIZE, 300_000)))


def leave_sums_behind() -> None:
    """Let steps fail again and again on all ranks: what they left is no room that others lack."""
    ones = np.ones(100, "float32")
    for _ in range(3):
        x, place = sg.placeholder((100,), name="x"), sg.placeholder((), "int64", name="place")
        pending = [start_sum("sum", x * factor, COMM) for factor in range(1, 10)]
        sums = [p.wait() * 1 for p in pending]
        step = sg.compile([x, place], [*sums, sg.take(x, place)], opt_level=0)
        for _ in range(2):
            try:
                step(ones, 200)
            except IndexOutOfRangeError:
                continue
        np.testing.assert_array_equal(step(ones, 1)[0], SIZE * ones)
    assert not node_sums().pending[:, 0].any(), "no sum is on its way"


def start_more_than_there_is_room_for() -> None:
    """Start more sums than there are rows for: the others go to the library, on all ranks."""
    ones = np.ones(3, "float32")
    x = sg.placeholder((3,), name="x")
    made = [start_sum("sum", x * (factor + 1), COMM) for factor in range(MAX_PENDING + 4)]
    step = sg.compile([x], sum(p.wait() for p in made), opt_level=0)
    count = MAX_PENDING + 4
    for _ in range(2):
        np.testing.assert_array_equal(step(ones), SIZE * count * (count + 1) / 2 * ones)


def give_memory_back() -> None:
    """Allocate what was given back, which is zeros again; no more than there is."""
    memory = COMM._memory
    assert memory is not None, "ranks of one machine share memory"
    gc.collect()  # so that no step is given back meanwhile
    first = memory.allocate(5000)
    assert first is not None
    start = first.ctypes.data
    first[:] = 7
    second = memory.allocate(100)
    assert second is not None
    assert not start <= second.ctypes.data < start + 8192
    del first
    again = memory.allocate(8000)
    assert again is not None
    assert again.ctypes.data == start
    assert not again.any(), "pages that were given back are zeros"
    assert memory.allocate(memory.own.size) is None, "there is not so much"


def give_long_memory_at_huge_pages() -> None:
    """Allocate what fills huge pages, which begins one, and what is small before it."""
    memory = COMM._memory
    assert memory is not None, "ranks of one machine share memory"
    first, long = memory.allocate(100), memory.allocate(2 * HUGE_BYTES + 100)
    assert first is not None
    assert long is not None
    places = [area.address % HUGE_BYTES for area in memory.areas]
    assert (long.ctypes.data - memory.own.address) % HUGE_BYTES == 0
    assert not long.any()
    long[:] = RANK + 1
    COMM.mpi.Barrier()
    for rank, place in enumerate(COMM.exchange(long.ctypes.data - memory.own.address)):
        seen = memory.areas[rank].bytes_at(place, len(long))
        assert (seen == rank + 1).all(), places
    COMM.mpi.Barrier()
    again = memory.allocate(100)
    assert again is not None
    assert again.ctypes.data < long.ctypes.data, "small pieces go before it"


def leave_memory_to_the_process_it_is_of() -> None:
    """Let a forked process end, and its steps with it: those of this process keep their memory."""
    memory = COMM._memory
    assert memory is not None, "ranks of one machine share memory"
    kept = memory.allocate(5000)
    assert kept is not None
    kept[:] = 7
    child = os.fork()
    if child == 0:
        del kept
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (kept == 7).all()


def have_no_names_and_few_files() -> None:
    """Shared memory has no name that stays behind, and a file for each rank's at most."""
    before = _open_files()
    memory = share_memory(COMM.mpi.Dup())
    assert memory is not None
    assert _open_files() - before in (0, 0 if sys.version_info >= (3, 13) else SIZE)
    assert not [path for path in Path("/dev/shm").iterdir() if "symgrad" in path.name]
    del memory
    assert _open_files() == before


def _open_files() -> int:
    opened = []
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            opened.append(str(file.readlink()))
    return sum(path.startswith("/memfd:symgrad") for path in opened)


class OnManyMachines(_MPI.Intracomm):  # type: ignore[misc, name-defined]
    """A communicator of mpi4py, each rank of which is on a machine of its own."""

    def Split_type(self, _kind: int) -> Any:  # noqa: N802 - the name of mpi4py
        return self.Split(self.rank)


def add_nothing_to_what_is_alone() -> None:
    """Sum over a group of one, which has the sum already."""
    own = COMM.split(RANK)
    assert own is not None
    own.share_memory()
    given = sg.placeholder((1000,), name="given")
    step = sg.compile([given], start_sum("sum", given * 2, own).wait() * 1, opt_level=0)
    x = np.arange(1000, dtype="float32") + RANK
    for _ in range(2):
        np.testing.assert_array_equal(step(x), 2 * x)


def forget_what_was_freed() -> None:
    """Add up on communicators of which each may have the handle of one that was freed.

    And on more than there is room for.
    """
    x = np.arange(10, dtype="float32")
    for _ in range(3):
        mpi = COMM.mpi.Dup()
        comm = Communicator(mpi, "made_again")
        comm.share_memory()
        assert comm.has_shared_memory
        given = sg.placeholder((10,), name="given")
        step = sg.compile([given], start_sum("sum", given * 2, comm).wait() * 1, opt_level=0)
        for _ in range(2):
            np.testing.assert_array_equal(step(x), 2 * SIZE * x)
        mpi.Free()
    made = [COMM.mpi.Dup() for _ in range(MAX_GROUPS + 1)]
    memories = [share_memory(mpi) for mpi in made]
    assert memories[0] is not None
    assert memories[-1] is None, "there is no room for so many"
    for mpi in made:
        mpi.Free()


def share_nothing_between_machines() -> None:
    """Give no memory where ranks are on several machines."""
    assert share_memory(OnManyMachines(COMM.mpi)) is None


def stand_for_functions_of_mpi() -> None:
    """Programs name MPI's own functions, which exports call."""
    for name in ("MPI_Iallreduce", "MPI_Iallgather", "MPI_Wait"):
        function = pending_function(name)
        assert isinstance(function, ForeignFunction)
        assert function.name == name
        assert function.address != mpi_function(name).address


if __name__ == "__main__":
    COMM.share_memory()
    stand_for_functions_of_mpi()
    add_as_the_library_does()
    add_what_others_leave()
    add_alone()
    add_what_is_elsewhere()
    finish_what_a_step_left()
    finish_what_the_library_has_begun()
    leave_sums_behind()
    if sys.argv[1:] == ["all"]:
        start_more_than_there_is_room_for()
    give_long_memory_at_huge_pages()
    leave_memory_to_the_process_it_is_of()
    have_no_names_and_few_files()
    give_memory_back()
    share_nothing_between_machines()
    add_nothing_to_what_is_alone()
    forget_what_was_freed()
    sys.stdout.write(f"rank {RANK} has added\n")
