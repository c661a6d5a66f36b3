"""erf: an odd polynomial near 0, and 1 - e**-w(t) where erfc(t) = e**-w(t) beyond 1; and erfinv.

The second form needs w only as exactly as erfc is large, so one polynomial serves the whole tail
(an idea of N. Juffa's). erfinv(x) is x times a smooth function of w = -log(1 - x**2) (M. Giles,
"Approximating the erfinv function", GPU Computing Gems, 2011). In float32 w is at most 16, and one
polynomial serves all of it, so that there is no division, root or branch.
"""

from __future__ import annotations

from symgrad.codegen.llvm.math import coefficients as table
from symgrad.codegen.llvm.math import erfinv_coefficients as inverse
from symgrad.codegen.llvm.math.exponentials import emit_exp
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.logarithms import log_of_normal
from symgrad.codegen.llvm.math.values import Real

# From here on erf rounds to 1; the polynomial of the tail ends here.
_ONE = {"f32": 4.0, "f64": 6.0}


def emit_erf(f: Floats, x: Real) -> Real:
    """Return erf(x) within 1.5 ulp (1.75 in float32)."""
    short = f.dtype.short
    size = f.absolute(x)
    square = size * size
    near = f.polynomial_by_pairs(square, square * square, table.ERF[short])
    near = f.mul_add(size, near, size)
    limited = f.clamp(size, 0.0, _ONE[short])
    past = limited - 1.0
    exponent = f.polynomial_by_pairs(past, past * past, table.ERFC[short])
    far = 1.0 - emit_exp(f, -exponent)
    return f.copy_sign((size < 1.0).choose(near, far), x)


def emit_erfinv(f: Floats, x: Real) -> Real:
    """Return the inverse of erf within 4 ulp: infinite at 1 and -1, nan beyond."""
    rest = (1.0 - x) * (x + 1.0)
    w = -log_of_normal(f, rest)
    quotient = _erfinv_quotient(f, w)
    pole = rest.equals(0.0).choose(f.const(float("inf")), f.const(float("nan")))
    return x * (rest > 0.0).choose(quotient, pole)


def _erfinv_quotient(f: Floats, w: Real) -> Real:
    """Return erfinv(x) / x where w is -log(1 - x**2)."""
    if f.is_single:
        return f.polynomial(w - 6.0, inverse.NEAR["f32"])
    near = f.polynomial(w - 3.125, inverse.NEAR["f64"])
    s = f.sqrt(w)
    far = f.polynomial(s - 3.25, inverse.FAR["f64"])
    farthest = f.polynomial(s - 5.0, inverse.FARTHEST["f64"])
    return (w < 6.25).choose(near, (w < 16.0).choose(far, farthest))
