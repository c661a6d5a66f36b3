"""Products that read what is padded where it lies: no pad is in memory, no result is another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.graph.graph import Graph
from tests.support.floors import (
    Memory,
    Variant,
    compile_for,
    run_native,
    run_reference,
    run_variants,
)
from tests.unit.codegen.test_product_borders import TARGETS, Layer, arrays_for, borders

PLAIN = Layer(images=6, channels=32, filters=20)
LAYERS = {
    "plain": PLAIN,
    "seven images": replace(PLAIN, images=7, filters=70),
    "strided": replace(PLAIN, spatial=(9, 8), stride=2),
    "dilated": replace(PLAIN, spatial=(8, 6), dilation=2, side=(2, 2)),
    "more border than image": replace(PLAIN, spatial=(2, 6), side=(4, 4)),
    "one side": replace(PLAIN, side=(0, 2), window=(2, 3)),
    "line": replace(PLAIN, spatial=(11,), window=(4,), side=(3, 1)),
    "volumes": replace(PLAIN, spatial=(4, 3, 5), window=(3, 2, 3)),
    "double": replace(PLAIN, dtype="float64", channels=37),
    "integers": replace(PLAIN, dtype="int32"),
    "two blocks of terms": replace(PLAIN, spatial=(3, 4), channels=128),
}


def is_absent(graph: Graph) -> bool:
    found = [border.absent for product in borders(graph) for border in product]
    return bool(found) and all(found)


@pytest.mark.parametrize("target", TARGETS)
def test_results_are_those_with_zeros_in_memory(target):
    for name, layer in LAYERS.items():
        graph = layer.graph()
        assert is_absent(graph), name
        arrays = arrays_for(graph)
        wanted = run_reference(graph, arrays).outputs
        found = run_native(compile_for(graph, target, opt_level=0), arrays).outputs
        np.testing.assert_array_equal(found[0], wanted[0], name)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ["plain", "strided", "volumes", "more border than image"])
def test_zeros_that_are_nowhere_times_what_is_not_finite_are_nan(name, number):
    layer = replace(LAYERS[name], filters=100)
    graph = layer.graph()
    step = compile_for(graph, opt_level=0)
    first, last = (0,) * len(layer.window), tuple(n - 1 for n in layer.window)
    for where in ((*first, 0, 0), (*first, 31, 99), (*last, 7, 50), (*last, 0, 17)):
        arrays = arrays_for(graph)
        arrays[1][where] = number
        wanted = run_reference(graph, arrays).outputs[0]
        assert np.isnan(wanted).any()
        np.testing.assert_array_equal(run_native(step, arrays).outputs[0], wanted)


def test_the_gradient_to_the_input_reads_the_gradient_where_it_lies():
    graph = replace(PLAIN, filters=40).graph(is_gradient=True)
    assert is_absent(graph)
    arrays = arrays_for(graph)
    wanted = run_reference(graph, arrays).outputs
    np.testing.assert_array_equal(run_native(compile_for(graph), arrays).outputs[0], wanted[0])


def strided_gradient() -> tuple[list[sg.Tensor], sg.Tensor]:
    """Return the inputs and the gradient to the input of a convolution with a stride of 2."""
    x, kernel = sg.placeholder((6, 8, 8, 24)), sg.placeholder((3, 3, 24, 32))
    y = sg.nn.conv(sg.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), kernel, strides=2, padding="VALID")
    g = sg.placeholder(y.shape)
    (dx,) = sg.gradients(y, [x], grad_ys=g)
    assert dx is not None
    return [kernel, g], dx


def test_residues_of_a_stride_read_slices_of_a_pad_where_its_operand_lies():
    inputs, dx = strided_gradient()
    graph = Graph([dx], inputs)
    found = [border.absent for product in borders(graph) for border in product]
    assert found == [True] * 4  # along both axes, along one, along the other, along none
    arrays = arrays_for(graph)
    variants = [Variant(), Variant(threads=Threads(3, 0.0), memory=Memory("end"))]
    assert run_variants(graph, arrays, variants) is None
    arrays[0][0, 0, 3, 4] = np.inf
    assert np.isnan(run_reference(graph, arrays).outputs[0]).any()
    assert run_variants(graph, arrays, variants) is None


def test_everywhere_and_by_threads_between_guard_pages():
    """Nothing beside the operand is read."""
    for name in ("plain", "strided", "more border than image", "volumes"):
        graph = replace(LAYERS[name], filters=70).graph()
        arrays = arrays_for(graph)
        variants = [
            Variant(threads=Threads(count, 0.0), memory=Memory(side))
            for count in (1, 3)
            for side in ("start", "end")
        ]
        assert run_variants(graph, arrays, variants) is None


@pytest.mark.parametrize(
    "layer",
    [
        replace(PLAIN, images=5),
        replace(PLAIN, channels=15),
        replace(PLAIN, filters=8),
        replace(PLAIN, dtype="bfloat16"),
        replace(PLAIN, value=1.0),
        replace(PLAIN, window=(1, 3)),
        replace(PLAIN, apart=2, side=(2, 2)),
    ],
    ids=["images", "channels", "filters", "halves", "ones", "window of 1", "apart"],
)
def test_other_pads_are_in_memory(layer):
    graph = layer.graph()
    assert not is_absent(graph)
    arrays = arrays_for(graph)
    wanted = run_reference(graph, arrays).outputs[0].astype(np.float64)
    found = run_native(compile_for(graph), arrays).outputs[0].astype(np.float64)
    np.testing.assert_array_equal(found, wanted)


def test_a_pad_that_more_read_is_in_memory():
    """Here the gradient to the kernel, and a result, read it too."""
    x, kernel = sg.placeholder((6, 7, 5, 32), name="x"), sg.placeholder((3, 3, 32, 20))
    padded = sg.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = sg.nn.conv(padded, kernel, padding="VALID")
    (dk,) = sg.gradients(sg.sum(sg.sin(y)), [kernel])
    assert dk is not None
    for outputs in ([y, dk], [y, padded], [y, sg.exp(padded)]):
        graph = Graph(outputs, [x, kernel])
        assert not is_absent(graph)
        arrays = arrays_for(graph)
        for variant in (Variant(), Variant(borders=True)):
            assert run_variants(graph, arrays, [variant]) is None
    assert is_absent(Graph([y, sg.exp(y)], [x, kernel]))


TEXT = """kernel @k(in x: f32[72], in w: f32[384], out y: f32[96]) {
    product s: f32 for (m in 0..6) (n in 0..16) (k in 0..24)
        x[-8] by (48 2:8, 1 8:8) * w[0] by (16 8:128, 1) BORDER
        tile(1, 1) block(1, 1, 1) pack() along(n) { y[16*m + n] = s } }"""


def test_what_is_absent_is_text_and_read_nowhere():
    kernel = parse_kernel(TEXT.replace("BORDER", "absent(2, 3, 1)(8, 3, 1)(1, 4)"))
    verify_kernel(kernel)
    assert parse_kernel(print_kernel(kernel)) == kernel
    buffers = {"x": np.ones(72, np.float32), "w": np.ones(384, np.float32)}
    buffers["y"] = np.zeros(96, np.float32)
    assert run_kernel(kernel, buffers) == 0
    np.testing.assert_array_equal(buffers["y"].reshape(6, 16)[:, 0], [16, 16, 24, 24, 16, 16])


def test_what_is_not_absent_has_to_be_within_the_operand():
    for border, reached in (
        ("", "-8..79"),
        ("border(2, 3, 1)(8, 3, 1)(1, 4)", "-8..79"),
        ("absent(2, 3, 1)(8, 3, 1)(0, 4)", "-8..71"),
        ("absent(2, 3, 1)(8, 3, 1)(1, 8)", "0..79"),
    ):
        with pytest.raises(AssertionError, match=reached):
            verify_kernel(parse_kernel(TEXT.replace("BORDER", border)))
