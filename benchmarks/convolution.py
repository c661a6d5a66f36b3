"""Convolutions: forward, and the gradients to the input and to the kernel, beside PyTorch and JAX.

The shapes are those of networks people train: both layers of LeNet, the stem, the four stages and a
strided layer of ResNet-50 at a batch of 8, a depthwise and a 1 x 1 layer, sound and volumes. All is
float32; symgrad and JAX have channels last, PyTorch (oneDNN) the faster of both layouts. Padding
counts, for everyone. The peak of the multiply-add units is measured in the same rounds. PyTorch and
JAX are only compared with where they are installed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.peak import peak_call
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import Contestant, Times, interleave, optional
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.graph.aligned import aligned_empty
from symgrad.graph.node import Tensor
from symgrad.graph.ops.convolution import conv_general
from symgrad.graph.types import Array
from symgrad.runtime.function import compile

THREADS = (1, 2)
PRODUCTS = ("forward", "to input", "to kernel")
MIN_SHARE = 0.85  # of the peak, where there are 64 channels and more
MOST_BEHIND = 1.05
LEAST_MEAN = 1.2


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of `x` (n, *spatial, c) with `kernel` (*window, c // groups, f)."""

    name: str
    x: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    groups: int = 1
    is_large: bool = False

    @property
    def rank(self) -> int:
        return len(self.x) - 2

    @property
    def out(self) -> tuple[int, ...]:
        pairs = zip(self.x[1:-1], self.kernel, strict=False)
        spatial = [(n + 2 * self.padding - k) // self.stride + 1 for n, k in pairs]
        return (self.x[0], *spatial, self.kernel[-1])

    @property
    def flops(self) -> float:
        return 2.0 * math.prod(self.out) * math.prod(self.kernel[:-1])


LAYERS = (
    Layer("LeNet 1", (32, 28, 28, 1), (5, 5, 1, 6), padding=2),
    Layer("LeNet 2", (32, 14, 14, 6), (5, 5, 6, 16)),
    Layer("stem 7x7", (8, 224, 224, 3), (7, 7, 3, 64), stride=2, padding=3),
    Layer("stage 1", (8, 56, 56, 64), (3, 3, 64, 64), padding=1, is_large=True),
    Layer("stage 2", (8, 28, 28, 128), (3, 3, 128, 128), padding=1, is_large=True),
    Layer("stage 3", (8, 14, 14, 256), (3, 3, 256, 256), padding=1, is_large=True),
    Layer("stage 4", (8, 7, 7, 512), (3, 3, 512, 512), padding=1, is_large=True),
    Layer("strided", (8, 56, 56, 128), (3, 3, 128, 128), stride=2, padding=1, is_large=True),
    Layer("depthwise", (8, 56, 56, 128), (3, 3, 1, 128), padding=1, groups=128),
    Layer("1x1", (8, 56, 56, 64), (1, 1, 64, 256), is_large=True),
    Layer("sound", (8, 8000, 32), (9, 32, 64), stride=2, padding=4),
    Layer("volumes", (2, 16, 28, 28, 32), (3, 3, 3, 32, 32), padding=1),
)
SMALL = (
    Layer("small", (2, 6, 6, 3), (3, 3, 3, 4), padding=1),
    Layer("small strided", (2, 9, 4), (3, 4, 8), stride=2),
)


def measure(quick: bool = False, layers: Sequence[Layer] = LAYERS) -> Report:
    """Return a row for each layer, product and number of threads."""
    columns = ("layer", "product", "threads", "library", "best ms", "GFLOP/s", "% of peak", "times")
    report = Report("convolution", columns)
    for threads in THREADS:
        slower: list[float] = []
        for layer in SMALL if quick else layers:
            for product in PRODUCTS:
                times, share = measure_product(layer, product, threads, 2 if quick else 15)
                _add(report, slower, layer, product, threads, times, share)
        if slower:
            mean = math.exp(sum(map(math.log, slower)) / len(slower))
            claim = f"times PyTorch's speed, geometric mean, {threads} threads"
            report.bars.append(Bar(claim, mean, LEAST_MEAN, at_least=True))
    missing = [name for name in ("jax", "torch") if optional(name) is None]
    report.notes += [f"{name} is not installed: its rows are missing." for name in missing]
    return report


def _add(
    report: Report,
    slower: list[float],
    layer: Layer,
    product: str,
    threads: int,
    times: dict[str, Times],
    share: float,
) -> None:
    ours = times["symgrad"].best
    for library, spent in times.items():
        if library == "peak":
            continue
        reached = 100 * share * ours / spent.best
        report.rows.append(
            (
                *(layer.name, product, threads, library, round(spent.best * 1e3, 3)),
                *(round(layer.flops / spent.best / 1e9, 1), round(reached, 1)),
                round(spent.best / ours, 2),
            )
        )
    where = f"{layer.name} {product}, {threads} threads"
    if layer.is_large:
        report.bars.append(Bar(f"share of the peak, {where}", share, MIN_SHARE, at_least=True))
    torch = [spent.best for library, spent in times.items() if library.startswith("PyTorch")]
    if torch:
        slower.append(min(torch) / ours)
        report.bars.append(Bar(f"times PyTorch's time, {where}", ours / min(torch), MOST_BEHIND))


def measure_product(
    layer: Layer, product: str, threads: int, rounds: int
) -> tuple[dict[str, Times], float]:
    """Check one product, then time it beside others; the best rounds, and the share of the peak."""
    random = np.random.default_rng(0)
    arrays = [aligned_empty(s, np.dtype(np.float32)) for s in (layer.x, layer.kernel, layer.out)]
    for array in arrays:
        # Small whole numbers: every order of the additions gives the same sum.
        array[...] = random.integers(-2, 3, array.shape)
    peak, flops = peak_call(dtypes.float32, target_named("native"))
    calls: dict[str, Contestant] = {"symgrad": _ours(layer, product, threads, arrays)}
    expected = np.asarray(calls["symgrad"]())
    for name, (call, read) in {
        **_torch(layer, product, threads, arrays),
        **_jax(layer, product, threads, arrays),
    }.items():
        np.testing.assert_array_equal(read(call()), expected, f"{name}: {layer.name} {product}")
        calls[name] = call
    times = interleave({"peak": peak, **calls}, rounds=rounds, seconds=0.02)
    reached = layer.flops / times["symgrad"].best
    return times, reached / threads / (flops / times["peak"].best)


def _ours(layer: Layer, product: str, threads: int, arrays: list[Array]) -> Contestant:
    x, kernel, g = (sg.placeholder(a.shape, "float32") for a in arrays)
    sides = [(0, 0), *[(layer.padding, layer.padding)] * layer.rank, (0, 0)]
    y = conv_general(
        sg.pad(x, sides),
        kernel,
        strides=(layer.stride,) * layer.rank,
        dilation=(1,) * layer.rank,
        groups=layer.groups,
        layout="NHWC",
    )
    if product == "forward":
        result, inputs, given = y, [x, kernel], arrays[:2]
    elif product == "to input":
        result, inputs, given = _gradient(y, x, g), [kernel, g], arrays[1:]
    else:
        result, inputs, given = _gradient(y, kernel, g), [x, g], arrays[::2]
    step = compile(inputs, result, threads=threads)
    out = aligned_empty(result.type.static_shape, np.dtype(np.float32))
    return partial(step, *given, out=out)


def _gradient(y: Tensor, x: Tensor, g: Tensor) -> Tensor:
    (found,) = sg.gradients(y, [x], grad_ys=g)
    assert found is not None, "a convolution depends on both operands"
    return found


_Others = dict[str, tuple[Contestant, Callable[[Any], Array]]]


def _torch(layer: Layer, product: str, threads: int, arrays: list[Array]) -> _Others:
    torch = optional("torch")
    if torch is None:
        return {}
    torch.set_num_threads(threads)
    found: _Others = {}
    last, first = -1, 1
    x, kernel, g = (
        torch.from_numpy(np.ascontiguousarray(moved))
        for moved in (
            np.moveaxis(arrays[0], last, first),
            np.moveaxis(arrays[1], (-1, -2), (0, 1)),
            np.moveaxis(arrays[2], last, first),
        )
    )

    def read(result: Any) -> Array:
        if product == "to kernel":
            return np.moveaxis(result.numpy(), (0, 1), (-1, -2))
        return np.moveaxis(result.numpy(), first, last)

    formats = {1: {}, 2: {"last": torch.channels_last}, 3: {"last": torch.channels_last_3d}}
    for name, memory_format in {"first": torch.contiguous_format, **formats[layer.rank]}.items():
        operands = [t.contiguous(memory_format=memory_format) for t in (x, kernel, g)]
        found[f"PyTorch, channels {name}"] = (partial(_torch_call, layer, product, operands), read)
    return found


def _torch_call(layer: Layer, product: str, operands: list[Any]) -> Any:
    torch = optional("torch")
    x, kernel, g = operands
    stride, padding = [layer.stride] * layer.rank, [layer.padding] * layer.rank
    ones, zeros = [1] * layer.rank, [0] * layer.rank
    with torch.no_grad():
        if product == "forward":
            return torch.convolution(
                x, kernel, None, stride, padding, ones, False, zeros, layer.groups
            )
        wanted = [product == "to input", product == "to kernel", False]
        results = torch.ops.aten.convolution_backward(
            g, x, kernel, None, stride, padding, ones, False, zeros, layer.groups, wanted
        )
        return results[wanted.index(True)]


def _jax(layer: Layer, product: str, threads: int, arrays: list[Array]) -> _Others:
    jax = optional("jax")
    if jax is None or threads != 1:
        return {}  # its threads are chosen once, for the whole process
    spatial = "DHW"[-layer.rank :]
    numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")

    def convolution(x: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x,
            kernel,
            (layer.stride,) * layer.rank,
            [(layer.padding, layer.padding)] * layer.rank,
            dimension_numbers=numbers,
            feature_group_count=layer.groups,
        )

    def product_of(x: Any, kernel: Any, g: Any) -> Any:
        if product == "forward":
            return convolution(x, kernel)
        _, back = jax.vjp(convolution, x, kernel)
        return back(g)[0 if product == "to input" else 1]

    compiled = jax.jit(product_of)
    operands = [jax.numpy.asarray(a) for a in arrays]
    return {"JAX": (lambda: jax.block_until_ready(compiled(*operands)), np.asarray)}


if __name__ == "__main__":
    run_as_program(__doc__, measure)
