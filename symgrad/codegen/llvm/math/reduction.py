"""Argument reduction of angles by Cody and Waite's and by Payne and Hanek's method.

An angle becomes a multiple of pi/2 and a rest of at most pi/4, for every float64.

Below 2**20 by Cody and Waite's method with pi/2 in four parts. Above, the product with 2/pi needs
up to 1,200 of its bits, of which Payne and Hanek (1983) take the 192 that matter: integer
arithmetic on one lane at a time, in a branch for vectors that have such a lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from symgrad.codegen import ir
from symgrad.codegen.llvm.math import coefficients as table
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.internal import call_internal
from symgrad.codegen.llvm.math.values import LaneMask, Real, Word, any_lane, call_intrinsic
from symgrad.graph.dtypes import float64
from symgrad.records import dataclass

_LARGE = 2.0**20
_I64 = ir.IntType(64)
_I128 = ir.IntType(128)
_WORDS = "sg.two_over_pi"


@dataclass(frozen=True, slots=True)
class Angle:
    """x = quadrant * pi/2 + rest + low, where `low` is the rounding error of `rest`."""

    rest: Real
    low: Real
    quadrant: Word


def reduce_angle(f: Floats, x: Real) -> Angle:
    """Reduce `x`, float64. An infinity gives a rest of nan."""
    assert not f.is_single, "angles are reduced in float64"
    builder = f.builder
    near = _reduce_small(f, x)
    size = f.absolute(x)
    is_large = (size >= _LARGE) & (size < float("inf"))
    before = builder.block
    far_block = builder.append_basic_block("large")
    after = builder.append_basic_block("reduced")
    builder.cbranch(any_lane(builder, is_large.value), far_block, after)
    builder.position_at_end(far_block)
    far = _reduce_large_lanes(f, x, is_large, near)
    builder.branch(after)
    builder.position_at_end(after)
    merged = []
    for small, large in (
        (near.rest.value, far.rest.value),
        (near.low.value, far.low.value),
        (near.quadrant.value, far.quadrant.value),
    ):
        phi = builder.phi(small.type)
        phi.add_incoming(small, before)
        phi.add_incoming(large, far_block)
        merged.append(phi)
    return Angle(Real(builder, merged[0]), Real(builder, merged[1]), Word(builder, merged[2]))


def _reduce_small(f: Floats, x: Real) -> Angle:
    """Reduce |x| < 2**20: n * each of the first three parts of pi/2 is exact."""
    first, second, third, fourth = table.PIO2
    n, quadrant = f.nearest_multiple(x, table.TWO_OVER_PI)
    rest = f.mul_add(n, -first, x)
    rest, lost = f.two_sum(rest, n * -second)
    rest, lost_next = f.two_sum(rest, n * -third)
    low = f.mul_add(n, -fourth, lost + lost_next)
    rest, low = f.fast_two_sum(rest, low)
    return Angle(rest, low, quadrant)


def _reduce_large_lanes(f: Floats, x: Real, is_large: LaneMask, near: Angle) -> Angle:
    """Replace the lanes of `near` that are large."""
    builder = f.builder
    # The other lanes get some large number: for a small one the table would be read out of range.
    safe = is_large.choose(x, f.const(_LARGE))
    kinds = [near.rest.value.type, near.low.value.type, near.quadrant.value.type]

    def body(inside: ir.IRBuilder, params: Sequence[ir.Value]) -> ir.Value:
        return _lane_by_lane(Floats(inside, f.target, f.width, float64), params[0])

    result = ir.LiteralStructType(kinds)
    parts = call_internal(
        builder, "reduce_large_lanes", [safe.value], result, body, inline=False, is_cold=True
    )
    rest, low, quadrant = (builder.extract_value(parts, i) for i in range(3))
    return Angle(
        is_large.choose(Real(builder, rest), near.rest),
        is_large.choose(Real(builder, low), near.low),
        is_large.choose(Word(builder, quadrant), near.quadrant),
    )


def _lane_by_lane(f: Floats, x: ir.Value) -> ir.Value:
    """Return the struct of rest, low and quadrant of every lane."""
    builder = f.builder
    scalar = ir.LiteralStructType([ir.DoubleType(), ir.DoubleType(), _I64])

    def body(inside: ir.IRBuilder, params: Sequence[ir.Value]) -> ir.Value:
        return _reduce_large(Floats(inside, f.target, 1, float64), params[0])

    def reduce_one(lane: ir.Value) -> ir.Value:
        return call_internal(
            builder, "reduce_large", [lane], scalar, body, inline=False, is_cold=True
        )

    if f.width == 1:
        return reduce_one(x)
    kinds = (f.type, f.type, f.word_type)
    columns: list[ir.Value] = [ir.Constant(kind, ir.Undefined) for kind in kinds]
    for lane in range(f.width):
        index = ir.Constant(ir.IntType(32), lane)
        parts = reduce_one(builder.extract_element(x, index))
        columns = [
            builder.insert_element(column, builder.extract_value(parts, i), index)
            for i, column in enumerate(columns)
        ]
    struct: ir.Value = ir.Constant(ir.LiteralStructType(kinds), ir.Undefined)
    for i, column in enumerate(columns):
        struct = builder.insert_value(struct, column, i)
    return struct


def _table_word(builder: ir.IRBuilder, index: Word) -> Word:
    """Load a word of the bits of 2/pi."""
    words = table.TWO_OVER_PI_WORDS
    kind = ir.ArrayType(_I64, len(words))
    array = builder.module.globals.get(_WORDS)
    if array is None:
        array = ir.GlobalVariable(builder.module, kind, _WORDS)
        array.linkage = "internal"
        array.global_constant = True
        array.initializer = ir.Constant(kind, list(words))
    place = builder.gep(array, [index.value], source_etype=_I64)
    return Word(builder, builder.load(place, align=8, typ=_I64))


def _low_half(x: Word) -> Word:
    return Word(x.builder, x.builder.trunc(x.value, _I64))


def _wide(x: Word) -> Word:
    return Word(x.builder, x.builder.zext(x.value, _I128))


def _fraction(builder: ir.IRBuilder, bits: Word) -> tuple[Word, Word]:
    """Return |x| * 2/pi modulo 4 for the bits of a large x.

    The first word is the nearest integer, the second the signed rest in units of 2**-128.
    """
    # x = m * 2**e. Bits of 2/pi of weight 2**(1-e) and below make the product modulo 4: the
    # window begins there, e + 62 bits into the table.
    exponent = (bits >> 52) & 0x7FF
    m = _wide((bits & ((1 << 52) - 1)) | (1 << 52))
    start = exponent - (1075 - 62)
    word, shift = start >> 6, start & 63
    words = [_table_word(builder, word + i) for i in range(4)]
    window = [
        Word(
            builder,
            call_intrinsic(
                builder, "llvm.fshl", [_I64], [high.value, low.value, shift.value], _I64
            ),
        )
        for high, low in pairwise(words)
    ]
    # m * window modulo 2**192, in units of 2**-190; what the window cut off is below 2**-137.
    last = m * _wide(window[2])
    middle = m * _wide(window[1]) + (last >> 64)
    first = _low_half(m * _wide(window[0]) + (middle >> 64))
    middle, last = _low_half(middle), _low_half(last)
    upper = _wide((first << 2) | (middle >> 62)) << 64
    rest = upper | _wide((middle << 2) | (last >> 62))
    return (first >> 62) + ((first >> 61) & 1), rest


def _reduce_large(f: Floats, x: ir.Value) -> ir.Value:
    """Reduce one |x| >= 2**20; returns the struct of rest, low and quadrant."""
    builder = f.builder
    bits = f.bits(f.real(x))
    quadrant, rest = _fraction(builder, bits)
    zero_128 = Word(builder, ir.Constant(_I128, 0))
    is_below = rest.less(0)
    size = is_below.choose(zero_128 - rest, rest)
    false = ir.Constant(ir.IntType(1), 0)
    zeros = Word(builder, call_intrinsic(builder, "llvm.ctlz", [_I128], [size.value, false], _I128))
    size = size << zeros
    # The rest in two parts of 53 bits, as floats.
    digits = (1 << 53) - 1
    high, low = (
        f.real(builder.sitofp((_low_half(part) & digits).value, f.type))
        for part in (size >> 75, size >> 22)
    )
    unit = f.power_of_two(f.word(0) - _low_half(zeros))
    is_negative = Word(builder, builder.zext(is_below.value, _I64)) ^ (bits >> 63)
    unit = f.from_bits(f.bits(unit) | (is_negative << 63))
    high, low = high * 2.0**-53 * unit, low * 2.0**-106 * unit
    pio2_high, pio2_low = (f.const(part) for part in table.PIO2_PAIR["f64"])
    product, error = f.two_product(high, pio2_high)
    error = f.mul_add(high, pio2_low, f.mul_add(low, pio2_high, error))
    product, error = f.fast_two_sum(product, error)
    zero = f.word(0)
    quadrant = (bits >> 63).equals(0).choose(quadrant, zero - quadrant)
    kind = ir.LiteralStructType([f.type, f.type, _I64])
    struct: ir.Value = ir.Constant(kind, ir.Undefined)
    for i, part in enumerate((product.value, error.value, quadrant.value)):
        struct = builder.insert_value(struct, part, i)
    return struct
