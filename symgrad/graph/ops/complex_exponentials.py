"""Exponentials, logarithms, roots and powers of complex numbers, on pairs of real ones.

Infinities, nan and the signs of zeros are as in C99, Annex G, which the Array API takes over. What
is finite does not overflow on its way.
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import add, divide, isfinite, isinf, multiply, subtract
from symgrad.graph.ops.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    logical_and,
    logical_not,
    logical_or,
    where,
)
from symgrad.graph.ops.complex_arithmetic import abs_of, chosen, product, quotient, scaled
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.extrema import maximum, minimum
from symgrad.graph.ops.float_parts import copysign
from symgrad.graph.ops.powers import hypot, log2_op, log10_op
from symgrad.graph.ops.structure import broadcast_to_op
from symgrad.graph.ops.transcendental import (
    cos,
    exp,
    exp_op,
    expm1,
    expm1_op,
    log,
    log1p,
    log1p_op,
    log_op,
    pow_op,
    sin,
    sqrt,
    sqrt_op,
)
from symgrad.graph.ops.trigonometry import atan2
from symgrad.graph.pair_rules import Parts, splits
from symgrad.graph.types import ArrayLiteral

# What exponentials overflow above, and what is taken off there: exp(x) = exp(x - less) * exp(less).
_ABOVE = {"float32": (88.0, 64.0), "float64": (709.0, 512.0)}


def held_back(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return x less what would make its exponential overflow, and the factor for that."""
    above, rest = _ABOVE[x.dtype.name]
    is_large = greater(x, above)
    factor = where(is_large, filled_like(x, math.exp(rest)), 1.0)
    return where(is_large, subtract(x, rest), x), factor


@splits(exp_op)
def complex_exp(z: Parts) -> Parts:
    """Return exp(a) (cos b + i sin b) for z = a + ib."""
    # Of an angle that is none the modulus alone counts: 0 or infinity.
    has_no_angle = logical_and(isinf(z.re), logical_not(isfinite(z.im)))
    cosine = where(has_no_angle, 1.0, cos(z.im))
    sine = where(logical_and(has_no_angle, less(z.re, 0)), 0.0, sin(z.im))
    smaller, factor = held_back(z.re)
    modulus = exp(smaller)
    imag = multiply(multiply(modulus, sine), factor)
    return Parts(
        multiply(multiply(modulus, cosine), factor),
        where(equal(z.im, 0), z.im, imag),  # which is nan for infinity times 0
    )


@splits(expm1_op)
def _split_expm1(z: Parts) -> Parts:
    """Return expm1(a) cos b - 2 sin(b / 2)**2 + i exp(a) sin b for z = a + ib."""
    whole = complex_exp(z)
    half = sin(multiply(z.im, 0.5))
    near = subtract(multiply(expm1(z.re), cos(z.im)), multiply(multiply(half, half), 2.0))
    is_near = logical_and(less(abs_of(z.re), 1), isfinite(z.im))
    return Parts(where(is_near, near, subtract(whole.re, 1.0)), whole.im)


def log_of_modulus(re: Tensor, im: Tensor) -> Tensor:
    """Return log |re + i im|, accurate near the unit circle.

    So it is where the modulus is no normal number: it overflows, or is too small for all digits.
    """
    a, b = abs_of(re), abs_of(im)
    large, small = maximum(a, b), minimum(a, b)
    limits = np.finfo(re.dtype.numpy)
    is_large, is_small = greater(large, float(limits.max) / 4), less(large, float(limits.tiny))
    digits = limits.nmant + 1
    factor = where(is_large, 0.25, where(is_small, 2.0**digits, 1.0))
    far = log(hypot(multiply(re, factor), multiply(im, factor)))
    less_small = where(is_small, filled_like(far, -digits * math.log(2)), 0.0)
    far = add(far, where(is_large, filled_like(far, math.log(4)), less_small))
    # |z|**2 - 1 without rounding |z|: (large - 1) (large + 1) + small**2
    excess = add(multiply(subtract(large, 1.0), add(large, 1.0)), multiply(small, small))
    is_near = logical_and(greater(excess, -0.5), less(excess, 2.0))
    return where(is_near, multiply(log1p(excess), 0.5), far)


@splits(log_op)
def complex_log(z: Parts) -> Parts:
    """Return log |z| + i arg z."""
    return Parts(log_of_modulus(z.re, z.im), atan2(z.im, z.re))


@splits(log2_op)
def _split_log2(z: Parts) -> Parts:
    return scaled(complex_log(z), 1 / math.log(2))


@splits(log10_op)
def _split_log10(z: Parts) -> Parts:
    return scaled(complex_log(z), 1 / math.log(10))


