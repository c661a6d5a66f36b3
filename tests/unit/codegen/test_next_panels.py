"""Packing the next panel of a product row by row, within the microkernels of this one."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract import ContractPlan
from symgrad.codegen.contract.kernels import microkernel
from symgrad.codegen.contract.kernels.register_tile import Microkernel
from symgrad.codegen.contract.plans import products
from symgrad.codegen.contract.plans.packing import packs_next
from symgrad.codegen.contract.plans.prefetching import can_pack_next
from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.loops.language import Product
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import Target, target_named
from symgrad.compiler import CompileOptions, emit_linkable, lower_graph
from symgrad.graph.graph import Graph
from symgrad.records import replace
from tests.support.floors import Memory, Variant, run_variants


def slowly(plan: ContractPlan, target: Target) -> bool:
    return can_pack_next(plan, replace(target, shares_slowly=True))


@pytest.fixture
def shares_slowly() -> Iterator[None]:
    """Plan for a shared cache that is slow, whatever the target says."""
    products._plans.clear()
    with mock.patch.object(products, "can_pack_next", side_effect=slowly):
        yield
    products._plans.clear()


def product(m: int, n: int, k: int, dtype: str = "float32", *, is_plain: bool = False) -> Graph:
    a, b = sg.placeholder((m, k), dtype), sg.placeholder((k, n), dtype)
    return Graph([a @ b if is_plain else sg.abs(a @ b)], [a, b])


def plans(
    graph: Graph, threads: Threads = ONE_THREAD, name: str = "x86-64-v4"
) -> list[ContractPlan]:
    options = CompileOptions(target_named(name), 3, fast_math=False, cache=False)
    program = lower_graph(graph, replace(options, threads=threads)).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    return [product_plan(s, options.target) for s in found if isinstance(s, Product)]


def tiles(graph: Graph) -> set[Microkernel]:
    options = CompileOptions(target_named("x86-64-v4"), 3, fast_math=False, cache=False)
    module = emit_linkable(lower_graph(graph, options).program, options.target)
    return {leaf for leaf in module.names_of_leaves() if isinstance(leaf, Microkernel)}


# The last panel is full, or has fewer columns; terms are so many that iterations and parts of
# panels are even, or not.
SHAPES = ((128, 528, 784), (128, 560, 785), (135, 496, 786), (101, 544, 1023))
WIDE_SHAPES = ((128, 264, 400), (128, 280, 393), (101, 272, 511))  # of float64


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("shares_slowly")
def test_products_are_right_between_guard_pages(dtype):
    random = np.random.default_rng(0)
    variants = [
        Variant(memory=Memory("end")),
        Variant("x86-64-v3", memory=Memory("start")),
        Variant("x86-64", threads=Threads(2, 0.0)),
    ]
    for number, shape in enumerate(SHAPES if dtype == "float32" else WIDE_SHAPES):
        graph = product(*shape, dtype, is_plain=number % 2 == 0)
        for name in ("x86-64-v4", "x86-64-v3", "x86-64"):
            assert all(map(packs_next, plans(graph, name=name)))
        arrays = [random.integers(-3, 4, x.type.static_shape).astype(dtype) for x in graph.inputs]
        assert run_variants(graph, arrays, variants, interprets=False) is None


@pytest.mark.usefixtures("shares_slowly")
def test_what_llvm_selects_packs_the_same():
    random = np.random.default_rng(0)
    graph = product(*SHAPES[1])
    arrays = [random.integers(-3, 4, x.type.static_shape).astype("float32") for x in graph.inputs]
    with mock.patch.object(microkernel, "is_assembled", return_value=False):
        assert run_variants(graph, arrays, [Variant()], interprets=False) is None


@pytest.mark.usefixtures("shares_slowly")
def test_results_have_the_same_bits_on_any_number_of_threads():
    random = np.random.default_rng(0)
    for shape in SHAPES[1:3]:
        graph = product(*shape)
        arrays = [random.normal(size=x.type.static_shape).astype("float32") for x in graph.inputs]
        steps = [
            sg.compile(graph.inputs, graph.outputs, threads=threads, cache=False)
            for threads in (1, 2, 4)
        ]
        first, *others = [step(*arrays)[0] for step in steps]
        for other in others:
            np.testing.assert_array_equal(first, other)


def test_only_where_the_shared_cache_is_slow_do_tiles_pack_the_next_panel():
    (plan,) = plans(product(128, 512, 784))
    assert plan.next_source is not None
    assert not packs_next(plan)
    assert plan.kept_panels == 1


@pytest.mark.usefixtures("shares_slowly")
def test_all_rows_of_a_panel_are_packed_by_its_tiles_and_two_panels_are_kept():
    (plan,) = plans(product(128, 512, 784))
    source = plan.next_source
    assert source is not None
    assert packs_next(plan)
    assert plan.kept_panels == 2
    rows = source.around // source.along
    assert rows * plan.row_tiles >= plan.k
    assert rows * source.lines.steps <= plan.k
    assert any(tile.packs_next for tile in tiles(product(128, 512, 784)))


@pytest.mark.usefixtures("shares_slowly")
@pytest.mark.parametrize(
    "shape",
    [(128, 512, 200), (40, 512, 784), (2048, 512, 784), (128, 60, 8000)],
    ids=["near", "few tiles", "panels read again", "one whole panel"],
)
def test_what_is_near_read_by_few_or_read_again_is_packed_as_before(shape):
    assert not any(packs_next(plan) for plan in plans(product(*shape)))


@pytest.mark.usefixtures("shares_slowly")
def test_threads_that_have_a_part_of_the_rows_pack_as_before():
    for plan in plans(product(512, 512, 784), Threads(8, 0.0)):
        assert not packs_next(plan) or plan.part_rows == 0
