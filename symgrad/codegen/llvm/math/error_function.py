"""erf: an odd polynomial near 0, and 1 - e**-w(t) where erfc(t) = e**-w(t) beyond 1.

The second form needs w only as exactly as erfc is large, so one polynomial serves the whole tail
(an idea of N. Juffa's).
"""

from __future__ import annotations

from symgrad.codegen.llvm.math import coefficients as table
from symgrad.codegen.llvm.math.exponentials import emit_exp
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.values import Real

# From here on erf rounds to 1; the polynomial of the tail ends here.
_ONE = {"f32": 4.0, "f64": 6.0}


def emit_erf(f: Floats, x: Real) -> Real:
    """Return erf(x) within 1.5 ulp (1.75 in float32)."""
    short = f.dtype.short
    size = f.absolute(x)
    near = f.mul_add(size, f.polynomial(size * size, table.ERF[short]), size)
    limited = f.clamp(size, 0.0, _ONE[short])
    exponent = f.polynomial(limited - 1.0, table.ERFC[short])
    far = 1.0 - emit_exp(f, -exponent)
    return f.copy_sign((size < 1.0).choose(near, far), x)
