"""exp, exp2, expm1, tanh and sigmoid: everything built on e**x = 2**n * e**r.

Cody-Waite reduction (1980): n is the integer nearest to x / ln(2) and r = x - n * ln(2) is
taken in two steps, with ln(2) in two parts, so |r| <= ln(2) / 2 and the first step is exact. Then
e**r - 1 - r = r**2 * q(r) with q minimax. Results below the normal numbers are reached by scaling
that rounds once.

In float32, where lanes look up a table of powers of 2 (`tables.py`), n counts sixteenths (Tang
1989): r is sixteen times smaller, and q has two terms instead of five. Then e**x is
2**(n - k/16) * (t + t * p) for t = 2**(k/16) of the table and p = e**r - 1. Where no x is large and
no instruction scales, t has the power of 2 in its exponent before it is multiplied, as in glibc's
expf: the table is that of t without k/16 where the exponent begins, to which the whole count of
sixteenths is added, shifted to there.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from symgrad.codegen.llvm.math import coefficients as table
from symgrad.codegen.llvm.math.floats import Floats
from symgrad.codegen.llvm.math.scaling import is_scaled_at_once, scale_or_zero
from symgrad.codegen.llvm.math.tables import has_lookup, looked_up
from symgrad.codegen.llvm.math.values import LaneMask, Real, Word

# Beyond these, e**x rounds to 0 or is infinite, in both formats; n stays inside what scale takes.
_EXP_RANGE = {"f32": (-104.0, 90.0), "f64": (-745.2, 711.0)}
_EXP2_RANGE = {"f32": (-150.0, 129.0), "f64": (-1075.0, 1025.0)}
# Below this, e**x - 1 rounds to -1; the upper end is where e**x is infinite.
_EXPM1_RANGE = {"f32": (-20.0, 90.0), "f64": (-40.0, 711.0)}
# From here on, 1 - tanh(x) is less than half a unit in the last place of 1.
_TANH_ONE = {"f32": 9.5, "f64": 20.0}
# Below this a polynomial in x**2, above it 1 - 2 / (e**2x + 1): there the error of the quotient
# is scaled by at most 0.29 / 0.71.
_TANH_MIDDLE = 0.9
_SIXTEENTHS = 16
_RAISED = 63  # powers of 2 that keep e**-104 among the normal numbers of float32


def _reduce(f: Floats, x: Real, n: Real) -> Real:
    """Return r with x = n * ln(2) + r."""
    high, low = table.LN2[f.dtype.short]
    return f.mul_add(n, -low, f.mul_add(n, -high, x))


def _beyond_one(f: Floats, r: Real) -> Real:
    """Return e**r - 1 of a reduced `r`."""
    square = r * r
    return f.mul_add(square, f.polynomial_by_pairs(r, square, table.EXP[f.dtype.short]), r)


def emit_exp(f: Floats, x: Real) -> Real:
    """Return e**x within 1.25 ulp."""
    return exp_of_pair(f, x, None)


def emit_decay(f: Floats, x: Real) -> Real:
    """Return e**x within 1.25 ulp for an x that is not above 0, or nan: bit for bit that of exp."""
    return exp_of_pair(f, x, None, is_small=True)


def exp_of_pair(
    f: Floats, x: Real, low: Real | None, *, halvings: int = 0, is_small: bool = False
) -> Real:
    """Return e**(x + low) / 2**halvings for a `low` that is a rounding error of `x`, or none.

    Where no x that there may be is above 40, it `is_small`, and none is limited.
    """
    lowest, highest = _EXP_RANGE[f.dtype.short]
    vanishes, x = _above_zero(f, x, lowest, math.inf if is_small else highest)
    # What is halved is added to its reciprocal, or subtracted: that needs all digits.
    is_looked_up = has_lookup(f) and not halvings
    if is_small and is_looked_up and not is_scaled_at_once(f):
        return vanishes.choose(f.const(0.0), _raised(f, x, low) * 2.0**-_RAISED)
    e, n, n_word = (_by_sixteenths if is_looked_up else _by_ones)(f, x, low)
    if halvings:
        n, n_word = n - halvings, n_word - halvings
    return scale_or_zero(f, e, (n, n_word), vanishes, is_small=is_small)


def _by_ones(f: Floats, x: Real, low: Real | None) -> tuple[Real, Real, Word]:
    """Return e**r, n as a float and as a word for x + low = n * ln(2) + r."""
    n, n_word = f.nearest_multiple(x, table.LOG2_E)
    r = _reduce(f, x, n)
    if low is not None:
        r = r + low
    return _beyond_one(f, r) + 1.0, n, n_word


def _by_sixteenths(f: Floats, x: Real, low: Real | None) -> tuple[Real, Real, Word]:
    """Return a power of e between 0.97 and 2, n as a float to round down, and so as a word."""
    n, place, sixteenths = f.nearest_piece(x, table.LOG2_E, _SIXTEENTHS)
    r = _reduce(f, x, n)
    if low is not None:
        r = r + low
    part = looked_up(f, table.EXP2_SIXTEENTHS["f32"], place)
    beyond = _near_one(f, r)
    whole = sixteenths.floor_shifted(_SIXTEENTHS.bit_length() - 1)
    return f.mul_add(part, beyond, part), n, whole


def _raised(f: Floats, x: Real, low: Real | None) -> Real:
    """Return e**(x + low) * 2**_RAISED, a normal number for x from -104 to 40.

    A power of 2 changes no digit of a normal number: what rounds is the product that lowers it.
    """
    n, place, _ = f.nearest_piece(x, table.LOG2_E, _SIXTEENTHS)
    r = _reduce(f, x, n)
    if low is not None:
        r = r + low
    shift = f.digits - (_SIXTEENTHS.bit_length() - 1)
    part = looked_up(f, _raised_sixteenths(shift), place)
    # What `place` has above the count is shifted out of the word.
    power = f.from_bits(f.bits(part) + (place << shift))
    return f.mul_add(power, _near_one(f, r), power)


@cache
def _raised_sixteenths(shift: int) -> tuple[float, ...]:
    """Return 2**(k/16 + _RAISED), in whose bits k << `shift` is still to be added."""
    powers = np.array(table.EXP2_SIXTEENTHS["f32"], np.float32) * np.float32(2.0**_RAISED)
    counts = np.arange(_SIXTEENTHS, dtype=np.uint32) << np.uint32(shift)
    return tuple((powers.view(np.uint32) - counts).view(np.float32).tolist())


def _near_one(f: Floats, r: Real) -> Real:
    """Return e**r - 1 of what sixteenths leave."""
    return f.mul_add(r * r, f.polynomial(r, table.EXP_NEAR["f32"]), r)


def _above_zero(f: Floats, x: Real, lowest: float, highest: float) -> tuple[LaneMask, Real]:
    """Return where the result is 0, and the exponents to compute the others of.

    A result that rounds to 0 is no number to compute: a product below the normal numbers takes
    ten times as long, and a softmax behind a mask has many. An instruction that scales leaves it
    out by itself.
    """
    vanishes = x < lowest
    x = x if highest == math.inf else (x > highest).choose(f.const(highest), x)
    if is_scaled_at_once(f):
        return vanishes, x
    return vanishes, vanishes.choose(f.const(0.0), x)


def emit_exp2(f: Floats, x: Real) -> Real:
    """Return 2**x within 1.25 ulp, an integer power of 2 exactly."""
    short = f.dtype.short
    vanishes, x = _above_zero(f, x, *_EXP2_RANGE[short])
    n, n_word = f.nearest_multiple(x, 1.0)
    rest = x - n
    high, low = table.LN2_PAIR[short]
    r = f.mul_add(rest, high, rest * low)
    return scale_or_zero(f, _beyond_one(f, r) + 1.0, (n, n_word), vanishes)


def emit_expm1(f: Floats, x: Real) -> Real:
    """Return e**x - 1 within 2.5 ulp (2 in float32), as 2**n * ((e**r - 1) + (1 - 2**-n))."""
    limited = f.clamp(x, *_EXPM1_RANGE[f.dtype.short])
    n_float, n = f.nearest_multiple(limited, table.LOG2_E)
    p = _beyond_one(f, _reduce(f, limited, n_float))
    # 1 - 2**-n is 1 from n = 64 on, while 2**-n soon is no normal number.
    small_n = n.less(64).choose(n, f.word(64))
    gap = 1.0 - f.power_of_two(f.word(0) - small_n)
    return f.copy_sign(f.scale(p + gap, n), x)


def emit_tanh(f: Floats, x: Real) -> Real:
    """Return tanh(x) within 1.5 ulp: odd, so computed for |x| and given the sign of x."""
    size = f.absolute(x)
    square = size * size
    near = f.polynomial_by_pairs(square, square * square, table.TANH[f.dtype.short])
    near = f.mul_add(near * square, size, size)
    limited = f.clamp(size, 0.0, _TANH_ONE[f.dtype.short])
    far = 1.0 - 2.0 / (exp_of_pair(f, limited + limited, None, is_small=True) + 1.0)
    return f.copy_sign((size < _TANH_MIDDLE).choose(near, far), x)


def emit_sigmoid(f: Floats, x: Real) -> Real:
    """Return 1 / (1 + e**-x) within 2.75 ulp.

    For x < 0 it is e**x / (1 + e**x), which does not overflow before the result is 0.
    """
    e = emit_decay(f, -f.absolute(x))
    above = f.is_negative(x).choose(e, f.const(1.0))
    return above / (e + 1.0)
