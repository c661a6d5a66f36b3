"""log and log1p: x = 2**k * m with sqrt(1/2) <= m < sqrt(2), then a polynomial in m - 1.

k * ln(2) is added in two parts, the larger exact. float32 uses log(1+f) = f - f**2/2 + f**3 R(f)
as Cephes does; float64 the series in s = f / (2 + f) of FreeBSD's msun, which needs fewer terms
for one division.
"""

from __future__ import annotations

import math

from symgrad.codegen.llvm.math import coefficients as table
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.values import Real, Word

_INFINITY = float("inf")


def split_exponent(f: Floats, x: Real) -> tuple[Word, Real]:
    """Return k and m with x = 2**k * m, sqrt(1/2) <= m < sqrt(2), for finite normal x > 0."""
    digits = f.digits
    # The bits of the float sqrt(1/2): subtracted, they make the exponent field step there.
    lowest = ((f.bias - 1) << digits) | int(math.ldexp(math.sqrt(2.0) - 1.0, digits))
    biased = (f.bits(x) - lowest + (f.bias << digits)) >> digits
    k = biased - f.bias
    return k, f.from_bits(f.bits(x) - (k << digits))


def normalize(f: Floats, x: Real) -> tuple[Real, Word]:
    """Return x, scaled up where it is subnormal, and the exponent of 2 to add for it."""
    is_small = x < 2.0 ** (1 - f.bias)
    scaled = is_small.choose(x * 2.0 ** (f.digits + 2), x)
    return scaled, is_small.choose(f.word(-(f.digits + 2)), f.word(0))


def _log_of_parts(f: Floats, k: Word, m: Real, low: Real | None) -> Real:
    """Return k * ln(2) + log(m) + low, where `low` is small beside m - 1 unless m is 1."""
    ln2_high, ln2_low = table.LN2[f.dtype.short]
    n = f.small_integer(k)
    d = m - 1.0
    half_square = d * d * 0.5
    if f.is_single:
        tail = f.polynomial(d, table.LOG["f32"]) * d * (d * d)
    else:
        s = d / (d + 2.0)
        z = s * s
        tail = s * f.mul_add(z, f.polynomial(z, table.LOG_QUOTIENT["f64"]), half_square)
    correction = f.mul_add(n, ln2_low, tail)
    if low is not None:
        correction = correction + low
    return f.mul_add(n, ln2_high, d - (half_square - correction))


def emit_log(f: Floats, x: Real) -> Real:
    """Return the natural logarithm within 1 ulp."""
    scaled, shift = normalize(f, x)
    k, m = split_exponent(f, scaled)
    return _special_log(f, x, _log_of_parts(f, k + shift, m, None))


def emit_log1p(f: Floats, x: Real) -> Real:
    """Return log(1 + x) within 1 ulp: log(u) for u = 1 + x, and what u lost in rounding, over u."""
    u, lost = f.two_sum(f.const(1.0), x)
    k, m = split_exponent(f, u)
    result = _log_of_parts(f, k, m, lost / u)
    result = _special_log(f, u, result)
    # -0.0, and numbers so small that the rest of the formula is +0.0.
    return (f.absolute(x) < 2.0 ** (-f.digits - 2)).choose(x, result)


def _special_log(f: Floats, x: Real, result: Real) -> Real:
    """Put right the results for 0, negative numbers, infinity and nan."""
    result = x.equals(0.0).choose(f.const(-_INFINITY), result)
    result = x.equals(_INFINITY).choose(f.const(_INFINITY), result)
    return (x >= 0.0).choose(result, f.const(float("nan")))
