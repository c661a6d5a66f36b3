"""Kernels that tests have compiled are linked again, those of the same text and no others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm import pieces
from symgrad.codegen.native import machine_code
from symgrad.graph.types import Array
from tests.support import compiled_kernels
from tests.support.compiled_kernels import CompiledKernels

RNG = np.random.default_rng(0)
X, W = (sg.placeholder(shape, name=n) for n, shape in (("x", (70, 90)), ("w", (90, 80))))
VALUES = [RNG.standard_normal(t.shape).astype(np.float32) for t in (X, W)]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keep objects for this test alone; return what is compiled, as it is."""
    texts: list[str] = []

    def noting(name: str) -> Callable[..., bytes]:
        compile_text: Callable[..., bytes] = getattr(compiled_kernels, name)

        def compile_noted(text: str, *how: object) -> bytes:
            texts.append(text)
            return compile_text(text, *how)

        return compile_noted

    for name in ("compile_object", "compile_leaves"):
        monkeypatch.setattr(compiled_kernels, name, noting(name))
    monkeypatch.setattr(machine_code, "compile_module", CompiledKernels().images)
    return texts


def values(*ys: sg.Tensor, threads: int = 1) -> list[Array]:
    return list(sg.compile([X, W], list(ys), threads=threads, cache=False)(*VALUES))


def test_what_was_compiled_is_not_compiled_again(compiled: list[str]) -> None:
    product, other = X @ W, sg.exp(X)
    (first,) = values(product)
    count = len(compiled)
    both = values(product, other)
    assert (both[0] == first).all()
    np.testing.assert_allclose(both[1], np.exp(VALUES[0]), rtol=1e-6)
    assert len(compiled) == count + 1
    assert (values(other, product)[1] == first).all()
    assert len(compiled) == count + 1


def test_kernels_that_are_emitted_otherwise_are_compiled(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a = sg.placeholder((40, 9, 9))
    given = RNG.standard_normal(a.shape).astype(np.float32)

    def determinants() -> Array:
        found = sg.compile([a], sg.linalg.det(a), cache=False)(given)
        assert isinstance(found, np.ndarray)
        return found

    expected, count = determinants(), len(compiled)
    with monkeypatch.context() as patch:
        patch.setattr(pieces, "versions_of", lambda _: None)
        assert determinants().tobytes() == expected.tobytes()
    assert len(compiled) > count


def test_what_is_kept_is_bounded(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "compile_module", CompiledKernels(most_bytes=0).images)
    first = values(X @ W)
    count = len(compiled)
    assert values(X @ W)[0].tobytes() == first[0].tobytes()
    assert len(compiled) == 2 * count


def test_levels_and_targets_have_their_own(compiled: list[str]) -> None:
    for target in ("x86-64-v3", "x86-64"):
        for opt_level in (0, 1):
            count = len(compiled)
            sg.compile([X], sg.exp(X), target=target, opt_level=opt_level, cache=False)
            assert len(compiled) > count, (target, opt_level)
