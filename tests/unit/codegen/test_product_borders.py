"""Products with the zeros of a pad: which terms are left out, and that no result is another one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Product, ZeroBorder
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.lower import products
from symgrad.codegen.lower.padding import Lines, lines_of
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.graph.graph import Graph
from symgrad.graph.ops.convolution import conv_general
from symgrad.graph.ops.slicing import place
from tests.support.floors import (
    Memory,
    Variant,
    compile_for,
    run_native,
    run_reference,
    run_variants,
)
from tests.support.schedules import padding_left_out

TARGETS = (
    "native",
    pytest.param("x86-64-v3", marks=pytest.mark.isa("avx2")),
    pytest.param("x86-64", marks=pytest.mark.isa("sse2")),
)


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution, channels last, of an operand with a border."""

    spatial: tuple[int, ...] = (7, 5)
    images: int = 2
    window: tuple[int, ...] = (3, 3)
    side: tuple[int, int] = (1, 1)
    channels: int = 8
    filters: int = 20
    stride: int = 1
    dilation: int = 1
    apart: int = 1
    value: float = 0.0
    dtype: str = "float32"

    def graph(self, *, is_gradient: bool = False) -> Graph:
        rank = len(self.spatial)
        x = sg.placeholder((self.images, *self.spatial, self.channels), self.dtype)
        kernel = sg.placeholder((*self.window, self.channels, self.filters), self.dtype)
        low, high = self.side
        inner = [self.apart * (n - 1) + 1 + low + high for n in self.spatial]
        starts, steps = (0, *[low] * rank, 0), (1, *[self.apart] * rank, 1)
        padded = place(x, (self.images, *inner, self.channels), starts, steps, value=self.value)
        y = conv_general(
            padded,
            kernel,
            strides=(self.stride,) * rank,
            dilation=(self.dilation,) * rank,
            groups=1,
            layout="NHWC",
        )
        if not is_gradient:
            return Graph([y], [x, kernel])
        g = sg.placeholder(y.type.static_shape, self.dtype)
        (found,) = sg.gradients(y, [x], grad_ys=g)
        assert found is not None
        return Graph([found], [kernel, g])


def arrays_for(graph: Graph) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    # Small whole numbers: every order of the additions gives the same sum.
    types = [t.type for t in graph.inputs]
    return [random.integers(-3, 4, t.static_shape).astype(t.dtype.numpy) for t in types]


def borders(graph: Graph, target: str = "native") -> list[tuple[ZeroBorder, ...]]:
    program = compile_for(graph, target, opt_level=0).program
    found = (s for kernel in program.kernels for s in statements(kernel.body))
    return [s.borders for s in found if isinstance(s, Product)]


