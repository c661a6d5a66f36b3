"""sin, cos and tan: the angle modulo pi/2, then one of two polynomials, with a sign.

sinpi and cospi are those of multiples of pi, whose reduction is exact.
float32 is reduced in float64, where its multiples of pi/2 cost no care, and evaluated in float32.
"""

from __future__ import annotations

from symgrad.codegen.llvm.math import coefficients as table
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.reduction import Angle, reduce_angle
from symgrad.codegen.llvm.math.rounding import emit_round
from symgrad.codegen.llvm.math.values import Real, Word

_LINEAR = 2.0**-27  # below, sin(x) and tan(x) round to x


def _reduce(f: Floats, x: Real) -> Angle:
    if not f.is_single:
        return reduce_angle(f, x)
    angle = reduce_angle(f.widened(), f.widen(x))
    quadrant = Word(f.builder, f.builder.trunc(angle.quadrant.value, f.word_type))
    return Angle(f.narrow(angle.rest), f.const(0.0), quadrant)


def _sine_and_cosine(f: Floats, angle: Angle) -> tuple[Real, Real]:
    """Return the sine and the cosine of the rest of `angle`."""
    r, short = angle.rest, f.dtype.short
    z = r * r
    square = z * z
    sine = f.mul_add(r * z, f.polynomial_by_pairs(z, square, table.SIN[short]), angle.low) + r
    # 1 - z/2 rounds; what it loses is added back (FreeBSD's msun, k_cos.c).
    half = z * 0.5
    near_one = 1.0 - half
    lost = (1.0 - near_one) - half
    rest = f.polynomial_by_pairs(z, square, table.COS[short])
    tail = f.mul_add(square, rest, lost - r * angle.low)
    return sine, near_one + tail


def _evaluate(f: Floats, angle: Angle, quadrant: Word) -> Real:
    """Return the sine of quadrant * pi/2 + the rest of `angle`."""
    sine, cosine = _sine_and_cosine(f, angle)
    value = (quadrant & 1).equals(0).choose(sine, cosine)
    return f.from_bits(f.bits(value) ^ ((quadrant & 2) << (f.dtype.bits - 2)))


def emit_sin(f: Floats, x: Real) -> Real:
    """Return the sine of any float within 1.25 ulp (2 in float32); nan for infinities."""
    angle = _reduce(f, x)
    result = _evaluate(f, angle, angle.quadrant)
    # So small that sin(x) rounds to x; keeps -0.0.
    return (f.absolute(x) < _LINEAR).choose(x, result)


def emit_cos(f: Floats, x: Real) -> Real:
    """Return the cosine of any float within 1.25 ulp (2 in float32); nan for infinities."""
    angle = _reduce(f, x)
    return _evaluate(f, angle, angle.quadrant + 1)


def emit_tan(f: Floats, x: Real) -> Real:
    """Return the tangent of any float within 2.5 ulp (3.5 in float32); nan for infinities."""
    angle = _reduce(f, x)
    sine, cosine = _sine_and_cosine(f, angle)
    is_even = (angle.quadrant & 1).equals(0)
    quotient = is_even.choose(sine, -cosine) / is_even.choose(cosine, sine)
    return (f.absolute(x) < _LINEAR).choose(x, quotient)


def emit_sinpi(f: Floats, x: Real) -> Real:
    """Return sin(pi * x) within 1.75 ulp; of an integer 0 with the sign of x."""
    angle = _reduce_turns(f, x)
    result = _evaluate(f, angle, angle.quadrant)
    return result.equals(0.0).choose(f.copy_sign(result, x), result)


def emit_cospi(f: Floats, x: Real) -> Real:
    """Return cos(pi * x) within 1.25 ulp, exactly 0 half way between two integers."""
    angle = _reduce_turns(f, x)
    result = _evaluate(f, angle, angle.quadrant + 1)
    return result.equals(0.0).choose(f.const(0.0), result)


def _reduce_turns(f: Floats, x: Real) -> Angle:
    """Return pi * x as an angle. The period is 2, so that all steps but the product are exact."""
    turn = emit_round(f, x * 0.5)
    within = x - (turn + turn)
    n, quadrant = f.nearest_multiple(within, 2.0)
    rest = within - n * 0.5
    high, low = table.PI_PAIR[f.dtype.short]
    product, error = f.two_product(rest, f.const(high))
    r, lost = f.fast_two_sum(product, f.mul_add(rest, low, error))
    return Angle(r, lost, quadrant)
