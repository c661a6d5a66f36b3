"""asin, acos, atan, atan2: odd polynomials on a small interval and formulas that lead there.

asin(x) = pi/2 - 2 * asin(sqrt((1 - x) / 2)) for x > 1/2. The arctangent of a quotient y / x in the
first octant, 0 <= y <= x, is pi/4 plus that of (y - x) / (y + x) where y / x > 1/2, which makes
y - x exact; so one division serves all of it, and what is left is reflection. pi is added in two
parts.
"""

from __future__ import annotations

from symgrad.codegen.llvm.math import coefficients as table
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.values import LaneMask, Real


def _asin_series(f: Floats, size: Real) -> tuple[LaneMask, Real, Real]:
    """Return where `size` is beyond 1/2, and s and t with asin(s) = s + t.

    s is the size, or beyond 1/2 the square root of (1 - size) / 2.
    """
    is_far = size > 0.5
    z = is_far.choose((1.0 - size) * 0.5, size * size)
    s = is_far.choose(f.sqrt(z), size)
    return is_far, s, s * (z * f.polynomial_by_pairs(z, z * z, table.ASIN[f.dtype.short]))


def emit_asin(f: Floats, x: Real) -> Real:
    """Return the arcsine within 1.25 ulp; nan outside of [-1, 1]."""
    high, low = table.PIO2_PAIR[f.dtype.short]
    is_far, s, tail = _asin_series(f, f.absolute(x))
    total, lost = f.fast_two_sum(f.const(high), -(s + s))
    far = total + (lost + (low - (tail + tail)))
    return f.copy_sign(is_far.choose(far, s + tail), x)


def emit_acos(f: Floats, x: Real) -> Real:
    """Return the arccosine within 1.25 ulp; nan outside of [-1, 1]."""
    short = f.dtype.short
    is_far, s, tail = _asin_series(f, f.absolute(x))
    is_negative = f.is_negative(x)
    # pi/2 -+ asin(|x|) near 0; 2 * asin(s) for x > 1/2, and pi minus that for x < -1/2.
    signed = f.copy_sign(s, x)
    signed_tail = is_negative.choose(-tail, tail)
    base = is_far.choose(f.const(table.PI_PAIR[short][0]), f.const(table.PIO2_PAIR[short][0]))
    base_low = is_far.choose(f.const(table.PI_PAIR[short][1]), f.const(table.PIO2_PAIR[short][1]))
    taken = is_far.choose(s + s, signed)
    taken_tail = is_far.choose(tail + tail, signed_tail)
    total, lost = f.fast_two_sum(base, -taken)
    reflected = total + (lost + (base_low - taken_tail))
    return (is_far & ~is_negative).choose(taken + taken_tail, reflected)


def _octant(f: Floats, y: Real, x: Real) -> tuple[Real, Real]:
    """Return atan(y / x) for 0 <= y <= x as a sum of two."""
    short = f.dtype.short
    zero = f.const(0.0)
    is_upper = y > x * 0.5
    t = is_upper.choose(y - x, y) / is_upper.choose(y + x, x)
    z = t * t
    tail = t * (z * f.polynomial_by_pairs(z, z * z, table.ATAN[short]))
    high, low = (is_upper.choose(f.const(part), zero) for part in table.PIO4_PAIR[short])
    total, lost = f.fast_two_sum(high, t)
    return total, (lost + low) + tail


def _reflect(
    f: Floats, where: LaneMask, base: tuple[float, ...], angle: tuple[Real, Real]
) -> tuple[Real, Real]:
    """Return base - angle in the lanes `where`, and the angle in the others."""
    high, low = angle
    total, lost = f.fast_two_sum(f.const(base[0]), -high)
    return where.choose(total, high), where.choose((lost + base[1]) - low, low)


def emit_atan(f: Floats, x: Real) -> Real:
    """Return the arctangent within 1.5 ulp."""
    size, one = f.absolute(x), f.const(1.0)
    is_steep = size > 1.0
    angle = _octant(f, is_steep.choose(one, size), is_steep.choose(size, one))
    high, low = _reflect(f, is_steep, table.PIO2_PAIR[f.dtype.short], angle)
    return f.copy_sign(high + low, x)


def emit_atan2(f: Floats, y: Real, x: Real) -> Real:
    """Return the angle of the point (x, y) within 1.75 ulp; signs as in C99, Annex F.9.1.4."""
    short = f.dtype.short
    height, width = f.absolute(y), f.absolute(x)
    is_steep = height > width
    short_side, long_side = is_steep.choose(width, height), is_steep.choose(height, width)
    # Two infinities are as two ones, and the quotient of two zeros is 0; sums must not overflow.
    both = short_side.equals(float("inf"))
    one = f.const(1.0)
    short_side, long_side = both.choose(one, short_side), both.choose(one, long_side)
    long_side = long_side.equals(0.0).choose(one, long_side)
    shrink = (long_side > 2.0 ** (f.bias - 2)).choose(f.const(0.25), one)
    angle = _octant(f, short_side * shrink, long_side * shrink)
    angle = _reflect(f, is_steep, table.PIO2_PAIR[short], angle)
    high, low = _reflect(f, f.is_negative(x), table.PI_PAIR[short], angle)
    result = f.copy_sign(high + low, y)
    return (x.is_nan() | y.is_nan()).choose(f.const(float("nan")), result)
