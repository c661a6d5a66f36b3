"""Random programs with collectives are equal to the one-rank program, however passes are bisected.

A program that waits for ever is killed by the launcher of tests, which is a failure.
"""

from __future__ import annotations

import pytest

from tests.support.mpi import LIBRARIES, run_ranks

_BLOCK = 25


def _check(library: str, ranks: int, first: int, count: int) -> None:
    program = ["-m", "tests.distributed.random_programs", str(first), str(count)]
    ended = run_ranks(library, ranks, program)
    assert ended.status == 0, ended.errors
    assert ended.output.count(f"{count} programs") == ranks


def test_some_random_programs_are_equal_to_the_one_rank_program() -> None:
    _check("openmpi", 2, 0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, _BLOCK))
def test_random_programs_are_equal_to_the_one_rank_program(first: int) -> None:
    number = first // _BLOCK
    _check(LIBRARIES[number % 2], (2, 4)[number // 2 % 2], first, _BLOCK)
