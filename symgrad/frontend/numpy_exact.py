"""NumPy's exact ufuncs on tensors, composed of ops: exponents of floats, bits and divisors.

The others that are composed are in `numpy_ufuncs.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, user_source
from symgrad.frontend.iteration import while_loop
from symgrad.frontend.numpy_ufuncs import composes
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, constant
from symgrad.graph.ops import (
    arithmetic,
    bits,
    comparison,
    extrema,
    float_parts,
    powers,
    reduction,
    whole_numbers,
)
from symgrad.graph.ops.elementwise import broadcast_operands, float_operand
from symgrad.graph.ops.structure import accumulator_dtype, broadcast_to

# ---------------------------------------------------------------------------- exponents of floats


def _scaled(x: Tensor, n: Tensor) -> Tensor:
    """Return `x * 2**n` of float32 or float64, rounded once.

    A power that a float does not hold is taken in up to three steps. Of those towards 0 the first
    ones stop where a normal number keeps all its bits, so that only the last step rounds.
    """
    limits = np.finfo(x.dtype.numpy)
    least, most = int(limits.minexp), int(limits.maxexp) - 1
    down = least + int(limits.nmant) + 1
    for _ in range(2):
        step = comparison.where(n < least, down, comparison.where(n > most, most, 0))
        x = x * powers.exp2(cast(step, x.dtype))
        n = n - step
    return x * powers.exp2(cast(extrema.clip(n, least, most), x.dtype))


@composes(np.ldexp)
def _ldexp(x1: Any, x2: Any) -> Tensor:
    x, n = float_operand(x1), as_tensor(x2)
    if not n.dtype.is_integer:
        raise DTypeError("numpy.ldexp", f"x2: {n.type} is no integer", source=user_source())
    wide = cast(x, accumulator_dtype(x.dtype))
    wide, power = _same_shape(wide, cast(extrema.clip(n, -4000, 4000), dtypes.int32))
    return cast(_scaled(wide, power), x.dtype)


def _same_shape(x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    shape = (x + cast(n, x.dtype)).shape
    return broadcast_to(x, shape), broadcast_to(n, shape)


@composes(np.frexp)
def _frexp(x: Any) -> tuple[Tensor, Tensor]:
    """Return fractions from 1/2 to below 1, and int32 exponents; of 0, inf and nan it and 0."""
    given = float_operand(x)
    wide = cast(given, accumulator_dtype(given.dtype))
    is_plain = comparison.logical_and(arithmetic.isfinite(wide), comparison.not_equal(wide, 0))
    number = comparison.where(is_plain, wide, 1)
    # The logarithm is rounded, so it may be one off; what is left says so.
    logarithm = powers.log2(arithmetic.abs(number))
    exponent = cast(whole_numbers.floor(logarithm), dtypes.int32) + 1
    size = arithmetic.abs(_scaled(number, arithmetic.negative(exponent)))
    change = cast(size >= 1, dtypes.int32) - cast(size < 0.5, dtypes.int32)
    exponent = exponent + change
    fraction = comparison.where(is_plain, _scaled(number, arithmetic.negative(exponent)), wide)
    return cast(fraction, given.dtype), comparison.where(is_plain, exponent, 0)


@composes(np.spacing)
def _spacing(x: Any) -> Tensor:
    """Return the distance to the next float away from 0, with the sign of `x`."""
    number = float_operand(x)
    beyond = comparison.where(number < 0, -np.inf, np.inf)
    return float_parts.nextafter(number, beyond) - number


# ----------------------------------------------------------------------------------------- integers


def _require_integers(op: str, *tensors: Tensor) -> None:
    for x in tensors:
        if not x.dtype.is_integer:
            raise DTypeError(f"numpy.{op}", f"{x.type} is no integer", source=user_source())


@composes(np.bitwise_count)
def _bitwise_count(x: Any) -> Tensor:
    """Count the bits that are set in the magnitude, as uint8: pairs, fours, bytes are summed."""
    number = as_tensor(x)
    _require_integers("bitwise_count", number)
    words = cast(_magnitude(number), dtypes.uint64)

    def masked(value: Tensor, mask: int) -> Tensor:
        return bits.bitwise_and(value, constant(mask, dtypes.uint64))

    def shifted(value: Tensor, by: int) -> Tensor:
        return bits.bitwise_right_shift(value, constant(by, dtypes.uint64))

    words = words - masked(shifted(words, 1), 0x5555555555555555)
    words = masked(words, 0x3333333333333333) + masked(shifted(words, 2), 0x3333333333333333)
    words = masked(words + shifted(words, 4), 0x0F0F0F0F0F0F0F0F)
    total = words * constant(0x0101010101010101, dtypes.uint64)
    return cast(shifted(total, 56), dtypes.uint8)


def _magnitude(x: Tensor) -> Tensor:
    """Return the absolute value as unsigned, which holds that of the least integer too."""
    unsigned: DType = dtypes.as_dtype(f"uint{x.dtype.bits}")
    return cast(arithmetic.abs(x), unsigned) if x.dtype.kind != "unsigned" else x


@composes(np.gcd)
def _gcd(x1: Any, x2: Any) -> Tensor:
    """Return the greatest common divisor by Euclid's algorithm, of all elements side by side."""
    x, y = broadcast_operands("gcd", x1, x2)
    _require_integers("gcd", x, y)

    def step(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        is_done = comparison.equal(b, 0)
        rest = arithmetic.remainder(a, comparison.where(is_done, 1, b))
        return comparison.where(is_done, a, b), comparison.where(is_done, 0, rest)

    def is_left(_a: Tensor, b: Tensor) -> Tensor:
        return reduction.any(comparison.not_equal(b, 0))

    found, _ = while_loop(is_left, step, (arithmetic.abs(x), arithmetic.abs(y)))
    divisor: Tensor = found
    return divisor


@composes(np.lcm)
def _lcm(x1: Any, x2: Any) -> Tensor:
    x, y = broadcast_operands("lcm", x1, x2)
    _require_integers("lcm", x, y)
    divisor = _gcd(x, y)
    share = arithmetic.floor_divide(arithmetic.abs(x), extrema.maximum(divisor, 1))
    return share * arithmetic.abs(y)