@splits(log1p_op)
def _split_log1p(z: Parts) -> Parts:
    """Return log(1 + z) for z = a + ib, by |1 + z|**2 - 1 = a (a + 2) + b**2."""
    re = add(z.re, 1.0)
    excess = add(multiply(z.re, add(z.re, 2.0)), multiply(z.im, z.im))
    is_near = logical_and(greater(excess, -0.5), less(excess, 2.0))
    far = log_of_modulus(re, z.im)
    return Parts(where(is_near, multiply(log1p(excess), 0.5), far), atan2(z.im, re))


@splits(sqrt_op)
def complex_sqrt(z: Parts) -> Parts:
    """Return the root with a real part that is not negative (Kahan 1987).

    With t = sqrt((|a| + |z|) / 2) the parts are t and b / 2t, exchanged for a negative a.
    """
    largest = maximum(abs_of(z.re), abs_of(z.im))
    limits = np.finfo(z.re.dtype.numpy)
    digits = 2 * (limits.nmant // 2 + 2)  # even, so that the root of the power is exact
    is_large = greater(largest, float(limits.max) / 8)
    is_small = less(largest, float(limits.tiny) * 2.0**digits)
    factor = where(is_large, 2.0**-4, where(is_small, 2.0**digits, 1.0))
    root_factor = where(is_large, 4.0, where(is_small, 2.0 ** (-digits // 2), 1.0))
    a, b = multiply(z.re, factor), multiply(z.im, factor)
    # Halves, since the sum may overflow where neither does.
    t = sqrt(add(multiply(abs_of(a), 0.5), multiply(hypot(a, b), 0.5)))
    is_zero = equal(t, 0)
    other = divide(abs_of(b), multiply(where(is_zero, 1.0, t), 2.0))
    is_right = greater_equal(z.re, 0)
    re = multiply(where(is_right, t, other), root_factor)
    im = copysign(multiply(where(is_right, other, t), root_factor), z.im)
    is_up = isinf(z.im)
    nothing = logical_or(is_zero, is_up)
    return Parts(where(is_up, float("inf"), where(is_zero, 0.0, re)), where(nothing, z.im, im))


# ------------------------------------------------------------------------------------------ pow

_LARGEST_POWER = 64  # that is made of multiplications


@splits(pow_op)
def _split_pow(x: Parts, y: Parts) -> Parts:
    """Return exp(y log x): 1 for y = 0, and of 0 to what has a positive real part 0.

    A constant y that is a small integer is made of multiplications.
    """
    power = _constant_integer(y)
    if power is not None:
        return _integer_power(x, power)
    dtype = x.re.dtype
    # In float64 an error of y log x, which the exponential enlarges, is small beside float32.
    wide_x, wide_y = (
        Parts(cast(part.re, dtypes.float64), cast(part.im, dtypes.float64)) for part in (x, y)
    )
    found = complex_exp(product(wide_y, complex_log(wide_x)))
    result = Parts(cast(found.re, dtype), cast(found.im, dtype))
    zero = Parts(filled_like(x.re, 0), filled_like(x.im, 0))
    is_zero = logical_and(equal(x.re, 0), equal(x.im, 0))
    result = chosen(logical_and(is_zero, greater(y.re, 0)), zero, result)
    one = Parts(filled_like(x.re, 1), filled_like(x.im, 0))
    return chosen(logical_and(equal(y.re, 0), equal(y.im, 0)), one, result)


def _constant_integer(y: Parts) -> int | None:
    """Return the one small integer that all elements of `y` are, None if it is not known."""
    parts = [_constant_value(part) for part in (y.re, y.im)]
    if parts[1] != 0 or parts[0] is None or not parts[0].is_integer():
        return None
    return int(parts[0]) if abs(parts[0]) <= _LARGEST_POWER else None


def _constant_value(x: Tensor) -> float | None:
    while x.node.definition is broadcast_to_op:
        (x,) = x.node.inputs
    value = x.node.attrs.get("value")
    is_one = isinstance(value, ArrayLiteral) and value.array.size == 1
    return float(value.array.item()) if is_one and isinstance(value, ArrayLiteral) else None


def _integer_power(x: Parts, power: int) -> Parts:
    """Multiply by squares for the bits of `power` (exponentiation by squaring)."""
    one = Parts(filled_like(x.re, 1), filled_like(x.im, 0))
    result: Parts | None = None
    square, left = x, abs(power)
    while left:
        if left & 1:
            result = square if result is None else product(result, square)
        left >>= 1
        square = product(square, square) if left else square
    if result is None:
        return one
    return result if power > 0 else quotient(one, result)
