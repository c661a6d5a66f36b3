"""Division, remainder and power of integers, with Python's signs and without traps.

The least signed integer over -1 wraps around and anything over 0 gives 0: both would trap in the
machine's division, so it never sees those divisors.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.math.internal import call_internal
from symgrad.codegen.llvm.math.values import LaneMask, Word, any_lane
from symgrad.codegen.vectors import vector_type


def _divide(a: Word, b: Word, is_signed: bool) -> Word:
    """Return a / b truncated; b is neither 0 nor, if signed, -1."""
    builder, kind = a.builder, a.value.type
    is_vector = isinstance(kind, ir.VectorType)
    bits = kind.element.width if is_vector else kind.width
    if not is_vector or bits > 32 or isinstance(b.value, ir.Constant):
        divide = builder.sdiv if is_signed else builder.udiv
        return Word(builder, divide(a.value, b.value))
    # Machines divide vectors of floats only. With twice the bits, a rounded quotient cannot reach
    # the next integer: that is at least 1 / |b| away.
    wide = vector_type(ir.FloatType() if bits <= 8 else ir.DoubleType(), kind.count)
    widen, narrow = (
        (builder.sitofp, builder.fptosi) if is_signed else (builder.uitofp, builder.fptoui)
    )
    return Word(builder, narrow(builder.fdiv(widen(a.value, wide), widen(b.value, wide)), kind))


def _safe_divisor(b: Word, is_signed: bool) -> Word:
    one = Word(b.builder, ir.Constant(b.value.type, 1))
    # 1 for 0 and -1: 0 and -1 are what is below 1 unsigned after adding 1.
    traps = (b + 1).above(1) if is_signed else b.above(0)
    return traps.choose(b, one)


def _needs_step(remainder: Word, b: Word) -> LaneMask:
    """Return where truncation and floor differ: the remainder is not 0 and of the other sign."""
    return (remainder ^ b).less(0) & ~remainder.equals(0)


def emit_floordiv(a: Word, b: Word, is_signed: bool) -> Word:
    """Return floor(a / b); a // 0 is 0."""
    zero = Word(b.builder, ir.Constant(b.value.type, 0))
    safe = _safe_divisor(b, is_signed)
    quotient = _divide(a, safe, is_signed)
    if is_signed:
        step = _needs_step(a - quotient * safe, safe)
        quotient = step.choose(quotient - 1, quotient)
        quotient = b.equals(-1).choose(zero - a, quotient)
    return b.equals(0).choose(zero, quotient)


def emit_mod(a: Word, b: Word, is_signed: bool) -> Word:
    """Return a - floor(a / b) * b; a % 0 is 0."""
    safe = _safe_divisor(b, is_signed)
    remainder = a - _divide(a, safe, is_signed) * safe
    if not is_signed:
        return remainder
    return _needs_step(remainder, safe).choose(remainder + safe, remainder)


def emit_fmod(a: Word, b: Word, is_signed: bool) -> Word:
    """Return a - trunc(a / b) * b, with the sign of a; it is 0 where b is 0."""
    safe = _safe_divisor(b, is_signed)
    return a - _divide(a, safe, is_signed) * safe


def emit_pow(a: Word, b: Word, is_signed: bool, inline: bool) -> Word:
    """Return a**b by squaring, wrapping; a negative power gives 0 but for a = 1 and a = -1."""

    def body(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
        base, exponent = (Word(builder, arg) for arg in args)
        return _emit_power_loop(builder, base, exponent, is_signed).value

    name = "powi" if is_signed else "powu"
    args = [a.value, b.value]
    kind = a.value.type
    return Word(a.builder, call_internal(a.builder, name, args, kind, body, inline=inline))


def _emit_power_loop(builder: ir.IRBuilder, a: Word, b: Word, is_signed: bool) -> Word:
    kind = a.value.type
    zero, one, minus_one = (Word(builder, ir.Constant(kind, n)) for n in (0, 1, -1))
    left_at_first = b.less(0).choose(zero, b) if is_signed else b
    entry = builder.block
    loop, after = builder.append_basic_block("loop"), builder.append_basic_block("after")
    builder.branch(loop)
    builder.position_at_end(loop)
    phis = [builder.phi(kind) for _ in range(3)]
    result, base, left = (Word(builder, phi) for phi in phis)
    product = (left & 1).equals(1).choose(result * base, result)
    square, rest = base * base, left >> 1
    pairs = ((one, product), (a, square), (left_at_first, rest))
    for phi, (start, following) in zip(phis, pairs, strict=True):
        phi.add_incoming(start.value, entry)
        phi.add_incoming(following.value, loop)
    builder.cbranch(any_lane(builder, (~rest.equals(0)).value), loop, after)
    builder.position_at_end(after)
    if not is_signed:
        return product
    sign = (b & 1).equals(1).choose(minus_one, one)
    inverse = a.equals(-1).choose(sign, a.equals(1).choose(one, zero))
    return b.less(0).choose(inverse, product)
