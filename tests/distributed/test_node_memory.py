"""Ranks of one machine add up where each has its terms in memory."""

from __future__ import annotations

import pytest

from tests.support.mpi import LIBRARIES, run_ranks


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("library", LIBRARIES)
def test_sums_in_shared_memory_are_those_of_the_library(library: str, ranks: int) -> None:
    ended = run_ranks(library, ranks, ["-m", "tests.distributed.node_memory_programs"])
    assert ended.status == 0, ended.errors
    assert ended.output.count("has added") == ranks
