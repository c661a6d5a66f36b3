"""Convolutions as machine code: every way in which they are computed gives what NumPy does."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract.digits import CountedAxis
from symgrad.codegen.contract.plans.products import product_plan
from symgrad.codegen.loops.language import Const, Kernel, Product, Store
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.ops.convolution import ChannelLayout, conv_general
from symgrad.graph.ops.slicing import place
from tests.support.floors import compile_for, program_for, run_native, run_reference

ALL = ("forward", "input", "kernel")


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution with padding, and its gradients."""

    x: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    layout: ChannelLayout = "NHWC"
    dtype: str = "float32"

    def graph(self, product: str) -> Graph:
        x = sg.placeholder(self.x, self.dtype, name="x")
        kernel = sg.placeholder(self.kernel, self.dtype, name="kernel")
        rank = len(self.x) - 2
        spatial = range(1, 1 + rank) if self.layout == "NHWC" else range(2, 2 + rank)
        low = tuple(self.padding if a in spatial else 0 for a in range(rank + 2))
        shape = tuple(n + 2 * p for n, p in zip(self.x, low, strict=True))
        y = conv_general(
            place(x, shape, low, (1,) * len(shape)),
            kernel,
            strides=(self.stride,) * rank,
            dilation=(self.dilation,) * rank,
            groups=self.groups,
            layout=self.layout,
        )
        if product == "forward":
            return Graph([y], [x, kernel])
        g = sg.placeholder(y.type.static_shape, self.dtype, name="g")
        if product == "input":
            return Graph([gradient(y, x, g)], [kernel, g])
        return Graph([gradient(y, kernel, g)], [x, g])


def gradient(y: Tensor, x: Tensor, g: Tensor | None = None) -> Tensor:
    (found,) = sg.gradients(y, [x], grad_ys=g)
    assert found is not None
    return found


LAYERS = {
    "few filters": Layer((2, 9, 21, 3), (3, 3, 3, 4), padding=1),
    "few channels, strided": Layer((2, 17, 40, 3), (5, 4, 3, 20), stride=2, padding=2),
    "rows in runs": Layer((2, 9, 23, 20), (3, 3, 20, 36), padding=1),
    "long sums": Layer((1, 5, 9, 192), (3, 3, 192, 18), padding=1),
    "wide": Layer((1, 4, 5, 33), (2, 2, 33, 150)),
    "strided": Layer((2, 11, 12, 17), (3, 3, 17, 24), stride=2, padding=1),
    "strided by 3, dilated": Layer((1, 15, 16, 8), (3, 2, 8, 18), stride=3, dilation=2),
    "dilated": Layer((1, 12, 13, 16), (3, 3, 16, 16), dilation=2),
    "one channel": Layer((4, 14, 15, 1), (5, 5, 1, 6), padding=2),
    "three channels": Layer((1, 20, 21, 3), (7, 7, 3, 17), stride=2, padding=3),
    "depthwise": Layer((2, 9, 10, 37), (3, 3, 1, 37), padding=1, groups=37),
    "multiplied depthwise": Layer((1, 9, 8, 10), (3, 3, 1, 20), groups=10, stride=2),
    "grouped": Layer((1, 9, 8, 24), (3, 3, 12, 16), groups=2),
    "channels first": Layer((2, 12, 9, 19), (20, 12, 3, 3), padding=1, layout="NCHW"),
    "channels first, strided": Layer((1, 12, 9, 20), (18, 12, 3, 3), stride=2, layout="NCHW"),
    "sound": Layer((2, 90, 9), (9, 9, 18), stride=2, padding=4),
    "volumes": Layer((1, 5, 6, 7, 6), (2, 3, 3, 6, 18), padding=1),
    "doubles": Layer((1, 9, 10, 12), (3, 3, 12, 20), padding=1, dtype="float64"),
    "halves": Layer((1, 9, 10, 12), (3, 3, 12, 20), padding=1, dtype="bfloat16"),
}


def arrays_of(graph: Graph) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    # Small whole numbers: every order of the additions gives the same sum.
    return [rng.integers(-2, 3, t.type.static_shape).astype(t.dtype.numpy) for t in graph.inputs]


def products_of(graph: Graph, target: str = "native") -> list[Product]:
    kernels = program_for(graph, target).kernels
    return [s for k in kernels for s in statements(k.body) if isinstance(s, Product)]


def assert_right(layer: Layer, product: str, target: str) -> None:
    graph = layer.graph(product)
    arrays = arrays_of(graph)
    (wanted,) = run_reference(graph, arrays).outputs
    (found,) = run_native(compile_for(graph, target), arrays).outputs
    np.testing.assert_array_equal(found, wanted)


