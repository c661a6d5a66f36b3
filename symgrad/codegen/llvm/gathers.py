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
from symgrad.codegen.vectors import elements_of, gathered, joined, part_of, shuffled, vector_type
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
    """Return the element of each lane of a table of `count` elements, None if that is in memory.

    Several registers of lanes are looked up in one table, and half a register as a whole one.
    """
    builder, size = lanes.builder, dtype.itemsize
    width = target.vector_bytes // size
    if size not in _PERMUTED or 2 * lanes.width < width or count * size > target.table_bytes:
        return None
    table = _table(lanes, start, count, ir.VectorType(memory_type(dtype), width), size)
    order = places if size == _WORD else builder.trunc(places, ir.VectorType(_I32, lanes.width))
    starts = range(0, lanes.width, width)
    wanted = [[(s + lane) % lanes.width for lane in range(width)] for s in starts]
    orders = [shuffled(builder, [order], one) for one in wanted]
    found = joined(builder, [_permuted(builder, table, one, size) for one in orders], width)
    found = builder.bitcast(found, ir.VectorType(memory_type(dtype), len(starts) * width))
    return found if lanes.width >= width else part_of(builder, found, 0, lanes.width)


def _table(
    lanes: Lanes, start: ir.Value, count: int, kind: ir.VectorType, size: int
) -> list[ir.Value]:
    """Load a table of `count` elements into registers, of floats."""
    floats = ir.VectorType(_PERMUTED[size][2], kind.count)
    loaded = []
    for done in range(0, count, kind.count):
        place = lanes.builder.gep(start, [_I64(done)], inbounds=True, source_etype=kind.element)
        register = _loaded(lanes, place, min(kind.count, count - done), kind, size)
        loaded.append(lanes.builder.bitcast(register, floats))
    return loaded


def _permuted(
    builder: ir.IRBuilder, table: Sequence[ir.Value], order: ir.Value, size: int
) -> ir.Value:
    one, two, _ = _PERMUTED[size]
    (first, *rest), operands = table, [table[0], order, *table[1:]]
    name = f"llvm.x86.avx512.{two if rest else one}.512"
    permute = declare(builder.module, name, first.type, [operand.type for operand in operands])
    return builder.call(permute, operands)


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
    if count == kind.count:
        return lanes.builder.load(start, align=size, typ=kind)
    has = ir.Constant(
        ir.VectorType(ir.IntType(1), kind.count), [lane < count for lane in range(kind.count)]
    )
    name = f"llvm.masked.load.{type_suffix(kind)}.p0"
    load = declare(lanes.builder.module, name, kind, [start.type, has.type, kind])
    return lanes.builder.call(load, [start, has, ir.Constant(kind, None)])
