"""Microkernels that are assembly: which are, and that they give the bits that LLVM's code gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen.contract.kernels import leaf_functions, microkernel
from symgrad.codegen.contract.kernels.assembled import is_assembled
from symgrad.codegen.contract.kernels.register_tile import Microkernel
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.native.objects import compile_leaves
from symgrad.codegen.target import target_named
from symgrad.graph.graph import Graph
from symgrad.records import replace
from tests.support.programs import program_from
from tests.support.schedules import unrolled

# Rows, columns and k: leftovers of tiles, vectors and steps; packed, prefetched, taken up again.
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
        ("x86-64-v4", "int32", False), ("x86-64-v4", "float16", True),
        ("x86-64", "float32", False), ("aarch64", "float32", False),
    ],
)  # fmt: skip
def test_only_multiply_adds_of_floats_are_assembly(target, dtype, is_any):
    a, b = sg.placeholder((64, 96), dtype), sg.placeholder((96, 64), dtype)
    text = sg.compile([a, b], a @ b, target=target, cache=False).ir("llvm")
    assert _tiles(text)
    assert any("asm sideeffect" in tile and "=&r" in tile for tile in _tiles(text)) is is_any


def _kernel_of(m: int, n: int, k: int) -> Microkernel:
    """Return a microkernel of a product for AVX-512."""
    a, b = sg.placeholder((m, k)), sg.placeholder((k, n))
    program = program_from(a @ b)
    module = emit_module(program, target_named("x86-64-v4"))
    return next(leaf for leaf in module.made_of if isinstance(leaf, Microkernel))


def test_a_statement_names_no_distance_that_no_instruction_takes():
    kernel = _kernel_of(64, 64, 96)
    far = replace(kernel, told=(), tile_row=1 << 28)
    assert is_assembled(kernel)
    assert not is_assembled(far)


@pytest.mark.parametrize("rows", [9, 18, 27, 30])
@pytest.mark.parametrize("packs", [False, True])
def test_llvm_has_registers_for_what_a_statement_names(rows, packs):
    kernel = _kernel_of(64, 16, 97)
    kernel = replace(
        kernel,
        rows=rows,
        left_row=0,
        left_k=replace(kernel.left_k, stride=1),
        right_k=replace(kernel.right_k, stride=0),
        told=("left_row", "tile_row") if packs else ("left_row", "right_k", "tile_row"),
        right_ahead=16,
        packs=packs,
        resumes=True,
    )
    module = ir.Module()
    leaf_functions.leaf_function(module, kernel)
    assert is_assembled(kernel) is (rows < 28 or not packs)
    assert compile_leaves(str(module), target_named("x86-64-v4"), 3)
