"""log, log1p, log2, log10: x = 2**k * m, sqrt(1/2) <= m < sqrt(2), and a polynomial in m - 1.

k * ln(2) is added in two parts, the larger exact. float32 uses log(1+f) = f - f**2/2 + f**3 R(f)
as Cephes does; float64 the series in s = f / (2 + f) of FreeBSD's msun, which needs fewer terms
for one division.
"""

from __future__ import annotations

import math

from symgrad.codegen.llvm.math import coefficients as table
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.values import LaneMask, Real, Word

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


def _series(f: Floats, d: Real) -> tuple[Real, Real]:
    """Return d**2 / 2 and what log(1 + d) is beyond d - d**2 / 2."""
    half_square = d * d * 0.5
    if f.is_single:
        return half_square, f.polynomial(d, table.LOG["f32"]) * d * (d * d)
    s = d / (d + 2.0)
    z = s * s
    q = f.polynomial_by_pairs(z, z * z, table.LOG_QUOTIENT["f64"])
    return half_square, s * f.mul_add(z, q, half_square)


def _log_of_parts(f: Floats, k: Word, m: Real, low: Real | None) -> Real:
    """Return k * ln(2) + log(m) + low, where `low` is small beside m - 1 unless m is 1."""
    ln2_high, ln2_low = table.LN2[f.dtype.short]
    n = f.small_integer(k)
    d = m - 1.0
    half_square, tail = _series(f, d)
    correction = f.mul_add(n, ln2_low, tail)
    if low is not None:
        correction = correction + low
    return f.mul_add(n, ln2_high, d - (half_square - correction))


def emit_log(f: Floats, x: Real) -> Real:
    """Return the natural logarithm within 1 ulp."""
    scaled, shift = normalize(f, x)
    k, m = split_exponent(f, scaled)
    return _special_log(f, x, _log_of_parts(f, k + shift, m, None))


def log_of_normal(f: Floats, x: Real) -> Real:
    """Return the natural logarithm of a normal number x > 0, exact to a unit of 1 or of itself.

    Where one may lose bits near x = 1, this is shorter than `emit_log`.
    """
    k, m = split_exponent(f, x)
    if not f.is_single:
        return _log_of_parts(f, k, m, None)
    d = m - 1.0
    log_m = f.polynomial(d, (1.0, -0.5, *table.LOG["f32"])) * d
    return f.mul_add(f.small_integer(k), sum(table.LN2["f32"]), log_m)


def emit_log1p(f: Floats, x: Real) -> Real:
    """Return log(1 + x) within 1 ulp: log(u) for u = 1 + x, and what u lost in rounding, over u."""
    u, lost = f.two_sum(f.const(1.0), x)
    k, m = split_exponent(f, u)
    result = _log_of_parts(f, k, m, lost / u)
    result = _special_log(f, u, result)
    # -0.0, and numbers so small that the rest of the formula is +0.0.
    return (f.absolute(x) < 2.0 ** (-f.digits - 2)).choose(x, result)


def log_of_one_plus(f: Floats, high: Real, low: Real, is_large: LaneMask) -> Real:
    """Return log(1 + high + low) for finite high >= 0; of 2 * high in the lanes that are large."""
    u, lost = f.two_sum(f.const(1.0), high)
    u = is_large.choose(high, u)
    rest = is_large.choose(f.const(0.0), (lost + low) / u)
    k, m = split_exponent(f, u)
    return _log_of_parts(f, is_large.choose(k + 1, k), m, rest)


def emit_log2(f: Floats, x: Real) -> Real:
    """Return the logarithm to base 2 within 1 ulp, of a power of 2 exactly."""
    return _log_in_base(f, x, (1.0, 0.0), table.LOG2_E_PAIR[f.dtype.short])


def emit_log10(f: Floats, x: Real) -> Real:
    """Return the logarithm to base 10 within 1 ulp."""
    short = f.dtype.short
    return _log_in_base(f, x, table.LOG10_2[short], table.LOG10_E_PAIR[short])


def _log_in_base(f: Floats, x: Real, of_two: tuple[float, ...], of_e: tuple[float, ...]) -> Real:
    """Return k * log_b(2) + log(m) * log_b(e), the product as a pair so that it rounds once."""
    scaled, shift = normalize(f, x)
    k, m = split_exponent(f, scaled)
    n = f.small_integer(k + shift)
    d = m - 1.0
    half_square, tail = _series(f, d)
    high, low = f.fast_two_sum(d, tail - half_square)
    product, error = f.two_product(high, f.const(of_e[0]))
    error = f.mul_add(high, of_e[1], f.mul_add(low, of_e[0], error))
    total, rest = f.fast_two_sum(n * of_two[0], product)
    return _special_log(f, x, total + (rest + f.mul_add(n, of_two[1], error)))


def _special_log(f: Floats, x: Real, result: Real) -> Real:
    """Put right the results for 0, negative numbers, infinity and nan."""
    result = x.equals(0.0).choose(f.const(-_INFINITY), result)
    result = x.equals(_INFINITY).choose(f.const(_INFINITY), result)
    return (x >= 0.0).choose(result, f.const(float("nan")))
