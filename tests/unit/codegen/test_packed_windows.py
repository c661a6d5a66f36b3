"""Packed windows: gradients to kernels read pixels that were copied once; the sums are the same."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract import Operand, plan_contract
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.loops.language import Product
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.strided import walked
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph
from symgrad.graph.ops.convolution import conv_general
from tests.support.floors import (
    Memory,
    Variant,
    compile_for,
    run_native,
    run_reference,
    run_variants,
)
from tests.support.schedules import pixels_in_place, windows_packed
from tests.unit.codegen.test_product_borders import borders

TARGETS = (
    "native",
    pytest.param("x86-64-v3", marks=pytest.mark.isa("avx2")),
    pytest.param("x86-64", marks=pytest.mark.isa("sse2")),
)


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution, channels last; its graph is that of the gradient to the kernel."""

    spatial: tuple[int, ...] = (6, 5)
    images: int = 3
    window: tuple[int, ...] = (3, 3)
    side: int = 1
    channels: int = 8
    filters: int = 20
    stride: int = 1
    dilation: int = 1
    dtype: str = "float32"

    def graph(self) -> Graph:
        rank = len(self.spatial)
        x = sg.placeholder((self.images, *self.spatial, self.channels), self.dtype)
        kernel = sg.placeholder((*self.window, self.channels, self.filters), self.dtype)
        y = conv_general(
            sg.pad(x, [(0, 0), *[(self.side, self.side)] * rank, (0, 0)]),
            kernel,
            strides=(self.stride,) * rank,
            dilation=(self.dilation,) * rank,
            groups=1,
            layout="NHWC",
        )
        g = sg.placeholder(y.type.static_shape, self.dtype)
        (found,) = sg.gradients(y, [kernel], grad_ys=g)
        assert found is not None
        return Graph([found], [x, g])


LAYERS = {
    "plain": Layer(),
    "no border": Layer(side=0),
    "wide lines": Layer(spatial=(6, 23), window=(3, 5), side=2),
    "many lines": Layer(spatial=(30, 23), images=1),
    "long lines": Layer(spatial=(2, 700), window=(2, 5), side=2, images=1, channels=4),
    "many channels": Layer(channels=37, filters=33),
    "strided": Layer(spatial=(9, 8), stride=2),
    "dilated": Layer(spatial=(8, 7), dilation=2, side=2),
    "strides that leave out": Layer(spatial=(12, 12), window=(2, 2), stride=3),
    "one line": Layer(spatial=(40,), window=(5,), side=2),
    "one image of one line": Layer(spatial=(40,), window=(5,), side=2, images=1),
    "volumes": Layer(spatial=(4, 4, 5), window=(3, 2, 2)),
    "pixels": Layer(spatial=(2, 1), window=(3, 1), images=9),
    "double": Layer(dtype="float64"),
    "half": Layer(dtype="bfloat16"),
}


def arrays_for(graph: Graph) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    # Small whole numbers: every order of the additions gives the same sum.
    types = [t.type for t in graph.inputs]
    return [random.integers(-3, 4, t.static_shape).astype(t.dtype.numpy) for t in types]


@pytest.mark.parametrize("schedule", [windows_packed, pixels_in_place])
@pytest.mark.parametrize("target", TARGETS)
def test_results_are_those_of_windows_in_memory(target, schedule):
    for name, layer in LAYERS.items():
        graph = layer.graph()
        arrays = arrays_for(graph)
        wanted = run_reference(graph, arrays).outputs
        with schedule():
            step = compile_for(graph, target, opt_level=0)
        found = run_native(step, arrays).outputs
        np.testing.assert_array_equal(found[0], wanted[0], name)


@pytest.mark.parametrize("schedule", [windows_packed, pixels_in_place])
@pytest.mark.parametrize("name", ["plain", "wide lines"])
def test_what_is_not_finite_is_in_the_same_sums(schedule, name):
    graph = LAYERS[name].graph()
    with schedule():
        step = compile_for(graph, opt_level=0)
    for operand in (0, 1):
        for where in ((0, 0, 0, 0), (1, 5, 4, 7), (2, 2, 0, 3)):
            arrays = arrays_for(graph)
            arrays[operand][where] = np.inf
            wanted = run_reference(graph, arrays).outputs[0]
            np.testing.assert_array_equal(run_native(step, arrays).outputs[0], wanted)


def absent(graph: Graph) -> list[bool]:
    return [border.absent for product in borders(graph) for border in product]


def test_padding_that_is_packed_is_in_no_memory():
    """Of all axes, and in the forward product that reads the same image as well."""
    layer = Layer(images=8, channels=64, filters=64)
    assert absent(layer.graph()) == [True, True]
    assert absent(replace(layer, side=0).graph()) == []
    for other in (replace(layer, channels=24), replace(layer, filters=24)):
        assert absent(other.graph()) == [False]
    x, kernel = sg.placeholder((8, 6, 5, 64)), sg.placeholder((3, 3, 64, 64))
    y = sg.nn.conv2d(x, kernel, padding="SAME")
    (found,) = sg.gradients(sg.sum(y * y), [kernel])
    assert found is not None
    graph = Graph([found, y], [x, kernel])
    assert absent(graph) == [True] * 4
    assert not any(b.type.shape == (8, 8, 7, 64) for b in compile_for(graph).program.offsets)
    arrays = arrays_for(graph)
    assert run_variants(graph, arrays, [Variant(), Variant(threads=Threads(3, 0.0))]) is None


