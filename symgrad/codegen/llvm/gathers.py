"""Gathers in LLVM IR: a vector of elements that lie apart, loaded by one instruction where it can.

Where a target has none, LLVM loads and inserts them one by one, and so does code here where that
takes less time. A table of few elements is in one register or two, whose lanes are permuted
instead, since a gather loads each lane on its own. What an index is, is in `expressions.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import declare
from symgrad.codegen.llvm.lanes import Lanes, memory_type
from symgrad.codegen.llvm.math.values import type_suffix
from symgrad.codegen.target import Target
from symgrad.codegen.vectors import elements_of, gathered, vector_type
from symgrad.graph.dtypes import DType

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_WORD = 8  # bytes
# By the bytes of an element: the permutation of one register and of two, and what they permute.
_PERMUTED = {
    4: ("permvar.sf", "vpermi2var.ps", ir.FloatType()),
    8: ("permvar.df", "vpermi2var.pd", ir.DoubleType()),
}
SMALLEST_GATHERED = 4  # bytes of an element: a gather takes four or eight


def emit_lookup(
    lanes: Lanes, target: Target, start: ir.Value, count: int, places: ir.Value, dtype: DType
) -> ir.Value | None:
    """Return the element of each lane of a table of `count` elements, None if that is in memory."""
    builder, size = lanes.builder, dtype.itemsize
    is_whole = lanes.width * size == target.vector_bytes
    if size not in _PERMUTED or not is_whole or count * size > target.table_bytes:
        return None
    one, two, element = _PERMUTED[size]
    kind, floats = (ir.VectorType(e, lanes.width) for e in (memory_type(dtype), element))
    loaded = []
    for done in range(0, count, lanes.width):
        place = builder.gep(start, [_I64(done)], inbounds=True, source_etype=kind.element)
        loaded.append(_loaded(lanes, place, min(lanes.width, count - done), kind, size))
    first, *rest = [builder.bitcast(register, floats) for register in loaded]
    order = places if size == _WORD else builder.trunc(places, ir.VectorType(_I32, lanes.width))
    operands, name = [first, order, *rest], f"llvm.x86.avx512.{two if rest else one}.512"
    permute = declare(builder.module, name, floats, [operand.type for operand in operands])
    return builder.bitcast(builder.call(permute, operands), kind)


def emit_gather(lanes: Lanes, start: ir.Value, places: ir.Value, dtype: DType) -> ir.Value:
    """Load the element of each lane, so many behind `start`."""
    builder, kind = lanes.builder, memory_type(dtype)
    if lanes.width > 1 and lanes.target.gathers_slowly:
        return emit_one_by_one(lanes, start, elements_of(builder, places), dtype)
    pointer = builder.gep(start, [places], inbounds=True, source_etype=kind)
    if lanes.width == 1:
        return lanes.load(pointer, dtype, dtype.itemsize)
    loaded = vector_type(kind, lanes.width)
    name = f"llvm.masked.gather.{type_suffix(loaded)}.v{lanes.width}p0"
    everywhere = ir.Constant(ir.VectorType(ir.IntType(1), lanes.width), 1)
    nothing = ir.Constant(loaded, None)
    gather = declare(builder.module, name, loaded, [pointer.type, everywhere.type, nothing.type])
    return builder.call(gather, [pointer, everywhere, nothing])


def emit_one_by_one(
    lanes: Lanes, start: ir.Value, places: Sequence[ir.Value], dtype: DType
) -> ir.Value:
    """Load the element of each lane by an instruction of its own."""
    builder, kind, loaded = lanes.builder, memory_type(dtype), []
    for place in places:
        pointer = builder.gep(start, [place], inbounds=True, source_etype=kind)
        loaded.append(builder.load(pointer, align=dtype.itemsize, typ=kind))
    return gathered(builder, loaded)


def _loaded(lanes: Lanes, start: ir.Value, count: int, kind: ir.VectorType, size: int) -> ir.Value:
    """Load `count` elements of so many bytes into a register, and nothing behind them."""
    if count == lanes.width:
        return lanes.builder.load(start, align=size, typ=kind)
    has = ir.Constant(
        ir.VectorType(ir.IntType(1), lanes.width), [lane < count for lane in range(lanes.width)]
    )
    name = f"llvm.masked.load.{type_suffix(kind)}.p0"
    load = declare(lanes.builder.module, name, kind, [start.type, has.type, kind])
    return lanes.builder.call(load, [start, has, ir.Constant(kind, None)])
