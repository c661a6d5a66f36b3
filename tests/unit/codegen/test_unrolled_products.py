"""Unrolled microkernels: when steps of k share an iteration, and that results stay the same."""

from __future__ import annotations

import re
from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract.plans import unrolling
from symgrad.codegen.target import target_named
from symgrad.graph.graph import Graph
from tests.support.schedules import unrolled
from tests.support.templates import emitted_anew

# Rows, columns and k, with and without leftovers of tiles, of vectors and of four steps.
SHAPES = ((24, 64, 64), (13, 67, 37), (31, 40, 10), (6, 16, 3), (50, 20, 259), (7, 9, 1))
TARGETS = (
    "native",
    pytest.param("x86-64-v3", marks=pytest.mark.isa("avx2")),
    pytest.param("x86-64", marks=pytest.mark.isa("sse2")),
)


def _products(dtype: str) -> tuple[Graph, list[np.ndarray]]:
    random = np.random.default_rng(0)
    results, inputs, arrays = [], [], []
    for m, n, k in SHAPES:
        for left, right in (((m, k), (k, n)), ((k, m), (n, k))):
            a, b = sg.placeholder(left, dtype), sg.placeholder(right, dtype)
            results.append(a @ b if left[1] == k else a.T @ b.T)
            inputs += [a, b]
            arrays += [np.asarray(random.normal(size=s), a.dtype.numpy) for s in (left, right)]
    return Graph(results, inputs), arrays


def _convolution() -> tuple[Graph, list[np.ndarray]]:
    random = np.random.default_rng(1)
    x, kernel = sg.placeholder((2, 9, 11, 5)), sg.placeholder((3, 3, 5, 20))
    y = sg.nn.conv2d(x, kernel, padding="SAME")
    dx, dk = sg.gradients(y, [x, kernel])
    assert dx is not None
    assert dk is not None
    arrays = [random.normal(size=t.type.static_shape).astype(np.float32) for t in (x, kernel)]
    return Graph([y, dx, dk], [x, kernel]), arrays


def _step(graph: Graph, target: str) -> sg.Step:
    return sg.compile(graph.inputs, graph.outputs, target=target, cache=False)


def _results(graph: Graph, arrays: list[np.ndarray], target: str) -> tuple[list[bytes], str]:
    step = _step(graph, target)
    return [a.tobytes() for a in step(*arrays)], step.ir("llvm")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
def test_products_are_the_same_bit_for_bit(target, dtype):
    graph, arrays = _products(dtype)
    with emitted_anew(), mock.patch.object(unrolling, "_is_counted", return_value=False):
        plain, once = _results(graph, arrays, target)
    with unrolled():
        several, text = _results(graph, arrays, target)
    assert plain == several
    assert text.count("\n") > once.count("\n")  # or nothing was unrolled


@pytest.mark.parametrize("target", TARGETS)
def test_convolutions_are_the_same_bit_for_bit(target):
    graph, arrays = _convolution()
    plain, once = _results(graph, arrays, target)
    with unrolled():
        several, text = _results(graph, arrays, target)
    assert plain == several
    assert text.count("\n") > once.count("\n")


def _loops(function: str) -> str:
    """Return the code between the first label and the last: no registers are saved there."""
    _, _, behind = function.partition("\n.L")
    return behind.rpartition("\n.L")[0]


# Not those of one vector on AArch64: their 30 sums leave the registers without unrolling too.
@pytest.mark.parametrize(
    ("target", "columns"),
    [(t, n) for t in ("x86-64-v4", "x86-64-v3", "aarch64") for n in (4, 3, 2, 1)][:-1],
)
def test_sums_stay_in_registers(target, columns):
    wide = columns * target_named(target).lanes(4)
    a, b = sg.placeholder((240, 201)), sg.placeholder((201, wide))  # an odd k: not in pairs
    with unrolled():
        assembly = _step(Graph([a @ b], [a, b]), target).ir("asm")
    tiles = re.findall(r"^contract\.tile.*?\.Lfunc_end", assembly, re.MULTILINE | re.DOTALL)
    assert tiles
    spilled = r".*(?:mm\d.*\(%rsp\)|\(%rsp\).*mm\d|[qv]\d.*\[sp, #).*"
    assert not [line for tile in tiles for line in re.findall(spilled, _loops(tile))]


def test_short_loops_of_large_products_are_unrolled():
    def multiply_adds(rows: int, k: int) -> int:
        a, b = sg.placeholder((rows, k)), sg.placeholder((k, 64))
        return _step(Graph([a @ b], [a, b]), "x86-64-v4").ir("asm").count("vfmadd")

    assert multiply_adds(rows=25_080, k=64) > 2 * multiply_adds(rows=240, k=64)
