"""Packers of products: shuffles that LLVM does not look through."""

import pytest

from symgrad.codegen import ir
from symgrad.codegen.contract.kernels.pack import as_they_are
from symgrad.codegen.target import target_named


def emitted_for(name: str, lanes: int) -> str:
    module = ir.Module()
    kind = ir.VectorType(ir.FloatType(), lanes)
    function = ir.LLVMFunction(module, ir.FunctionType(kind, [kind]), "f")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    (kept,) = as_they_are(builder, [function.args[0]], target_named(name))
    builder.ret(kept)
    return str(module)


@pytest.mark.parametrize(("name", "lanes"), [("x86-64-v3", 8), ("x86-64-v4", 16)])
def test_wide_vectors_are_hidden_from_the_search_for_shuffles(name, lanes):
    assert f'call <{lanes} x float> asm "", "=v,0"' in emitted_for(name, lanes)


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v4", "aarch64"])
def test_shuffles_of_short_vectors_are_searched_as_ever(name):
    assert "asm" not in emitted_for(name, 4)
