"""Convolutions that are no products: pads they read through, sums of kernels in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import For, Store
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.errors import GraphError
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.ops.convolution import conv_general
from symgrad.graph.ops.slicing import place
from symgrad.passes.fusion.fuse import fuse
from symgrad.passes.fusion.verify import verify_partition
from tests.support.floors import compile_for, program_for, run_native, run_reference

PRODUCTS = ("forward", "input", "kernel")


@dataclass(frozen=True, slots=True)
class Depthwise:
    """A depthwise convolution, channels last, of an operand with a border."""

    spatial: tuple[int, ...]
    window: tuple[int, ...]
    sides: tuple[tuple[int, int], ...]
    channels: int = 48
    batch: int = 2
    stride: int = 1
    dilation: int = 1
    value: float = 0.0
    dtype: str = "float32"

    def graph(self, product: str, *, has_epilogue: bool = False) -> Graph:
        rank = len(self.spatial)
        x = sg.placeholder((self.batch, *self.spatial, self.channels), self.dtype, name="x")
        kernel = sg.placeholder((*self.window, 1, self.channels), self.dtype, name="kernel")
        sides = ((0, 0), *self.sides, (0, 0))
        shape = tuple(n + a + b for n, (a, b) in zip(x.type.static_shape, sides, strict=True))
        padded = place(x, shape, tuple(a for a, _ in sides), (1,) * (rank + 2), value=self.value)
        y = convolved(padded, kernel, self.stride, self.dilation)
        if product == "forward":
            return Graph([sg.tanh(y) * 2.0 if has_epilogue else y], [x, kernel])
        g = sg.placeholder(y.type.static_shape, self.dtype, name="g")
        of = x if product == "input" else kernel
        (found,) = sg.gradients(y, [of], grad_ys=g)
        assert found is not None
        return Graph([of - 0.5 * found if has_epilogue else found], [x, kernel, g])


def convolved(x: Tensor, kernel: Tensor, stride: int = 1, dilation: int = 1) -> Tensor:
    rank, channels = x.ndim - 2, x.type.static_shape[-1]
    return conv_general(
        x,
        kernel,
        strides=(stride,) * rank,
        dilation=(dilation,) * rank,
        groups=channels,
        layout="NHWC",
    )


LAYERS = {
    "3 by 3": Depthwise((7, 9), (3, 3), ((1, 1), (1, 1))),
    "more on one side": Depthwise((7, 6), (2, 3), ((0, 1), (2, 0))),
    "strided": Depthwise((9, 8), (3, 3), ((1, 1), (1, 1)), stride=2),
    "strided by more than the window": Depthwise((11, 9), (2, 2), ((1, 2), (1, 1)), stride=3),
    "dilated": Depthwise((9, 8), (2, 2), ((2, 2), (1, 1)), dilation=2),
    "wider than the image": Depthwise((2, 1), (3, 3), ((2, 2), (2, 2))),
    "sound": Depthwise((50,), (9,), ((4, 4),)),
    "few channels": Depthwise((7, 9), (3, 3), ((1, 1), (1, 1)), channels=5),
    "an odd number of channels": Depthwise((7, 9), (3, 3), ((1, 1), (1, 1)), channels=67),
    "one image": Depthwise((7, 9), (3, 3), ((1, 1), (1, 1)), batch=1),
    "an odd batch": Depthwise((5, 4), (3, 3), ((1, 1), (1, 1)), batch=11),
    "large images": Depthwise((40, 30), (3, 3), ((1, 1), (1, 1)), channels=64),
    "another value": Depthwise((7, 9), (3, 3), ((1, 1), (1, 1)), value=-2.0),
    "doubles": Depthwise((7, 9), (3, 3), ((1, 1), (1, 1)), dtype="float64"),
    "halves": Depthwise((7, 9), (3, 3), ((1, 1), (1, 1)), dtype="bfloat16"),
}
FAST = ["3 by 3", "more on one side", "strided", "large images", "another value"]


def arrays_of(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    # Small whole numbers: every order of the additions gives the same sum.
    return [rng.integers(-2, 3, t.type.static_shape).astype(t.dtype.numpy) for t in graph.inputs]


def assert_right(graph: Graph, target: str = "native", rtol: float = 0.0) -> None:
    arrays = arrays_of(graph)
    (wanted,) = run_reference(graph, arrays).outputs
    (found,) = run_native(compile_for(graph, target), arrays).outputs
    np.testing.assert_allclose(
        found.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=0
    )


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("product", PRODUCTS)
def test_each_is_right(name, product):
    assert_right(LAYERS[name].graph(product))


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64"])
def test_each_is_right_on_each_target(name, product, target):
    assert_right(LAYERS[name].graph(product), target)


@pytest.mark.parametrize("product", PRODUCTS)
def test_what_follows_is_computed_with_it(product):
    graph = LAYERS["3 by 3"].graph(product, has_epilogue=True)
    assert len(program_for(graph).kernels) == 1
    assert_right(graph, rtol=1e-6)


def padded(graph: Graph) -> bool:
    """Return whether a pad is in memory."""
    groups = fuse(graph).groups
    return any(group.anchor is not None and group.anchor.op == "pad" for group in groups)


@pytest.mark.parametrize("product", ["forward", "kernel"])
def test_a_pad_takes_no_memory(product):
    assert not padded(LAYERS["3 by 3"].graph(product))


def test_a_pad_of_many_borders_is_in_memory():
    # 5 by 5 pieces of 5 by 5 places would be more code than a copy is worth.
    assert padded(Depthwise((7, 9), (5, 5), ((2, 2), (2, 2))).graph("forward"))
    assert padded(Depthwise((7, 9, 5), (3, 3, 3), ((1, 1),) * 3).graph("forward"))


def test_a_pad_that_something_else_reads_is_in_memory():
    x, kernel = sg.placeholder((2, 5, 6, 16)), sg.placeholder((3, 3, 1, 16))
    wide = sg.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    for other in (wide, sg.tanh(wide), convolved(wide, kernel) @ sg.eye(16)):
        graph = Graph([convolved(wide, kernel), other], [x, kernel])
        assert padded(graph) == (other.node.op != "matmul" and other.shape[1] == 7)
        verify_partition(fuse(graph))
    both = Graph([convolved(wide, kernel), convolved(wide, kernel * 2.0)], [x, kernel])
    assert not padded(both)


def test_a_padded_batch_or_channel_is_in_memory():
    kernel = sg.placeholder((3, 3, 1, 16))
    for shape, sides in (((2, 7, 8, 14), (3, 1)), ((1, 7, 8, 16), (0, 1))):
        axis, width = sides
        x = sg.placeholder(shape)
        widths = [
            (width, 16 - 14 - width if axis == 3 else 1) if a == axis else (0, 0) for a in range(4)
        ]
        graph = Graph([convolved(sg.pad(x, widths), kernel)], [x, kernel])
        assert padded(graph)
        assert_right(graph)


@pytest.mark.parametrize("product", ["forward", "kernel"])
def test_infinite_weights_meet_the_border(product):
    """0 on the border times inf is nan, as it is for an operand that is padded in memory."""
    graph = LAYERS["3 by 3"].graph(product)
    arrays = arrays_of(graph)
    for array in arrays[1:]:
        array[...] = np.inf
    arrays[0][...] = 1
    (wanted,) = run_reference(graph, arrays).outputs
    (found,) = run_native(compile_for(graph), arrays).outputs
    assert np.isnan(wanted).any()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("name", ["3 by 3", "large images", "one image", "few channels"])
def test_threads_change_no_bit(product, name):
    graph = LAYERS[name].graph(product)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(t.type.static_shape).astype(np.float32) for t in graph.inputs]
    found = [
        run_native(compile_for(graph, threads=threads), arrays).outputs[0].tobytes()
        for threads in (Threads(1), Threads(2, least_cycles=0), Threads(3, least_cycles=0))
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("product", PRODUCTS)
def test_threads_share_the_work(product):
    # Threads are worth it from some work on: these have it.
    graph = Depthwise((40, 30), (3, 3), ((1, 1), (1, 1)), channels=64, batch=4).graph(product)
    made = compile_for(graph, threads=Threads(2))
    (kernel,) = made.program.kernels
    largest = max((s for s in kernel.body if isinstance(s, For)), key=lambda s: len(str(s)))
    assert largest.parallel is not None


def test_rows_of_a_kernel_are_added_up_in_memory():
    """Of large images, of many channels; what is small enough is summed in registers."""
    for name, is_in_memory in (("large images", True), ("few channels", False)):
        (kernel,) = program_for(LAYERS[name].graph("kernel")).kernels
        scratch = [p for p in kernel.params if p.mode == "scratch"]
        assert bool(scratch) == is_in_memory
        ordered = [s for s in statements(kernel.body) if isinstance(s, For) and s.ordered]
        stored = {s.buffer for s in statements(kernel.body) if isinstance(s, Store)}
        assert bool(ordered) == is_in_memory
        assert {p.name for p in scratch} <= stored


def test_a_partition_whose_pad_is_read_at_will_is_refused():
    x, kernel = sg.placeholder((2, 5, 6, 16)), sg.placeholder((3, 3, 1, 16))
    wide = sg.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    partition = fuse(Graph([convolved(wide, kernel)], [x, kernel]))
    verify_partition(partition)
    (group,) = (g for g in partition.groups if g.anchor is not None)
    wrong = replace(group, outputs=(*group.outputs, wide))
    with pytest.raises((AssertionError, GraphError), match="anchors"):
        verify_partition(replace(partition, groups=(wrong,)))
