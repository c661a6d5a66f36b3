"""Trigonometric and hyperbolic functions of complex numbers and their inverses, on pairs.

Infinities, nan and the signs of zeros are as in C99, Annex G, which the Array API takes over. The
circular functions are the hyperbolic ones with the parts exchanged: sin(a + ib) has the parts of
sinh(b + ia) in the other order, since sinh(iz) = i sin z. The inverses are W. Kahan's ("Branch cuts
for complex elementary functions", 1987), with the limit for what is large.
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import add, divide, isfinite, isinf, multiply, negative, subtract
from symgrad.graph.ops.comparison import (
    equal,
    greater,
    isnan,
    less,
    logical_and,
    logical_not,
    logical_or,
    where,
)
from symgrad.graph.ops.complex_arithmetic import abs_of
from symgrad.graph.ops.complex_exponentials import complex_sqrt, held_back, log_of_modulus
from symgrad.graph.ops.float_parts import copysign
from symgrad.graph.ops.hyperbolic import (
    acosh_op,
    asinh,
    asinh_op,
    atanh_op,
    cosh,
    cosh_op,
    sinh,
    sinh_op,
)
from symgrad.graph.ops.powers import hypot
from symgrad.graph.ops.transcendental import cos, cos_op, exp, log, log1p, sin, sin_op, tanh_op
from symgrad.graph.ops.trigonometry import acos_op, asin_op, atan2, atan_op, tan_op
from symgrad.graph.pair_rules import Parts, splits

_LN2 = math.log(2)


def _exchanged(z: Parts) -> Parts:
    return Parts(z.im, z.re)


def _hyperbolic(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return sinh and cosh of x less what would make them overflow, and the factor for that."""
    size, factor = held_back(abs_of(x))
    smaller = copysign(size, x)
    return sinh(smaller), cosh(smaller), factor


@splits(sinh_op)
def complex_sinh(z: Parts) -> Parts:
    """Return sinh a cos b + i cosh a sin b for z = a + ib."""
    sine, cosine, factor = _hyperbolic(z.re)
    is_end = logical_or(isinf(z.re), equal(z.re, 0))
    has_no_angle = logical_and(is_end, logical_not(isfinite(z.im)))
    turn = where(has_no_angle, 1.0, cos(z.im))
    imag = multiply(multiply(cosine, sin(z.im)), factor)
    return Parts(multiply(multiply(sine, turn), factor), where(equal(z.im, 0), z.im, imag))


@splits(cosh_op)
def complex_cosh(z: Parts) -> Parts:
    """Return cosh a cos b + i sinh a sin b for z = a + ib."""
    sine, cosine, factor = _hyperbolic(z.re)
    has_no_angle = logical_and(isinf(z.re), logical_not(isfinite(z.im)))
    turn = where(has_no_angle, 1.0, cos(z.im))
    imag = multiply(multiply(sine, sin(z.im)), factor)
    # 0 times what is finite has the sign of sinh a sin b; times anything else it is nan.
    is_zero = logical_or(equal(z.re, 0), equal(z.im, 0))
    sign = multiply(copysign(1.0, z.re), copysign(1.0, z.im))
    return Parts(
        multiply(multiply(cosine, turn), factor),
        where(logical_and(is_zero, isnan(imag)), multiply(sign, 0.0), imag),
    )


@splits(sin_op)
def _split_sin(z: Parts) -> Parts:
    return _exchanged(complex_sinh(_exchanged(z)))


@splits(cos_op)
def _split_cos(z: Parts) -> Parts:
    return complex_cosh(Parts(negative(z.im), z.re))


@splits(tanh_op)
def complex_tanh(z: Parts) -> Parts:
    """Return (sinh a cosh a + i sin b cos b) / (sinh(a)**2 + cos(b)**2) for z = a + ib.

    Nothing cancels in that. Where the divisor overflows it is 1, with 4 sin b cos b exp(-2a).
    """
    size = abs_of(z.re)
    is_far = greater(size, 10.0 if z.re.dtype.bits == 32 else 20.0)
    near = where(is_far, 0.0, z.re)
    sine, cosine, turn = sinh(near), cos(z.im), sin(z.im)
    divisor = add(multiply(sine, sine), multiply(cosine, cosine))
    around = multiply(turn, cosine)
    decay = exp(multiply(size, -2.0))
    far = where(isinf(z.re), copysign(0.0, around), multiply(multiply(around, 4.0), decay))
    has_sign = logical_or(isinf(z.re), isfinite(z.im))
    outside = where(has_sign, copysign(1.0, z.re), around)
    inside = where(equal(z.re, 0), z.re, divide(multiply(sine, cosh(near)), divisor))
    imag = where(is_far, far, divide(around, divisor))
    return Parts(where(is_far, outside, inside), where(equal(z.im, 0), z.im, imag))


