"""Batched products in blocks of rows: which are, that nothing else changes, and what they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import For, Kernel, Product
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.block_batches import block_batches
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.graph.graph import Graph
from tests.support.floors import Memory, Variant, compile_for, run_native, run_variants
from tests.support.schedules import batches_blocked

ALONG = {
    "rows": ("in x: f32[4200], in w: f32[60], out y: f32[1050]",
             "(n in 0..70) (i in 0..5) (j in 0..4) x[20*k] by (60, 1) * w[20*k] by (5, 1)",
             "y[5*k + i + 15*n]"),
    "columns": ("in x: f32[4200], in w: f32[60], out y: f32[1050]",
                "(i in 0..5) (n in 0..70) (j in 0..4) w[20*k] by (4, 1) * x[20*k] by (1, 60)",
                "y[5*k + i + 15*n]"),
    "inner": ("in x: f32[4200], in w: f32[4200], out y: f32[60]",
              "(i in 0..5) (j in 0..4) (n in 0..70) x[20*k] by (1, 60) * w[20*k] by (60, 1)",
              "y[20*k + 4*i + j]"),
}  # fmt: skip


def kernel_of(along: str) -> Kernel:
    params, product, result = ALONG[along]
    return parse_kernel(
        f"kernel @k({params}) {{ for k in 0..3 {{ product s: f32 for {product} "
        f"tile(1, 8) block(1, 8, 4) pack() along(n) {{ t: f32 = mul(s, 2.0) {result} = t }} }} }}"
    )


@pytest.fixture
def blocked(along: str) -> Kernel:
    with batches_blocked():
        kernel = block_batches(kernel_of(along))
    verify_kernel(kernel)
    return kernel


@pytest.mark.parametrize("along", ALONG)
def test_rows_are_cut_and_the_rest_is_what_is_left(along, blocked):
    products = [s for s in statements(blocked.body) if isinstance(s, Product)]
    cut = [dict((p.rows, p.columns, p.inner))["n"] for p in products]
    # 2,048 bytes are 8 rows of 60 elements: 8 blocks of 8 rows, or one for each part of the sum.
    assert cut == [8, 6]
    first = blocked.body[0]
    assert isinstance(first, For)
    assert first.extent == 8


@pytest.mark.parametrize("along", ALONG)
def test_what_is_computed_does_not_change(along, blocked):
    results = []
    for kernel in (kernel_of(along), blocked):
        rng = np.random.default_rng(0)
        buffers = {p.name: rng.integers(-9, 9, p.count).astype(np.float32) for p in kernel.params}
        assert run_kernel(kernel, buffers) == 0
        results.append(buffers["y"])
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("along", ALONG)
def test_what_fits_in_cache_is_left_alone(along):
    kernel = kernel_of(along)
    assert block_batches(kernel) == kernel


def test_operands_that_lie_apart_are_left_alone():
    product = "(n in 0..70) (i in 0..5) (j in 0..4) x[280*k] by (4, 1) * w[20*k] by (5, 1)"
    text = (
        "kernel @k(in x: f32[840], in w: f32[60], out y: f32[1050]) { for k in 0..3 { "
        f"product s: f32 for {product} tile(1, 8) block(1, 8, 4) pack() along(n) "
        "{ y[350*k + i + 5*n] = s } } }"
    )
    with batches_blocked():
        assert block_batches(parse_kernel(text)) == parse_kernel(text)


def mixture(points: int, dtype: str = "float32") -> Graph:
    """Return products of matrices of 12 components with each point, and their gradients."""
    a, x = sg.placeholder((12, 5, 5), dtype), sg.placeholder((points, 12, 5), dtype)
    y = sg.einsum("kij,nkj->nki", a, x)
    gradients = sg.gradients(sg.sum(y * y * x), [a, x])
    return Graph([y, *(g for g in gradients if g is not None)], [a, x])


def arrays_of(graph: Graph) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    return [rng.integers(-2, 3, t.type.static_shape).astype(t.dtype.numpy) for t in graph.inputs]


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize("points", [64, 83])
def test_machine_code_is_right(points, target):
    graph = mixture(points, "float64")
    variants = [
        Variant(target, threads=Threads(n, least_cycles=0), blocks=True, memory=Memory("end", True))
        for n in (1, 3)
    ]
    different = run_variants(graph, arrays_of(graph), variants)
    assert different is None, str(different)


def test_large_ones_are_blocked_and_threads_change_no_bit():
    graph = mixture(11_000)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(t.type.static_shape).astype(np.float32) for t in graph.inputs]
    found = []
    for threads in (1, 2, 3):
        made = compile_for(graph, threads=Threads(threads))
        found.append([y.tobytes() for y in run_native(made, arrays).outputs])
    assert found[0] == found[1] == found[2]
    products = [
        s for k in made.program.kernels for s in statements(k.body) if isinstance(s, Product)
    ]
    assert all(11_000 not in (p.rows[1], p.columns[1], p.inner[1]) for p in products)
