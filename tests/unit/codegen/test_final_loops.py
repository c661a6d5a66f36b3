"""Loops that LLVM's strength reduction leaves alone: those of products, around microkernels too."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen.contract.elements import counted_loop, final_loop, index
from symgrad.codegen.native.jit import emit_object, optimize
from symgrad.codegen.target import target_named
from symgrad.compiler import emit_linkable

HIDDEN = 'call i64 asm "", "=r,0"'


def emitted(make: Callable[..., AbstractContextManager[ir.Value]], *, stop: int) -> str:
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType()])
    function = ir.LLVMFunction(module, kind, "f")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    with make(builder, index(0), index(stop), 4) as at:
        place = builder.gep(function.args[0], [at], source_etype=ir.IntType(64))
        builder.store(at, place, 8)
    builder.ret_void()
    return str(module)


def test_what_an_index_goes_on_with_is_hidden_in_a_final_loop_only():
    assert emitted(final_loop, stop=40).count(HIDDEN) == 1
    assert "asm" not in emitted(counted_loop, stop=40)


def test_a_final_loop_that_runs_once_is_none():
    text = emitted(final_loop, stop=4)
    assert "asm" not in text
    assert "phi" not in text


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_every_target_compiles_a_final_loop(name):
    target = target_named(name)
    assert emit_object(optimize(emitted(final_loop, stop=40), target, 3), target, 3)


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_loops_of_products_are_final(name):
    """LLVM may rewrite no loop of a kernel of a product, nor one over k of its microkernels."""
    x, y, bias = sg.placeholder((200, 300)), sg.placeholder((300, 200)), sg.placeholder((200,))
    step = sg.compile([x, y, bias], sg.tanh(x @ y + bias), opt_level=1)
    module = emit_linkable(step.executable.program, target_named(name))
    text = module.text(module.kernels)
    indices = re.findall(r"%i\S* = phi i64 .*\[ (%\S+), %\S+ \]$", text, re.MULTILINE)
    assert len(indices) > 2
    hidden = set(re.findall(r'(%\S+) = call i64 asm "", "=r,0"', text))
    assert hidden.issuperset(indices)
    leaves = module.text_of_leaves(module.leaves)
    steps = re.findall(r"%step\S* = phi i64 .*\[ (%\S+), %\S+ \]$", leaves, re.MULTILINE)
    hidden = set(re.findall(r'(%\S+) = call i64 asm "", "=r,0"', leaves))
    assert hidden.issuperset(steps)
    # Those of x86-64 are assembly, which LLVM does not look into.
    assert bool(steps) is (name == "aarch64")
    assert ("addq $$" in leaves) is (name != "aarch64")
