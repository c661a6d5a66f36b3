"""Weights that are cut over ranks give what one rank with all of them gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mpi import run_ranks


def _check(library: str, ranks: int, folder: Path, *models: str) -> None:
    program = ["-m", "tests.distributed.tensor_parallel_programs", str(folder), *models]
    ended = run_ranks(library, ranks, program)
    assert ended.status == 0, ended.errors
    assert ended.output.count("has trained") == ranks


def test_ranks_that_share_weights_train_as_one_that_has_them(tmp_path: Path) -> None:
    _check("openmpi", 2, tmp_path, "mlp/adam", "block/clipped")


@pytest.mark.slow
@pytest.mark.parametrize("library", ["openmpi", "mpich"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_share_the_weights_of_every_model(library: str, ranks: int, tmp_path: Path) -> None:
    _check(library, ranks, tmp_path)
