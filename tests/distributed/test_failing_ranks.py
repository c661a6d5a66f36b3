"""A rank that fails ends all the others, which wait for it, in bounded time."""

from __future__ import annotations

import time

import pytest

from tests.support.mpi import LIBRARIES, run_ranks


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("how", ["raise", "kill"])
def test_a_rank_that_fails_ends_all(library: str, how: str) -> None:
    start = time.monotonic()
    ended = run_ranks(library, 2, ["-m", "tests.distributed.failing_programs", how])
    assert ended.status != 0
    assert time.monotonic() - start < 30
    if how == "raise":
        assert "rank 1: the samples are gone" in ended.errors
        assert "ValueError: the samples are gone" in ended.errors
