"""Products that differ in rows or terms have the text that emitting each of them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen.concolic import TextWithNumbers
from symgrad.codegen.contract import blocking
from symgrad.codegen.contract.lifted import plan_sizes
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.llvm import alike_products, place, sized_functions
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.loops.language import Kernel
from symgrad.codegen.program.language import Program
from symgrad.codegen.target import Target, target_named
from symgrad.codegen.target_attributes import bind_functions
from symgrad.config import override
from symgrad.graph.node import Tensor
from tests.support.programs import program_from

SIZES = [1, 2, 3, 4, 5, 7, 8, 13, 20, 21, 26, 33, 64, 65, 300, 2_049]
LEVELS = ["x86-64-v4", "x86-64-v3", "aarch64"]


@pytest.fixture(autouse=True)
def emitted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Know no product yet, and note the kernels that are emitted."""
    alike_products._alike.cache_clear()
    names: list[str] = []
    for module in (alike_products, place, sized_functions):
        monkeypatch.setattr(module, "emit_kernel", noting(names, module.emit_kernel))
    with override(verify=False):
        yield names
    alike_products._alike.cache_clear()


def noting(names: list[str], emit: Callable[..., ir.LLVMFunction]) -> Callable[..., Any]:
    def noted(module: ir.Module, kernel: Kernel, name: str, target: Target) -> ir.LLVMFunction:
        names.append(name)
        return emit(module, kernel, name, target)

    return noted


def text(program: Program, target: Target, monkeypatch: pytest.MonkeyPatch | None = None) -> str:
    """Return the text of a program; given what patches, that of each kernel emitted alone."""
    if monkeypatch is None:
        return str(emit_module(program, target))
    with monkeypatch.context() as patch:
        patch.setattr(place, "emitted_product", lambda *_: None)
        return str(emit_module(program, target))


def layer(n: int) -> Tensor:
    return sg.tanh(sg.placeholder((n, 64)) @ sg.placeholder((64, 128)) + sg.placeholder((128,)))


def gradient(n: int) -> Tensor:
    return sg.placeholder((n, 64)).T @ sg.placeholder((n, 10))


def transposed(n: int) -> Tensor:
    return sg.placeholder((n, 10)) @ sg.placeholder((128, 10)).T * 0.5


def doubles(n: int) -> Tensor:
    return sg.placeholder((n, 33), "float64") @ sg.placeholder((33, 7), "float64")


def halves(n: int) -> Tensor:
    return sg.placeholder((n, 32), "bfloat16") @ sg.placeholder((32, 48), "bfloat16")


def integers(n: int) -> Tensor:
    return sg.placeholder((5, n), "int32") @ sg.placeholder((n, 24), "int32")


def scaled_by_size(n: int) -> Tensor:
    return sg.placeholder((n, 24)) @ sg.placeholder((24, 40)) / n


def scaled_twice(n: int) -> Tensor:
    """Return a product in which a number is the one that stands in for others, for some n."""
    product = sg.placeholder((n, 24)) @ sg.placeholder((24, 40))
    return sg.where(product > 0.3, product * (0.1 * n), 0.7)


def columns(n: int) -> Tensor:
    return sg.placeholder((24, 40)) @ sg.placeholder((40, n))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "build",
    [layer, gradient, transposed, doubles, halves, integers, scaled_by_size, scaled_twice, columns],
)
def test_the_text_of_a_product_is_that_of_emitting_it(build, level, monkeypatch):
    target = target_named(level)
    for n in SIZES:
        program = program_from(build(n), target=level)
        assert text(program, target) == text(program, target, monkeypatch), f"with {n}"


@pytest.mark.parametrize("build", [layer, gradient, transposed])
def test_of_many_batches_few_products_are_emitted(build, emitted):
    target = target_named("x86-64-v3")
    for n in range(1, 61):
        emit_module(program_from(build(n), target="x86-64-v3"), target)
    assert len(emitted) < 35


def test_several_products_of_one_module_call_their_own_leaf_functions(monkeypatch):
    target = target_named("x86-64-v3")
    for n in (20, 21, 22, 23):
        built = [layer(n), doubles(n), transposed(n), columns(n)]
        program = program_from(*built, target="x86-64-v3")
        other = program_from(*reversed(built), target="x86-64-v3")
        for each in (program, other):
            assert text(each, target) == text(each, target, monkeypatch)


def test_numbers_of_an_epilogue_that_are_equal_and_not_the_same_are_told_apart(monkeypatch):
    target = target_named("x86-64-v3")
    for zero in (0.0, -0.0, 0.0, -0.0):
        x, w = sg.placeholder((6, 24)), sg.placeholder((24, 40))
        program = program_from(sg.maximum(x @ w, zero), target="x86-64-v3")
        assert text(program, target) == text(program, target, monkeypatch)


def test_what_is_said_of_functions_of_one_module_is_not_said_in_others(monkeypatch):
    target = target_named("x86-64-v3")
    programs = [program_from(layer(n), target="x86-64-v3") for n in (20, 21, 22)]
    for program in programs:
        bind_functions(emit_module(program, target), target)  # as an export does
    for program in programs:
        assert text(program, target) == text(program, target, monkeypatch)


def test_a_template_that_gives_another_text_is_told_where_passes_are_verified(monkeypatch):
    target = target_named("x86-64-v3")
    monkeypatch.setattr(TextWithNumbers, "of", lambda *_: "entry:")
    for n in (20, 21):
        emit_module(program_from(gradient(n), target="x86-64-v3"), target)
    with override(verify=True), pytest.raises(AssertionError, match="a template has given"):
        emit_module(program_from(gradient(22), target="x86-64-v3"), target)


def test_a_size_that_emission_asks_for_by_its_value_is_emitted(monkeypatch, emitted):
    """What cannot be noted of a symbolic size leaves no template behind."""

    def hashed(plan: ContractPlan, lift: Any) -> Any:
        hash(plan.k)
        return plan_sizes(plan, lift)

    monkeypatch.setattr(blocking, "plan_sizes", hashed)
    target = target_named("x86-64-v3")
    for n in (20, 21, 22):
        program = program_from(gradient(n), target="x86-64-v3")
        assert text(program, target) == text(program, target, monkeypatch)
    assert len(emitted) > 5


def test_a_step_of_many_batches_gives_what_each_alone_does():
    x, w = sg.placeholder(("n", 64)), sg.placeholder((64, 128))
    with override(cache=False):
        step = sg.compile([x, w], sg.tanh(x @ w))
    random = np.random.default_rng(0)
    b = random.standard_normal((64, 128)).astype(np.float32)
    for n in range(1, 20):
        a = random.standard_normal((n, 64)).astype(np.float32)
        np.testing.assert_allclose(step(a, b), np.tanh(a @ b), atol=1e-5)
