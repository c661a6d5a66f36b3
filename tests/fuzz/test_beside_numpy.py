"""Random programs of every dtype beside NumPy, bit by bit (`tests/support/numpy_programs.py`)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.numpy_programs import NumPyProgram


def complaint(seed: int) -> str | None:
    """Return what is wrong of the program of `seed`, or None."""
    with np.errstate(all="ignore"):
        return NumPyProgram(seed).run()


@pytest.mark.parametrize("first", range(0, 24, 4))
def test_random_programs_compute_what_numpy_does(first: int) -> None:
    assert [complaint(seed) for seed in range(first, first + 4)] == [None] * 4


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1600, 50))
def test_many_random_programs_compute_what_numpy_does(first: int) -> None:
    found = {seed: complaint(seed) for seed in range(first, first + 50)}
    assert {seed: text for seed, text in found.items() if text} == {}
