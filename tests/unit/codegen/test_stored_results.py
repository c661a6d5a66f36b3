"""Tiles that a microkernel stores where results are: which products have them, and past caches."""

from __future__ import annotations

import re
from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract import ContractPlan
from symgrad.codegen.contract.plans import products, search
from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.contract.plans.scratch import partial_offset, scratch_bytes
from symgrad.codegen.loops.index_arithmetic import even_run, index_of, step_within
from symgrad.codegen.loops.language import Product
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.strided import Modulus, Quotient
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.graph import Graph
from tests.support.floors import Memory, Variant, compile_for, run_variants

# Rows, columns and k: short tiles, narrow panels, edges of whole vectors and of others.
SHAPES = ((37, 64, 30), (26, 96, 17), (29, 80, 5), (40, 33, 12), (7, 128, 130))


def product(m: int, n: int, k: int, dtype: str = "float32") -> Graph:
    a, b = sg.placeholder((m, k), dtype), sg.placeholder((k, n), dtype)
    return Graph([a @ b], [a, b])


def plan_of(graph: Graph, target: str = "x86-64-v4") -> ContractPlan:
    (plan,) = plans_of(graph, target)
    return plan


def plans_of(graph: Graph, target: str = "x86-64-v4") -> list[ContractPlan]:
    program = compile_for(graph, target, opt_level=0).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    return [product_plan(s, target_named(target)) for s in found if isinstance(s, Product)]


def gradient_to_strided(pixels: int, channels: int) -> Graph:
    """Return the gradient to the input of a convolution of 8 images with stride 2."""
    x = sg.placeholder((8, pixels, pixels, channels))
    kernel = sg.placeholder((3, 3, channels, 64))
    y = sg.nn.conv2d(x, kernel, strides=2, padding=[(1, 1), (1, 1)])
    g = sg.placeholder(y.shape)
    return Graph(sg.gradients(y, [x], grad_ys=g), [kernel, g])


def test_a_product_with_which_nothing_is_done_stores_its_tiles_in_the_result():
    assert plan_of(product(200, 64, 48)).result_row == 64
    a, b = sg.placeholder((200, 48)), sg.placeholder((48, 64))
    assert plan_of(Graph([sg.tanh(a @ b)])).result_row == 0
    assert plan_of(Graph([a @ b + sg.placeholder((64,))])).result_row == 0


def test_tiles_that_fill_no_whole_vectors_or_are_few_and_added_up_in_blocks_have_an_epilogue():
    assert plan_of(product(200, 65, 48)).result_row == 0
    assert plan_of(product(200, 64, 5000)).result_row == 0
    assert plan_of(product(200, 64, 48, "bfloat16"), "x86-64-v3").result_row == 0


def test_sums_of_several_blocks_wait_where_large_results_are():
    def turned(m: int, n: int, k: int) -> Graph:
        a, b = sg.placeholder((k, m), "float64"), sg.placeholder((k, n), "float64")
        return Graph([a.T @ b], [a, b])

    plan = plan_of(turned(1024, 1024, 1024))
    assert plan.k_blocks > 1
    assert plan.result_row == 1024
    assert not plan.is_streamed  # the next block reads them
    assert plan.steps_a_row > 0  # and they are prefetched
    assert partial_offset(plan) == scratch_bytes(plan)
    assert not plan_of(turned(2048, 2048, 2048)).is_streamed
    # A near cache has them in tiles that follow one another, or they come and go too often.
    assert plan_of(turned(128, 128, 4096)).result_row == 0
    short = plan_of(product(24, 16384, 2048))
    assert short.k_blocks > 1
    assert short.result_row == 0


def test_sums_that_wait_where_results_are_go_on_between_guard_pages():
    random = np.random.default_rng(0)
    graph = product(270, 528, 1400)
    assert plan_of(graph).result_row == 528
    assert plan_of(graph).k_blocks > 1
    arrays = [random.integers(-3, 4, t.type.static_shape).astype(np.float32) for t in graph.inputs]
    variants = [
        Variant(threads=Threads(1, 0.0), memory=Memory("end")),
        Variant("x86-64-v3", threads=Threads(3, 0.0), memory=Memory("start")),
        Variant(threads=Threads(2, 0.0)),
    ]
    assert run_variants(graph, arrays, variants, interprets=False) is None


def test_results_that_lie_evenly_within_runs_of_rows_have_their_tiles_there():
    i = index_of(("i", 1))
    digits = ((Modulus(i, 8), 100), (Quotient(i, 8), 3), ("j", 1))
    assert step_within(index_of(*digits), "i", 8) == 100
    assert step_within(index_of(*digits), "i", 4) == 100
    assert step_within(index_of(*digits), "i", 16) is None
    assert step_within(index_of(*digits), "j", 16) == 1
    # What grows on its own, and with each line as well, is not even.
    assert step_within(index_of(("i", 2), (Quotient(i, 8), 3)), "i", 32) is None
    assert step_within(index_of(("i", 2), (Quotient(i, 8), 3)), "i", 8) == 2
    inner = Modulus(index_of((Quotient(i, 8), 1)), 28)
    assert step_within(index_of((inner, 5)), "i", 8) == 0
    assert step_within(index_of((Modulus(index_of(("i", 1), const=3), 8), 5)), "i", 8) is None


