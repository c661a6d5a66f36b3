"""Packing of a left whose steps of k have conflict misses: where it is; sums are the same."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract import ContractPlan, Operand, plan_contract
from symgrad.codegen.target import Target, target_named
from symgrad.graph import dtypes
from symgrad.records import replace

MACHINE = replace(target_named("x86-64-v4"), follows_pages=False)


def plan(m: int, n: int, k: int, target: Target = MACHINE, *, apart: int = 0) -> ContractPlan:
    """Return how a left of `k` rows, `apart` elements from each other, is multiplied transposed."""
    left, right = Operand(1, apart or m, 4), Operand(n, 1, 4)
    return plan_contract(m, n, k, dtypes.float32, left, right, right, target)


def test_a_left_whose_lines_the_nearest_cache_drops_is_packed_for_several_panels() -> None:
    assert plan(512, 128, 1024).pack_left == "copy"
    assert plan(128, 512, 1024).pack_left == "copy"
    assert plan(512, 64, 1024).pack_left == "none"  # one panel


def test_a_left_whose_lines_stay_or_are_few_is_read_where_it_lies() -> None:
    assert plan(128, 128, 500, apart=144).pack_left == "none"  # nine lines: in all sets
    assert plan(512, 128, 60).pack_left == "none"
    assert plan(16, 128, 1024, apart=512).pack_left == "none"  # few tiles


def test_a_processor_that_follows_the_walk_reads_it_where_it_lies() -> None:
    assert plan(512, 128, 1024, replace(MACHINE, follows_pages=True)).pack_left == "none"


@pytest.mark.parametrize(("m", "n", "k"), [(512, 128, 256), (130, 67, 300)])
def test_sums_of_a_packed_left_are_exact(m: int, n: int, k: int) -> None:
    x, y = sg.placeholder((k, m)), sg.placeholder((k, n))
    step = sg.compile([x, y], x.T @ y)
    random = np.random.default_rng(m)
    a, b = (random.integers(-4, 5, shape).astype("f") for shape in ((k, m), (k, n)))
    np.testing.assert_array_equal(step(a, b), a.T @ b)