@splits(tan_op)
def _split_tan(z: Parts) -> Parts:
    return _exchanged(complex_tanh(_exchanged(z)))


# ------------------------------------------------------------------------------------- inverses


def _is_huge(z: Parts) -> Tensor:
    """Return where 1 is nothing beside |z|; where a part is infinite it is."""
    bound = 4 / float(np.finfo(z.re.dtype.numpy).eps)
    return logical_or(greater(abs_of(z.re), bound), greater(abs_of(z.im), bound))


def _roots(z: Parts) -> tuple[Parts, Parts]:
    """Return sqrt(1 - z) and sqrt(1 + z)."""
    return (
        complex_sqrt(Parts(subtract(1.0, z.re), negative(z.im))),
        complex_sqrt(Parts(add(1.0, z.re), z.im)),
    )


@splits(asin_op)
def complex_asin(z: Parts) -> Parts:
    """Return atan2(a, Re(r s)) + i asinh(Im(conj(r) s)) with r = sqrt(1 - z), s = sqrt(1 + z)."""
    r, s = _roots(z)
    across = subtract(multiply(r.re, s.re), multiply(r.im, s.im))
    along = subtract(multiply(r.re, s.im), multiply(r.im, s.re))
    is_huge = _is_huge(z)
    length = copysign(add(log_of_modulus(z.re, z.im), _LN2), z.im)
    re = where(is_huge, atan2(z.re, abs_of(z.im)), atan2(z.re, across))
    is_kept = logical_and(equal(z.re, 0), isnan(z.im))  # 0 whatever the other part is
    return Parts(where(is_kept, z.re, re), where(is_huge, length, asinh(along)))


@splits(asinh_op)
def _split_asinh(z: Parts) -> Parts:
    return _exchanged(complex_asin(_exchanged(z)))


@splits(acos_op)
def complex_acos(z: Parts) -> Parts:
    """Return 2 atan2(Re r, Re s) + i asinh(Im(conj(s) r)) with r = sqrt(1 - z), s = sqrt(1 + z)."""
    r, s = _roots(z)
    along = subtract(multiply(s.re, r.im), multiply(s.im, r.re))
    is_huge = _is_huge(z)
    length = negative(copysign(add(log_of_modulus(z.re, z.im), _LN2), z.im))
    re = where(is_huge, atan2(abs_of(z.im), z.re), multiply(atan2(r.re, s.re), 2.0))
    is_kept = logical_and(equal(z.re, 0), isnan(z.im))
    return Parts(where(is_kept, math.pi / 2, re), where(is_huge, length, asinh(along)))


@splits(acosh_op)
def _split_acosh(z: Parts) -> Parts:
    """Return i acos z or -i acos z: the one with a real part that is not negative."""
    found = complex_acos(z)
    angle = where(isnan(found.re), found.re, copysign(found.re, z.im))
    return Parts(abs_of(found.im), angle)


@splits(atanh_op)
def complex_atanh(z: Parts) -> Parts:
    """Return log1p(4a / ((1 - a)**2 + b**2)) / 4 + i atan2(2b, (1 - a) (1 + a) - b**2) / 2."""
    size, height = abs_of(z.re), abs_of(z.im)
    left, right = subtract(1.0, size), add(1.0, size)
    squared = multiply(height, height)
    near = multiply(log1p(divide(multiply(size, 4.0), add(multiply(left, left), squared))), 0.25)
    # Above 1 the square of b may underflow: there it is log(2 / b) / 2.
    is_pole = logical_and(equal(size, 1), less(height, float(np.finfo(z.re.dtype.numpy).eps)))
    near = where(is_pole, multiply(subtract(_LN2, log(height)), 0.5), near)
    around = multiply(atan2(multiply(z.im, 2.0), subtract(multiply(left, right), squared)), 0.5)
    is_huge = _is_huge(z)
    length = hypot(z.re, z.im)
    far = where(isinf(length), 0.0, divide(divide(size, length), length))
    # Beside a nan only an infinite imaginary part tells the angle, and a huge one does not.
    either = add(z.re, z.im)
    has_no_angle = logical_and(isnan(either), logical_not(isinf(z.im)))
    upright = where(has_no_angle, either, copysign(math.pi / 2, z.im))
    re = copysign(where(is_huge, far, near), z.re)
    return Parts(where(equal(z.re, 0), z.re, re), where(is_huge, upright, around))


@splits(atan_op)
def _split_atan(z: Parts) -> Parts:
    return _exchanged(complex_atanh(_exchanged(z)))
