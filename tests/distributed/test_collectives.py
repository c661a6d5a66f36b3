"""Collectives give what they say, on 2 and 4 ranks, over Open MPI and over MPICH."""

from __future__ import annotations

import pytest

from tests.support.mpi import LIBRARIES, run_ranks


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("library", LIBRARIES)
def test_collectives_in_graphs_branches_loops_and_functions(library: str, ranks: int) -> None:
    ended = run_ranks(library, ranks, ["-m", "tests.distributed.collective_programs"])
    assert ended.status == 0, ended.errors
    for rank in range(ranks):
        assert f"rank {rank} of {ranks} is done" in ended.output
