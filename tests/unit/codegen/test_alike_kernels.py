"""Kernels that differ in the sizes of loops have the text that emitting each of them gives."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm.alike_kernels import AlikeKernels
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.program.language import Program
from symgrad.codegen.target import target_named
from symgrad.cost_model import MIN_SIMILAR_KERNELS
from symgrad.optim import Adam
from tests.support.programs import program_from

SIZES = [*range(1, 300), 511, 512, 1_000, 4_099, 70_001, 1_000_003]


def texts(program: Program, level: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return the module, and the module each of whose kernels is emitted."""
    target = target_named(level)
    together = str(emit_module(program, target))
    with monkeypatch.context() as patch:
        patch.setattr(AlikeKernels, "emitted", lambda *_: None)
        return together, str(emit_module(program, target))


@pytest.mark.parametrize("level", ["x86-64-v4", "x86-64-v3"])
@pytest.mark.parametrize(
    "of",
    [
        lambda x, n: sg.sqrt(x(n) * 2.0) + x(n),
        lambda x, n: (x(n) * x(n)).sum() * 3.0,
        lambda x, n: sg.exp(x(n)),
        lambda x, n: x(3, n) - x(n),
        lambda x, n: x(n, 12).max(axis=1),
        lambda x, n: x(n)[::-1] + 1.0,
        lambda x, n: sg.cumsum(x(n)),
        lambda x, n: x(5, n) @ x(n, 3),
        lambda x, n: sg.astype(x(n), "float64") / n,
    ],
)
def test_the_text_of_a_module_is_that_of_kernels_emitted_one_by_one(of, level, monkeypatch):
    outputs = [of(lambda *shape: sg.placeholder(shape), n) for n in SIZES]
    together, apart = texts(program_from(*outputs, target=level), level, monkeypatch)
    assert together == apart


def test_few_of_many_updates_are_emitted(monkeypatch):
    emitted = 0
    own = AlikeKernels._traced

    def traced(*arguments):
        nonlocal emitted
        emitted += 1
        return own(*arguments)

    monkeypatch.setattr(AlikeKernels, "_traced", traced)
    variables = [sg.variable(np.zeros(n, np.float32)) for n in range(400, 600)]
    given = [sg.placeholder(v.shape) for v in variables]
    updates = Adam().apply_gradients(zip(given, variables, strict=True))
    sg.compile(given, (), updates, opt_level=0)
    assert 0 < emitted < 70


def test_few_kernels_are_emitted_each(monkeypatch):
    monkeypatch.setattr(AlikeKernels, "_traced", lambda *_: pytest.fail("there are few"))
    few = [sg.placeholder((100 + n,)) * 2.0 for n in range(MIN_SIMILAR_KERNELS - 1)]
    assert str(emit_module(program_from(*few), target_named("x86-64-v4")))
