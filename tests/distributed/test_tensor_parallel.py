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


def _check_random(library: str, ranks: int, first: int, count: int) -> None:
    program = ["-m", "tests.distributed.random_cuts", str(first), str(count)]
    ended = run_ranks(library, ranks, program)
    assert ended.status == 0, ended.errors
    assert ended.output.count(f"{count} programs") == ranks


def test_some_random_programs_with_cuts_are_equal_to_those_of_one_rank() -> None:
    _check_random("openmpi", 2, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_programs_with_cuts_are_equal_to_those_of_one_rank(first: int) -> None:
    _check_random(("openmpi", "mpich")[first // 10 % 2], (2, 4)[first // 20], first, 10)
