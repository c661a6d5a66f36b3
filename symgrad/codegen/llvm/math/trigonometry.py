"""sin and cos: the angle modulo pi/2, then one of two polynomials, with a sign.

float32 is reduced in float64, where its multiples of pi/2 cost no care, and evaluated in float32.
"""

from __future__ import annotations

from symgrad.codegen.llvm.math import coefficients as table
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.reduction import Angle, reduce_angle
from symgrad.codegen.llvm.math.values import Real, Word


def _reduce(f: Floats, x: Real) -> Angle:
    if not f.is_single:
        return reduce_angle(f, x)
    angle = reduce_angle(f.widened(), f.widen(x))
    quadrant = Word(f.builder, f.builder.trunc(angle.quadrant.value, f.word_type))
    return Angle(f.narrow(angle.rest), f.const(0.0), quadrant)


def _evaluate(f: Floats, angle: Angle, quadrant: Word) -> Real:
    """Return the sine of quadrant * pi/2 + the rest of `angle`."""
    r, short = angle.rest, f.dtype.short
    z = r * r
    sine = f.mul_add(r * z, f.polynomial(z, table.SIN[short]), angle.low) + r
    # 1 - z/2 rounds; what it loses is added back (FreeBSD's msun, k_cos.c).
    half = z * 0.5
    near_one = 1.0 - half
    lost = (1.0 - near_one) - half
    tail = f.mul_add(z * z, f.polynomial(z, table.COS[short]), lost - r * angle.low)
    cosine = near_one + tail
    value = (quadrant & 1).equals(0).choose(sine, cosine)
    return f.from_bits(f.bits(value) ^ ((quadrant & 2) << (f.dtype.bits - 2)))


def emit_sin(f: Floats, x: Real) -> Real:
    """Return the sine of any float within 1.25 ulp (2 in float32); nan for infinities."""
    angle = _reduce(f, x)
    result = _evaluate(f, angle, angle.quadrant)
    # So small that sin(x) rounds to x; keeps -0.0.
    return (f.absolute(x) < 2.0**-27).choose(x, result)


def emit_cos(f: Floats, x: Real) -> Real:
    """Return the cosine of any float within 1.25 ulp (2 in float32); nan for infinities."""
    angle = _reduce(f, x)
    return _evaluate(f, angle, angle.quadrant + 1)
