"""Kernels that a program before has had are found by their loops, and are what they would be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm import place
from symgrad.codegen.llvm.kernels import emit_kernel
from symgrad.codegen.llvm.known_kernel import KnownKernel
from symgrad.codegen.native import known_kernels
from symgrad.codegen.native import machine_code as code_module
from symgrad.codegen.native.known_kernels import KnownKernels
from symgrad.codegen.native.object_store import ObjectStore, object_store
from symgrad.compiler import emit_linkable
from symgrad.config import override
from symgrad.cost_model import MIN_SIMILAR_KERNELS
from symgrad.graph.node import Tensor
from symgrad.runtime.step import Step

X = np.linspace(0.1, 1, 24, dtype=np.float32).reshape(3, 8)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Make a cache of this test alone, of a compiler whose files are known."""
    for name in ("_loaded", "_closed"):
        monkeypatch.setattr(code_module, name, type(getattr(code_module, name))())
    monkeypatch.setattr(known_kernels, "compiler_version", lambda: "this compiler")
    with override(cache=True, cache_dir=str(tmp_path)):
        found = object_store()
        assert found is not None
        yield found


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the names of the kernels that are emitted."""
    names: list[str] = []

    def note(module: Any, kernel: Any, name: str, target: Any) -> Any:
        names.append(name)
        return emit_kernel(module, kernel, name, target)

    monkeypatch.setattr(place, "emit_kernel", note)
    return names


def layers(*activations: Callable[[Tensor], Tensor], rows: int = 3, **options: Any) -> Step:
    x = sg.placeholder((rows, 8))
    h: Tensor = x
    for number, activation in enumerate(activations):
        h = activation(h @ sg.variable(np.full((8, 8), 0.1 * (number + 1), np.float32)))
    return sg.compile([x], h, opt_level=1, **options)


def moves(first: int, count: int) -> Step:
    """Return a step of `count` kernels that differ in sizes only."""
    sizes = (32 * n + 3 for n in range(first, first + count))
    variables = [sg.variable(np.ones(n, np.float32)) for n in sizes]
    return sg.compile([], variables[0], [(v, v - 0.5 * sg.tanh(v)) for v in variables])


def known(step: Step) -> dict[str, KnownKernel]:
    options = step.executable.options
    kernels = step.executable.program.kernels
    return KnownKernels(kernels, options.target, options.opt_level).found()


def names(step: Step) -> tuple[str, str]:
    """Return what the code of a step is found by, without and with what is known."""
    program, target = step.executable.program, step.executable.options.target
    return emit_linkable(program, target).entry, emit_linkable(program, target, known(step)).entry


def test_only_new_kernels_are_emitted(store, emitted):
    layers(sg.tanh, sg.exp, sg.sin)
    assert len(emitted) == 3
    step = layers(sg.tanh, sg.cos, sg.sin)
    assert len(emitted) == 4
    expected = X
    for number, activation in enumerate((np.tanh, np.cos, np.sin)):
        expected = activation(expected @ np.full((8, 8), 0.1 * (number + 1)))
    np.testing.assert_allclose(step(X), expected, rtol=1e-4)


@pytest.mark.parametrize("stage", ["llvm", "llvm-opt", "asm"])
def test_stages_show_every_kernel(store, stage):
    layers(sg.tanh, sg.exp)
    step = layers(sg.exp, sg.tanh)
    assert len(known(step)) == 2
    with override(cache=False):
        assert step.ir(stage) == layers(sg.exp, sg.tanh).ir(stage)


def test_code_has_the_same_name_whatever_is_known(store):
    layers(sg.tanh, sg.exp)
    step = layers(sg.tanh, sg.sin)
    assert len(known(step)) == 2
    without, with_known = names(step)
    assert without == with_known


def test_kernels_that_are_merged_are_not_known(store):
    most = MIN_SIMILAR_KERNELS - 1
    few, others = moves(5, most), moves(50, most)
    assert len(known(few)) == len(few.executable.program.kernels) >= most
    assert known(others)
    many = moves(50, most + 10)
    assert len(known(many)) < 2  # those that are merged with others are not
    again = moves(51, most + 10)
    for step in (few, others, many, again):
        without, with_known = names(step)
        assert without == with_known
        assert all(np.asarray(step()) > 0)


def test_very_many_similar_kernels_are_not_noted_one_by_one(store):
    def build(count: int) -> Step:
        ws = [sg.variable(np.ones(360 + 16 * i, np.float32)) for i in range(count)]
        return sg.compile([], [sg.sum(w * w) for w in ws])

    step = build(3 * MIN_SIMILAR_KERNELS)
    noted = [path for path, _ in store.entries() if path.suffix == ".loops"]
    assert len(noted) < MIN_SIMILAR_KERNELS < len(step.executable.program.kernels)
    few = build(3)
    assert len(known(step)) < MIN_SIMILAR_KERNELS
    for made in (step, few):
        without, with_known = names(made)
        assert without == with_known
        assert [float(total) for total in made()] == [360.0 + 16 * i for i in range(len(made()))]


def test_many_kernels_of_which_few_are_similar_are_known(store, emitted):
    def build(*more: Callable[[Tensor], Tensor]) -> Step:
        ops = (sg.exp, sg.tanh, sg.sin, sg.cos, sg.log1p, sg.sqrt, sg.atan, sg.expm1, *more)
        ws = [sg.variable(np.linspace(0.1, 0.9, 3 + i, dtype=np.float32)) for i in range(len(ops))]
        moved = [(w, sg.sum(op(w)) * w) for op, w in zip(ops, ws, strict=True)]
        return sg.compile([], [sg.prod(op(w)) for op, w in zip(ops, ws, strict=True)], moved)

    assert len(build().executable.program.kernels) >= MIN_SIMILAR_KERNELS
    count = len(emitted)
    step = build(sg.erf)
    assert 1 <= len(emitted) - count <= 4
    without, with_known = names(step)
    assert without == with_known


def test_another_compiler_knows_nothing(store, monkeypatch):
    step = layers(sg.tanh)
    assert len(known(step)) == 1
    monkeypatch.setattr(known_kernels, "compiler_version", lambda: "another compiler")
    assert known(step) == {}
    monkeypatch.setattr(known_kernels, "compiler_version", lambda: None)
    assert known(layers(sg.tanh, sg.exp)) == {}


def test_a_known_kernel_whose_object_is_gone_is_emitted(store, emitted):
    layers(sg.tanh, sg.exp)
    for path, _ in store.entries():
        if path.suffix == ".object":
            path.unlink()
    code_module._loaded.clear()
    code_module._closed.clear()
    step = layers(sg.exp, sg.tanh)
    assert len(emitted) == 4
    expected = np.tanh(np.exp(X @ np.full((8, 8), 0.1)) @ np.full((8, 8), 0.2))
    np.testing.assert_allclose(step(X), expected, rtol=1e-4)


def batch(rows: int) -> tuple[Step, Any]:
    """Return a step of a product of so many rows, and what it is called with."""
    x = np.cos(np.arange(rows * 8, dtype=np.float32)).reshape(rows, 8)
    return layers(sg.tanh, rows=rows), x


def expected_batch(x: Any) -> Any:
    return np.tanh(x @ np.full((8, 8), 0.1))


def test_known_kernels_are_passed_sizes_and_microkernels(store, emitted):
    for rows in (24, 30):
        step, x = batch(rows)
        np.testing.assert_allclose(step(x), expected_batch(x), rtol=1e-4)
    code_module._loaded.clear()
    code_module._closed.clear()
    for rows in (30, 24):
        step, x = batch(rows)
        (kernel,) = known(step).values()
        assert kernel.leaves
        without, with_known = names(step)
        assert without == with_known
        np.testing.assert_allclose(step(x), expected_batch(x), rtol=1e-4)


def test_a_microkernel_of_a_known_kernel_that_is_gone_is_compiled(store, emitted):
    batch(24)
    for path, _ in store.entries():
        if path.suffix in (".leaf", ".leaves", ".program"):
            path.unlink()
    code_module._loaded.clear()
    code_module._closed.clear()
    code_module._leaves.clear()
    step, x = batch(24)
    np.testing.assert_allclose(step(x), expected_batch(x), rtol=1e-4)
