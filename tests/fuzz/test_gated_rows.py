"""Random products of rows that are gated, masked or normalised, and chains of functions of rows.

Products are fused with what is done with their rows, by blocks and chunks of a few. A seed is a
program of one of three families; `complaint(family, seed)` is the way to look at one again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.config import override
from tests.support.fuzz_families import FAMILIES, Program, variants
from tests.support.fuzz_worker import UNSTABLE
from tests.support.fuzz_worker import complaint as complaint_of

_MORE, _BLOCK = {"attention": 600, "scores": 200, "rows": 600}, 20


def complaint(family: str, seed: int) -> str:
    """Return which floor differs from the reference for one of three targets, '' if none does."""
    way = variants(seed)[seed % 3]
    if family == "attention":
        way = replace(way, products=seed % 5 > 0, triangles=seed % 3 > 0)
    with override(verify=True), np.errstate(all="ignore"):
        wrong = complaint_of(FAMILIES[family], seed, [way])
    return f"{family} {seed}: {wrong}" if wrong not in ("", UNSTABLE) else ""


@pytest.mark.parametrize("family", _MORE)
def test_rows_are_those_of_the_reference(family):
    assert not any(found := [complaint(family, seed) for seed in range(3)]), found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "start"), [(f, s) for f, count in _MORE.items() for s in range(0, count, _BLOCK)]
)
def test_more_rows_are_those_of_the_reference(family, start):
    found = [complaint(family, seed) for seed in range(start, start + _BLOCK)]
    assert not any(found), found


def _differing(program: Program) -> list[int]:
    """Return the numbers of threads whose bits differ from those of one."""
    graph, arrays = program
    results = {}
    for threads in (1, 2, 4):
        step = sg.compile(list(graph.inputs), list(graph.outputs), threads=threads)
        results[threads] = [np.asarray(y).tobytes() for y in step(*arrays)]
    return [threads for threads, bits in results.items() if bits != results[1]]


@pytest.mark.parametrize(
    ("family", "seed"),
    [
        ("scores", 4),
        *(
            pytest.param(family, seed, marks=pytest.mark.slow)
            for family in _MORE
            for seed in range(8, 24)
        ),
    ],
)
def test_threads_change_no_bit(family, seed):
    assert _differing(FAMILIES[family].program(seed)) == []
