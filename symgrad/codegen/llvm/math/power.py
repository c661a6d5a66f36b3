"""pow of floats: e**(y * log|x|), with the special cases of C99, Annex F.9.4.4.

The logarithm must be as much more exact as the exponent is larger than 1: float32 takes float64,
float64 takes pairs of floats (Dekker 1971) with the series of atanh for the logarithm.
"""

from __future__ import annotations

from symgrad.codegen.llvm.math import coefficients as table
from symgrad.codegen.llvm.math.exponentials import emit_exp, exp_of_pair
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.logarithms import emit_log, normalize, split_exponent
from symgrad.codegen.llvm.math.rounding import emit_round
from symgrad.codegen.llvm.math.values import LaneMask, Real

_INFINITY = float("inf")
# A larger exponent changes nothing: |log x| is at least 2**-53 unless x is 1.
_LARGEST_EXPONENT = 2.0**70


def emit_pow(f: Floats, x: Real, y: Real) -> Real:
    """Return x**y within 1.5 ulp (0.75 in float32)."""
    size = f.absolute(x)
    if f.is_single:
        wide = f.widened()
        power = emit_exp(wide, f.widen(y) * emit_log(wide, f.widen(size)))
        magnitude = f.narrow(power)
    else:
        magnitude = _power_of_positive(f, size, y)
    return _special_cases(f, x, y, magnitude)


def _power_of_positive(f: Floats, x: Real, y: Real) -> Real:
    """Return x**y for float64 x > 0; also where y is infinite, and for x that is 0 or infinite."""
    scaled, shift = normalize(f, x)
    k, m = split_exponent(f, scaled)
    high, low = _log_of_pair(f, m)
    n = f.small_integer(k + shift)
    ln2_high, ln2_low = table.LN2["f64"]
    high, rest = f.fast_two_sum(n * ln2_high, high)
    high, low = f.fast_two_sum(high, f.mul_add(n, ln2_low, low + rest))
    y = f.clamp(y, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    product, error = f.two_product(y, high)
    error = f.mul_add(y, low, error)
    is_moderate = f.absolute(product) < 1000.0
    power = exp_of_pair(f, product, is_moderate.choose(error, f.const(0.0)))
    outward = (x > 1.0) ^ (y < 0.0)
    limit = outward.choose(f.const(_INFINITY), f.const(0.0))
    return (x.equals(0.0) | x.equals(_INFINITY)).choose(limit, power)


def _log_of_pair(f: Floats, m: Real) -> tuple[Real, Real]:
    """Return log(m) to about 2**-66 of itself, for sqrt(1/2) <= m < sqrt(2).

    log(m) = 2*s + s*z*(2/3 + z*R(z)) with s = (m - 1) / (m + 1), z = s**2.
    """
    d = m - 1.0
    divisor, divisor_low = f.two_sum(f.const(1.0), m)
    inverse = 1.0 / divisor
    s = d * inverse
    product, error = f.two_product(s, divisor)
    s_low = ((d - product) - error - s * divisor_low) * inverse
    z, z_low = f.two_product(s, s)
    z_low = f.mul_add(s + s, s_low, z_low)
    tail = z * f.polynomial(z, table.POW_LOG["f64"])
    factor, factor_low = f.fast_two_sum(f.const(table.TWO_THIRDS[0]), tail)
    factor_low = factor_low + table.TWO_THIRDS[1]
    cube, cube_low = f.two_product(s, z)
    cube_low = f.mul_add(s, z_low, f.mul_add(s_low, z, cube_low))
    term, term_low = f.two_product(cube, factor)
    term_low = f.mul_add(cube, factor_low, f.mul_add(cube_low, factor, term_low))
    high, low = f.fast_two_sum(s + s, term)
    return high, low + (s_low + s_low + term_low)


def _is_integer(f: Floats, y: Real) -> LaneMask:
    return emit_round(f, y).equals(y)


def _special_cases(f: Floats, x: Real, y: Real, magnitude: Real) -> Real:
    """Give |x|**y its sign, and put right what the formula does not know."""
    one, nan = f.const(1.0), f.const(float("nan"))
    size = f.absolute(x)
    is_integer = _is_integer(f, y)
    is_odd = is_integer & ~_is_integer(f, y * 0.5)
    result = (f.is_negative(x) & is_odd).choose(-magnitude, magnitude)
    has_root = is_integer | size.equals(_INFINITY)
    result = ((x < 0.0) & ~has_root).choose(nan, result)
    result = (x.is_nan() | y.is_nan()).choose(nan, result)
    is_one = y.equals(0.0) | x.equals(1.0) | (x.equals(-1.0) & f.is_infinite(y))
    return is_one.choose(one, result)
