"""Prefetches of the left of a product: which tiles do; nothing else is another."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract import ContractPlan
from symgrad.codegen.contract.methods import Packing
from symgrad.codegen.contract.operand import NextSteps, PrefetchedSource
from symgrad.codegen.contract.plans import prefetching, products, search
from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.loops.language import Product
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import Target, target_named
from symgrad.cost_model.products import SHORT_PIECE
from symgrad.graph.graph import Graph
from symgrad.records import replace
from tests.support.floors import Memory, Variant, compile_for, run_variants
from tests.support.schedules import batches_blocked
from tests.unit.codegen.test_stored_results import plans_of

# Rows, columns and k, with and without leftovers of tiles, of lines and of a last tile.
SHAPES = ((24, 64, 64), (13, 67, 37), (1, 40, 10), (50, 20, 259))


def prefetches(graph: Graph, target: str = "native") -> list[bool]:
    program = compile_for(graph, target, opt_level=0).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    machine = target_named(target)
    return [product_plan(s, machine).prefetches_next for s in found if isinstance(s, Product)]


def product(m: int, n: int, k: int, *, is_turned: bool = False) -> Graph:
    a, b = sg.placeholder((k, m) if is_turned else (m, k)), sg.placeholder((k, n))
    return Graph([(a.T if is_turned else a) @ b], [a, b])


def test_a_left_in_memory_is_prefetched_for():
    assert prefetches(product(4096, 64, 256)) == [True]
    assert prefetches(product(64, 64, 25600, is_turned=True)) == [False]  # but its next steps of k


def test_a_left_in_cache_or_of_many_panels_is_not_prefetched_for():
    assert prefetches(product(256, 64, 256)) == [False]
    assert prefetches(product(4096, 1024, 256)) == [False]
    assert prefetches(product(4096, 8, 1024, is_turned=True)) == [False]


def test_lines_across_are_not_prefetched_where_a_processor_follows_them():
    target = replace(target_named("x86-64-v4"), follows_pages=False)
    for is_turned, expected in ((True, False), (False, True)):
        m, n, k = (512, 64, 1024) if is_turned else (4096, 64, 256)
        graph = product(m, n, k, is_turned=is_turned)
        (found,) = plans_on(graph, target)
        (followed,) = plans_on(graph, replace(target, follows_pages=True))
        assert found.prefetches_next
        assert followed.prefetches_next is expected
        assert replace(followed, prefetches_next=True) == found


def plans_on(graph: Graph, target: Target) -> list[ContractPlan]:
    program = compile_for(graph, "x86-64-v4", opt_level=0).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    return [product_plan(s, target) for s in found if isinstance(s, Product)]


def prefetches_panel(graph: Graph) -> list[bool]:
    program = compile_for(graph, "x86-64-v4", opt_level=0).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    machine = target_named("x86-64-v4")
    return [product_plan(s, machine).prefetches_panel for s in found if isinstance(s, Product)]


def test_a_packed_panel_is_prefetched_where_no_near_cache_holds_all():
    assert prefetches_panel(product(1024, 1024, 1024)) == [True]
    assert prefetches_panel(product(1024, 1024, 1024, is_turned=True)) == [True]
    assert prefetches_panel(product(1024, 128, 512)) == [False]  # packed, and near
    assert prefetches_panel(product(4096, 64, 256)) == [False]


def next_steps(graph: Graph, threads: Threads = ONE_THREAD) -> list[NextSteps | None]:
    program = compile_for(graph, "x86-64-v4", opt_level=0, threads=threads).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    machine = target_named("x86-64-v4")
    return [product_plan(s, machine).next_steps for s in found if isinstance(s, Product)]


def test_tiles_of_a_long_sum_prefetch_rows_of_the_next_block_of_k():
    (prefetched,) = next_steps(product(64, 256, 25600, is_turned=True))
    assert prefetched is not None
    # Lanes are along m: the left is the second operand, of which each step of k is a row.
    assert prefetched.left.pitch == 256
    assert prefetched.left.elements * prefetched.turns >= 256
    assert prefetched.right.pitch == 64
    assert prefetched.right.elements * prefetched.turns >= 64
    assert next_steps(product(64, 256, 2560)) == [None]
    assert next_steps(product(4096, 64, 256)) == [None]


def test_a_thread_prefetches_its_own_part_of_rows():
    graph = product(64, 256, 25600, is_turned=True)
    (whole,), (part,) = next_steps(graph), next_steps(graph, Threads(2, 0.0))
    assert whole is not None
    assert part is not None
    assert part.turns < whole.turns
    assert 128 <= part.left.elements * part.turns < 256


def test_a_product_prefetches_one_thing():
    with mock.patch.object(products, "_goes_on", return_value="rows"):
        assert prefetches_panel(product(1024, 1024, 1024)) == [False]


def convolution() -> Graph:
    x, kernel = sg.placeholder((2, 9, 11, 5)), sg.placeholder((3, 3, 5, 20))
    return Graph([sg.nn.conv2d(x, kernel, padding="SAME")], [x, kernel])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_results_are_the_same_between_guard_pages(dtype):
    random = np.random.default_rng(0)
    graphs = [product(*shape, is_turned=i % 2 == 1) for i, shape in enumerate(SHAPES)]
    x, y = sg.placeholder((40, 33), dtype), sg.placeholder((33, 21), dtype)
    for graph in (*graphs, Graph([x @ y], [x, y]), convolution()):
        arrays = [
            random.integers(-3, 4, t.type.static_shape).astype(t.dtype.numpy) for t in graph.inputs
        ]
        variants = [
            Variant(threads=Threads(1, 0.0), memory=Memory("end")),
            Variant("x86-64-v3", threads=Threads(3, 0.0), memory=Memory("start")),
        ]
        with mock.patch.object(prefetching, "_is_met_late", lambda plan, _: can_prefetch(plan)):
            assert run_variants(graph, arrays, variants) is None
        with mock.patch.object(prefetching, "_is_panel_met_late", lambda plan, _: packs(plan)):
            search.plan_contract.cache_clear()
            assert run_variants(graph, arrays, variants) is None
        search.plan_contract.cache_clear()


def packs_all(plan: ContractPlan, memory: object) -> ContractPlan:
    """Pack any right that can be packed by vectors."""
    del memory
    turned: Packing = "copy" if plan.right.column_stride == 1 else "transpose"
    return replace(plan, pack_right=turned)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_results_are_the_same_where_the_source_of_the_next_panel_is_prefetched_for(dtype):
    random = np.random.default_rng(0)
    variants = [
        Variant(threads=Threads(1, 0.0), memory=Memory("end")),
        Variant("x86-64-v3", threads=Threads(2, 0.0), memory=Memory("start")),
    ]
    for form, (m, n, k) in enumerate([(130, 150, 71), (130, 150, 72), (131, 170, 75)]):
        a, b = sg.placeholder((m, k), dtype), sg.placeholder((n, k) if form else (k, n), dtype)
        graph = Graph([a @ b.T if form else a @ b], [a, b])
        arrays = [random.integers(-3, 4, t.type.static_shape).astype(dtype) for t in (a, b)]
        search.plan_contract.cache_clear()
        with (
            mock.patch.object(search, "pack_panels", side_effect=packs_all),
            mock.patch.object(prefetching, "is_source_far", return_value=True),
        ):
            assert next_sources(graph) != [None]
            assert run_variants(graph, arrays, variants) is None
    search.plan_contract.cache_clear()


def next_sources(graph: Graph) -> list[PrefetchedSource | None]:
    program = compile_for(graph, "x86-64-v4", opt_level=0).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    machine = target_named("x86-64-v4")
    return [product_plan(s, machine).next_source for s in found if isinstance(s, Product)]


def test_a_product_of_few_rows_packs_a_panel_as_it_is_read_and_prefetches_the_next():
    assert next_sources(product(128, 512, 784)) != [None]
    assert next_sources(product(128, 512, 200)) == [None]  # near
    assert next_sources(product(40, 512, 784)) == [None]  # too few tiles to prefetch it
    assert next_sources(product(2048, 512, 784)) == [None]  # blocks of tiles read each panel again
    assert prefetches_panel(product(128, 512, 784)) == [False]


def packs(plan: ContractPlan) -> bool:
    is_long = not plan.has_pieces or plan.k_piece > SHORT_PIECE
    return plan.method == "tile" and plan.pack_right != "none" and is_long


def can_prefetch(plan: ContractPlan) -> bool:
    is_in_lines = 1 in (plan.left.row_stride, plan.left.column_stride)
    return plan.method == "tile" and plan.pack_left == "none" and is_in_lines


def mixtures(rows: int, count: int, size: int) -> list[Graph]:
    """Return products that reach `size` elements of a row each, and one over such rows."""
    factors = sg.placeholder((count, size, size), "float64")
    x = sg.placeholder((rows, count, size), "float64")
    results = [
        sg.einsum("kij,nkj->nki", factors, x),
        sg.einsum("kji,nkj->nki", factors, x),
        sg.einsum("nki,nkj->kij", x * 1.0, x + 1.0),
    ]
    return [Graph([result], [factors, x]) for result in results]


def go_on(graph: Graph) -> list[str | None]:
    program = compile_for(graph, opt_level=0).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    machine = target_named("native")
    return [product_plan(s, machine).goes_on for s in found if isinstance(s, Product)]


def test_products_in_blocks_of_rows_prefetch_what_the_next_block_reads():
    across, turned, inner = mixtures(10_000, 25, 10)
    # What is left over is behind all blocks, and nothing is behind it.
    assert go_on(across) == go_on(turned) == ["rows", None]
    assert go_on(inner) == ["k", None]
    assert go_on(product(4096, 64, 256)) == [None]


@pytest.mark.parametrize("number", range(3))
def test_prefetching_behind_the_last_block_touches_nothing(number):
    graph = mixtures(41, 5, 5)[number]
    random = np.random.default_rng(0)
    arrays = [random.integers(-3, 4, t.type.static_shape).astype(float) for t in graph.inputs]
    with batches_blocked():
        assert set(go_on(graph)) >= {"k" if number == 2 else "rows"}
    ways = [Variant(blocks=True, threads=Threads(n, least_cycles=0)) for n in (1, 2)]
    ways += [Variant(blocks=True, memory=Memory(side)) for side in ("start", "end")]
    assert run_variants(graph, arrays, ways) is None


def turned_batch(n: int, count: int = 9, dtype: str = "float64") -> Graph:
    x, y = (sg.placeholder((count, n, n), dtype) for _ in range(2))
    return Graph([x @ y.mT], [x, y])


def test_few_tiles_prefetch_the_next_right_of_a_batch_and_else_its_packer_does():
    def lines(graph: Graph) -> int:
        (plan,) = plans_of(graph)
        prefetched = prefetching.next_panel_prefetched(plan), prefetching.right_lines_a_step(plan)
        assert plan.next_right > 0
        assert prefetched.count(0) == 1
        return prefetched[1]

    assert [lines(turned_batch(n)) for n in (20, 32)] == [1, 1]
    assert lines(turned_batch(24, dtype="float32")) == 1
    x, y = sg.placeholder((9, 500, 16), "float64"), sg.placeholder((9, 16, 16), "float64")
    assert lines(Graph([x @ y.mT], [x, y])) == 0


@pytest.mark.parametrize("n", [13, 16, 24, 31])
def test_batches_that_prefetch_the_next_right_have_the_same_bits_on_two_threads(n):
    graph = turned_batch(n, 301)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((301, n, n)) for _ in range(2))
    steps = [sg.compile(graph.inputs, graph.outputs, threads=threads) for threads in (1, 2)]
    one, two = (np.asarray(step(a, b)[0]) for step in steps)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(one, a @ b.swapaxes(1, 2), rtol=1e-12, atol=1e-12)
