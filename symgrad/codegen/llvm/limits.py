"""Roofline microbenchmarks: loops that reach the peak rate of arithmetic and of memory traffic.

flops(memory, vectors, times)     multiply-adds on registers alone, in as many chains as are counted
stream(memory, vectors, times)    reads a piece of memory, changes it and writes it back
"""

from __future__ import annotations

from collections.abc import Callable

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import (
    INDEX,
    POINTER,
    add_elements,
    counted_loop,
    index,
    multiply_add,
    scalar_type,
)
from symgrad.codegen.target import Target
from symgrad.cost_model import FLOPS_OF_MULTIPLY_ADD
from symgrad.graph.dtypes import DType

FLOPS, STREAM = "flops", "stream"

_Emit = Callable[[ir.IRBuilder, ir.LLVMFunction, DType, Target], None]


def emit_limits(dtype: DType, target: Target) -> ir.Module:
    """Emit both microbenchmarks for elements of `dtype`, a float that the target computes with."""
    module = ir.Module("limits")
    functions: tuple[tuple[str, _Emit], ...] = ((FLOPS, _emit_flops), (STREAM, _emit_stream))
    for name, emit in functions:
        kind = ir.FunctionType(ir.VoidType(), [POINTER, INDEX, INDEX])
        function = ir.LLVMFunction(module, kind, name)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        emit(builder, function, dtype, target)
        builder.ret_void()
    return module


def flops_of(dtype: DType, target: Target, times: int) -> int:
    """Return the operations of `flops(memory, vectors, times)`."""
    return FLOPS_OF_MULTIPLY_ADD * target.peak_chains * target.lanes(dtype.itemsize) * times


def _emit_flops(
    builder: ir.IRBuilder, function: ir.LLVMFunction, dtype: DType, target: Target
) -> None:
    memory, _, times = function.args
    vector = _vector(dtype, target)
    entry = builder.block
    loop, done = function.append_basic_block("loop"), function.append_basic_block("done")
    # Each chain begins with a vector of its own: LLVM merges chains that must be equal.
    begun = [
        builder.load(builder.gep(memory, [index(i)], source_etype=vector), typ=vector, align=64)
        for i in range(target.peak_chains)
    ]
    factor = begun[0]
    builder.branch(loop)
    builder.position_at_end(loop)
    turn = builder.phi(INDEX)
    totals = [builder.phi(vector) for _ in range(target.peak_chains)]
    added = [multiply_add(builder, dtype, factor, factor, total) for total in totals]
    following = builder.add(turn, index(1))
    turn.add_incoming(index(0), entry)
    turn.add_incoming(following, loop)
    for total, first, value in zip(totals, begun, added, strict=True):
        total.add_incoming(first, entry)
        total.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, times), loop, done)
    builder.position_at_end(done)
    result = added[0]
    for value in added[1:]:
        result = add_elements(builder, dtype, result, value)
    builder.store(result, memory, align=64)


def _emit_stream(
    builder: ir.IRBuilder, function: ir.LLVMFunction, dtype: DType, target: Target
) -> None:
    memory, vectors, times = function.args
    vector = _vector(dtype, target)
    added = builder.load(memory, typ=vector, align=64)
    with counted_loop(builder, index(0), times), counted_loop(builder, index(0), vectors) as i:
        place = builder.gep(memory, [i], source_etype=vector)
        changed = add_elements(builder, dtype, builder.load(place, typ=vector, align=64), added)
        builder.store(changed, place, align=64)


def _vector(dtype: DType, target: Target) -> ir.Type:
    return ir.VectorType(scalar_type(dtype), target.lanes(dtype.itemsize))
