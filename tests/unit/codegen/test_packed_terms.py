"""Packing the left of a product some steps of k of all its tiles at a time."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract import ContractPlan, Operand, plan_contract
from symgrad.codegen.contract.plans import blocks, search
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.graph import Graph
from tests.support.floors import Memory, Variant, run_variants

# Rows, columns and k: tiles of two heights, one tile, steps that divide by 3 and that do not.
SHAPES = ((37, 50, 23), (5, 16, 9), (64, 33, 2), (100, 17, 40))


def three_steps(plan: ContractPlan, _: object) -> int:
    return min(plan.block_k, 3) if plan.pack_left == "copy" else plan.block_k


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_are_the_same_between_guard_pages(dtype):
    random = np.random.default_rng(0)
    variants = [
        Variant(threads=Threads(2, 0.0), memory=Memory("end")),
        Variant("x86-64-v3", threads=Threads(1, 0.0), memory=Memory("start")),
        Variant("x86-64", threads=Threads(3, 0.0)),
    ]
    for m, n, k in SHAPES:
        # What is converted is packed, and a transposed left is copied by vectors.
        x, y = sg.placeholder((k, m), dtype), sg.placeholder((k, n), dtype)
        arrays = [random.integers(-3, 4, t.type.static_shape).astype(t.dtype.numpy) for t in (x, y)]
        with mock.patch.object(blocks, "_choose_packed_terms", side_effect=three_steps) as chosen:
            search.plan_contract.cache_clear()
            assert run_variants(Graph([x.T @ y], [x, y]), arrays, variants) is None
        assert any(call.args[0].pack_left == "copy" for call in chosen.call_args_list)
    search.plan_contract.cache_clear()


def test_a_product_whose_terms_lie_on_pages_is_what_numpy_computes():
    m, n, k = 1030, 800, 1100  # of terms that leave no room in a shared cache
    x, y = sg.placeholder((k, m)), sg.placeholder((k, n))
    random = np.random.default_rng(0)
    a, b = (aligned_empty(t.type.static_shape, np.dtype(np.float32)) for t in (x, y))
    a[...], b[...] = random.integers(-3, 4, a.shape), random.integers(-3, 4, b.shape)
    turned = Operand(1, m, 4), Operand(n, 1, 4), Operand(n, 1, 4)
    plan = plan_contract(m, n, k, dtypes.float32, *turned, target_named("native"))
    assert plan.packed_terms < plan.block_k
    np.testing.assert_array_equal(sg.compile([x, y], x.T @ y, cache=False)(a, b), a.T @ b)
