"""Table lookup in registers: the element of each lane, by instructions that permute lanes or bytes.

A table has 16 words. Each lane has the same element on every target, whatever looks it up there,
and in vectors of every width: fewer lanes are those of a register that is not full.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import declare
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.values import Real, Word
from symgrad.codegen.vectors import joined, part_of, shuffled, splat

_FLOAT, _I8, _I32 = ir.FloatType(), ir.IntType(8), ir.IntType(32)
_SINGLES = 16  # of a table
_LANES = {"register": 16, "halves": 8, "bytes": 4}


def has_lookup(f: Floats) -> bool:
    """Return whether each lane finds an element of a table of 16 by a few instructions."""
    return f.is_single and f.target.word_lookup is not None


def looked_up(f: Floats, table: Sequence[float], places: Word) -> Real:
    """Return the element of `table`, 16 numbers, that the last four bits of each place tell."""
    assert len(table) == _SINGLES, "its places have four bits"
    how = f.target.word_lookup
    assert how is not None, "the target has a lookup"
    builder, order, lanes = f.builder, places.value, _LANES[how]
    found = {"register": _in_register, "halves": _in_halves, "bytes": _by_bytes}[how]
    if f.width >= lanes:
        parts = [part_of(builder, order, at, lanes) for at in range(0, f.width, lanes)]
        return f.real(joined(builder, [found(builder, table, p) for p in parts], lanes))
    if f.width == 1:
        nothing = ir.Constant(ir.VectorType(_I32, lanes), ir.Undefined)
        wide = found(builder, table, builder.insert_element(nothing, order, _I32(0)))
        return f.real(builder.extract_element(wide, _I32(0)))
    wide = shuffled(builder, [order], [min(lane, f.width - 1) for lane in range(lanes)])
    return f.real(part_of(builder, found(builder, table, wide), 0, f.width))


def _in_register(builder: ir.IRBuilder, table: Sequence[float], order: ir.Value) -> ir.Value:
    return _permuted(builder, table, order, "llvm.x86.avx512.permvar.sf.512")


def _in_halves(builder: ir.IRBuilder, table: Sequence[float], order: ir.Value) -> ir.Value:
    """Return elements of either half, as the fourth bit says, which is moved to where a sign is."""
    half = _SINGLES // 2
    halves = (table[:half], table[half:])
    low, high = (_permuted(builder, part, order, "llvm.x86.avx2.permps") for part in halves)
    sign = builder.shl(order, splat(builder, _I32(28), half))
    kind = ir.VectorType(_FLOAT, half)
    chosen = declare(builder.module, "llvm.x86.avx.blendv.ps.256", kind, [kind] * 3)
    return builder.call(chosen, [low, high, builder.bitcast(sign, kind)])


def _permuted(
    builder: ir.IRBuilder, table: Sequence[float], order: ir.Value, name: str
) -> ir.Value:
    kind = ir.VectorType(_FLOAT, len(table))
    permute = declare(builder.module, name, kind, [kind, order.type])
    return builder.call(permute, [ir.Constant(kind, list(table)), order])


def _by_bytes(builder: ir.IRBuilder, table: Sequence[float], order: ir.Value) -> ir.Value:
    """Return elements whose four bytes are looked up one by one, in four registers."""
    lanes, kind = 4, ir.VectorType(_I8, 16)
    place = builder.and_(order, splat(builder, _I32(_SINGLES - 1), lanes))
    first = builder.mul(place, splat(builder, _I32(0x04040404), lanes))
    each = builder.add(first, splat(builder, _I32(0x03020100), lanes))
    singles = ir.VectorType(_FLOAT, lanes)
    registers = [
        builder.bitcast(ir.Constant(singles, list(table[at : at + lanes])), kind)
        for at in range(0, _SINGLES, lanes)
    ]
    look_up = declare(builder.module, "llvm.aarch64.neon.tbl4.v16i8", kind, [kind] * 5)
    return builder.bitcast(
        builder.call(look_up, [*registers, builder.bitcast(each, kind)]), singles
    )
