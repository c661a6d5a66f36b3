"""Sums over rows that several kernels add to: which they are, and what comes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program import fuse_products
from symgrad.codegen.program.language import Program
from symgrad.codegen.program.share_sums import SumsShared
from symgrad.codegen.schedule import row_blocks
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.types import Array
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from symgrad.runtime.inspection.decisions import describe_decisions
from tests.support.floors import run_everywhere, run_native


@pytest.fixture(autouse=True)
def little_is_fused(monkeypatch):
    monkeypatch.setattr(fuse_products, "BYTES_OF_PRODUCTS", 4 << 10)


@pytest.fixture
def short_blocks(monkeypatch):
    """Blocks of 8 rows: those of a piece are two, whose sums are cleared before."""
    monkeypatch.setattr(row_blocks, "BYTES_OF_ROW_BLOCK", 1 << 10)
    monkeypatch.setattr(row_blocks, "LEAST_ROW_BLOCK", 8)


def attention(shape: tuple[int, ...], dtype: str = "float32", *, by_two: bool = False) -> Graph:
    """Return causal attention with its gradients, or with twice these."""
    q, k, v, g = (sg.placeholder(shape, dtype) for _ in range(4))
    y = sg.nn.scaled_dot_product_attention(q, k, v, causal=True)
    found = [t for t in sg.gradients(y, [q, k, v], grad_ys=g) if t is not None]
    return Graph([y, *(2 * t if by_two else t for t in found)], [q, k, v, g])


def step_of(graph: Graph, threads: int = 1, target: str = "native", skip: str = "") -> Executable:
    shared = Threads(threads, least_cycles=0)
    options = CompileOptions(target_named(target), 1, False, False, shared)
    return Executable(graph, options, passes=Options(skip=(skip,) if skip else ()))


def arrays_of(graph: Graph) -> list[Array]:
    random = np.random.default_rng(0)
    return [random.standard_normal(t.shape).astype(t.dtype.numpy) for t in graph.inputs]


def expected(arrays: list[Array]) -> list[Array]:
    q, k, v, g = (a.astype(np.float64) for a in arrays)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    is_seen = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
    weights = np.where(is_seen, np.exp(scores), 0.0)
    weights /= weights.sum(axis=-1, keepdims=True)
    slopes = g @ v.swapaxes(-1, -2)
    slopes -= (slopes * weights).sum(axis=-1, keepdims=True)
    slopes *= weights / np.sqrt(q.shape[-1])
    return [weights @ v, slopes @ k, slopes.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ g]


def adders(program: Program) -> int:
    """Return how many launches add up sums of others."""
    return sum(launch.label.startswith("add") for launch in program.launches)


def check(graph: Graph, target: str = "native") -> Executable:
    """Compare results with the definition, and their bits on one, two and four threads."""
    arrays = arrays_of(graph)
    tolerance = 1e-10 if arrays[0].dtype == np.float64 else 2e-5
    counts = (1, 2, 4) if target == "native" else (1, 2)
    steps = [step_of(graph, threads, target) for threads in counts]
    found = [run_native(step, arrays).outputs for step in steps]
    for outputs in found[1:]:
        assert [a.tobytes() for a in outputs] == [a.tobytes() for a in found[0]]
    for output, wanted in zip(found[0], expected(arrays), strict=True):
        np.testing.assert_allclose(output, wanted, rtol=tolerance, atol=tolerance)
    return steps[0]


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((8, 192, 16), "float32"), ((2, 2, 144, 8), "float64"), ((1, 256, 16), "float32")],
)
def test_blocks_of_queries_add_to_the_gradients_of_keys_and_values(shape, dtype, target):
    """Also in pieces of one block, where the matrices are few."""
    graph = attention(shape, dtype)
    step = check(graph, target)
    assert adders(step.program) == 0


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_of_pieces_of_several_blocks_the_sums_are_cleared_once(target, short_blocks):
    step = check(attention((2, 208, 16)), target)
    assert adders(step.program) == 0


def test_memory_is_less_by_what_each_block_left(monkeypatch):
    graph = attention((2, 512, 16))
    shared = step_of(graph)
    monkeypatch.setattr(SumsShared, "share_in", lambda self, instrs: None)
    apart = step_of(graph)
    assert adders(apart.program) == 2
    assert 2 * shared.program.arena_bytes < 1.5 * apart.program.arena_bytes


def test_decisions_tell_which_launches_add_to_the_same_sums():
    graph = attention((8, 192, 16))
    reasons = [d.reason for d in describe_decisions(step_of(graph)) if d.rule == "fuse-products"]
    (told,) = (reason for reason in reasons if "sums over rows" in reason)
    assert told.startswith(f"3 launches add to {8 * 192 * 16 * 4:,} bytes")


def test_what_else_is_done_with_a_sum_keeps_the_blocks_apart():
    graph = attention((4, 128, 16), by_two=True)
    arrays = arrays_of(graph)
    y, *found = run_native(step_of(graph), arrays).outputs
    for output, wanted in zip([y, *(a / 2 for a in found)], expected(arrays), strict=True):
        np.testing.assert_allclose(output, wanted, rtol=2e-5, atol=2e-5)


def test_heads_beside_each_other_are_copied_there():
    """A gradient that is permuted is no copy of what the last block leaves."""

    def heads(x: Tensor) -> Tensor:
        return sg.swapaxes(x, 1, 2)

    q, k, v, g = (sg.placeholder((2, 128, 4, 16)) for _ in range(4))
    y = sg.nn.scaled_dot_product_attention(heads(q), heads(k), heads(v), causal=True)
    found: list[Any] = sg.gradients(heads(y), [q, k, v], grad_ys=g)
    graph = Graph([heads(y), *found], [q, k, v, g])
    arrays = arrays_of(graph)
    turned = [a.swapaxes(1, 2) for a in arrays]
    wanted = [a.swapaxes(1, 2) for a in expected(turned)]
    results = [run_native(step_of(graph, threads), arrays).outputs for threads in (1, 2, 4)]
    for output, other, third, reference in zip(*results, wanted, strict=True):
        assert output.tobytes() == other.tobytes() == third.tobytes()
        np.testing.assert_allclose(output, reference, rtol=2e-5, atol=2e-5)


def test_the_slow_oracle_has_the_same_gradients():
    graph = attention((4, 128, 4))
    different = run_everywhere(graph, arrays_of(graph))
    assert different is None, different
