"""Kernels that differ in the sizes of loops have the text that emitting each of them gives."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen.llvm import alike_kernels
from symgrad.codegen.llvm.alike_kernels import AlikeKernels
from symgrad.codegen.llvm.kernels import emit_kernel
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.program.language import Program
from symgrad.codegen.target import target_named
from symgrad.cost_model import MIN_SIMILAR_KERNELS
from symgrad.optim import Adam
from symgrad.records import replace
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


FOLDS = """
kernel @k(in x: f32[100], in z: f32[77], out y: f32[1]) {
  fold s: f32 = 0.0 for i in 0..100 lanes(16) {
    t0: f32 = x[i]
    yield t0
  } combine (a) (b) {
    c: f32 = add(a, b)
    yield c
  }
  fold r: f32 = 0.0 for j in 0..77 lanes(16) {
    t1: f32 = z[j]
    t2: f32 = mul(t1, 3.0)
    yield t2
  } combine (d) (e) {
    f: f32 = add(d, e)
    yield f
  }
  g: f32 = add(s, r)
  y[0] = g
}
"""


def test_bounds_that_are_one_number_for_some_sizes_are_one_parameter_of_these():
    plain = parse_kernel(FOLDS)

    def of(first: int, second: int) -> Kernel:
        sizes = {100: first, 77: second}
        params = (replace(p, count=sizes.get(p.count, p.count)) for p in plain.params)
        body = alike_kernels._with_extents(plain.body, lambda extent: sizes[extent])
        return replace(plain, name=f"k{first}.{second}", params=tuple(params), body=body)

    # Whole vectors of one fold end where the other does, or begin the rest where it does.
    several = [1, 2, 16, 17, 18, 31, 32, 33, 48, 49, 96, 97, 112]
    kernels = [of(first, second) for first in several for second in several]
    target = target_named("x86-64-v4")
    together, apart = ir.Module(), ir.Module()
    alike = AlikeKernels(kernels, target)
    made = [(alike.emitted(together, k), emit_kernel(apart, k, k.name, target)) for k in kernels]
    assert sum(one is not None for one, _ in made) > len(made) // 2
    for one, other in made:
        if one is not None:
            assert "\n".join(one.lines()) == "\n".join(other.lines())
            assert [*map(str, one.lifted)] == [*map(str, other.lifted)]
