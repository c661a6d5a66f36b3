"""Prefetches of a right that is read where it lies: its next panel, or its next block of k."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.contract.prefetch_distances import near_ahead
from symgrad.codegen.loops.language import Product
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import Target, target_named
from symgrad.compiler import CompileOptions, lower_graph
from symgrad.graph.graph import Graph
from symgrad.records import replace
from tests.unit.codegen.test_tile_prefetching import RIGHT, places_prefetched

V4 = target_named("x86-64-v4")
LATE = replace(V4, meets_products_late=True, near_ahead=512)
SLOW = replace(LATE, shares_slowly=True)
LINE = 16  # elements


@cache
def attention_plans(
    shape: tuple[int, int, int], target: Target, threads: Threads = ONE_THREAD
) -> tuple[ContractPlan, ContractPlan]:
    """Return the plans of scores and of weighted values."""
    q, k, v = (sg.placeholder(shape, "float32") for _ in range(3))
    y = sg.nn.scaled_dot_product_attention(q, k, v)
    options = CompileOptions(target, 3, False, False, threads)
    program = lower_graph(Graph([y], [q, k, v]), options).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    scores, values = (product_plan(s, target) for s in found if isinstance(s, Product))
    return scores, values


def lines_prefetched(plan: ContractPlan, steps: tuple[int, int] = (0, 64)) -> list[int]:
    """Return which lines of the right tiles prefetch that read steps of k of its first panel."""
    source = plan.next_source
    assert source is not None
    prefetched, count = places_prefetched(plan), -(-min(plan.k, plan.block_k) // source.lines.steps)
    begins = [(prefetched(tile, *steps) - RIGHT) // 64 for tile in range(source.tiles)]
    assert source.tiles <= plan.row_tiles
    return [line for begin in begins for line in range(begin, begin + count)]


def test_tiles_prefetch_the_next_of_panels_that_were_packed_before() -> None:
    plan, _ = attention_plans((1, 4096, 64), SLOW)
    assert plan.pack_right == "none"
    panel = plan.k * plan.tile_columns // LINE
    lines = lines_prefetched(plan)
    assert set(range(panel, 2 * panel)) <= set(lines)
    assert len(lines) < panel * 5 / 4


def test_tiles_prefetch_the_next_block_of_k() -> None:
    _, plan = attention_plans((1, 4096, 64), SLOW)
    assert plan.has_panel
    assert plan.k_blocks > 1
    assert not plan.prefetches_next
    block, row = plan.block_k, plan.tile_columns // LINE
    lines = lines_prefetched(plan, (block, 2 * block))
    assert set(range(2 * block * row, 3 * block * row)) <= set(lines)
    last = (plan.k_blocks - 1) * block
    assert min(lines_prefetched(plan, (last, plan.k))) == last * row  # behind it is nothing


@pytest.mark.parametrize(
    ("shape", "target"),
    [((1, 4096, 64), LATE), ((2, 1024, 64), SLOW), ((4, 512, 64), SLOW)],
)
def test_what_a_near_cache_has_or_a_fast_shared_one_is_not_prefetched_for(shape, target):
    assert all(plan.next_source is None for plan in attention_plans(shape, target))


@pytest.mark.parametrize("threads", [ONE_THREAD, Threads(2)])
def test_the_scratch_of_another_part_is_not_what_a_product_reads_next(threads: Threads) -> None:
    _, values = attention_plans((2, 1024, 64), SLOW, threads)
    assert values.left.row_stride > values.k  # rows whole pages apart would share a set
    assert values.goes_on is None


def test_values_that_several_blocks_of_queries_read_are_not_followed_by_the_next() -> None:
    _, values = attention_plans((4, 512, 64), LATE)
    assert values.rows < 512
    assert not values.prefetches_product
    assert near_ahead(values, values.right.row_stride, Elements(values.dtype, values.compute, LATE))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 2048, 64), (1, 2064, 72)])
def test_no_bit_depends_on_who_prefetches_or_on_blocks(shape, causal, monkeypatch):
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype("f") for _ in range(3)]
    native, found = target_named("native"), []
    for is_slow, threads in ((False, 1), (True, 1), (True, 2), (True, 4)):
        target = replace(native, shares_slowly=is_slow, near_ahead=512 * is_slow)
        monkeypatch.setattr("symgrad.codegen.target._native", lambda target=target: target)
        target_named.cache_clear()
        q, k, v = (sg.placeholder(shape, "float32") for _ in arrays)
        y = sg.nn.scaled_dot_product_attention(q, k, v, causal=causal)
        step = sg.compile([q, k, v], y, threads=threads, cache=False)
        found.append(step(*arrays))
    monkeypatch.undo()
    target_named.cache_clear()
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    wide = [array.astype("d") for array in arrays]
    scores = wide[0] @ wide[1].swapaxes(1, 2) / np.sqrt(shape[2])
    if causal:
        scores = np.where(np.tri(shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = weights @ wide[2] / weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-6)
