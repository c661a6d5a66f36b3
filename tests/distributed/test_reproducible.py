"""Reproducible training gives the same bits on 1, 2 and 4 ranks, over each library."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mpi import run_ranks


def _trained(library: str, ranks: int, folder: Path) -> bytes:
    path = folder / f"{library}{ranks}"
    ended = run_ranks(library, ranks, ["-m", "tests.distributed.reproducible_programs", str(path)])
    assert ended.status == 0, ended.errors
    assert ended.output.count("has trained") == ranks
    return path.read_bytes()


def test_one_rank_and_two_have_the_same_bits_after_100_steps(tmp_path: Path) -> None:
    assert _trained("openmpi", 1, tmp_path) == _trained("openmpi", 2, tmp_path)


@pytest.mark.slow
def test_up_to_four_ranks_have_the_same_bits_over_each_library(tmp_path: Path) -> None:
    wanted = _trained("mpich", 1, tmp_path)
    for library, ranks in (("openmpi", 4), ("mpich", 2), ("mpich", 4)):
        assert _trained(library, ranks, tmp_path) == wanted
