"""floor, ceil, round, trunc: an instruction where there is one, and exact arithmetic where not.

Without SSE4.1 the intrinsics would become calls of the C library. There, adding and subtracting
2**digits rounds a smaller number to the nearest integer, ties to even, and larger ones are
integers already. The next float, which rounds nothing, is next door.
"""

from __future__ import annotations

from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.values import Real, call_intrinsic


def _intrinsic(f: Floats, name: str, x: Real) -> Real:
    return f.real(call_intrinsic(f.builder, name, [f.type], [x.value], f.type))


def _has_instruction(f: Floats) -> bool:
    # Every target that fuses has it too. x86-64-v2 has it and does not fuse; it takes the long
    # way, which is right there as well.
    return f.target.has_fma


def emit_round(f: Floats, x: Real) -> Real:
    """Return the nearest integer, ties to even; keeps the sign of zero."""
    if _has_instruction(f):
        return _intrinsic(f, "llvm.roundeven", x)
    size = f.absolute(x)
    limit = 2.0**f.digits
    rounded = (size < limit).choose((size + limit) - limit, x)
    return f.copy_sign(rounded, x)


def emit_floor(f: Floats, x: Real) -> Real:
    """Return the greatest integer not above x."""
    if _has_instruction(f):
        return _intrinsic(f, "llvm.floor", x)
    nearest = emit_round(f, x)
    return f.copy_sign((nearest > x).choose(nearest - 1.0, nearest), x)


def emit_ceil(f: Floats, x: Real) -> Real:
    """Return the least integer not below x."""
    if _has_instruction(f):
        return _intrinsic(f, "llvm.ceil", x)
    nearest = emit_round(f, x)
    return f.copy_sign((nearest < x).choose(nearest + 1.0, nearest), x)


def emit_trunc(f: Floats, x: Real) -> Real:
    """Return the integer next to x towards 0."""
    if _has_instruction(f):
        return _intrinsic(f, "llvm.trunc", x)
    size = f.absolute(x)
    nearest = emit_round(f, size)
    return f.copy_sign((nearest > size).choose(nearest - 1.0, nearest), x)


def emit_nextafter(f: Floats, x: Real, y: Real) -> Real:
    """Return the float next to x in the direction of y, y where they are equal.

    Floats of one sign are in the order of their bits.
    """
    bits = f.bits(x)
    is_outward = (x < y) ^ (x < 0.0)
    moved = f.from_bits(is_outward.choose(bits + 1, bits - 1))
    least = f.copy_sign(f.from_bits(f.word(1)), y)
    moved = x.equals(0.0).choose(least, moved)
    moved = x.equals(y).choose(y, moved)
    return (x.is_nan() | y.is_nan()).choose(f.const(float("nan")), moved)
