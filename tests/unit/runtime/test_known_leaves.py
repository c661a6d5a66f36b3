"""Leaf functions that a program before has had are declared, and not emitted again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract.kernels import leaf_functions
from symgrad.codegen.contract.kernels.leaf_functions import Leaf
from symgrad.codegen.native import known_kernels, known_leaves
from symgrad.codegen.native import machine_code as code_module
from symgrad.codegen.native.known_leaves import KnownLeaves
from symgrad.codegen.native.object_store import ObjectStore, object_store
from symgrad.codegen.target import Target, target_named
from symgrad.compiler import emit_linkable
from symgrad.config import override
from symgrad.graph.node import Tensor
from symgrad.runtime import stored_program
from symgrad.runtime.step import Step

SHAPES = (37, 104), (104, 88)  # of no product that was compiled before any program
X, Y = (np.sin(np.arange(m * n, dtype=np.float32)).reshape(m, n) for m, n in SHAPES)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Make a cache of this test alone, in which no program is found as a whole."""
    for name in ("_loaded", "_leaves", "_closed"):
        monkeypatch.setattr(code_module, name, type(getattr(code_module, name))())
    for module in (known_kernels, known_leaves):
        monkeypatch.setattr(module, "compiler_version", lambda: "this compiler")
    monkeypatch.setattr(stored_program, "compiler_version", lambda: None)
    forget()
    with override(cache=True, cache_dir=str(tmp_path), precompiled=False, verify=False):
        found = object_store()
        assert found is not None
        yield found
    forget()


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[Leaf]:
    """Note the leaf functions that are emitted."""
    leaves: list[Leaf] = []
    emit = leaf_functions._emit

    def note(module: Any, leaf: Leaf) -> Any:
        leaves.append(leaf)
        return emit(module, leaf)

    monkeypatch.setattr(leaf_functions, "_emit", note)
    return leaves


def forget() -> None:
    """Be as a process that has compiled nothing yet."""
    leaf_functions._emitted.cache_clear()
    known_leaves._noted.cache_clear()
    code_module._loaded.clear()
    code_module._leaves.clear()
    code_module._closed.clear()


def product(done: str = "", **options: Any) -> Step:
    """Return a step of a product, with what is `done` to its elements."""
    x, y = (sg.placeholder(shape) for shape in SHAPES)
    result: Tensor = x @ y
    return sg.compile([x, y], getattr(sg, done)(result) if done else result, **options)


def test_a_product_with_another_epilogue_emits_none_of_its_leaf_functions(store, emitted):
    product("tanh")
    assert emitted
    emitted.clear()
    forget()
    edited = product("cos")
    assert not emitted
    np.testing.assert_allclose(edited(X, Y), np.cos(X @ Y), atol=1e-4)
    with override(cache=False):
        alone = product("cos")
    assert emitted
    np.testing.assert_array_equal(edited(X, Y), alone(X, Y))


def test_names_and_kernels_are_the_same_whether_leaf_functions_are_known_or_not(store):
    step = product("tanh")
    forget()
    program, target = step.executable.program, step.executable.options.target
    level = step.executable.options.opt_level
    known = emit_linkable(program, target, find=KnownLeaves(target, level).find)
    whole = emit_linkable(program, target)
    assert (known.is_whole, whole.is_whole) == (False, True)
    assert not known.leaves
    assert known.entry == whole.entry
    assert known.text(known.kernels) == whole.text(whole.kernels)
    assert "contract.tile" in step.ir("asm"), "a stage that is looked at is whole"


def test_targets_and_compilers_have_their_own(store, emitted, monkeypatch):
    product()
    native = target_named("native")
    for target in map(target_named, ("x86-64-v2", "aarch64")):
        assert not found_of(emitted, target)
    assert len(found_of(emitted, native)) == len(set(emitted))
    monkeypatch.setattr(known_leaves, "compiler_version", lambda: "another compiler")
    assert not found_of(emitted, native)
    monkeypatch.setattr(known_leaves, "compiler_version", lambda: None)
    assert not found_of(emitted, native)


def found_of(leaves: list[Leaf], target: Target) -> list[Any]:
    known = KnownLeaves(target, 3)
    return [found for leaf in set(leaves) if (found := known.find(leaf)) is not None]


@pytest.mark.parametrize("forgets", [True, False])
def test_what_is_noted_but_gone_is_compiled_anew(store, emitted, forgets):
    """In a process that knows it, and in one that reads that it was there."""
    product("tanh")
    for path in (path for path, _ in store.entries() if path.suffix != ".noted"):
        path.unlink()
    if forgets:
        forget()
    code_module._loaded.clear()
    code_module._leaves.clear()
    code_module._closed.clear()
    step = product("cos")
    np.testing.assert_allclose(step(X, Y), np.cos(X @ Y), atol=1e-4)


def test_an_entry_that_is_full_is_begun_anew(store, emitted, monkeypatch):
    product()
    monkeypatch.setattr(known_leaves, "_MAX_NOTED", 1)
    x, y = (sg.placeholder(shape, "float64") for shape in SHAPES)
    sg.compile([x, y], x @ y)  # whose leaf functions are all others
    forget()
    noted = KnownLeaves(target_named("native"), 3)._noted
    assert noted is not None
    assert 0 < len(noted._known) < len(set(emitted))
