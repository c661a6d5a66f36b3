"""Sampling: what is done to 64 random bits to make a sample of a distribution.

The bits come from `random/generator.py`. Conversions of integers are exact, so samples
that need no function but these have the same bits on any machine.
"""

from __future__ import annotations

import math

from symgrad.graph.dtypes import DType, float64, int32, int64, uint64
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast, constant
from symgrad.graph.ops.arithmetic import add, multiply, negative
from symgrad.graph.ops.bits import bitwise_and, bitwise_right_shift
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
