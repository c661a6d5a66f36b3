"""Sharded optimizer state gives the weights that whole slots give, and one file of all parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mpi import run_ranks


def _check(library: str, ranks: int, folder: Path, *optimizers: str) -> None:
    program = ["-m", "tests.distributed.sharding_programs", str(folder), *optimizers]
    ended = run_ranks(library, ranks, program)
    assert ended.status == 0, ended.errors
    assert ended.output.count("has trained") == ranks


def test_ranks_that_share_slots_train_as_one_that_has_them(tmp_path: Path) -> None:
    _check("openmpi", 2, tmp_path, "momentum", "lamb")


@pytest.mark.slow
@pytest.mark.parametrize(("library", "ranks"), [("openmpi", 4), ("mpich", 2), ("mpich", 4)])
def test_ranks_share_slots_of_every_optimizer(library: str, ranks: int, tmp_path: Path) -> None:
    _check(library, ranks, tmp_path)
