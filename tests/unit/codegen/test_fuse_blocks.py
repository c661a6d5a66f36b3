"""What is done with blocks of rows, a block at a time: which loops and launches, and the bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import For, Kernel, Product
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.rewrite import buffers_used, statements
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.block_memory import block_kernel
from symgrad.codegen.schedule.fuse_batches import can_be_fused
from symgrad.codegen.schedule.fuse_blocks import PIECE, fuse_along
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.schedule.passes import Machine
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native

PARAMS = "in x: f32[88], inout c: f32[88], inout y: f32[88], inout z: f32[88], inout s: f32[88]"
FIRST = "for i in 0..22 { for j in 0..4 { t: f32 = x[4*i + j] c[4*i + j] = t } }"
REST = "for k in 0..8 { u: f32 = c[k + 80] y[k + 80] = u }"


def kernel_of(*parts: str) -> Kernel:
    return parse_kernel(f"kernel @k({PARAMS}) {{ {' '.join(parts)} }}")


def second(read: str, written: str = "8*p + k", var: str = "k") -> str:
    body = f"v: f32 = c[{read}] w: f32 = mul(v, v) y[{written}] = w"
    return f"for p in 0..10 {{ for {var} in 0..8 {{ {body} }} }}"


def fused_of(*parts: str, own: tuple[str, ...] = (), threads: int = 1) -> Kernel | None:
    """Return the kernel that is made of parts in five pieces, None if they are not one loop."""
    kernel = kernel_of(*parts)
    fusion = fuse_along(kernel.body, PIECE, 5)
    if fusion is None or sum(isinstance(s, For) for s in fusion.body) < 2:
        return None
    machine = Machine(target_named("x86-64-v3"), Threads(threads, least_cycles=0))
    fused = block_kernel(fusion, 5, kernel.params, own, machine)
    verify_kernel(fused)
    return fused


def results_of(kernel: Kernel, own: tuple[str, ...] = ()) -> list[bytes]:
    buffers = {}
    for param in kernel.params:
        drawn = np.random.default_rng(ord(param.name[0])).standard_normal(88).astype(np.float32)
        buffers[param.name] = np.resize(drawn, param.count)
    assert run_kernel(kernel, buffers) == 0
    return [buffers[n].tobytes() for n in ("c", "y", "z", "s") if n not in own]


@pytest.mark.parametrize("own", [(), ("c",)])
@pytest.mark.parametrize("threads", [1, 2])
def test_loops_of_other_lengths_are_one_and_what_is_left_comes_behind(own, threads):
    parts = (FIRST, second("8*p + k"), REST)
    fused = fused_of(*parts, own=own, threads=threads)
    assert fused is not None
    assert results_of(fused, own) == results_of(kernel_of(*parts), own)
    kept = [p for p in fused.params if p.mode == "scratch"]
    # Two rows of four are a block, in whole lines; threads share five parts of one block each.
    assert [p.count for p in kept] == ([16 * (1 if threads == 1 else 5)] if own else [])


@pytest.mark.parametrize(
    "read",
    ["8*p + k + 1", "8*p + 8", "4*p + k", "16*p + k", "k", "72 + k - 8*p"],
)
def test_what_reads_of_another_block_stays_apart(read):
    assert fused_of(FIRST, second(read)) is None


def test_what_writes_over_another_block_stays_apart():
    before = "for i in 0..20 { for j in 0..4 { t: f32 = y[4*i + j + 4] c[4*i + j] = t } }"
    assert fused_of(before, second("8*p + k")) is None


def test_what_reads_what_is_left_stays_behind_it():
    """The last rows of c are written behind the loop."""
    late = "for p in 0..5 { for k in 0..8 { v: f32 = c[k + 80] z[8*p + k] = v } }"
    assert fused_of(FIRST, late) is None
    parts = (FIRST, second("8*p + k"), late)
    fused = fused_of(*parts)
    assert fused is not None
    assert results_of(fused) == results_of(kernel_of(*parts))


def test_what_comes_between_goes_before_or_behind():
    free = "for k in 0..3 { u: f32 = x[k] s[k] = u }"
    sums = "for k in 0..4 { u: f32 = c[k] z[k] = u }"
    parts = (FIRST, free, sums, second("8*p + k"))
    fused = fused_of(*parts)
    assert fused is not None
    names = [buffers_used((s,))[1] for s in fused.body]
    assert names[0] == {"s"}
    assert {"c", "y"} <= names[1]
    assert {"z"} in names[2:]
    assert results_of(fused) == results_of(kernel_of(*parts))


def test_a_value_that_is_bound_behind_keeps_what_uses_it_there():
    bound = "u: f32 = c[3]"
    uses = "for p in 0..10 { for k in 0..8 { w: f32 = mul(u, u) y[8*p + k] = w } }"
    assert fused_of(FIRST, bound, uses) is None


def test_what_is_read_of_the_whole_is_not_contracted():
    whole = "for k in 0..88 { u: f32 = c[k] z[k] = u }"
    parts = (FIRST, second("8*p + k"), whole)
    fused = fused_of(*parts, own=("c",))
    assert fused is not None
    assert all(p.mode != "scratch" for p in fused.params)
    assert results_of(fused) == results_of(kernel_of(*parts))


def test_an_array_takes_the_place_of_one_that_is_not_read_any_more():
    """A piece has as many blocks as its shortest loop around products has iterations."""
    product = (
        "for q in 0..10 { for n in 0..2 { product r: f32 for (f in 0..2) (g in 0..2) (h in 0..2) "
        "c[8*q + 4*n] by (2, 1) * x[8*q + 4*n] by (2, 1) tile(1, 8) block(1, 8, 2) pack() along(n) "
        "{ y[2*f + g + 8*q + 4*n] = r } } }"
    )
    third = "for a in 0..20 { for b in 0..4 { v: f32 = y[4*a + b] s[4*a + b] = v } }"
    fourth = "for d in 0..20 { for e in 0..4 { w: f32 = s[4*d + e] z[4*d + e] = w } }"
    parts = (FIRST.replace("22", "20"), product, third, fourth)
    fused = fused_of(*parts, own=("c", "y", "s"))
    assert fused is not None
    assert [p.count for p in fused.params if p.mode == "scratch"] == [16, 16]
    left_out = ("c", "y", "s")
    assert results_of(fused, left_out) == results_of(kernel_of(*parts), left_out)


def mixture(points: int) -> tuple[Graph, list[np.ndarray[Any, Any]]]:
    """Return a mixture of Gaussians of ten dimensions with its gradients, and their operands."""
    a, m = sg.placeholder((25, 10, 10), "float64"), sg.placeholder((25, 10), "float64")
    x = sg.placeholder((points, 10), "float64")
    centred = sg.expand_dims(x, 1) - m
    scaled = sg.einsum("kij,nkj->nki", a, centred) + m * centred
    y = sg.sum(sg.nn.logsumexp(-0.5 * sg.sum(scaled * scaled, 2), 1))
    found = [g for g in sg.gradients(y, [a, m]) if g is not None]
    random = np.random.default_rng(0)
    graph = Graph([y, *found], [a, m, x])
    return graph, [random.standard_normal(t.type.static_shape) for t in graph.inputs]


def step_of(graph: Graph, threads: int = 1, skip: tuple[str, ...] = ()) -> Executable:
    options = CompileOptions(target_named("native"), 1, False, False, Threads(threads))
    return Executable(graph, options, passes=Options(skip=skip))


def test_a_mixture_with_its_gradient_is_one_kernel_of_the_same_bits():
    graph, arrays = mixture(4100)
    steps = [step_of(graph, threads) for threads in (1, 2, 3)]
    apart = step_of(graph, skip=("fuse-blocks",))
    for step in steps:
        kernels = [k for k in step.program.kernels if _has_product(k)]
        assert len(kernels) == 1
    assert 4 * steps[0].program.arena_bytes < apart.program.arena_bytes
    results = [[y.tobytes() for y in run_native(s, arrays).outputs] for s in (*steps, apart)]
    assert all(found == results[0] for found in results)


def _has_product(kernel: Kernel) -> bool:
    return any(isinstance(s, Product) for s in statements(kernel.body))


def test_launches_of_a_long_program_are_asked_once_each(monkeypatch):
    asked = []

    def noted(body):
        asked.append(body)
        return can_be_fused(body)

    monkeypatch.setattr("symgrad.codegen.program.fuse_blocks.can_be_fused", noted)
    x = sg.placeholder((65_536,))
    y = x
    for k in range(60):  # each sum is a launch of its own, of as many bytes as the pass is for
        y = y * sg.sum(y) + k
    launches = len(step_of(Graph([y], [x])).program.launches)
    assert len(asked) <= launches
    assert launches > 50
