"""Prefetches of the next product of a batch by tiles, and short loops that are unrolled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen import target as targets
from symgrad.codegen.contract import ContractPlan
from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.kernels.split import emit_split_kernel
from symgrad.codegen.contract.plans.prefetching import (
    bytes_a_step,
    is_next_near,
    next_panel_prefetched,
    next_places,
)
from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.contract.plans.unrolling import turns_of
from symgrad.codegen.contract.split_leaves import split_kernel
from symgrad.codegen.loops.language import Product
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.target import TARGET_NAMES, target_named
from symgrad.graph.graph import Graph
from symgrad.records import replace
from tests.support.floors import Memory, Variant, compile_for, run_variants
from tests.unit.codegen.test_assembled_kernels import selected

FACTS = ("meets_products_late", "issues_few")
V4 = target_named("x86-64-v4")
LATE = replace(V4, meets_products_late=True, issues_few=True)
FORMS = ("NN", "TN", "NT", "TT")
# Rows, columns and k: leftovers of tiles, vectors and iterations, and sums of few terms.
SHAPES = (
    (16, 16, 16),
    (24, 24, 24),
    (32, 32, 32),
    (13, 31, 9),
    (1, 33, 17),
    (40, 5, 2),
    (7, 48, 1),
    (7, 64, 130),
    (44, 60, 52),
)


@contextmanager
def native_with(*, is_so: bool) -> Iterator[None]:
    """Take the native target to have such facts, whichever machine it is."""
    machine = replace(target_named("native"), meets_products_late=is_so, issues_few=is_so)
    with mock.patch.object(targets, "_native", return_value=machine):
        target_named.cache_clear()
        yield
    target_named.cache_clear()


def batch(
    size: tuple[int, int, int], form: str = "NN", count: int = 5, dtype: str = "float32"
) -> Graph:
    m, n, k = size
    x = sg.placeholder((count, k, m) if form[0] == "T" else (count, m, k), dtype)
    y = sg.placeholder((count, n, k) if form[1] == "T" else (count, k, n), dtype)
    return Graph([(x.mT if form[0] == "T" else x) @ (y.mT if form[1] == "T" else y)], [x, y])


def arrays_of(graph: Graph) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.normal(size=t.type.static_shape).astype(t.dtype.numpy) for t in graph.inputs]


def plan_of(graph: Graph, machine: targets.Target = LATE) -> ContractPlan:
    program = compile_for(graph, "x86-64-v4", opt_level=0).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    (plan,) = (product_plan(s, machine) for s in found if isinstance(s, Product))
    return plan


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("form", FORMS)
def test_batches_are_the_same_bit_for_bit_whoever_prefetches(dtype, form):
    graphs = [batch(size, form, dtype=dtype) for size in SHAPES]
    joined = Graph([y for g in graphs for y in g.outputs], [x for g in graphs for x in g.inputs])
    arrays = [array for graph in graphs for array in arrays_of(graph)]

    def results(threads: int = 1) -> list[bytes]:
        step = sg.compile(joined.inputs, joined.outputs, threads=threads, cache=False)
        return [y.tobytes() for y in step(*arrays)]

    with native_with(is_so=False):
        plain = results()
    with native_with(is_so=True):
        assert [results(), results(2)] == [plain, plain]
        with selected():
            assert results() == plain


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [(16, 16, 16), (24, 24, 24), (13, 31, 9)])
def test_prefetching_behind_the_last_product_touches_nothing(form, size):
    graph = batch(size, form, count=3)
    arrays = [np.round(3 * array) for array in arrays_of(graph)]
    ways = [Variant(memory=Memory(side)) for side in ("start", "end")]
    with native_with(is_so=True):
        assert run_variants(graph, arrays, ways) is None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [(32, 32, 32), (24, 24, 24), (20, 40, 30), (48, 48, 48)])
def test_tiles_prefetch_all_that_the_next_product_meets(form, size):
    plan = plan_of(batch(size, form, dtype="float64"))
    m, n, k = size
    assert plan.prefetches_product
    assert next_panel_prefetched(plan) == 0
    sizes = [8 * each for each in (m * k, k * n, m * n)]
    places = next_places(plan)
    fits = size != (32, 32, 32)  # which are whole pages
    assert [8 * place for place in places] == (sizes if fits else [0, sizes[1], 0])
    steps = plan.row_tiles * plan.panels * plan.k
    prefetched = [nbytes for nbytes, place in zip(sizes, places, strict=True) if place]
    for nbytes, each in zip(prefetched, bytes_a_step(plan), strict=True):
        assert nbytes <= steps * each < nbytes + steps


@pytest.mark.parametrize("form", FORMS)
def test_tiles_of_split_vectors_prefetch_both_operands_of_the_next_product(form):
    plan = plan_of(batch((24, 24, 24), form))
    assert plan.method == "split"
    assert plan.prefetches_product
    assert next_places(plan) == (24 * 24, 24 * 24, 0)  # each tile prefetches where it is stored
    stored = Elements(plan.dtype, plan.compute, LATE)
    kernel = split_kernel(plan, stored, plan.tile_rows, 24)
    assert kernel.next_bytes == bytes_a_step(plan)
    assert (kernel.right_lines, next_panel_prefetched(plan)) == (0, 0)
    module = ir.Module()
    emit_split_kernel(module, kernel)
    lines = sum(-(-2 * nbytes // 64) for nbytes in kernel.next_bytes)  # of a pair of terms
    assert str(module).count('call void @"llvm.prefetch.p0') == lines + 1
    assert not plan_of(batch((24, 24, 24), form), V4).prefetches_product


def test_nothing_is_prefetched_that_no_near_cache_has_room_for_or_that_is_no_batch():
    assert not plan_of(batch((96, 96, 96))).prefetches_product
    x, y = sg.placeholder((32, 32)), sg.placeholder((32, 32))
    assert not plan_of(Graph([x @ y], [x, y])).prefetches_product
    assert bytes_a_step(plan_of(batch((32, 32, 32)), V4)) == ()


def test_the_second_cache_is_prefetched_a_panel_that_the_nearest_has_no_room_for():
    plan = plan_of(batch((32, 64, 256)))
    assert plan.has_panel
    assert plan.prefetches_product
    assert next_places(plan) == (0, 64 * 256, 0)
    assert not is_next_near(plan, LATE.memory)
    assert is_next_near(plan_of(batch((32, 32, 32))), LATE.memory)
    assert not plan_of(batch((32, 64, 2048))).prefetches_product  # nor has the second one
    assert not plan_of(batch((32, 64, 256)), V4).prefetches_product


@pytest.mark.parametrize("form", FORMS)
def test_the_second_cache_is_prefetched_products_of_which_the_nearest_has_room_for_none(form):
    kinds = "float32", "float64"
    near, far = (plan_of(batch((48, 48, 48), form, dtype=kind)) for kind in kinds)
    assert [is_next_near(plan, LATE.memory) for plan in (near, far)] == [True, False]
    assert all(all(next_places(plan)) for plan in (near, far))
    left, _, result = next_places(plan_of(batch((80, 80, 80), form)))
    assert (left, result) == (0, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_short_loops_are_unrolled_where_few_instructions_are_issued(dtype):
    plan = plan_of(batch((32, 32, 32), dtype=dtype))
    size = plan.tile_rows, plan.tile_columns
    assert turns_of(plan, LATE, *size) == (1, 4)
    assert turns_of(plan, V4, *size) == (1, 1)
    longer = plan_of(batch((64, 64, 64), dtype=dtype))
    assert turns_of(longer, LATE, longer.tile_rows, longer.tile_columns) == (1, 1)


def test_only_processors_known_for_it_have_these_facts():
    for name in TARGET_NAMES:
        if name != "native":
            known = [fact for fact in FACTS if getattr(target_named(name), fact)]
            # No multiply-add of AVX2 broadcasts an operand, whichever processor has it.
            assert known == (["issues_few"] if name == "x86-64-v3" else [])
