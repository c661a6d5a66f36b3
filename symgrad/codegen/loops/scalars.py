"""Scalar semantics of the loop IR in NumPy: constants, conversions, one row an operation.

They are the interpreter's, and share no code with the native ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symgrad.codegen.loops.language import Const
from symgrad.graph.cube_roots import exact_cbrt
from symgrad.graph.dtypes import DType, float64

Array = NDArray[Any]

# ------------------------------------------------------------------------ constants and conversion


def constant_array(const: Const) -> Array:
    """Return the value of a constant, of its dtype and without axes."""
    if const.dtype.is_float:
        return convert(np.asarray(const.value, np.float64), float64, const.dtype)
    return np.asarray(const.value, const.dtype.numpy)


def convert(value: Array, source: DType, to: DType) -> Array:
    """Return `value` converted as the language says; an array of the same dtype as it is."""
    if source == to:
        return value
    if to.is_bool:
        return np.asarray(value != 0)
    if source.is_float and to.is_integer:
        return _saturated(value.astype(np.float64), to)
    if to.is_half and source.bits > 16:
        value = _rounded_to_odd(value)
    return value.astype(to.numpy)


def _saturated(value: Array, to: DType) -> Array:
    limits = np.iinfo(to.numpy)
    # The greatest integer may not be a float64, but the power of two above it is.
    above, below = value >= float(limits.max) + 1, value < float(limits.min)
    inside = np.where(above | below | np.isnan(value), 0.0, value).astype(to.numpy)
    result = np.where(below, to.numpy.type(limits.min), inside)
    return np.where(above, to.numpy.type(limits.max), result)


def _rounded_to_odd(value: Array) -> Array:
    """Round to float32 so that rounding on, to fewer bits, gives what rounding once does.

    A number between two neighbours becomes the one with an odd last bit.
    """
    single = value.astype(np.float32)
    # As exact as a number can be: an integer of 64 bits is no float64.
    size, back = np.abs(value.astype(np.longdouble)), np.abs(single.astype(np.longdouble))
    bits = np.asarray(single).view(np.int32) - (back > size)
    odd = np.where((back == size) | np.isnan(size), bits, bits | 1)
    return odd.astype(np.int32).view(np.float32)


# ------------------------------------------------------------------------------ scalar operations


def _in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function computed in float64; the caller rounds the result."""
    return lambda *args: function(*(arg.astype(np.float64) for arg in args))


def _product_error(a: Array, b: Array) -> Array:
    """Return a * b less its rounded value, by halves of the significands (Dekker 1971)."""
    (a_high, a_low), (b_high, b_low) = (_halves(x) for x in (a, b))
    error = (a_high * b_high - a * b) + a_high * b_low + a_low * b_high
    return np.asarray(error + a_low * b_low)


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = x * x.dtype.type(2.0 ** ((np.finfo(x.dtype).nmant + 2) // 2) + 1)
    high = scaled - (scaled - x)
    return high, x - high


def _sigmoid(a: Array) -> Array:
    decay = np.exp(-np.abs(a))
    return np.where(a >= 0, 1.0, decay) / (1.0 + decay)


def _erf(a: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(a), np.float64)


def _erfinv(a: Array) -> Array:
    """Return the zero of erf less a by Newton's method; of erfc, where that is more exact.

    The start is S. Winitzki's, "A handy approximation for the error function" (2008).
    """
    size = np.where(np.abs(a) < 1, np.abs(a), 0.0)
    w = -np.log1p(-size * size)
    middle = 2 / (math.pi * 0.147) - w / 2
    y = np.sqrt(np.sqrt(middle * middle + w / 0.147) - middle)
    for _ in range(6):
        erfc = np.asarray(np.frompyfunc(math.erfc, 1, 1)(y), np.float64)
        above = np.where(size < 0.5, _erf(y) - size, (1 - size) - erfc)
        y = y - above * np.exp(y * y) * (0.5 * math.sqrt(math.pi))
    outside = np.where(np.abs(a) == 1, math.inf, math.nan)
    return np.copysign(np.where(np.abs(a) < 1, y, outside), a)


def _sine_of_half_turns(quarter: int) -> Callable[..., Any]:
    """Return sin(pi * (a + quarter / 2)), for which a is taken apart before anything is rounded."""

    def sine(a: Array) -> Array:
        whole = np.rint(2 * np.fmod(a, 2.0))
        rest = np.pi * (np.fmod(a, 2.0) - whole / 2)
        turned = (whole + quarter) % 4
        value = np.where(turned % 2 == 0, np.sin(rest), np.cos(rest))
        value = np.where(turned < 2, value, -value)
        zero = np.copysign(0.0, a) if quarter == 0 else 0.0
        return np.where(value == 0, zero, value)

    return sine


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(_in_double(np.power)(a, b))
    power, square, left = np.ones_like(a), a, np.maximum(b, 0)
    while np.any(left):
        power = np.where(left & 1, power * square, power)
        square, left = square * square, left >> 1
    if a.dtype.kind == "u":
        return power
    inverse = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))
    return np.where(b < 0, inverse, power)


def _shifted(shift: Callable[..., Any], far: Callable[..., Any]) -> Callable[..., Any]:
    """Return the shift that gives `far(a)` where the distance is negative or the width or more."""

    def shifted(a: Array, b: Array) -> Array:
        is_near = (b >= 0) & (b < 8 * a.dtype.itemsize)
        distance = np.where(is_near, b, np.zeros_like(b))
        return np.asarray(np.where(is_near, shift(a, distance), far(a)))

    return shifted


def _first_if(wins: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that takes its first argument if that wins or is nan."""
    return lambda a, b: np.where(wins(a, b) | (a != a), a, b)


NUMPY_OPS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fma": lambda a, b, c: a * b + c,
    "fnma": lambda a, b, c: c - a * b,
    "mul_error": _product_error,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "fmod": np.fmod,
    "neg": np.negative,
    "abs": np.abs,
    "min": _first_if(np.less),
    "max": _first_if(np.greater),
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "exp": _in_double(np.exp),
    "decay": _in_double(np.exp),
    "expm1": _in_double(np.expm1),
    "log": _in_double(np.log),
    "log1p": _in_double(np.log1p),
    "sin": _in_double(np.sin),
    "cos": _in_double(np.cos),
    "tanh": _in_double(np.tanh),
    "sigmoid": _in_double(_sigmoid),
    "erf": _in_double(_erf),
    "erfinv": _in_double(_erfinv),
    "pow": _power,
    "exp2": _in_double(np.exp2),
    "log2": _in_double(np.log2),
    "log10": _in_double(np.log10),
    "tan": _in_double(np.tan),
    "sinpi": _in_double(_sine_of_half_turns(0)),
    "cospi": _in_double(_sine_of_half_turns(1)),
    "asin": _in_double(np.arcsin),
    "acos": _in_double(np.arccos),
    "atan": _in_double(np.arctan),
    "atan2": _in_double(np.arctan2),
    "sinh": _in_double(np.sinh),
    "cosh": _in_double(np.cosh),
    "asinh": _in_double(np.arcsinh),
    "acosh": _in_double(np.arccosh),
    "atanh": _in_double(np.arctanh),
    "cbrt": _in_double(exact_cbrt),
    "hypot": _in_double(np.hypot),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": _shifted(np.left_shift, np.zeros_like),
    "shr": _shifted(np.right_shift, lambda a: -(a < 0).astype(a.dtype)),
}