LAYERS = {
    "plain": Layer(),
    "wide": Layer(window=(5, 3), side=(2, 2), filters=33),
    "strided": Layer(spatial=(9, 8), stride=2),
    "dilated": Layer(spatial=(8, 6), dilation=2, side=(2, 2)),
    "apart": Layer(spatial=(4, 4), apart=2, side=(2, 2)),
    "more border than image": Layer(spatial=(2, 6), window=(3, 3), side=(4, 4)),
    "one side": Layer(side=(0, 2)),
    "many channels": Layer(spatial=(4, 5), channels=64),
    "many channels of images": Layer(spatial=(3, 4), images=7, channels=72, side=(2, 1)),
    "volumes": Layer(spatial=(4, 4, 5), window=(3, 2, 2)),
    "double": Layer(dtype="float64"),
    "half": Layer(dtype="bfloat16"),
    "integers": Layer(dtype="int32"),
    "images": Layer(images=7, window=(5, 3), side=(2, 1)),
    "images of volumes": Layer(spatial=(4, 3, 5), window=(3, 3, 3), images=6),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_lines_of_a_border_are_known(name):
    ((border, *_),) = borders(LAYERS[name].graph())
    layer = LAYERS[name]
    assert border.row_count * border.row_step > 0
    assert border.term_step == layer.dilation
    assert border.row_step == layer.stride
    lines = layer.apart * (layer.spatial[0] - 1) + 1
    assert (border.first, border.stop) == (layer.side[0], layer.side[0] + lines)


def test_pixels_of_all_images_come_beside_each_other():
    """With enough images a tile is one pixel of them, and what is beside it is left out as well."""
    assert [len(found) for found in borders(LAYERS["plain"].graph())] == [1]
    ((lines, columns),) = borders(replace(LAYERS["plain"], images=6).graph())
    assert (lines.row_place, lines.row_count) == (5 * 6, 7)
    assert (columns.row_place, columns.row_count) == (6, 5)
    assert (lines.term_place, columns.term_place) == (3 * 8, 8)
    assert (columns.first, columns.stop) == (1, 6)


def test_no_border_is_known_of_other_numbers_than_zero():
    assert borders(Layer(value=1.0).graph()) == [()]
    assert borders(Layer(side=(0, 0)).graph()) == [()]


@pytest.mark.parametrize("is_gradient", [False, True], ids=["forward", "to input"])
@pytest.mark.parametrize("target", TARGETS)
def test_results_are_those_of_all_terms(target, is_gradient):
    for name, layer in LAYERS.items():
        if is_gradient and layer.dtype == "int32":
            continue
        graph = layer.graph(is_gradient=is_gradient)
        arrays = arrays_for(graph)
        wanted = run_reference(graph, arrays).outputs
        with padding_left_out():
            step = compile_for(graph, target, opt_level=0)
        found = run_native(step, arrays).outputs
        np.testing.assert_array_equal(found[0], wanted[0], name)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("is_gradient", [False, True], ids=["forward", "to input"])
def test_zeros_times_what_is_not_finite_are_nan(number, is_gradient):
    """One element of the kernel that is not finite: all terms are added up again."""
    graph = replace(LAYERS["plain"], filters=100).graph(is_gradient=is_gradient)
    with padding_left_out():
        step = compile_for(graph, opt_level=0)
    for where in ((0, 0, 0, 0), (0, 1, 3, 99), (2, 2, 7, 50), (1, 1, 4, 17)):
        arrays = arrays_for(graph)
        arrays[not is_gradient][where] = number
        wanted = run_reference(graph, arrays).outputs[0]
        assert np.isnan(wanted).any()
        np.testing.assert_array_equal(run_native(step, arrays).outputs[0], wanted)


def test_terms_are_left_out():
    """Lines said to be padding that are none: what lies there is in no sum."""

    def more(*args: Any, **kwargs: Any) -> tuple[Lines, ...]:
        lines = (line for line in lines_of(*args, **kwargs) if len(line.index.terms) == 2)
        return tuple(replace(li, first=li.first + 1, stop=li.stop - 1) for li in lines)

    graph = Layer().graph()
    arrays = arrays_for(graph)
    with padding_left_out(), mock.patch.object(products, "lines_of", more):
        step = compile_for(graph, opt_level=0)
    found = run_native(step, arrays).outputs[0]
    assert (found != run_reference(graph, arrays).outputs[0]).any()
    arrays[0][:, [0, 6]] = 0
    assert (found != run_reference(graph, arrays).outputs[0]).any()
    arrays[0][:, :, [0, 4]] = 0
    np.testing.assert_array_equal(found, run_reference(graph, arrays).outputs[0])


TEXT = """kernel @k(in x: f32[144], in w: f32[512], out y: f32[96]) {
    product s: f32 for (m in 0..6) (n in 0..16) (k in 0..32)
        x[0] by (8 2:24, 1 8:24) * w[0] by (16 8:128, 1) BORDER
        tile(1, 1) block(1, 1, 1) pack() along(n) { y[16*m + n] = s } }"""


def test_a_border_is_text_and_checked_when_it_is_interpreted():
    kernel = parse_kernel(TEXT.replace("BORDER", "border(2, 3, 1)(8, 4, 1)(1, 4)"))
    verify_kernel(kernel)
    assert parse_kernel(print_kernel(kernel)) == kernel
    x = np.ones((6, 24), np.float32)
    x[0], x[4:] = 0, 0
    buffers = {"w": np.ones(512, np.float32), "y": np.zeros(96, np.float32)}
    assert run_kernel(kernel, {"x": x.ravel(), **buffers}) == 0
    np.testing.assert_array_equal(buffers["y"].reshape(6, 16)[:, 0], [24, 24, 24, 24, 16, 16])
    x[0, 3] = 1
    with pytest.raises(AssertionError, match="row 0 is not 0 outside of"):
        run_kernel(kernel, {"x": x.ravel(), **buffers})


def test_a_border_of_no_digits_is_refused():
    for border, message in (
        ("border(3, 2, 1)(8, 4, 1)(1, 4)", "m has no such digit"),
        ("border(2, 2, 1)(8, 4, 1)(1, 4)", "2 of m are no digit"),
        ("border(2, 3, 1)(16, 2, 1)(1, 4)", "k has no such digit"),
        ("border(2, 3, 1)(8, 3, 1)(1, 4)", "3 of k are no digit"),
        ("border(2, 3, 0)(8, 4, 1)(1, 4)", "does not go on"),
        ("border(2, 3, 1)(8, 4, 1)(4, 1)", "stops before it begins"),
    ):
        with pytest.raises(AssertionError, match=message):
            verify_kernel(parse_kernel(TEXT.replace("BORDER", border)))


def test_little_is_not_packed_for_it():
    """Few rows: packing the kernel would take longer than the terms that are left out."""
    for lines, pack in ((2, ()), (24, ("rhs",))):
        graph = Layer(spatial=(lines, lines), filters=64).graph()
        program = compile_for(graph, opt_level=0).program
        found = (s for kernel in program.kernels for s in statements(kernel.body))
        assert [s.blocking.pack for s in found if isinstance(s, Product)] == [pack]


def test_everywhere_and_by_threads_between_guard_pages():
    for layer in (LAYERS["plain"], LAYERS["strided"], LAYERS["volumes"]):
        graph = replace(layer, filters=70).graph()
        arrays = arrays_for(graph)
        variants = [
            Variant(threads=Threads(count, 0.0), memory=Memory(side), borders=True)
            for count in (1, 3)
            for side in ("start", "end")
        ]
        assert run_variants(graph, arrays, variants) is None