def test_pixels_of_all_images_come_beside_each_other_where_terms_are_few():
    def terms(layer: Layer) -> set[int]:
        return {b.term_place for product in borders(layer.graph()) for b in product}

    layer = Layer(images=8, channels=64, filters=64)
    assert terms(layer) == {8, 8 * 5}
    assert terms(replace(layer, images=3)) == {1, 5}
    assert terms(replace(layer, spatial=(40, 40))) == {1, 40}
    assert terms(replace(layer, spatial=(33, 35), stride=2)) == {1, 18}


@pytest.mark.parametrize(
    ("ways", "names"),
    [
        ({"windows": True}, ("plain", "strided", "dilated", "volumes", "many channels")),
        ({"in_place": True}, ("plain", "strided", "wide lines", "volumes", "one line")),
    ],
    ids=["packed", "where they lie"],
)
def test_everywhere_and_by_threads_between_guard_pages(ways, names):
    for name in names:
        graph = replace(LAYERS[name], filters=70).graph()
        variants = [
            Variant(threads=Threads(count, 0.0), memory=Memory(side), **ways)
            for count in (1, 3)
            for side in ("start", "end")
        ]
        assert run_variants(graph, arrays_for(graph), variants) is None


def test_threads_compute_the_low_tile_that_each_place_in_a_window_ends_in():
    """Rows of two places are one run in memory, and two where they are packed."""
    layer = Layer(channels=17, filters=21, window=(1, 2), side=0)
    cases: list[tuple[Layer, Threads, AbstractContextManager[None]]] = [
        (replace(layer, spatial=(3, 5)), Threads(4, 0.0), windows_packed()),
        (Layer((14, 14), 8, side=0, channels=67, filters=64), Threads(15, 0.0), nullcontext()),
    ]
    for case, threads, schedule in cases:
        graph = case.graph()
        arrays = arrays_for(graph)
        with schedule:
            step = compile_for(graph, "x86-64-v3", opt_level=0, threads=threads)
        found = run_native(step, arrays).outputs
        np.testing.assert_array_equal(found[0], run_reference(graph, arrays).outputs[0])


def test_the_gradient_to_a_kernel_of_volumes_needs_no_padding():
    """Their slices overlap so much that packing costs more than lines in the second cache."""
    layer = Layer(spatial=(16, 28, 28), images=2, window=(3, 3, 3), channels=32, filters=32)
    graph = layer.graph()
    assert absent(graph) == [True] * 3
    (plan,) = plans(graph)
    assert (plan.pack_left, plan.pack_right) == ("none", "copy")
    assert len(plan.borders) == 3
    square = Layer(spatial=(32, 32), images=8, window=(5, 5), side=2, channels=64, filters=64)
    assert [plan.pack_left for plan in plans(square.graph())] == ["windows"]


def test_pixels_are_read_where_they_lie_if_blocks_of_k_are_as_cheap_as_packing():
    """Their panels stay in the first-level cache, so more sums are resumed than of packed ones."""
    layer = Layer(spatial=(56, 56), images=8, channels=64, filters=64)
    for used in (layer, replace(layer, channels=128, filters=128, stride=2)):
        (plan,) = plans(used.graph())
        assert (plan.pack_left, plan.pack_right) == ("none", "copy")
        memory = target_named("x86-64-v4").memory
        assert plan.block_k * plan.tile_columns * plan.dtype.itemsize <= memory.l1_bytes
    # Pixels of many channels fall on few sets of that cache.
    (plan,) = plans(replace(layer, spatial=(32, 32), images=4, channels=256, filters=128).graph())
    assert plan.pack_left == "windows"


def plans(graph: Graph) -> list[ContractPlan]:
    program, native = compile_for(graph, opt_level=0).program, target_named("x86-64-v4")
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    return [product_plan(s, native) for s in found if isinstance(s, Product)]


def plan_of(
    stride: int = 1, *, channels: int = 64, lines: int = 56, window: int = 3
) -> ContractPlan:
    """Return the plan of the gradient to a kernel of `channels` by 64, of 8 square images."""
    wide, k = stride * lines + window - stride, 8 * lines * lines
    line = channels * wide
    left = Operand(
        1,
        channels * stride,
        64,
        ((window * channels, line),),
        ((lines, stride * line), (lines * lines, wide * line)),
    )
    right = Operand(64, 1, 64, ((lines, 64 * lines), (lines * lines, 64 * lines * lines)))
    rows = channels * window * window
    result, target = Operand(64, 1, 64), target_named("x86-64-v4")
    return plan_contract(rows, 64, k, dtypes.float32, left, right, result, target)


def test_windows_of_many_channels_are_packed_in_even_blocks():
    for plan in (plan_of(), plan_of(2, lines=28), plan_of(channels=128, lines=14)):
        assert plan.pack_left == "windows"
        assert plan.k % plan.block_k == 0
        assert plan.prefetches_block == (plan.k_blocks > 1)
    assert plan_of(channels=16).pack_left == "none"  # too few to be worth a copy
    assert plan_of(window=1).pack_left == "none"  # each pixel is in one window


def read_places(plan: ContractPlan) -> tuple[int, int]:
    """Return the first and the last place of the left that the first block of k reads."""
    rows = walked(plan.left.row_stride, plan.left.row_digits, plan.rows)
    terms = walked(plan.left.column_stride, plan.left.column_digits, plan.k)[: plan.block_k]
    return int(rows.min() + terms.min()), int(rows.max() + terms.max())


def test_all_pixels_that_a_block_reads_are_packed_and_none_behind_them():
    for plan in (plan_of(), plan_of(2, lines=28), plan_of(channels=128, lines=14)):
        first, last = read_places(plan)
        assert (first, last) == (0, plan.window_pixels * plan.row_run - 1)
