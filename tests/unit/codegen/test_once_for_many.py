"""What a compilation makes once: plans of products, texts of kernels, math functions."""

from __future__ import annotations

import pytest

import symgrad as sg
from symgrad.codegen.contract.plans import products
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.llvm.math import functions
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.loops.canonical import canonical
from symgrad.codegen.loops.language import Kernel, Product
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.program.language import Program
from symgrad.codegen.schedule import kernel_pool
from symgrad.codegen.schedule.parallelize import ONE_THREAD
from symgrad.codegen.target import Target, target_named
from tests.support.programs import pool_for, program_from

TARGET = target_named("x86-64-v4")


def layer(rows: int) -> Program:
    x, w = sg.placeholder((rows, 24)), sg.placeholder((24, 40))
    h = sg.tanh(x @ w)
    return program_from(h, sg.permute_dims(x, (1, 0)) @ h)


def test_a_product_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Product] = []
    target = target_named("x86-64-v4")  # that of programs: other tests have targets made anew
    own = products._planned

    def noted(product: Product, target: Target) -> ContractPlan:
        planned.append(product)
        return own(product, target)

    monkeypatch.setattr(products, "_planned", noted)
    program = layer(37)
    assert len(planned) == 2
    text = str(emit_module(program, target))
    assert len(planned) == 2
    there = [s for k in program.kernels for s in statements(k.body) if isinstance(s, Product)]
    assert [products.product_plan(s, target) for s in there] == [own(s, target) for s in there]
    products._plans.clear()
    assert str(emit_module(program, target)) == text


def test_what_is_no_plan_yet_is_not_handed_on():
    (product, *_) = (s for k in layer(41).kernels for s in k.body if isinstance(s, Product))
    products._plans.clear()
    products.hand_on_plan(product, product, TARGET)
    assert not products._plans


def test_plans_that_are_kept_are_no_more_than_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_CACHE_SIZE", 3)
    products._plans.clear()
    assert layer(43).kernels
    assert len(products._plans) == 3


def copying(extent: int, value: float, name: str) -> Kernel:
    return parse_kernel(f"""
        kernel @k(in x: f32[{extent}], out y: f32[{extent}]) {{
          for {name} in 0..{extent} {{
            t0: f32 = x[{name}]
            t1: f32 = mul(t0, {value})
            y[{name}] = t1
          }}
        }}
        """)


def test_only_kernels_that_are_like_another_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[Kernel] = []

    def noted(kernel: Kernel) -> str:
        printed.append(kernel)
        return print_kernel(kernel)

    monkeypatch.setattr(kernel_pool, "print_kernel", noted)
    pool = pool_for(TARGET, ONE_THREAD)
    first = pool.add(copying(100, 3.0, "i")).kernel
    assert pool.add(copying(200, 3.0, "i")).kernel.name == "k1"
    assert not printed
    assert pool.add(copying(100, 5.0, "i")).kernel.name == "k2"
    assert len(printed) == 2
    assert pool.add(copying(100, 3.0, "j")).kernel is first
    assert [kernel.name for kernel in pool.kernels] == ["k0", "k1", "k2"]


def test_a_kernel_that_is_given_with_its_text_is_one_that_was_not_printed():
    pool = pool_for(TARGET, ONE_THREAD)
    moved = pool.relocated(copying(100, 3.0, "i"))
    first = pool.add(copying(100, 3.0, "i")).kernel
    text = print_kernel(canonical(moved.kernel))
    assert pool.add_scheduled(text, lambda: pytest.fail("it is there")) is first
    other = text.replace("3.0", "5.0")
    made = pool.add_scheduled(other, lambda: (first, None))
    assert made.name == "k1"
    assert pool.add(copying(100, 5.0, "n")).kernel is made


@pytest.mark.parametrize("level", ["x86-64-v4", "x86-64", "aarch64"])
def test_math_functions_of_a_module_are_the_same_however_they_are_made(
    level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = sg.placeholder((100,)), sg.placeholder((70,), "float64")
    outputs = [f(x) for f in (sg.tanh, sg.exp, sg.log, sg.sin, sg.special.gammaln)]
    outputs += [sg.tanh(y), x ** sg.tanh(x), sg.cbrt(y)]
    program, target = program_from(*outputs, target=level), target_named(level)
    functions._emitted.cache_clear()
    made = [str(emit_module(program, target)) for _ in range(2)]
    assert functions._emitted.cache_info().hits > 0
    with monkeypatch.context() as patch:
        patch.setattr(functions, "_emitted", lambda *_: None)
        assert made == [str(emit_module(program, target))] * 2
