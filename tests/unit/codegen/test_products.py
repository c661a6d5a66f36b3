"""What the epilogue of a product decides about its plan, and what is prefetched ahead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract.plans.products import places_to_prefetch, product_plan
from symgrad.codegen.contract.plans.scratch import scratch_bytes
from symgrad.codegen.loops.blocking import Share
from symgrad.codegen.loops.language import Product, Store
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import Target, target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph, Update
from symgrad.graph.types import Array, State
from symgrad.optim import Adam
from symgrad.runtime.executable import Executable
from tests.support.floors import compile_for, run_native, run_reference

TARGET = target_named("x86-64-v3")
FOLLOWS = replace(TARGET, follows_pages=True)


def training(rows: int, columns: int, batch: int = 8) -> Graph:
    """Return a step whose one large product has an update of Adam as its epilogue."""
    x, g = sg.placeholder((batch, rows)), sg.placeholder((batch, columns))
    w = sg.variable(np.ones((rows, columns), np.float32), name="w")
    return Graph([], [x, g], Adam().apply_gradients([(sg.matmul(x, g, transpose_a=True), w)]))


def product_of(graph: Graph) -> Product:
    kernels = compile_for(graph, "x86-64-v3").program.kernels
    (product,) = (s for k in kernels for s in k.body if isinstance(s, Product))
    return product


def test_what_a_large_update_reads_and_writes_is_prefetched_ahead_once():
    product = product_of(training(1024, 768))
    places = places_to_prefetch(product, product_plan(product, TARGET), TARGET)
    buffers = [buffer for buffer, _ in places]
    assert len(buffers) == 3  # m, v and w, each in its place; the two corrections are scalars
    assert len(set(buffers)) == 3


def test_what_the_second_cache_holds_is_not_prefetched_for():
    product = product_of(training(1024, 768))
    large = replace(TARGET, memory=replace(TARGET.memory, l2_bytes=2 << 20))
    assert places_to_prefetch(product, product_plan(product, large), large) == []


def test_what_the_second_cache_holds_only_in_part_is_prefetched_where_there_is_time():
    memory = replace(TARGET.memory, l2_bytes=4 << 20)  # of m, v and w it holds one and a third
    for batch, expected in ((8, 0), (512, 3)):
        product, target = product_of(training(1024, 768, batch)), replace(TARGET, memory=memory)
        assert len(places_to_prefetch(product, product_plan(product, target), target)) == expected


@pytest.mark.parametrize(("batch", "steps"), [(8, 0), (64, 4), (256, 8), (512, 16)])
def test_a_row_that_an_update_meets_is_prefetched_in_so_many_steps_of_k(batch, steps):
    product = product_of(training(1024, 768, batch))
    plan = product_plan(product, TARGET)
    assert plan.steps_a_row == steps
    # All rows of m, v and w have their turn, if they have one.
    assert plan.met * plan.tile_rows * steps <= min(plan.k, plan.block_k)


@pytest.mark.parametrize(("batch", "expected"), [(8, 0), (64, 2)])
def test_a_microkernel_prefetches_what_its_epilogue_meets_where_it_has_the_steps(batch, expected):
    text = compile_for(training(1024, 768, batch), "x86-64-v3").llvm
    kernels = [f for f in text.split("define ") if '@"contract.tile' in f.split("\n")[0]]
    assert kernels
    # The lines of a row in four steps; without the steps all is prefetched in front of the kernel.
    # The first tile of a panel packs it, and prefetches the lines of each row of the right.
    prefetched = {f.count("prefetcht1 ") for f in kernels}
    assert prefetched == ({expected, expected + 4 * 2} if expected else {0})


def test_what_lies_in_cache_is_not_prefetched_for():
    product = product_of(training(64, 64))
    assert places_to_prefetch(product, product_plan(product, TARGET), TARGET) == []


def test_a_product_that_reads_nothing_of_its_size_prefetches_its_results():
    a, b = sg.placeholder((8, 1024)), sg.placeholder((8, 768))
    y = sg.matmul(a, b, transpose_a=True) + sg.placeholder((768,))
    product = product_of(Graph([y, sg.exp(y)]))
    places = places_to_prefetch(product, product_plan(product, TARGET), TARGET)
    stored = {s.buffer for s in product.body if isinstance(s, Store)}
    assert len(stored) == 2
    assert {buffer for buffer, _ in places} == stored


@pytest.mark.parametrize(("rows", "expected"), [(1024, True), (64, False)])
def test_the_module_has_the_hint_where_it_is_used(rows, expected):
    executable = compile_for(training(rows, 768), "x86-64-v3")
    assert ("llvm.prefetch" in executable.llvm) is expected


def test_tiles_follow_the_rows_of_what_an_epilogue_moves():
    product = product_of(training(1024, 2048))
    assert product_plan(product, TARGET).rows_first


def test_tiles_keep_a_large_right_in_cache_where_the_epilogue_moves_little():
    a, b = sg.placeholder((8, 1024)), sg.placeholder((8, 2048))
    product = product_of(Graph([sg.matmul(a, b, transpose_a=True)]))
    assert not product_plan(product, TARGET).rows_first


@pytest.mark.parametrize(("rows", "columns"), [(1024, 768), (1000, 1111), (1111, 999)])
def test_a_large_update_is_right_at_its_edges(rows, columns):
    graph = training(rows, columns, batch=3)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.type.static_shape).astype(np.float32) for t in graph.inputs]
    expected = run_reference(graph, arrays).state
    for state, value in run_native(compile_for(graph), arrays).state.items():
        np.testing.assert_allclose(value, expected[state], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("batch", "keeps"), [(2, True), (8, True), (32, True), (256, False)])
def test_an_epilogue_goes_through_whole_rows_where_tiles_have_few_steps_to_prefetch_in(
    batch, keeps
):
    product = product_of(training(1024, 768, batch))
    plan = product_plan(product, FOLLOWS)
    assert plan.keeps_rows is keeps
    assert not product_plan(product, TARGET).keeps_rows
    if keeps:
        assert places_to_prefetch(product, plan, FOLLOWS) == []
        assert scratch_bytes(plan) >= plan.tile_rows * 768 * 4
        # Rows of tiles that are a part of a thread are kept in the memory of the whole.
        tiles = -(-512 // plan.tile_rows)
        share = Share("m", tiles=tiles, of=2 * tiles, by=512)
        part = product_plan(replace(product, parallel=share), FOLLOWS)
        assert scratch_bytes(part) <= scratch_bytes(plan)


def test_rows_of_what_the_second_cache_holds_are_not_kept():
    assert not product_plan(product_of(training(256, 256)), FOLLOWS).keeps_rows


def test_rows_longer_than_their_share_of_the_second_cache_are_kept_in_pieces():
    memory = replace(FOLLOWS.memory, l2_bytes=1 << 16)
    plan = product_plan(product_of(training(1024, 2000, 4)), replace(FOLLOWS, memory=memory))
    assert plan.keeps_rows
    assert plan.block_panels < plan.panels
    assert plan.tile_rows * plan.tile_row * 4 <= memory.l2_bytes // 2


@pytest.mark.parametrize("name", ["x86-64-v3", "native"])
@pytest.mark.parametrize(
    ("sizes", "l2_bytes"),
    [((1000, 1111, 3), 512 << 10), ((1111, 999, 40), 512 << 10), ((1000, 1111, 3), 64 << 10)],
)
def test_an_update_by_rows_has_the_same_bits_as_one_by_tiles(sizes, l2_bytes, name):
    graph = training(*sizes)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.type.static_shape).astype(np.float32) for t in graph.inputs]
    target = target_named(name)
    by_tiles = replace(target, follows_pages=False)
    memory = replace(target.memory, l2_bytes=l2_bytes)
    by_rows = replace(target, follows_pages=True, memory=memory)
    assert product_plan(product_of(graph), by_rows).keeps_rows
    expected = _updated(graph, arrays, by_tiles, 1)
    for threads in (1, 2, 4):
        found = _updated(graph, arrays, by_rows, threads)
        for state, value in expected.items():
            np.testing.assert_array_equal(found[state], value)


def _updated(graph: Graph, arrays: list[Array], target: Target, threads: int) -> dict[State, Array]:
    shared = Threads(threads) if threads > 1 else ONE_THREAD
    made = Executable(graph, CompileOptions(target, 1, False, False, shared))
    return run_native(made, arrays).state


def test_a_transposed_update_is_right():
    x, g = sg.placeholder((4, 700)), sg.placeholder((4, 900))
    w = sg.variable(np.ones((900, 700), np.float32), name="w")
    product = sg.einsum("ki,kj->ji", x, g)
    graph = Graph([], [x, g], [Update(w, w - 0.5 * product)])
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.type.static_shape).astype(np.float32) for t in (x, g)]
    found = run_native(compile_for(graph), arrays).state[w.state]
    np.testing.assert_allclose(found, 1 - 0.5 * arrays[1].T @ arrays[0], rtol=1e-4, atol=1e-5)
