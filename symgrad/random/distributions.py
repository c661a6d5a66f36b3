"""Sampling: what is done to 64 random bits to make a sample of a distribution.

The bits come from `random/streams.py`. Conversions of integers are exact, and the functions of
`graph/ops/portable.py` the same everywhere, so all samples but those of `unit_normal` have the same
bits on any machine. What takes more bits until it is accepted is in `rejection.py`.
"""

from __future__ import annotations

import math

from symgrad.graph.dtypes import DType, float64, int32, int64, uint64
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast, constant
from symgrad.graph.ops.arithmetic import add, divide, multiply, negative
from symgrad.graph.ops.bits import bitwise_and, bitwise_right_shift
from symgrad.graph.ops.comparison import greater_equal, where
from symgrad.graph.ops.portable import exponential_of_bits, portable_log, turn_cos, turn_sin
from symgrad.graph.ops.transcendental import cos, log, sqrt

_LOW_WORD = 0xFFFFFFFF


def unit_uniform(words: Tensor, dtype: DType) -> Tensor:
    """Return multiples of 2**-24 (float32) or 2**-53 (float64) in [0, 1), from the upper bits."""
    return _fraction(words, 64, dtype)


def unit_normal(words: Tensor, other_words: Tensor, dtype: DType) -> Tensor:
    """Return samples of the normal distribution of mean 0 and variance 1.

    G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", 1958:
    `sqrt(-2 log u) cos(2 pi v)`, with u in (0, 1] and v in [0, 1). In float32 both are made of
    `words`, so |sample| <= 5.77; in float64 each has words of its own, and |sample| <= 8.58.
    """
    if dtype == float64:
        radius_bits, angle = _whole(words, 64, dtype), unit_uniform(other_words, dtype)
    else:
        radius_bits = _whole(bitwise_and(words, constant(_LOW_WORD, uint64)), 32, dtype)
        angle = unit_uniform(words, dtype)
    # Not of 0, whose logarithm is infinite: the fractions are moved up by the least of them.
    u = multiply(cast(add(radius_bits, 1), dtype), _unit(dtype))
    return multiply(sqrt(negative(multiply(log(u), 2.0))), cos(multiply(angle, 2 * math.pi)))


def portable_normal(words: Tensor, other_words: Tensor, dtype: DType) -> Tensor:
    """Return samples of the normal distribution, the same bits on every machine.

    Box and Muller's `sqrt(2 e) cos(2 pi v)`, with e of the exponential distribution. In float32
    both are made of `words` alone, of which the angle takes the lower 24 bits; |sample| <= 7.54,
    and <= 9.5 in float64.
    """
    if dtype == float64:
        angle = unit_uniform(other_words, dtype)
    else:
        kept = bitwise_and(words, constant((1 << 24) - 1, uint64))
        angle = multiply(cast(cast(kept, int32), dtype), _unit(dtype))
    radius = sqrt(multiply(exponential_of_bits(words, dtype), 2.0))
    return multiply(radius, turn_cos(angle))


def unit_gumbel(words: Tensor, dtype: DType) -> Tensor:
    """Return samples of the Gumbel distribution, -log(e) for e of the exponential one."""
    return negative(portable_log(exponential_of_bits(words, dtype), -66, 7))


def signed(magnitudes: Tensor, words: Tensor) -> Tensor:
    """Return `magnitudes` of which those are negative whose word has its first bit set."""
    is_negative = greater_equal(words, constant(1 << 63, uint64))
    return where(is_negative, negative(magnitudes), magnitudes)


def unit_cauchy(words: Tensor, other_words: Tensor, dtype: DType) -> Tensor:
    """Return samples of the Cauchy distribution: the cotangent of an angle, with a sign.

    The angle is pi t for t in (0, 1/2], by its quarter turn, so that the tails are as fine as the
    middle.
    """
    t = multiply(fine_uniform(words, dtype), 0.25)
    return signed(divide(turn_cos(t), turn_sin(t)), other_words)


def fine_uniform(words: Tensor, dtype: DType) -> Tensor:
    """Return floats in (0, 1], near 0 multiples of 2**-40 (float32) or 2**-64 (float64).

    They are the fraction of the upper bits, the middle of what the lower ones leave open.
    """
    fine, coarse = (53, 10) if dtype == float64 else (24, 15)
    rest = bitwise_and(bitwise_right_shift(words, 64 - fine - coarse), (1 << coarse) - 1)
    low = multiply(add(cast(cast(rest, int32), dtype), 0.5), math.ldexp(1.0, -fine - coarse))
    return add(_fraction(words, 64, dtype), low)


def below(words: Tensor, span: int) -> Tensor:
    """Return uint64 integers in [0, span), for a span of at most 2**32.

    They are `floor(words * span / 2**64)`, so the chances of two integers differ by less than
    `span / 2**64` of themselves, 2**-32 at most.
    """
    factor = constant(span, uint64)
    # words * span = upper * span * 2**32 + lower * span, of which no part overflows.
    lower = multiply(bitwise_and(words, constant(_LOW_WORD, uint64)), factor)
    upper = multiply(bitwise_right_shift(words, 32), factor)
    return bitwise_right_shift(add(upper, bitwise_right_shift(lower, 32)), 32)


def _fraction(words: Tensor, width: int, dtype: DType) -> Tensor:
    return multiply(cast(_whole(words, width, dtype), dtype), _unit(dtype))


def _whole(words: Tensor, width: int, dtype: DType) -> Tensor:
    """Return the upper bits of `width` that a float of `dtype` holds exactly, as integers."""
    # Signed, since a machine may convert no other integers to floats in one instruction.
    signed = int64 if dtype == float64 else int32
    return cast(bitwise_right_shift(words, width - _precision(dtype)), signed)


def _unit(dtype: DType) -> float:
    return math.ldexp(1.0, -_precision(dtype))


def _precision(dtype: DType) -> int:
    return 53 if dtype == float64 else 24
