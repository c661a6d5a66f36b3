"""Microkernels that are assembly: which are, and that they give the bits that LLVM's code gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract import leaf_functions, microkernel
from symgrad.graph.graph import Graph
from symgrad.records import replace
from tests.support.schedules import unrolled

# Rows, columns and k: leftovers of tiles, vectors and steps; packed, asked for, taken up again.
SHAPES = ((24, 64, 64), (13, 67, 37), (50, 20, 259), (7, 9, 1), (128, 512, 784), (26, 10, 512))
LARGE = ((300, 1100, 2600), (2600, 300, 300))
TARGETS = ("native", pytest.param("x86-64-v3", marks=pytest.mark.isa("avx2")))


@contextmanager
def selected() -> Iterator[None]:
    """Leave all instructions of microkernels to LLVM."""
    leaf_functions._emitted.cache_clear()
    with mock.patch.object(microkernel, "is_assembled", return_value=False):
        yield
    leaf_functions._emitted.cache_clear()


def _products(dtype: str, shapes: tuple[tuple[int, int, int], ...]) -> Graph:
    results, inputs = [], []
    for m, n, k in shapes:
        for left, right in (((m, k), (k, n)), ((k, m), (n, k))):
            a, b = sg.placeholder(left, dtype), sg.placeholder(right, dtype)
            results.append(sg.tanh(a @ b) if left[1] == k else a.T @ b.T)
            inputs += [a, b]
    return Graph(results, inputs)


def _results(graph: Graph, target: str) -> tuple[list[bytes], str]:
    random = np.random.default_rng(0)
    arrays = [random.normal(size=t.type.static_shape).astype(t.dtype.numpy) for t in graph.inputs]
    step = sg.compile(graph.inputs, graph.outputs, target=target, cache=False)
    return [a.tobytes() for a in step(*arrays)], step.ir("llvm")


def _tiles(text: str) -> list[str]:
    return re.findall(r"^define [^\n]*contract\.tile.*?^}", text, re.MULTILINE | re.DOTALL)


def _check_bits(graph: Graph, target: str) -> None:
    assembled, text = _results(graph, target)
    with selected():
        by_llvm, other = _results(graph, target)
    assert assembled == by_llvm
    assert "vfmadd231p" not in other
    if "x86_64" in text:
        assert any("vfmadd231p" in tile for tile in _tiles(text))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_are_those_of_code_that_llvm_selects(target, dtype):
    _check_bits(_products(dtype, SHAPES), target)


@pytest.mark.parametrize("target", TARGETS)
def test_bits_are_the_same_where_iterations_take_several_steps(target):
    graph = _products("float32", SHAPES)
    with unrolled():
        _check_bits(graph, target)


def test_bits_are_the_same_over_blocks_and_panels():
    _check_bits(_products("float32", LARGE), "native")


@pytest.mark.parametrize(
    ("target", "dtype", "is_any"),
    [
        ("x86-64-v4", "float32", True), ("x86-64-v3", "float64", True),
        ("x86-64-v4", "int32", False), ("x86-64-v4", "float16", False),
        ("x86-64", "float32", False), ("aarch64", "float32", False),
    ],
)  # fmt: skip
def test_only_multiply_adds_of_floats_are_assembly(target, dtype, is_any):
    a, b = sg.placeholder((64, 96), dtype), sg.placeholder((96, 64), dtype)
    text = sg.compile([a, b], a @ b, target=target, cache=False).ir("llvm")
    assert _tiles(text)
    assert any("asm sideeffect" in tile and "=&r" in tile for tile in _tiles(text)) is is_any


def test_a_statement_names_no_distance_that_no_instruction_takes():
    made = []
    with mock.patch.object(microkernel, "is_assembled", lambda kernel: made.append(kernel)):
        leaf_functions._emitted.cache_clear()
        a, b = sg.placeholder((64, 96)), sg.placeholder((96, 64))
        sg.compile([a, b], a @ b, target="x86-64-v4", cache=False).ir("llvm")
    leaf_functions._emitted.cache_clear()
    far = replace(made[0], told=(), tile_row=1 << 28)
    assert microkernel.is_assembled(made[0])
    assert not microkernel.is_assembled(far)
