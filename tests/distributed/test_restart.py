"""Ranks that are killed at random moments go on from a checkpoint, with the same losses."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.mpi import run_ranks

STEPS = 60


def _run(library: str, ranks: int, folder: Path, seconds: float = 0, killed: int = 0) -> None:
    """Train to the end, or until a rank is killed."""
    program = ["-m", "tests.distributed.restart_programs", str(folder), str(seconds), str(killed)]
    ended = run_ranks(library, ranks, program)
    if seconds == 0 or ended.status == 0:
        assert ended.status == 0, ended.errors
        assert ended.output.count("has come to the end") == ranks


def _losses(folder: Path) -> dict[int, str]:
    """Return the loss of each step, which is the same each time the step was made."""
    found: dict[int, str] = {}
    for line in Path(folder, "losses").read_text().splitlines():
        number, loss = line.split()
        assert found.setdefault(int(number), loss) == loss, f"step {number} was another one before"
    return found


def _check(folder: Path, runs: list[tuple[str, int]], seed: int) -> None:
    whole, cut = folder / "whole", folder / "cut"
    whole.mkdir()
    cut.mkdir()
    _run(*runs[-1], whole)
    draw = random.Random(seed)
    for library, ranks in runs[:-1]:
        _run(library, ranks, cut, draw.uniform(0.05, 1.5), draw.randrange(ranks))
    _run(*runs[-1], cut)
    assert _losses(cut) == _losses(whole)
    assert len(_losses(cut)) == STEPS


def test_training_goes_on_from_a_rank_that_was_killed(tmp_path: Path) -> None:
    _check(tmp_path, [("openmpi", 2), ("openmpi", 1)], seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_training_goes_on_from_many_ranks_that_were_killed(tmp_path: Path, seed: int) -> None:
    runs = [("mpich", 4), ("openmpi", 2), ("mpich", 1), ("openmpi", 4), ("mpich", 2)]
    _check(tmp_path, runs, seed)
