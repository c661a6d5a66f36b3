"""Table lookup in a register: the element of each lane, by an instruction that permutes lanes.

Each lane has what a vector of another width would give it: fewer lanes are those of a register that
is not full.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import declare
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.values import Real, Word
from symgrad.codegen.vectors import joined, part_of, shuffled

_I32 = ir.IntType(32)
_SINGLES = 16  # that fill a register


def has_lookup(f: Floats) -> bool:
    """Return whether an element of a table of 16 is found by an instruction in each lane."""
    return f.is_single and f.target.table_bytes >= _SINGLES * f.dtype.itemsize


def looked_up(f: Floats, table: Sequence[float], places: Word) -> Real:
    """Return the element of `table`, 16 numbers, that the last four bits of each place tell."""
    assert len(table) == _SINGLES, "a register is permuted"
    builder, order = f.builder, places.value
    if f.width >= _SINGLES:
        parts = [part_of(builder, order, at, _SINGLES) for at in range(0, f.width, _SINGLES)]
        return f.real(joined(builder, [_permuted(builder, table, p) for p in parts], _SINGLES))
    if f.width == 1:
        nothing = ir.Constant(ir.VectorType(_I32, _SINGLES), ir.Undefined)
        wide = _permuted(builder, table, builder.insert_element(nothing, order, _I32(0)))
        return f.real(builder.extract_element(wide, _I32(0)))
    wide = shuffled(builder, [order], [min(lane, f.width - 1) for lane in range(_SINGLES)])
    return f.real(part_of(builder, _permuted(builder, table, wide), 0, f.width))


def _permuted(builder: ir.IRBuilder, table: Sequence[float], order: ir.Value) -> ir.Value:
    kind = ir.VectorType(ir.FloatType(), _SINGLES)
    name = "llvm.x86.avx512.permvar.sf.512"
    permute = declare(builder.module, name, kind, [kind, order.type])
    return builder.call(permute, [ir.Constant(kind, list(table)), order])
