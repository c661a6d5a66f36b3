"""The full text of the errors of collectives; that of a missing MPI without one."""

from __future__ import annotations

import inspect
import sys

import pytest

import symgrad as sg
from symgrad.distributed.mpi_library import load_mpi
from tests.support.mpi import run_ranks
from tests.support.refusals import assert_refused


def test_messages_of_two_ranks() -> None:
    ended = run_ranks("openmpi", 2, ["-m", "tests.distributed.message_programs"])
    assert ended.status == 0, ended.errors
    assert ended.output.count("as they should be") == 2


def test_mpi_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    load_mpi.cache_clear()
    # Not the communicator that another test has started in this process.
    world = inspect.unwrap(sg.distributed.world)
    assert_refused(lambda: world(), RuntimeError, """
        world: MPI cannot be started: import of mpi4py.MPI halted; None in sys.modules
          --> <here>
          hint: pip install mpi4py, the extra mpi, and an MPI library such as Open MPI or MPICH
    """)  # fmt: skip
