"""What was compiled before a program: a cache of a test alone, and a layer that finds some."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.native import machine_code as code_module
from symgrad.codegen.native import objects
from symgrad.codegen.native.object_store import ObjectStore, object_store, precompiled_store
from symgrad.codegen.target import Target
from symgrad.config import override
from symgrad.runtime.precompile import Sample

SAMPLE = Sample((32, 64, 48), (False, False), "activation")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Make a cache of this test alone."""
    for name in ("_loaded", "_leaves", "_closed"):
        monkeypatch.setattr(code_module, name, type(getattr(code_module, name))())
    with override(cache=True, cache_dir=str(tmp_path)):
        found = precompiled_store()
        assert found is not None
        yield found


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the texts of tiles and packers that LLVM is given."""
    texts: list[str] = []
    compile_leaves = objects.compile_leaves

    def note(text: str, target: Target, opt_level: int) -> bytes:
        texts.extend([text] if '@"leaf.' in text else [])
        return compile_leaves(text, target, opt_level)

    monkeypatch.setattr(objects, "compile_leaves", note)
    monkeypatch.setattr(code_module, "compile_module", objects.compile_module)
    return texts


def forget() -> None:
    code_module._loaded.clear()
    code_module._leaves.clear()
    code_module._closed.clear()


def clear() -> None:
    kernels = object_store()
    assert kernels is not None
    kernels.clear()


def layer(width: int = 192, classes: int = 48) -> np.ndarray:
    """Return what a layer of a width computes that no sample has."""
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(np.float32) for s in ((32, width), (width, classes)))
    a, b = sg.placeholder(x.shape), sg.placeholder(w.shape)
    step = sg.compile([a, b], sg.tanh(a @ b + 1.0))
    found: np.ndarray = step(x, w)
    assert np.allclose(found, np.tanh(x @ w + 1), rtol=1e-4, atol=1e-4)
    return found


def wide_samples() -> list[Sample]:
    return [Sample((32, k, 48), (False, False), "activation") for k in (64, 128)]
