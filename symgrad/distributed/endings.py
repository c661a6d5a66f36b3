"""Failures of ranks: a process that ends early ends all of them, with its rank and its message.

MPI waits for all processes at the end of each, and a collective for all of its group. So a process
that is not going to come has to say so before it ends, or somebody in its place.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from symgrad.records import dataclass

if TYPE_CHECKING:
    import subprocess

# A launcher that is told to end all may not read any more what it has been sent before.
_SECONDS_TO_PASS_ON = 0.5
# After a status other than 0 of one rank the others may come to their ends, too.
_SECONDS_TO_END = 10.0
_SECONDS_TO_SLEEP = 0.05
_CACHE_LINE = 64
# The launchers of MPICH and Intel MPI name a process that is killed by its number alone.
_RANK_OF_HYDRA = "PMI_RANK"
# Reads a line that a process writes as it ends, and nothing of one that is killed. Of the processes
# of a machine the first makes a folder, since the launcher then kills the others.
_WITNESS = """
read -r line
test "$line" = ended || mkdir "$2" 2>/dev/null || exit 0
case "$line" in
    ended) exit 0 ;;
    "") echo "rank $0: the process $1 has been killed" >&2 ;;
esac
exec >&- 2>&-
sleep 5
rmdir "$2"
"""


def end_together(mpi: Any) -> None:
    """Let an exception that nobody catches end all processes: the others may wait for this one."""
    show, witness = sys.excepthook, _start_witness(mpi)

    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        try:
            show(kind, error, trace)
            message = str(error) or kind.__name__
            sys.stderr.write(f"rank {mpi.COMM_WORLD.rank}: {message}\n")
            sys.stderr.flush()
            sys.stdout.flush()
            _tell(witness, b"failed\n")
            time.sleep(_SECONDS_TO_PASS_ON)
        finally:
            mpi.COMM_WORLD.Abort(1)

    sys.excepthook = end
    atexit.register(_tell, witness, b"ended\n")
    _end_after_exit(mpi, witness)


def _start_witness(mpi: Any) -> subprocess.Popen[bytes] | None:
    """Start a shell that says which rank this is, should the process be killed; None if need not.

    It is in a session of its own, since a launcher ends those it has started all at once.
    """
    comm = mpi.COMM_WORLD
    if not comm.allreduce(_RANK_OF_HYDRA in os.environ, mpi.LAND):
        return None
    import subprocess  # a hundredth of what importing symgrad would take

    folder = Path(tempfile.gettempdir(), f"symgrad-{comm.bcast(os.urandom(8).hex())}")
    command = ["/bin/sh", "-c", _WITNESS, str(comm.rank), str(os.getpid()), str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def _tell(witness: subprocess.Popen[bytes] | None, line: bytes) -> None:
    """Write how the process ends."""
    if witness is None or witness.stdin is None or witness.stdin.closed:
        return
    with suppress(BrokenPipeError):
        witness.stdin.write(line)
        witness.stdin.close()


def _end_after_exit(mpi: Any, witness: subprocess.Popen[bytes] | None) -> None:
    """End all after a status other than 0, and where others wait for a rank that has ended well.

    MPI waits at the end of a process for all the others.
    """
    leave, asked = sys.exit, [0]
    ends, steps = mpi.COMM_WORLD.Dup(), steps_of_ranks(mpi)

    def leave_with(status: Any = None) -> NoReturn:
        asked[0] = 0 if status is None else status if isinstance(status, int) else 1
        leave(status)

    def end(problem: str) -> None:
        sys.stderr.write(f"rank {mpi.COMM_WORLD.rank}: {problem}\n")
        sys.stderr.flush()
        _tell(witness, b"failed\n")
        time.sleep(_SECONDS_TO_PASS_ON)
        mpi.COMM_WORLD.Abort(asked[0] or 1)

    def wait_for_all() -> None:
        if mpi.Is_finalized():
            return
        all_end, start = ends.Ibarrier(), time.monotonic()
        while not all_end.Test():
            time.sleep(_SECONDS_TO_SLEEP)
            if asked[0] and time.monotonic() - start > _SECONDS_TO_END:
                end(f"ended with status {asked[0]}, others did not")
            waiting = None if steps is None else steps.longest(_SECONDS_TO_END)
            if waiting is not None:
                end(f"ended, and rank {waiting} is in a step that waits for all ranks")
        if steps is not None:
            steps.free()

    sys.exit = leave_with
    atexit.register(wait_for_all)


@dataclass(slots=True)
class StepsOfRanks:
    """Which ranks run a step with collectives of all ranks: each counts, and others read it.

    A count is odd while a step runs. It lies in a window of MPI, of which another process reads
    without help of the one that waits in a collective.
    """

    mpi: Any
    window: Any
    own: memoryview
    seen: dict[int, tuple[int, float]] = field(default_factory=dict)
    looked: float = 0.0
    is_freed: bool = False

    def counting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call`, counted as it begins and as it ends."""
        own = self.own

        def run(*arguments: Any) -> Any:
            own[0] += 1
            try:
                return call(*arguments)
            finally:
                own[0] += 1

        return run

    def free(self) -> None:
        """Give the window back, which all ranks do before MPI ends; to be done once."""
        if not self.is_freed:
            self.is_freed = True
            self.window.Free()

    def longest(self, seconds: float) -> int | None:
        """Return a rank that has been seen in one step for so long, None if there is none."""
        comm, count, now = self.mpi.COMM_WORLD, np.zeros(1, np.int64), time.monotonic()
        if now - self.looked < max(1.0, comm.size * _SECONDS_TO_SLEEP):
            return None
        self.looked = now
        for rank in range(comm.size):
            if rank == comm.rank:
                continue
            self.window.Lock(rank, self.mpi.LOCK_SHARED)
            self.window.Get(count, rank)
            self.window.Unlock(rank)
            before, since = self.seen.get(rank, (-1, now))
            if before != count[0]:
                since = now
            self.seen[rank] = int(count[0]), since
            if count[0] % 2 and now - since > seconds:
                return rank
        return None


@cache
def steps_of_ranks(mpi: Any) -> StepsOfRanks | None:
    """Return the counts of this program, None where the library has no windows.

    The first call is one of all processes.
    """
    try:
        window = mpi.Win.Allocate(_CACHE_LINE, np.int64().itemsize, comm=mpi.COMM_WORLD.Dup())
    except mpi.Exception:
        return None
    own = memoryview(window.tomemory()).cast("q")
    own[0] = 0
    mpi.COMM_WORLD.Barrier()
    steps = StepsOfRanks(mpi, window, own)
    # A program that calls MPI_Finalize itself takes away what is attached here first.
    key = mpi.Comm.Create_keyval(delete_fn=lambda *_: steps.free())
    mpi.COMM_SELF.Set_attr(key, None)
    return steps
