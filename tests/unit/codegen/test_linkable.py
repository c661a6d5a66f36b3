"""Kernels named by their content, and modules without those that are elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen.llvm.linkable import LinkableModule, leaf_symbols
from symgrad.codegen.llvm.module import STEP
from symgrad.codegen.native.jit import emit_calls, emit_object, optimize
from symgrad.codegen.native.objects import compile_leaves
from symgrad.codegen.target import target_named
from symgrad.compiler import emit_linkable
from symgrad.graph.node import Tensor
from symgrad.runtime.step import Step


def layers(*activations: Callable[[Tensor], Tensor], opt_level: int = 0, width: int = 8) -> Step:
    """Return a step of a dense layer for each activation, which are kernels that differ."""
    x = sg.placeholder((4, width))
    h: Tensor = x
    for number, activation in enumerate(activations):
        weight = np.full((width, width), 0.1 * (number + 1), np.float32)
        h = activation(h @ sg.variable(weight))
    return sg.compile([x], h, opt_level=opt_level)


def linkable(step: Step) -> LinkableModule:
    executable = step.executable
    return emit_linkable(executable.program, executable.options.target)


def test_a_kernel_is_named_by_its_content_and_not_by_its_place():
    before, after = linkable(layers(sg.tanh, sg.exp)), linkable(layers(sg.exp, sg.tanh))
    assert [*before.symbols] == [*after.symbols]
    assert set(before.kernels) == set(after.kernels)
    assert before.kernels != after.kernels
    assert before.symbols[STEP] != after.symbols[STEP]


def test_what_a_kernel_calls_is_of_its_content():
    """The kernels of these products differ in the tiles they call and in sizes."""
    assert not set(linkable(layers(sg.tanh)).kernels) & set(
        linkable(layers(sg.tanh, width=12)).kernels
    )


def test_metadata_counts_by_what_it_says_and_not_by_its_number():
    def module(weight: int, unused: int) -> LinkableModule:
        made = ir.Module()
        for number in range(unused):
            made.add_metadata(f'!"unused", i32 {number}')
        for name in ("k0", STEP):
            kind = ir.FunctionType(ir.VoidType(), [ir.IntType(1)])
            function = ir.LLVMFunction(made, kind, name)
            function.linkage = "internal" if name == "k0" else ""
            builder = ir.IRBuilder(function.append_basic_block("entry"))
            done = builder.append_basic_block("done")
            branch = builder.cbranch(function.args[0], done, done)
            branch.set_metadata(
                "prof", made.add_metadata(f'!"branch_weights", i32 {weight}, i32 1')
            )
            builder.position_at_end(done)
            builder.ret_void()
        return LinkableModule(made, STEP, ["k0"])

    assert module(5, 0).symbols == module(5, 11).symbols
    assert module(5, 0).kernels != module(6, 0).kernels


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_module_declares_the_kernels_it_does_not_define(kept):
    module = linkable(layers(sg.tanh, sg.exp))
    defined = module.kernels[:kept]
    text = module.text(defined)
    for symbol in module.kernels:
        is_declared = re.search(rf'^declare \w+ @"{symbol}"\(', text, re.MULTILINE)
        assert (is_declared is None) == (symbol in defined)
        assert (f'@"{symbol}" = weak_odr alias void (' in text) == (symbol in defined)
    assert ("sg.tanh" in text) == (kept > 0)
    assert ("sg.exp" in text) == (kept > 1)
    native = target_named("native")
    assert emit_object(optimize(text, native, 1), native, 1)


def product(rows: int) -> Step:
    x, y = sg.placeholder((rows, 64)), sg.placeholder((64, 48))
    return sg.compile([x, y], sg.tanh(x @ y), opt_level=1)


def test_leaf_functions_are_declared_and_have_a_module_of_their_own():
    """Of the tile that a product of 48 columns calls, and one of twice as many rows."""
    rows = 8 if target_named("native").vector_bytes == 64 else 4
    module, other = linkable(product(rows)), linkable(product(2 * rows))
    assert module.leaves == other.leaves
    assert module.kernels != other.kernels
    (leaf,) = module.leaves
    text = module.text(module.kernels)
    assert f'declare void @"{leaf}"(' in text
    assert '@"contract.tile' not in text
    alone = module.text_of_leaves(module.leaves)
    assert alone == other.text_of_leaves(other.leaves)
    assert re.findall(r'^define .*@"([^"]+)"', alone, re.MULTILINE) == ["contract.tile"]
    assert "sg.tanh" not in alone
    native = target_named("native")
    of_kernels = emit_object(optimize(text, native, 1), native, 1)
    assert leaf_symbols(of_kernels) == leaf_symbols(compile_leaves(alone, native, 1)) == [leaf]


@pytest.mark.parametrize("name", ["native", "x86-64", "x86-64-v3", "aarch64"])
def test_optimizing_a_leaf_function_would_leave_it_as_it_is(name):
    """Its text is in its final form, so the middle end is not run on it."""
    target = target_named(name)
    x, y = sg.placeholder((40, 64)), sg.placeholder((64, 48))
    step = sg.compile([x, y], x @ y, opt_level=1)
    module = emit_linkable(step.executable.program, target)
    text = module.text_of_leaves(module.leaves)
    # LLVM prints a statement of assembly in one line.
    optimized = str(optimize(text, target, 2)).replace(r"\0A", "\n")
    before, after = text.count("\n"), optimized.count("\n")
    assert 0.95 * before < after < 1.05 * before + 20


def chain(ops: int) -> Step:
    """Return a step of so many launches of two kernels, in turns."""
    h = x = sg.placeholder((8,))
    for number in range(ops // 2):
        h = sg.cumsum(sg.cumprod(h)) if number else sg.cumsum(h)
    return sg.compile([x], h, opt_level=1)


def test_what_only_calls_is_a_module_of_its_own_where_it_is_long():
    long, short = linkable(chain(80)), linkable(chain(8))
    assert short.calls is None
    assert re.search(rf'@"{STEP}\.\w+" = weak_odr alias', short.text(short.kernels))
    assert long.calls is not None
    defined = re.findall(r'^define .*@"([^"]+)"\(', long.calls, re.MULTILINE)
    assert defined == ["step", "step.0", "step.32", "step.64"]
    assert all(f'declare void @"{kernel}"(' in long.calls for kernel in long.kernels)
    for text in (long.text(long.kernels), long.computing):
        assert '@"step' not in text
        assert all(f'@"{kernel}" = weak_odr alias' in text for kernel in long.kernels)


@pytest.mark.parametrize("name", ["native", "x86-64", "x86-64-v3", "aarch64"])
def test_what_only_calls_is_compiled_for_every_target(name):
    step, target = chain(80), target_named(name)
    module = emit_linkable(step.executable.program, target)
    assert module.calls is not None
    image = emit_calls(module.calls, target)
    assert all(symbol.encode() in image for symbol in (module.entry, *module.kernels))


def test_assembly_is_of_both_objects():
    text = chain(80).ir("asm")
    for function in ("step:", "step.32:", "k0:", "k1:"):
        assert f"\n{function}" in text


def test_kernels_of_the_same_code_have_one_name():
    """The loops say of which type an element is; code that only moves it does not."""
    x, y = sg.placeholder((8,), "float32"), sg.placeholder((8,), "int32")
    step = sg.compile([x, y], [sg.flip(x), sg.flip(y)], opt_level=0)
    module = linkable(step)
    assert len(module.symbols) == 1 + len(step.executable.program.kernels)
    assert len(module.kernels) <= len(step.executable.program.kernels)
    assert module.text(module.kernels).count("alias void") == len(module.kernels)
    floats, ints = step(np.arange(8, dtype=np.float32), np.arange(8, dtype=np.int32))
    assert floats.tolist() == ints.tolist() == [*range(7, -1, -1)]


def test_stages_show_kernels_by_the_names_they_were_emitted_with():
    step = layers(sg.tanh, sg.exp, opt_level=1)
    for stage in ("llvm", "llvm-opt", "asm"):
        text = step.ir(stage)
        assert not re.search(r"\.[0-9a-f]{32}\b", text), stage
        assert "k1" in step.ir(stage, "k1")
