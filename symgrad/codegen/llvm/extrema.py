"""Minimum and maximum of floats: the first argument if it wins or is nan, else the second.

x86 has an instruction for `a < b ? a : b`, which gives b where either is nan. LLVM knows it as a
comparison and a selection, and joins these with the selection of what is nan to two comparisons, an
`or` and a move; the intrinsic keeps it the one instruction.
"""

from __future__ import annotations

from typing import Literal

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import declare
from symgrad.codegen.target import Target
from symgrad.codegen.vectors import joined, part_of, shuffled

Extremum = Literal["min", "max"]
RELATIONS: dict[Extremum, str] = {"min": "<", "max": ">"}  # of the first argument, where it wins

_I32 = ir.IntType(32)
_PRESENT_ROUNDING = _I32(4)  # that of the control register; nothing is rounded
_LEAST_BITS = 128  # of a register
_NAMES = {128: ("sse", ""), 256: ("avx", ".256"), 512: ("avx512", ".512")}


def emit_float_extremum(
    builder: ir.IRBuilder, target: Target, name: Extremum, a: ir.Value, b: ir.Value
) -> ir.Value:
    """Emit the minimum or maximum of floats or of vectors of them."""
    width = a.type.count if isinstance(a.type, ir.VectorType) else 1
    if not target.selects_floats or width & (width - 1):
        return _or_nan(builder, a, _chosen(builder, name, a, b))
    element = a.type.element if isinstance(a.type, ir.VectorType) else a.type
    size = 64 if element.text == "double" else 32
    least = _LEAST_BITS // size
    if width < least:
        wide = emit_float_extremum(
            builder, target, name, _padded(builder, a, least), _padded(builder, b, least)
        )
        return part_of(builder, wide, 0, width)
    lanes = min(width, 8 * target.vector_bytes // size)
    parts = []
    for at in range(0, width, lanes):
        left, right = (part_of(builder, v, at, lanes) for v in (a, b))
        parts.append(_or_nan(builder, left, _at_once(builder, name, left, right)))
    return joined(builder, parts, lanes)


def _or_nan(builder: ir.IRBuilder, a: ir.Value, found: ir.Value) -> ir.Value:
    return builder.select(builder.fcmp_ordered("ord", a, a), found, a)


def _chosen(builder: ir.IRBuilder, name: Extremum, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.fcmp_ordered(RELATIONS[name], a, b), a, b)


def _at_once(builder: ir.IRBuilder, name: Extremum, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit the instruction, for vectors that fill a register."""
    is_double = a.type.element.text == "double"
    bits = a.type.count * (64 if is_double else 32)
    extension, suffix = _NAMES[bits]
    if bits == 128 and is_double:
        extension = "sse2"
    full = f"llvm.x86.{extension}.{name}.{'pd' if is_double else 'ps'}{suffix}"
    args = [a, b, *([_PRESENT_ROUNDING] if bits == 512 else [])]
    return builder.call(declare(builder.module, full, a.type, [arg.type for arg in args]), args)


def _padded(builder: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """Return a vector that begins with a value, whatever is behind it."""
    if not isinstance(value.type, ir.VectorType):
        nothing = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
        return builder.insert_element(nothing, value, _I32(0))
    width = value.type.count
    return shuffled(builder, [value], [lane % width for lane in range(lanes)])
