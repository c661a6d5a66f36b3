"""Random products of views, with what is done with their rows: fused by blocks of rows.

A seed is a program; `complaint(seed)` is the way to look at one again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.config import override
from tests.support.floors import run_variants
from tests.support.fuzz_families import variants
from tests.support.product_programs import random_products

# Of the quick seeds three met a right of halves in packed memory of float32.
_QUICK, _MORE, _BLOCK = (2, 9, 53, 110, 181), 1000, 20


def complaint(seed: int) -> str:
    """Return which floor differs from the reference for one of three targets, '' if none does."""
    graph, arrays = random_products(seed)
    way = replace(variants(seed)[seed % 3], products=True)
    with override(verify=True):
        found = run_variants(graph, arrays, [way], slack=3.0, interprets=False)
    return f"{seed}: {found}\n{graph}" if found is not None else ""


def test_products_are_those_of_the_reference():
    assert not any(found := [complaint(seed) for seed in _QUICK]), found


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, _MORE, _BLOCK))
def test_more_products_are_those_of_the_reference(start):
    assert not any(found := [complaint(seed) for seed in range(start, start + _BLOCK)]), found


@pytest.mark.parametrize("seed", range(0, 24, 6))
def test_threads_change_no_bit(seed):
    graph, arrays = random_products(seed)
    results = []
    for threads in (1, 2, 4):
        step = sg.compile(list(graph.inputs), list(graph.outputs), threads=threads)
        results.append([np.asarray(y).tobytes() for y in step(*arrays)])
    assert results[0] == results[1] == results[2]
