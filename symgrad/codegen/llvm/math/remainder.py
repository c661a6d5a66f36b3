"""mod, fmod and floordiv of floats, exactly as NumPy's `remainder`, `fmod` and `floor_divide`.

All rest on the exact remainder of C's fmod. Where the quotient has fewer bits than a
significand, one division and an error-free product give it; vectors with a larger quotient
branch to long division in integers, a lane at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.internal import call_internal
from symgrad.codegen.llvm.math.rounding import emit_floor, emit_trunc
from symgrad.codegen.llvm.math.values import LaneMask, Real, Word, any_lane

_I64 = ir.IntType(64)


def emit_mod(f: Floats, a: Real, b: Real) -> Real:
    """Return the remainder with the sign of b, exact but where fmod(a, b) + b has to be rounded."""
    remainder = emit_fmod(f, a, b)
    moved = _has_other_sign(remainder, b).choose(remainder + b, remainder)
    return remainder.equals(0.0).choose(f.copy_sign(remainder, b), moved)


def emit_floordiv(f: Floats, a: Real, b: Real) -> Real:
    """Return floor(a / b) of the exact quotient as a float; a / b where b is 0."""
    remainder = emit_fmod(f, a, b)
    quotient = (a - remainder) / b
    quotient = _has_other_sign(remainder, b).choose(quotient - 1.0, quotient)
    # The quotient is an integer but for its rounding: floor may be one too low.
    floor = emit_floor(f, quotient)
    floor = (quotient - floor > 0.5).choose(floor + 1.0, floor)
    plain = a / b
    floor = quotient.equals(0.0).choose(f.copy_sign(f.const(0.0), plain), floor)
    return b.equals(0.0).choose(plain, floor)


def _has_other_sign(remainder: Real, b: Real) -> LaneMask:
    return ((b < 0.0) ^ (remainder < 0.0)) & ~remainder.equals(0.0)


def emit_fmod(f: Floats, a: Real, b: Real) -> Real:
    """Return a - trunc(a / b) * b exactly, with the sign of a."""
    builder = f.builder
    size, divisor = f.absolute(a), f.absolute(b)
    quotient = size / divisor
    near = _short_remainder(f, size, divisor, quotient)
    is_long = (quotient >= 2.0 ** (f.digits - 1)) & (size < float("inf")) & (divisor > 0.0)
    before = builder.block
    far_block = builder.append_basic_block("long")
    after = builder.append_basic_block("divided")
    builder.cbranch(any_lane(builder, is_long.value), far_block, after)
    builder.position_at_end(far_block)
    far = is_long.choose(_long_remainder(f, size, divisor, is_long), near)
    builder.branch(after)
    builder.position_at_end(after)
    phi = builder.phi(f.type)
    phi.add_incoming(near.value, before)
    phi.add_incoming(far.value, far_block)
    return f.copy_sign(f.real(phi), a)


def _short_remainder(f: Floats, size: Real, divisor: Real, quotient: Real) -> Real:
    """Return the remainder of a quotient below 2**(digits - 1), which may be rounded up by one."""
    q = emit_trunc(f, quotient)
    if f.target.has_fma:
        remainder = f.mul_add(-q, divisor, size)
    else:
        # Splitting would overflow close to the largest number; the divisor is then large too.
        is_huge = size >= 2.0 ** (f.bias - 30)
        down = is_huge.choose(f.const(2.0**-60), f.const(1.0))
        up = is_huge.choose(f.const(2.0**60), f.const(1.0))
        product, error = f.two_product(q, divisor * down)
        remainder = ((size * down - product) - error) * up
    remainder = (remainder < 0.0).choose(remainder + divisor, remainder)
    # Also where the divisor is infinite.
    return (size < divisor).choose(size, remainder)


def _long_remainder(f: Floats, size: Real, divisor: Real, is_long: LaneMask) -> Real:
    one = f.const(1.0)
    args = [is_long.choose(size, one).value, is_long.choose(divisor, one).value]

    def body(inside: ir.IRBuilder, params: Sequence[ir.Value]) -> ir.Value:
        return _lane_by_lane(Floats(inside, f.target, f.width, f.dtype), params)

    return f.real(
        call_internal(f.builder, "fmod_long_lanes", args, f.type, body, inline=False, is_cold=True)
    )


def _lane_by_lane(f: Floats, args: Sequence[ir.Value]) -> ir.Value:
    builder = f.builder

    def body(inside: ir.IRBuilder, params: Sequence[ir.Value]) -> ir.Value:
        scalars = Floats(inside, f.target, 1, f.dtype)
        return _divide_long(scalars, *map(scalars.real, params)).value

    def divide_one(lane: Sequence[ir.Value]) -> ir.Value:
        return call_internal(
            builder, "fmod_long", lane, lane[0].type, body, inline=False, is_cold=True
        )

    if f.width == 1:
        return divide_one(args)
    result: ir.Value = ir.Constant(f.type, ir.Undefined)
    for lane in range(f.width):
        index = ir.Constant(ir.IntType(32), lane)
        remainder = divide_one([builder.extract_element(arg, index) for arg in args])
        result = builder.insert_element(result, remainder, index)
    return result


def _integer_parts(f: Floats, x: Real) -> tuple[Word, Word]:
    """Return m and e with x = m * 2**(e - bias - digits) for positive finite x, as 64 bits."""
    builder = f.builder
    bits = f.bits(x)
    field, fraction = bits >> f.digits, bits & ((1 << f.digits) - 1)
    is_subnormal = field.equals(0)
    m = is_subnormal.choose(fraction, fraction | (1 << f.digits))
    e = is_subnormal.choose(f.word(1), field)
    if not f.is_single:
        return m, e
    return Word(builder, builder.zext(m.value, _I64)), Word(builder, builder.zext(e.value, _I64))


def _divide_long(f: Floats, a: Real, b: Real) -> Real:
    """Return the remainder of positive a >= b by division of as many bits at a time as fit."""
    builder = f.builder
    dividend, exponent = _integer_parts(f, a)
    divisor, last_exponent = _integer_parts(f, b)
    first = Word(builder, builder.urem(dividend.value, divisor.value))
    distance = exponent - last_exponent
    entry = builder.block
    check, step, done = (builder.append_basic_block(name) for name in ("check", "step", "done"))
    builder.branch(check)
    builder.position_at_end(check)
    phis = [builder.phi(_I64) for _ in range(2)]
    rest, left = (Word(builder, phi) for phi in phis)
    builder.cbranch(left.above(0).value, step, done)
    builder.position_at_end(step)
    most = Word(builder, ir.Constant(_I64, 63 - f.digits))
    shift = left.above(most).choose(most, left)
    following = Word(builder, builder.urem((rest << shift).value, divisor.value))
    still_left = left - shift
    builder.branch(check)
    for phi, start, after in zip(phis, (first, distance), (following, still_left), strict=True):
        phi.add_incoming(start.value, entry)
        phi.add_incoming(after.value, step)
    builder.position_at_end(done)
    power = last_exponent - (f.bias + f.digits)
    if f.is_single:
        power = Word(builder, builder.trunc(power.value, f.word_type))
    return f.scale(f.real(builder.sitofp(rest.value, f.type)), power)