def test_the_longest_part_of_a_run_in_which_an_index_grows_evenly_is_found():
    i = index_of(("i", 1))
    image = Modulus(index_of((Quotient(i, 28), 1)), 8)
    result = index_of((Modulus(i, 28), 200), (image, 7000), (Quotient(i, 224), 5000))
    assert even_run(result, "i", 224) == 28
    assert even_run(result, "i", 6272) == 28
    assert even_run(index_of(("i", 3)), "i", 224) == 224
    assert even_run(index_of((Modulus(i, 5), 3)), "i", 224) == 1


def test_products_for_the_residues_of_a_stride_store_their_tiles_where_these_belong():
    plans = plans_of(gradient_to_strided(36, 64))
    assert [plan.row_run for plan in plans] == [8, 18, 18, 18]
    assert all(plan.result_row > 0 for plan in plans)


def test_a_tile_prefetches_where_it_is_stored_if_its_sums_are_short():
    plans = plans_of(gradient_to_strided(36, 64))
    assert all(plan.met == 1 and plan.prefetches_results for plan in plans)
    assert all(plan.steps_a_row > 0 for plan in plans)
    assert plan_of(product(4096, 64, 256)).prefetches_results
    assert not plan_of(product(4096, 64, 700)).prefetches_results
    # A near cache holds these.
    assert not plan_of(product(64, 64, 32)).prefetches_results


def test_tiles_that_prefetch_where_they_are_stored_are_right_between_guard_pages():
    random = np.random.default_rng(0)
    for graph in (gradient_to_strided(36, 32), gradient_to_strided(35, 48), product(4001, 80, 37)):
        shapes = [t.type.static_shape for t in graph.inputs]
        arrays = [random.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
        variants = [
            Variant(memory=Memory("end")),
            Variant("x86-64-v3", threads=Threads(2, 0.0), memory=Memory("start")),
            Variant(threads=Threads(2, 0.0)),
        ]
        assert run_variants(graph, arrays, variants, interprets=False) is None


def test_only_results_that_no_cache_holds_go_past_the_caches():
    large = product(70_000, 64, 48)
    assert plan_of(large).is_streamed
    assert plan_of(large).met == 0
    assert not plan_of(product(20_000, 64, 48)).is_streamed
    for target in ("x86-64-v3", "aarch64"):  # a line is several stores
        assert not plan_of(large, target).is_streamed


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_stored_tiles_are_right_between_guard_pages(shape, is_streamed):
    random = np.random.default_rng(0)
    graph = product(*shape)
    arrays = [random.integers(-3, 4, t.type.static_shape).astype(np.float32) for t in graph.inputs]
    variants = [
        Variant(threads=Threads(1, 0.0), memory=Memory("end")),
        Variant("x86-64-v3", threads=Threads(3, 0.0), memory=Memory("start")),
        Variant(threads=Threads(2, 0.0)),
    ]
    with mock.patch.object(products, "CACHES_STREAMED", 0 if is_streamed else 4):
        assert run_variants(graph, arrays, variants) is None


def test_stored_tiles_are_right_with_lanes_along_the_rows():
    random = np.random.default_rng(0)
    for m, n, k in ((64, 40, 30), (128, 13, 50)):
        a, b = sg.placeholder((m, k)), sg.placeholder((k, n))
        graph = Graph([(a @ b).T], [a, b])
        plan = plan_of(graph)
        assert (plan.vector_axis, plan.result_row) == ("m", m)
        arrays = [
            random.integers(-3, 4, t.type.static_shape).astype(np.float32) for t in graph.inputs
        ]
        variants = [Variant(memory=Memory("end")), Variant(threads=Threads(2, 0.0))]
        assert run_variants(graph, arrays, variants) is None


def test_padding_that_is_in_no_memory_and_a_kernel_with_nan_meet_in_stored_tiles():
    x, kernel = sg.placeholder((8, 9, 9, 64)), sg.placeholder((3, 3, 64, 64))
    graph = Graph([sg.nn.conv2d(x, kernel, padding="SAME")], [x, kernel])
    random = np.random.default_rng(0)
    arrays = [random.integers(-3, 4, t.type.static_shape).astype(np.float32) for t in graph.inputs]
    arrays[1][0, 1, 3, 5] = np.nan
    assert run_variants(graph, arrays, [Variant(memory=Memory("end")), Variant()]) is None


@pytest.mark.isa("avx512f")
@pytest.mark.parametrize("offset", [0, 1, 8])
def test_a_result_that_goes_past_the_caches_may_lie_anywhere(offset):
    a, b = sg.placeholder((53, 20)), sg.placeholder((20, 64))
    random = np.random.default_rng(0)
    x, y = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((53, 20), (20, 64)))
    memory = aligned_empty((53 * 64 + 32,), np.dtype(np.float32))
    memory[...] = 7
    out = memory[offset : offset + 53 * 64].reshape(53, 64)
    search.plan_contract.cache_clear()
    with mock.patch.object(products, "CACHES_STREAMED", 0):
        step = sg.compile([a, b], a @ b)
        step(x, y, out=out)
    assert re.search("nontemporal|vmovntps", step.ir("llvm"))
    np.testing.assert_array_equal(out, x @ y)
    assert (memory[:offset] == 7).all()
    assert (memory[offset + 53 * 64 :] == 7).all()
