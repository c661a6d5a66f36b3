"""A rank that fails ends all the others, which wait for it, in bounded time."""

from __future__ import annotations

import time

import pytest

from tests.support.mpi import LIBRARIES, run_ranks

_LATER = [pytest.param(how, marks=pytest.mark.slow) for how in ("exit", "leave")]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("how", ["raise", "kill", *_LATER])
def test_a_rank_that_fails_ends_all(library: str, how: str) -> None:
    start = time.monotonic()
    ended = run_ranks(library, 2, ["-m", "tests.distributed.failing_programs", how])
    assert ended.status != 0
    assert time.monotonic() - start < 30
    if how == "raise":
        assert "rank 1: the samples are gone" in ended.errors
        assert "ValueError: the samples are gone" in ended.errors
    elif how == "exit":
        assert "rank 1: ended with status 3, others did not" in ended.errors
    elif how == "leave":
        assert "rank 1: ended, and rank 0 is in a step that waits for all ranks" in ended.errors
    else:  # the launcher of Open MPI says it, and a process beside the rank where it does not
        assert "rank 1" in f"{ended.output}{ended.errors}"
        assert "rank 0" not in f"{ended.output}{ended.errors}"


@pytest.mark.parametrize("library", LIBRARIES)
def test_ranks_that_all_leave_do_not_wait(library: str) -> None:
    start = time.monotonic()
    ended = run_ranks(library, 2, ["-m", "tests.distributed.failing_programs", "together"])
    assert ended.status in (4, 5)
    assert time.monotonic() - start < 9
    assert "others did not" not in ended.errors


@pytest.mark.parametrize("library", LIBRARIES)
def test_ranks_may_finalize_mpi_themselves(library: str) -> None:
    ended = run_ranks(library, 2, ["-m", "tests.distributed.failing_programs", "finalize"])
    assert ended.status == 0, ended.errors
