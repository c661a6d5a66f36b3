"""sinh, cosh and the inverse hyperbolic functions.

sinh and cosh are e**x / 2 -+ e**-x / 2, where e**x / 2 is scaled once, so that it overflows only
where the result does; sinh is an odd polynomial up to 1, where that difference would cancel. The
inverses are log(1 + w) of a w that is small where they are, as a sum of two.
"""

from __future__ import annotations

from symgrad.codegen.llvm.math import coefficients as table
from symgrad.codegen.llvm.math.exponentials import exp_of_pair
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.logarithms import log_of_one_plus
from symgrad.codegen.llvm.math.values import LaneMask, Real

_INFINITY = float("inf")


def emit_sinh(f: Floats, x: Real) -> Real:
    """Return the hyperbolic sine within 1.75 ulp."""
    size = f.absolute(x)
    square = size * size
    near = f.mul_add(f.polynomial(square, table.SINH[f.dtype.short]) * square, size, size)
    half = exp_of_pair(f, size, None, halvings=1)
    far = half - 0.25 / half
    return f.copy_sign((size < 1.0).choose(near, far), x)


def emit_cosh(f: Floats, x: Real) -> Real:
    """Return the hyperbolic cosine within 1.75 ulp."""
    half = exp_of_pair(f, f.absolute(x), None, halvings=1)
    return half + 0.25 / half


def _is_large(f: Floats, size: Real) -> LaneMask:
    """Return where size**2 + 1 rounds to size**2, with much to spare, and may overflow."""
    return size > 2.0 ** (f.digits // 2 + 4)


def emit_asinh(f: Floats, x: Real) -> Real:
    """Return the inverse hyperbolic sine within 1.5 ulp, with w = x + x**2 / (1 + root)."""
    size = f.absolute(x)
    square = size * size
    root = f.sqrt(square + 1.0)
    w, lost = f.fast_two_sum(size, square / (root + 1.0))
    is_large = _is_large(f, size)
    result = log_of_one_plus(f, is_large.choose(size, w), lost, is_large)
    result = size.equals(_INFINITY).choose(size, result)
    return f.copy_sign(x.is_nan().choose(x, result), x)


def emit_acosh(f: Floats, x: Real) -> Real:
    """Return the inverse hyperbolic cosine within 2 ulp, with w = d + sqrt(d * (d + 2))."""
    d = x - 1.0
    w, lost = f.two_sum(d, f.sqrt(d * (d + 2.0)))
    is_large = _is_large(f, x)
    result = log_of_one_plus(f, is_large.choose(x, w), lost, is_large)
    result = x.equals(_INFINITY).choose(x, result)
    return (x >= 1.0).choose(result, f.const(float("nan")))


def emit_atanh(f: Floats, x: Real) -> Real:
    """Return the inverse hyperbolic tangent within 1.25 ulp, with w = 2 * x / (1 - x)."""
    size = f.absolute(x)
    double = size + size
    gap, gap_low = f.fast_two_sum(f.const(1.0), -size)
    inverse = 1.0 / gap
    w = double * inverse
    product, error = f.two_product(w, gap)
    lost = (((double - product) - error) - w * gap_low) * inverse
    never = size < 0.0
    result = log_of_one_plus(f, w, lost, never) * 0.5
    result = size.equals(1.0).choose(f.const(_INFINITY), result)
    return f.copy_sign((size <= 1.0).choose(result, f.const(float("nan"))), x)
