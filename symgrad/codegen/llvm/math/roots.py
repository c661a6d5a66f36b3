"""cbrt and hypot: the roots that are no instruction."""

from __future__ import annotations

from symgrad.codegen.llvm.math import coefficients as table
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.logarithms import normalize, split_exponent
from symgrad.codegen.llvm.math.values import Real

_INFINITY = float("inf")
_CBRT_2 = 1.2599210498948732


def emit_cbrt(f: Floats, x: Real) -> Real:
    """Return the cube root within 0.75 ulp.

    x = 2**(3q + r) * m; a polynomial gives 17 bits of the root of m, Halley's iteration trebles
    them for float64, and Newton's, with the residual as a sum of two, rounds almost once.
    """
    size = f.absolute(x)
    scaled, shift = normalize(f, size)
    k, m = split_exponent(f, scaled)
    k = k + shift
    third, third_word = f.nearest_multiple(f.small_integer(k), 1.0 / 3.0)
    rest = f.small_integer(k) - third * 3.0
    is_below, is_above = rest < 0.0, rest > 0.0
    one = f.const(1.0)
    root = f.polynomial(m, table.CBRT[f.dtype.short])
    root = root * is_below.choose(f.const(1 / _CBRT_2), is_above.choose(f.const(_CBRT_2), one))
    m = m * is_below.choose(f.const(0.5), is_above.choose(f.const(2.0), one))
    if not f.is_single:
        cube = root * root * root
        root = root * ((cube + (m + m)) / ((cube + cube) + m))
    square, square_low = f.two_product(root, root)
    cube, cube_low = f.two_product(square, root)
    residual = (m - cube) - f.mul_add(square_low, root, cube_low)
    root = root + residual / (square * 3.0)
    result = f.copy_sign(root * f.power_of_two(third_word), x)
    return ((size > 0.0) & (size < _INFINITY)).choose(result, x)


def emit_hypot(f: Floats, x: Real, y: Real) -> Real:
    """Return sqrt(x**2 + y**2) within 1.25 ulp (0.75 in float32); infinite if either is."""
    a, b = f.absolute(x), f.absolute(y)
    if f.is_single:
        wide = f.widened()
        u, v = f.widen(a), f.widen(b)
        result = f.narrow(wide.sqrt(wide.mul_add(u, u, v * v)))
    else:
        is_swapped = b > a
        large, small = is_swapped.choose(b, a), is_swapped.choose(a, b)
        is_huge, is_tiny = large > 2.0**500, large < 2.0**-400
        one = f.const(1.0)
        down = is_huge.choose(f.const(2.0**-600), is_tiny.choose(f.const(2.0**600), one))
        up = is_huge.choose(f.const(2.0**600), is_tiny.choose(f.const(2.0**-600), one))
        large, small = large * down, small * down
        result = f.sqrt(f.mul_add(large, large, small * small)) * up
    is_infinite = a.equals(_INFINITY) | b.equals(_INFINITY)
    return is_infinite.choose(f.const(_INFINITY), result)
