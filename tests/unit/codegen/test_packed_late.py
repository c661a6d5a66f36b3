"""Packing the right of a product panel by panel, as the first tile of each reads it."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract import ContractPlan, Operand, plan_contract
from symgrad.codegen.contract.kernels.register_tile import Microkernel
from symgrad.codegen.contract.methods import Packing
from symgrad.codegen.contract.plans import search
from symgrad.codegen.contract.plans.packing import pack_panels, packs_within
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions, emit_linkable, lower_graph
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph
from symgrad.records import replace
from tests.support.floors import Memory, Variant, run_variants

# Rows, columns and k: tiles of two heights, the second of which a thread begins with, last panels
# that are not full and that are, one tile, several blocks of k.
SHAPES = ((37, 50, 23), (5, 16, 9), (64, 64, 32), (50, 17, 40))


def packed(plan: ContractPlan, memory: object) -> ContractPlan:
    """Pack any right: by vectors, or by squares if its lines lie along k."""
    del memory
    turned: Packing = "copy" if plan.right.column_stride == 1 else "transpose"
    return replace(plan, pack_right=turned, block_k=min(plan.block_k, 2 * plan.lanes))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_products_are_the_same_between_guard_pages(dtype):
    random = np.random.default_rng(0)
    variants = [
        Variant(threads=Threads(3, 0.0), memory=Memory("end")),
        Variant("x86-64-v3", threads=Threads(1, 0.0), memory=Memory("start")),
        Variant("x86-64", threads=Threads(2, 0.0)),
    ]
    for number, (m, n, k) in enumerate(SHAPES):
        x = sg.placeholder((k, m) if number % 2 else (m, k), dtype)
        y = sg.placeholder((n, k) if number == 2 else (k, n), dtype)
        arrays = [random.integers(-3, 4, t.type.static_shape).astype(t.dtype.numpy) for t in (x, y)]
        product = (x.T if number % 2 else x) @ (y.T if number == 2 else y)
        with mock.patch.object(search, "pack_panels", side_effect=packed):
            search.plan_contract.cache_clear()
            assert run_variants(Graph([product], [x, y]), arrays, variants) is None
    search.plan_contract.cache_clear()


def plan_of(size: int, *, is_turned: bool = False) -> ContractPlan:
    rows, right = Operand(size, 1, 4), Operand(*((1, size) if is_turned else (size, 1)), 4)
    sizes = (size, size, size, dtypes.float32)
    return plan_contract(*sizes, rows, right, rows, target_named("x86-64-v4"))


def test_a_right_in_a_near_cache_is_packed_late_and_in_one_place():
    near, far = plan_of(256), plan_of(1024)
    assert near.pack_right == far.pack_right == "copy"
    assert near.packs_late
    assert packs_within(near)
    assert near.panels > near.kept_panels == 1
    assert not far.packs_late
    assert far.kept_panels == far.block_panels


def test_a_right_that_is_transposed_is_packed_late_but_not_by_a_microkernel():
    plan = plan_of(256, is_turned=True)
    assert plan.pack_right == "transpose"
    assert plan.packs_late
    assert not packs_within(plan)


def test_panels_that_several_blocks_of_tiles_read_are_all_kept():
    plan = replace(plan_of(256), block_tiles=10)
    assert plan.packs_late
    assert plan.kept_panels == plan.block_panels > 1


def test_a_small_or_dense_right_is_not_packed():
    assert not plan_of(64).packs_late
    assert pack_panels(plan_of(64), target_named("x86-64-v4")).pack_right == "none"


@pytest.mark.parametrize(("threads", "is_short_too"), [(1, False), (2, True)])
def test_only_a_thread_that_begins_anywhere_packs_with_short_tiles(threads, is_short_too):
    x, y = sg.placeholder((256, 256)), sg.placeholder((256, 256))
    options = CompileOptions(target_named("x86-64-v4"), 3, fast_math=False, cache=False)
    options = replace(options, threads=Threads(threads, 0.0))
    module = emit_linkable(lower_graph(Graph([x @ y], [x, y]), options).program, options.target)
    tiles = [leaf for leaf in module.names_of_leaves() if isinstance(leaf, Microkernel)]
    heights = {tile.rows for tile in tiles}
    assert len(heights) == 2
    found = {tile.rows for tile in tiles if tile.packs}
    assert found == (heights if is_short_too else {max(heights)})