FAST = ["rows in runs", "strided", "channels first"]
_ROWS = [(name, product) for name in LAYERS for product in ALL]


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("product", ALL)
def test_each_product_is_right(name, product):
    assert_right(LAYERS[name], product, "native")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "product"), _ROWS)
@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64"])
def test_each_product_is_right_on_each_target(name, product, target):
    assert_right(LAYERS[name], product, target)


@pytest.mark.parametrize("name", ["depthwise"])
@pytest.mark.parametrize("product", ALL)
def test_threads_change_no_bit(name, product):
    graph = LAYERS[name].graph(product)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(t.type.static_shape).astype(np.float32) for t in graph.inputs]
    found = [
        run_native(compile_for(graph, threads=threads), arrays).outputs[0].tobytes()
        for threads in (Threads(1), Threads(4, least_cycles=0))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("threads", [3, 4])
def test_parts_for_threads_have_all_runs_that_are_shorter_than_a_tile(threads):
    x = sg.placeholder((1, 1, 34, 3), "float64")
    kernel = np.random.default_rng(0).normal(size=(3, 1, 2, 2))
    y = conv_general(
        x, sg.constant(kernel), strides=(1, 1), dilation=(1, 1), groups=1, layout="NCHW"
    )
    graph, given = Graph(y, [x]), np.random.default_rng(1).normal(size=x.shape)
    cut = compile_for(graph, "x86-64-v3", threads=Threads(threads, least_cycles=0))
    (product,) = (
        s for k in cut.program.kernels for s in statements(k.body) if isinstance(s, Product)
    )
    assert product.lhs.row_digits
    plan = product_plan(product, target_named("x86-64-v3"))
    assert product.parallel is not None
    tiles = plan.panels if product.parallel.axis == plan.vector_axis else plan.row_tiles
    assert product.parts == -(-tiles // product.parallel.tiles) > 1
    found = run_native(cut, [given]).outputs[0]
    np.testing.assert_allclose(found, run_reference(graph, [given]).outputs[0], rtol=1e-12)


@pytest.mark.parametrize("product", ALL)
@pytest.mark.parametrize("name", ["rows in runs", "strided", "channels first"])
def test_no_array_of_windows_is_in_memory(name, product):
    layer = LAYERS[name]
    program = program_for(layer.graph(product))
    # A gradient is padded by 2 on each side at most; windows would be 9 times as much.
    last = layer.layout == "NHWC"
    spatial = layer.x[1:-1] if last else layer.x[2:]
    channels = max(layer.x[-1 if last else 1], layer.kernel[-1 if last else 0])
    padded = layer.x[0] * channels * math.prod(n + 4 for n in spatial)
    params = [p for k in program.kernels for p in k.params]
    assert max(p.count for p in params if p.mode != "scratch") <= padded
    assert max([p.count for p in params if p.mode == "scratch"], default=0) <= 4 * padded


def test_the_gradient_to_a_padded_input_computes_no_padding():
    (product,) = products_of(LAYERS["rows in runs"].graph("input"))
    assert (product.rows[1], product.columns[1]) == (2 * 9 * 23, 20)


def test_positions_are_in_the_lanes_where_filters_are_few():
    target = target_named("x86-64-v3")
    few, many = LAYERS["few filters"], LAYERS["rows in runs"]
    for layer, product, axis in (
        (few, "forward", "m"),
        (few, "input", "m"),
        (many, "forward", "n"),
    ):
        (found,) = products_of(layer.graph(product), "x86-64-v3")
        plan = product_plan(replace(found, borders=()), target)
        assert (plan.vector_axis, plan.pack_left, plan.pack_right) == (axis, "none", "none")
    # Residues of a stride compute what is taken of them: 9 or 8 of 17 lines, 20 of 40 places.
    products = products_of(LAYERS["few channels, strided"].graph("input"))
    assert {p.columns[1] for p in products} == {3}
    assert {p.rows[1] for p in products} == {9 * 20, 2 * 8 * 20}


def test_rows_and_terms_are_counted_in_digits():
    (product,) = products_of(LAYERS["rows in runs"].graph("forward"))
    assert product.lhs.row_digits == ((23, 25 * 20), (9 * 23, 11 * 25 * 20))
    assert (product.lhs.columns, product.lhs.column_digits) == (1, ((60, 25 * 20),))
    assert product.rhs.column_digits == ()


def test_the_plan_of_a_convolution_packs_nothing():
    (product,) = products_of(LAYERS["rows in runs"].graph("forward"), "x86-64-v3")
    plan = product_plan(replace(product, borders=()), target_named("x86-64-v3"))
    assert str(plan) == "tile(4x24) along n block(m=414, n=36, k=180) pack()"


def test_the_kernel_is_packed_where_terms_with_padding_are_left_out():
    (product,) = products_of(LAYERS["rows in runs"].graph("forward"), "x86-64-v3")
    plan = product_plan(product, target_named("x86-64-v3"))
    assert str(plan) == "tile(4x24) along n block(m=414, n=36, k=180) pack(rhs: copy)"


def test_a_packed_kernel_of_the_gradient_to_an_input_parts_no_pixels_of_a_line():
    (product,) = products_of(LAYERS["rows in runs"].graph("input"), "x86-64-v3")
    assert product.lhs.column_digits == ((36, 36), (3 * 36, 25 * 36))
    assert product.rhs.row_digits[0] == (36, -20 * 36)
    plan = product_plan(product, target_named("x86-64-v3"))
    assert (plan.pack_right, plan.k_piece, plan.walked_piece) == ("transpose", 36, 3 * 36)
    # Where it is not packed its pixels are found one by one.
    assert replace(plan, pack_right="none").walked_piece == 36


def test_vectors_run_where_terms_with_padding_can_be_left_out_if_that_saves_more():
    layer = Layer((4, 16, 16, 16, 16), (3, 3, 3, 16, 32), padding=1)
    (product,) = products_of(layer.graph("kernel"), "x86-64-v4")
    plan = product_plan(product, target_named("x86-64-v4"))
    assert (plan.vector_axis, len(plan.borders)) == ("n", 2)
    # Along m are fewer loads, and each line of padding.
    plan = product_plan(replace(product, borders=()), target_named("x86-64-v4"))
    assert (plan.vector_axis, plan.borders) == ("m", ())


def test_pixels_with_many_channels_leave_out_the_padding_of_lines_too():
    layer = Layer((2, 16, 28, 28, 32), (3, 3, 3, 32, 32), padding=1)
    (product,) = products_of(layer.graph("kernel"), "x86-64-v4")
    plan = product_plan(product, target_named("x86-64-v4"))
    assert (plan.vector_axis, len(plan.borders), plan.pack_left) == ("n", 3, "none")


def test_digits_that_go_on_evenly_are_joined_but_for_borders_and_the_last_one():
    axis = CountedAxis(1, ((36, 36), (108, 900), (324, 2700)), 648)
    assert axis.joined(frozenset()) == CountedAxis(1, ((108, 900),), 648)
    assert axis.joined(frozenset({36})).digits == ((36, 36), (108, 900))
    # Blocks of k begin somewhere in an axis, so there is a digit to count from.
    even = CountedAxis(1, ((36, 36), (108, 108)), 324).joined(frozenset())
    assert (even.digits, even.run) == (((108, 108),), 108)


KERNEL = """kernel @windows(in x: f32[12], in w: f32[8], out y: f32[12]) {
  product s: f32 for (m in 0..6) (n in 0..2) (k in 0..4)
      x[0] by (1 3:4, 1 2:4) * w[0] by (2 2:4, 1) tile(1, 8) block(1, 8, 4) pack() along(n) {
    y[2*m + n] = s
  }
}
"""


def test_the_interpreter_walks_through_windows():
    kernel: Kernel = parse_kernel(KERNEL)
    verify_kernel(kernel)
    x, w = np.arange(12, dtype=np.float32), np.arange(8, dtype=np.float32)
    y = np.zeros(12, np.float32)
    run_kernel(kernel, {"x": x, "w": w, "y": y})
    windows = np.lib.stride_tricks.sliding_window_view(x.reshape(3, 4), (2, 2))
    wanted = windows.reshape(6, 4) @ w.reshape(4, 2)
    np.testing.assert_array_equal(y.reshape(6, 2), wanted)


def test_second_derivatives_of_a_strided_convolution_are_convolutions():
    layer = LAYERS["strided"]
    x, kernel = sg.placeholder(layer.x), sg.placeholder(layer.kernel)

    def convolved(x: Tensor) -> Tensor:
        return conv_general(x, kernel, strides=(2, 2), dilation=(1, 1), groups=1, layout="NHWC")

    first = gradient(sg.sum(convolved(x) ** 2), x)
    second = gradient(sg.sum(first**2), kernel)
    graph = Graph([second])
    assert sum(node.op == "convolution" for node in graph.nodes) > 4


def test_what_is_mostly_a_border_is_filled_as_a_whole():
    x = sg.placeholder((8, 9))
    fills = [
        sum(isinstance(s, Store) and isinstance(s.value, Const) for s in statements(kernel.body))
        for widths in ([(1, 1), (1, 1)], [(9, 9), (1, 1)])
        for kernel in program_for(Graph([sg.pad(x, widths)])).kernels
    ]
    assert fills == [4, 1]
