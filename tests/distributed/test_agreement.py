"""Ranks whose programs differ, or may make other calls than the rest, are told before they run."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.mpi import ROOT, run_ranks


@pytest.mark.parametrize(("library", "ranks"), [("openmpi", 2), ("mpich", 4)])
def test_ranks_that_would_wait_for_one_another_are_told(library: str, ranks: int) -> None:
    ended = run_ranks(library, ranks, ["-m", "tests.distributed.agreement_programs"])
    assert ended.status == 0, ended.errors
    assert ended.output.count("has been told") == ranks


def test_a_step_without_collectives_is_the_same_code_with_mpi_and_without() -> None:
    program = ["-m", "tests.distributed.plain_program"]
    without = subprocess.run(
        [sys.executable, *program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    ended = run_ranks("openmpi", 2, [*program, "mpi"])
    assert ended.status == 0, ended.errors
    assert len(without.stdout) > 0
    assert sorted(ended.output.split()) == 2 * without.stdout.split()
