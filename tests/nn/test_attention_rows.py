"""Causal attention by blocks of rows: what is above them is left out, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.nn import attention_rows
from symgrad.nn.attention_rows import causal_cuts
from tests.support.evaluators import evaluate_native
from tests.support.floors import run_everywhere

Array = np.ndarray[Any, Any]
WIDTH = 8


def operands(queries: int, keys: int, heads: tuple[int, ...], key_heads: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(3)
    shapes = [(*heads, queries, WIDTH), (*key_heads, keys, WIDTH), (*key_heads, keys, 5)]
    return [rng.normal(size=shape) for shape in shapes]


def graph_of(arrays: list[Array], mask: Any = None, **options: Any) -> sg.Graph:
    """Return attention with the gradients of the sum of its squares, to a float mask too."""
    xs = [sg.placeholder(a.shape, "float64") for a in arrays]
    given = sg.constant(mask) if mask is not None else None
    y = sg.nn.scaled_dot_product_attention(*xs, mask=given, **{"causal": True, **options})
    wanted = [*xs, given] if given is not None and given.dtype.is_float else xs
    dxs = sg.gradients(sg.sum(y * y), wanted, unconnected_gradients="zero")
    return sg.Graph([y, *dxs], xs)


def in_blocks(monkeypatch: Any, rows: int) -> None:
    monkeypatch.setattr(attention_rows, "CAUSAL_BLOCK_ROWS", rows)


MASKS: dict[str, Any] = {
    "none": lambda q, k: None,
    "bool": lambda q, k: np.random.default_rng(0).random((q, k)) < 0.7,
    "of keys": lambda q, k: np.random.default_rng(0).random((k,)) < 0.7,
    "of queries": lambda q, k: np.random.default_rng(0).random((2, 1, q, 1)) < 0.8,
    "float": lambda q, k: np.random.default_rng(0).normal(size=(1, q, k)),
    "of a head": lambda q, k: np.random.default_rng(0).normal(size=(4, 1, k)),
    "number": lambda q, k: np.float64(-2.0),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("queries", "keys"), [(48, 48), (70, 70), (33, 90), (90, 40)])
def test_blocks_are_what_one_product_gives(monkeypatch, mask, queries, keys):
    arrays = operands(queries, keys, (2, 4), (2, 2))
    given = MASKS[mask](queries, keys)
    in_blocks(monkeypatch, 1 << 20)
    wanted = evaluate_native(graph_of(arrays, given), arrays)
    in_blocks(monkeypatch, 16)
    found = evaluate_native(graph_of(arrays, given), arrays)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def in_parts(monkeypatch: Any, rows: int, row_bytes: int) -> None:
    """Have scores of so many queries in memory at a time, if they take `row_bytes` each."""
    monkeypatch.setattr(attention_rows, "MOST_SCORES_BYTES", 0)
    monkeypatch.setattr(attention_rows, "SCORES_OF_PART_BYTES", rows * row_bytes)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("queries", "keys"), [(48, 48), (70, 40)])
def test_parts_are_what_one_product_gives(monkeypatch, mask, queries, keys, causal):
    arrays = operands(queries, keys, (2, 4), (2, 2))
    given = MASKS[mask](queries, keys)
    in_blocks(monkeypatch, 1 << 20)
    wanted = evaluate_native(graph_of(arrays, given, causal=causal), arrays)
    in_blocks(monkeypatch, 32)
    in_parts(monkeypatch, 16, 8 * 2 * 2 * 2 * keys)
    graph = graph_of(arrays, given, causal=causal)
    assert any(node.op == "scan" for node in graph.nodes)
    for a, b in zip(evaluate_native(graph, arrays), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_every_floor_agrees(monkeypatch):
    in_blocks(monkeypatch, 16)
    arrays = operands(48, 48, (2,), (2,))
    different = run_everywhere(graph_of(arrays), arrays)
    assert different is None, different
    in_parts(monkeypatch, 16, 8 * 2 * 48)
    different = run_everywhere(graph_of(arrays, causal=False), arrays)
    assert different is None, different


@pytest.mark.parametrize("causal", [False, True])
def test_memory_grows_with_the_length_and_not_with_its_square(causal):
    def held(length: int) -> int:
        xs = [sg.placeholder((16, length, 8)) for _ in range(3)]
        y = sg.nn.scaled_dot_product_attention(*xs, causal=causal)
        return sg.compile(xs, sg.gradients(sg.sum(y * y), xs)).memory.peak_bytes

    assert held(8192) < 2.5 * held(4096) < 16 * 4096**2 * 4


@pytest.mark.parametrize("is_in_parts", [False, True])
def test_second_derivatives_are_those_of_one_product(monkeypatch, is_in_parts):
    arrays = operands(32, 32, (1,), (1,))

    def second(rows: int) -> list[Array]:
        in_blocks(monkeypatch, rows)
        if is_in_parts and rows == 16:
            in_parts(monkeypatch, 16, 8 * 32)
            in_blocks(monkeypatch, 1 << 20)
        graph = graph_of(arrays)
        total = sum((sg.sum(t * t) for t in graph.outputs[1:]), sg.constant(0.0, "float64"))
        return evaluate_native(sg.Graph(sg.gradients(total, graph.inputs), graph.inputs), arrays)

    for a, b in zip(second(1 << 20), second(16), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


# Bytes: no more than were ever needed, and at 512 at most 0.7 of what all keys take.
@pytest.mark.parametrize(("length", "most", "share"), [(256, 664_640, 1.0), (512, 2_092_864, 0.7)])
def test_scores_above_the_blocks_are_neither_computed_nor_kept(length, most, share):
    x = sg.placeholder((1, length, 64))
    flops, memory = [], []
    for causal in (True, False):
        y = sg.nn.scaled_dot_product_attention(x, x, x, causal=causal)
        step = sg.compile([x], sg.gradients(sg.sum(y * y), x))
        flops.append(sum(kernel.flops for kernel in step.kernels))
        memory.append(step.memory.peak_bytes)
    assert flops[0] < 0.7 * flops[1]
    assert memory[0] <= most
    assert memory[0] < share * memory[1]


@pytest.mark.parametrize(
    ("queries", "keys", "cuts"),
    [
        (64, 64, [0, 64]),
        (128, 128, [0, 64, 128]),
        (200, 200, [0, 80, 160, 200]),
        (256, 256, [0, 64, 128, 192, 256]),
        (1024, 1024, [0, 128, 256, 384, 512, 640, 768, 896, 1024]),
        (1024, 128, [0, 64, 1024]),
        (1, 512, [0, 1]),
        (0, 0, [0, 0]),
    ],
)
def test_blocks_are_large_and_begin_where_vectors_do(queries, keys, cuts):
    assert causal_cuts(queries, keys) == cuts


def test_dropout_and_unknown_lengths_have_one_block():
    x = sg.placeholder((None, 16))
    assert causal_cuts(x.shape[0], x.shape[0]) == []
    y = sg.nn.scaled_dot_product_attention(x, x, x, causal=True)
    assert sg.compile([x], y)(np.ones((130, 16), np.float32)).shape == (130, 16)
    known = sg.placeholder((256, 16))
    dropped = sg.nn.scaled_dot_product_attention(
        known, known, known, causal=True, dropout=0.5, generator=sg.random.Generator(0)
    )
    concats = [n for n in sg.Graph([dropped], [known]).nodes if n.op == "concat"]
    assert not concats
