"""What is done with the matrices of a batch, one matrix at a time: which launches, and the bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Kernel, Product
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.program import fuse_batches, fuse_products, passes
from symgrad.codegen.program.language import Program
from symgrad.codegen.schedule import parallelize as share_work
from symgrad.codegen.schedule.fuse_batches import (
    MatrixBatch,
    OfMatrix,
    of_matrix,
    parts_of_matrices,
)
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.schedule.passes import Machine
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native, run_variants
from tests.support.fuzz_families import random_training, variant_in_turn

BATCH = MatrixBatch((4,))
FLAT = """kernel @flat(in x: f32[256], out y: f32[256]) {
  for i in 0..256 vector(16) {
    t: f32 = x[i]
    y[i] = t
  }
}"""
ROWS = """kernel @rows(in x: f32[256], out y: f32[256], out z: f32[64]) {{
  for i in 0..4 {{
    for j in 0..4 {{
      for k in 0..16 vector(16) {{
        t: f32 = x[{read}]
        y[{written}] = t
      }}
    }}
  }}
}}"""


def of_kernel(text: str, batch: MatrixBatch = BATCH) -> dict[str, OfMatrix | None] | None:
    (statement,) = parse_kernel(text).body
    body = of_matrix(statement, batch, in_order=False)
    return None if body is None else parts_of_matrices(body, batch)


def test_a_loop_over_all_elements_is_one_over_those_of_each_matrix():
    assert of_kernel(FLAT) == {"x": OfMatrix((64,), 64), "y": OfMatrix((64,), 64)}
    pair = OfMatrix((128, 64), 64)
    assert of_kernel(FLAT, MatrixBatch((2, 2))) == {"x": pair, "y": pair}


@pytest.mark.parametrize("extents", [(3,), (32,), (512,)])
def test_a_loop_that_vectors_would_cut_is_none_over_a_batch(extents):
    assert of_kernel(FLAT, MatrixBatch(extents)) is None


def test_matrices_may_lie_among_one_another():
    """As heads do whose rows are side by side: none has an element of another one."""
    found = of_kernel(ROWS.format(read="64*i + 16*j + k", written="16*i + 64*j + k"))
    assert found == {"x": OfMatrix((64,), 64), "y": OfMatrix((16,), 0)}


@pytest.mark.parametrize("written", ["8*i + 64*j + k", "16*j + k + 32*i"])
def test_what_two_matrices_touch_is_of_none(written):
    found = of_kernel(ROWS.format(read="64*i + 16*j + k", written=written))
    assert found is not None
    assert found["y"] is None


def attention(
    shape: tuple[int, ...], *, causal: bool = True, has_sum: bool = False
) -> tuple[Graph, list[Any]]:
    """Return attention with all gradients, and random operands."""
    q, k, v, g = (sg.placeholder(shape, "float32") for _ in range(4))
    y = sg.nn.scaled_dot_product_attention(q, k, v, causal=causal)
    found = [sg.sum(y, axis=0)] if has_sum else sg.gradients(y, [q, k, v], grad_ys=g)
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(shape).astype(np.float32) for _ in range(4)]
    graph = Graph([y, *found], [q, k, v] if has_sum else [q, k, v, g])
    return graph, inputs[: len(graph.inputs)]


def step_of(graph: Graph, threads: int = 1, skip: tuple[str, ...] = ()) -> Executable:
    shared = Threads(threads, least_cycles=0)
    options = CompileOptions(target_named("native"), 1, False, False, shared)
    return Executable(graph, options, passes=Options(skip=skip))


def products_of(program: Program) -> list[int]:
    bodies = (kernel.body for kernel in program.kernels)
    return [sum(isinstance(s, Product) for s in statements(body)) for body in bodies]


@pytest.mark.parametrize("shape", [(32, 128, 64), (2, 8, 128, 64), (6, 256, 32), (16, 512, 16)])
def test_all_of_causal_attention_is_one_kernel_of_the_same_bits(shape, monkeypatch):
    monkeypatch.setattr(fuse_products, "BYTES_OF_PRODUCTS", 256 << 10)
    graph, inputs = attention(shape)
    steps = [step_of(graph, threads) for threads in (1, 2, 3)]
    assert sum(count > 0 for count in products_of(steps[0].program)) == 1
    apart = step_of(graph, skip=("fuse-batches",))
    assert sum(count > 0 for count in products_of(apart.program)) > 1
    assert 2 * steps[0].program.arena_bytes < apart.program.arena_bytes
    wanted = [a.tobytes() for a in run_native(apart, inputs).outputs]
    for step in steps:
        assert [a.tobytes() for a in run_native(step, inputs).outputs] == wanted


def test_what_is_known_of_kernels_that_are_no_more_is_not_of_what_has_their_names(monkeypatch):
    monkeypatch.setattr(fuse_products, "BYTES_OF_PRODUCTS", 256 << 10)
    graph, inputs = attention((32, 128, 64))
    wanted = step_of(graph)

    def with_more_known(
        program: Program,
        machine: Machine,
        alone: Mapping[str, Kernel],
        by_rows: Mapping[str, fuse_batches.RowKernel],
    ) -> Program:
        names = {f"k{n}" for n in range(100)} - {kernel.name for kernel in program.kernels}
        other = next(iter(by_rows.values()))
        by_rows = {**dict.fromkeys(names, other), **by_rows}
        alone = {**dict.fromkeys(names, other.alone), **alone}
        return fuse_batches.fuse_by_batches(program, machine, alone, by_rows)

    monkeypatch.setattr(passes, "fuse_by_batches", with_more_known)
    found = step_of(graph)
    assert found.program.kernels == wanted.program.kernels
    results = [run_native(step, inputs).outputs for step in (found, wanted)]
    assert [a.tobytes() for a in results[0]] == [a.tobytes() for a in results[1]]


def test_a_pass_is_told_of_kernels_of_the_program_alone(monkeypatch):
    # A kernel that lays out panels had the name of one that fuse-products had replaced, and what
    # threads do of that one was joined to the batch in its place.
    seed = 1600111
    graph, inputs = random_training(seed)
    fuse = fuse_batches.fuse_by_batches
    others: list[str] = []

    def noted(
        program: Program,
        machine: Machine,
        alone: Mapping[str, Kernel],
        by_rows: Mapping[str, fuse_batches.RowKernel],
    ) -> Program:
        params = {kernel.name: len(kernel.params) for kernel in program.kernels}
        others.extend({*alone, *by_rows} - params.keys())
        others.extend(n for n in alone.keys() & params if len(alone[n].params) != params[n])
        return fuse(program, machine, alone, by_rows)

    monkeypatch.setattr(passes, "fuse_by_batches", noted)
    monkeypatch.setattr(share_work, "UNCUT", 1)  # what is small is shared among threads, too
    ways = [variant_in_turn(seed)]
    assert run_variants(graph, inputs, ways, interprets=False) is None
    assert others == []


def test_what_is_read_of_all_matrices_stays_apart():
    graph, inputs = attention((32, 128, 64), has_sum=True)
    step = step_of(graph)
    assert len(step.program.kernels) > 1
    y, total = run_native(step, inputs).outputs
    np.testing.assert_allclose(total, y.sum(axis=0), rtol=1e-4, atol=1e-4)


def test_matrices_that_threads_share_badly_are_shared_otherwise(monkeypatch):
    """Three threads have two of four matrices at the most: a third of them would wait."""
    monkeypatch.setattr(fuse_products, "BYTES_OF_PRODUCTS", 64 << 10)
    graph, _ = attention((4, 128, 64))
    counts = [
        sum(count > 0 for count in products_of(step_of(graph, threads).program))
        for threads in (1, 2, 3)
    ]
    assert counts[0] == counts[1] == 1 < counts[2]


def test_a_kernel_that_would_be_long_is_not_made(monkeypatch):
    monkeypatch.setattr(fuse_batches, "MOST_STATEMENTS_OF_BATCH", 100)
    graph, _ = attention((32, 128, 64))
    assert sum(count > 0 for count in products_of(step_of(graph).program)) > 1
