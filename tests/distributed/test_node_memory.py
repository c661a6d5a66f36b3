"""Ranks of one machine add up where each has its terms in memory."""

from __future__ import annotations

import pytest

from tests.support.mpi import LIBRARIES, run_ranks


@pytest.mark.parametrize(("library", "ranks"), [("openmpi", 2), ("mpich", 3)])
def test_sums_in_shared_memory_are_those_of_the_library(library: str, ranks: int) -> None:
    _check(library, ranks)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_more_sums_than_there_is_room_for_go_to_the_library(library: str) -> None:
    _check(library, 2, "all")


@pytest.mark.slow
@pytest.mark.parametrize(("library", "ranks"), [("openmpi", 4), ("mpich", 4)])
def test_more_ranks_than_cores_add_up_in_shared_memory(library: str, ranks: int) -> None:
    _check(library, ranks)


def _check(library: str, ranks: int, *which: str) -> None:
    ended = run_ranks(library, ranks, ["-m", "tests.distributed.node_memory_programs", *which])
    assert ended.status == 0, ended.errors
    assert ended.output.count("has added") == ranks
