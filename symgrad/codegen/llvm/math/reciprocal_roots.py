"""Reciprocal square roots: of a guess where the target has one, without a root or a division.

AVX-512's has 14 bits, and a few terms of a series the others, in less time than it takes to divide
by a root; and such series of other numbers go on beside it. Each lane has the bits that a vector of
another width would give it.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import declare
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.values import Real
from symgrad.codegen.vectors import joined, part_of

_I32 = ir.IntType(32)
_LEAST_BITS = 128  # of a register


def emit_rsqrt(f: Floats, x: Real) -> Real:
    """Return 1 / sqrt(x) within 1.5 ulp."""
    if not f.target.guesses_roots:
        return f.const(1.0) / f.sqrt(x)
    guess = f.real(_guesses(f, x.value))
    # The guess divided by sqrt(1 - rest): 1 + rest / 2 + 3 rest ** 2 / 8 and so on, of 2 ** -13.
    rest = f.mul_add(-(x * guess), guess, 1.0)
    series = f.mul_add(rest, 3 / 8, 0.5)
    if not f.is_single:
        series = f.mul_add(rest * rest, f.mul_add(rest, 35 / 128, 5 / 16), series)
    root = f.mul_add(guess * rest, series, guess)
    is_end = x.equals(0.0) | x.equals(float("inf"))
    return is_end.choose(guess, root)


def _guesses(f: Floats, x: ir.Value) -> ir.Value:
    """Return 14 bits of each reciprocal square root."""
    builder, least = f.builder, _LEAST_BITS // f.dtype.bits
    if f.width >= least:
        lanes = min(f.width, f.target.lanes(f.dtype.itemsize))
        parts = [part_of(builder, x, at, lanes) for at in range(0, f.width, lanes)]
        return joined(builder, [_guess(f, part) for part in parts], lanes)
    scalar = ir.FloatType() if f.is_single else ir.DoubleType()
    wide: ir.Value = ir.Constant(ir.VectorType(scalar, least), None)
    for lane in range(f.width):
        element = x if f.width == 1 else builder.extract_element(x, _I32(lane))
        wide = builder.insert_element(wide, element, _I32(lane))
    wide = _guess(f, wide)
    if f.width == 1:
        return builder.extract_element(wide, _I32(0))
    return part_of(builder, wide, 0, f.width)


def _guess(f: Floats, x: ir.Value) -> ir.Value:
    """Guess of a vector that fills a register."""
    kind = x.type
    name = f"llvm.x86.avx512.rsqrt14.{'ps' if f.is_single else 'pd'}.{kind.count * f.dtype.bits}"
    mask = ir.IntType(max(8, kind.count))
    args = [x, ir.Constant(kind, None), ir.Constant(mask, -1)]
    return f.builder.call(declare(f.builder.module, name, kind, [arg.type for arg in args]), args)
