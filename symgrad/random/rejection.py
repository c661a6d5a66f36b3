"""Rejection sampling: draws that take more random bits until each element has been accepted.

A round proposes a sample for each element, and keeps it where none was accepted before. All
elements go through the rounds together, in one loop that ends with the last of them; what an
element becomes depends on the key and its position alone. A round has a stream of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from symgrad.frontend.iteration import while_loop
from symgrad.graph.dtypes import float64, int32, int64
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast, constant
from symgrad.graph.ops.arithmetic import abs, add, divide, multiply, negative, subtract
from symgrad.graph.ops.comparison import (
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    where,
)
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.cumulative import cumsum
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.gathering import gather, iota, set_rows
from symgrad.graph.ops.portable import exponential_of_bits, log1p_rest, portable_exp, portable_log
from symgrad.graph.ops.reduction import all, sum
from symgrad.graph.ops.structure import broadcast_to, broadcast_to_op, reshape
from symgrad.graph.ops.subscript import getitem
from symgrad.graph.ops.transcendental import sqrt
from symgrad.graph.ops.whole_numbers import floor
from symgrad.graph.sizes import Dim
from symgrad.graph.types import Shape
from symgrad.random.distributions import fine_uniform, portable_normal, unit_uniform
from symgrad.random.streams import Stream
from symgrad.records import dataclass

# Each round accepts at least 0.49 of what it proposes, so that the chance that something is left
# is below 2**-120 an element. What is left then has parameters whose arithmetic overflows.
_MAX_ROUNDS = 128
_OTHER_PART = _MAX_ROUNDS  # the first part of a stream that is no round
_MAX_TERMS = 200
_INVERTED_BELOW = 10.0  # rates of the Poisson distribution that are drawn by inversion
# Draws of so many elements go on with those that are left alone, when they are one of so many.
_MANY = 4096
_FEW_OF = 16


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """The random bits of one round, for the elements at `positions`."""

    stream: Stream
    positions: Tensor

    def words(self) -> tuple[Tensor, Tensor]:
        """Return two tensors of 64 random bits an element."""
        return self.stream.words_at(self.positions)

    def more_words(self) -> tuple[Tensor, Tensor]:
        """Return two more."""
        return self.stream.part(0).words_at(self.positions)


# Returns samples and which of them are accepted, of the bits of a round and of parameters.
Propose = Callable[..., tuple[Tensor, Tensor]]


def flat_parameter(x: Tensor) -> Tensor:
    """Return a parameter along one axis, or as a scalar where it is one, without gradient."""
    scalar = _repeated_scalar(x)
    return stop_gradient(reshape(x, (x.type.size,)) if scalar is None else scalar)


def _repeated_scalar(x: Tensor) -> Tensor | None:
    if x.node.definition is not broadcast_to_op:
        return None
    (source,) = x.node.inputs
    return reshape(source, ()) if source.type.size == 1 else None


def first_accepted(
    stream: Stream, count: Dim, is_valid: Tensor, parameters: Sequence[Tensor], propose: Propose
) -> Tensor:
    """Return, for each of `count` elements, what the first round gave that accepted it.

    What is not valid is nan. `is_valid` and `parameters` are scalars or have `count` elements.
    Rounds of all elements are followed by rounds of those that are left, if they are few enough:
    see Note [Rounds of few].
    """
    like = parameters[0].type.with_shape((count,))
    positions = iota((count,), 0)
    few = count // _FEW_OF if isinstance(count, int) and count >= _MANY else 0
    done = broadcast_to(logical_not(is_valid), (count,))
    number, done, value = _rounds(
        stream, positions, constant(0, int64), done, filled((count,), math.nan, like.dtype),
        parameters, propose, few,
    )  # fmt: skip
    if not few:
        return value
    left = _positions_left(done, few)
    none_left = all(done)
    _, _, found = _rounds(
        stream, left, number, broadcast_to(none_left, (few,)), gather(value, [left], 0),
        [gather(p, [left], 0) if p.ndim else p for p in parameters], propose, 0,
    )  # fmt: skip
    return set_rows(value, found, [left], 0)


# Note [Rounds of few]
# Where 19 of 20 proposals are accepted, four or five rounds are needed until the last of 10,000
# elements is done, and all but the first would be for next to nothing. So once one in sixteen is
# left, the positions of these are gathered, and further rounds are theirs. There are as many slots
# as may be needed; those too many repeat the first one, with the same bits and the same result.
# Bits are a function of round and position, so the values are those of rounds of all elements.


def _positions_left(done: Tensor, few: int) -> Tensor:
    """Return the positions of at most `few` elements that are not done, then the first again."""
    is_left = cast(logical_not(done), int64)
    rank = cumsum(is_left, axis=0)
    slot = where(done, constant(few, int64), subtract(rank, 1))
    slots = set_rows(filled((few + 1,), 0, int64), iota(done.shape, 0), [slot], 0)
    kept = getitem(slots, slice(0, few))
    is_used = less(iota((few,), 0), sum(is_left))
    return where(is_used, kept, getitem(kept, 0))


def _rounds(
    stream: Stream,
    positions: Tensor,
    number: Tensor,
    done: Tensor,
    value: Tensor,
    parameters: Sequence[Tensor],
    propose: Propose,
    few: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Go through rounds until at most `few` elements are left."""

    def goes_on(_number: Tensor, is_done: Tensor, _value: Tensor) -> Tensor:
        if not few:
            return logical_not(all(is_done))
        return greater(sum(cast(logical_not(is_done), int32)), few)

    def advance(number: Tensor, is_done: Tensor, value: Tensor) -> Any:
        samples, is_accepted = propose(Round(stream.part(number), positions), *parameters)
        takes = logical_and(is_accepted, logical_not(is_done))
        return add(number, 1), logical_or(is_done, is_accepted), where(takes, samples, value)

    reached: tuple[Tensor, Tensor, Tensor] = while_loop(
        goes_on,
        advance,
        (number, done, value),
        maximum_iterations=_MAX_ROUNDS,
        back_prop=False,
    )
    return reached


# ------------------------------------------------------------------------------------------ gamma


def gamma_parts(stream: Stream, a: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    """Return the factors of samples of the gamma distribution: one, and the logarithm of another.

    `a` is a scalar, or has all elements along one axis.

    G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables", 2000: for a >= 1,
    d = a - 1/3 and c = 1 / sqrt(9 d), the sample is d (1 + c x)**3 with x normal, accepted with
    the chance of e to the power x**2 / 2 + d - d (1 + c x)**3 + 3 d log(1 + c x). That exponent
    is 3 d (log(1 + t) - t + t**2/2 - t**3/3) with t = c x, which loses nothing for a large a. For
    a < 1 the sample of a + 1 is multiplied by u**(1 / a), and the logarithm of that is the second
    result, which is 0 for others. More than 0.95 of the proposals are accepted.
    """
    dtype, count = a.dtype, math.prod(shape, start=1)
    d = subtract(where(less(a, 1.0), add(a, 1.0), a), 1 / 3)
    c = divide(1.0, sqrt(multiply(d, 9.0)))

    def propose(bits: Round, d: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        words, other_words = bits.words()
        t = multiply(c, portable_normal(words, other_words, dtype))
        if dtype == float64:  # whose normal samples have used both
            other_words, _ = bits.more_words()
        bound = multiply(multiply(d, -3.0), log1p_rest(t))
        is_accepted = greater_equal(exponential_of_bits(other_words, dtype), bound)
        s = add(t, 1.0)
        cube = multiply(s, multiply(s, s))
        return multiply(d, cube), logical_and(is_accepted, greater(s, 0.0))

    is_valid = logical_and(greater_equal(a, 0.0), less(a, math.inf))
    body = first_accepted(stream, count, is_valid, [d, c], propose)
    words, _ = stream.part(_OTHER_PART).words((count,))
    power = where(less(a, 1.0), negative(divide(exponential_of_bits(words, dtype), a)), 0.0)
    return reshape(body, shape), reshape(power, shape)


# --------------------------------------------------------------------------------------- truncated


def truncated_normal_samples(stream: Stream, low: Tensor, high: Tensor) -> Tensor:
    """Return samples of the normal distribution between `low` and `high`; nan if low >= high.

    The interval is mirrored so that its greater part is above 0, and what is proposed is normal if
    it holds 0 and is wide; else an exponential tail that starts at `low`; or, in a narrow
    interval, uniform. C. P. Robert, "Simulation of truncated normal variables", 1995.
    """
    shape, dtype, count = low.shape, low.dtype, low.type.size
    low, high = flat_parameter(low), flat_parameter(high)
    is_mirrored = less(add(low, high), 0.0)
    first = where(is_mirrored, negative(high), low)
    last = where(is_mirrored, negative(low), high)
    width = subtract(last, first)
    start = maximum(first, 0.0)
    # The rate of the tail, (l + sqrt(l**2 + 4)) / 2, which is l where l**2 + 4 is l**2.
    root = where(greater(start, 1e9), start, sqrt(add(multiply(start, start), 4.0)))
    rate = multiply(add(start, root), 0.5)
    is_tail = greater(first, 0.0)
    is_narrow = where(is_tail, less(multiply(width, rate), 1.5), less(width, 2.5))

    def propose(bits: Round, *given: Tensor) -> tuple[Tensor, Tensor]:
        first, last, width, start, rate, is_tail, is_narrow = given
        words, other_words = bits.words()
        slack = exponential_of_bits(other_words, dtype)
        part = multiply(width, fine_uniform(words, dtype))
        flat = add(first, part)
        # (x**2 - start**2) / 2, written so that nothing cancels in a tail.
        over = where(
            is_tail,
            multiply(part, add(start, multiply(part, 0.5))),
            multiply(multiply(flat, flat), 0.5),
        )
        e = exponential_of_bits(words, dtype)
        tail = add(start, divide(e, rate))
        miss = divide(subtract(e, 1.0), rate)
        fits = greater_equal(slack, multiply(multiply(miss, miss), 0.5))
        normal = portable_normal(words, other_words, dtype)
        sample = where(is_narrow, flat, where(is_tail, tail, normal))
        is_free = where(
            is_narrow, greater_equal(slack, over), logical_or(logical_not(is_tail), fits)
        )
        is_inside = logical_and(greater_equal(sample, first), less_equal(sample, last))
        return sample, logical_and(is_free, is_inside)

    parameters = [first, last, width, start, rate, is_tail, is_narrow]
    sample = first_accepted(stream, count, less(low, high), parameters, propose)
    return reshape(where(is_mirrored, negative(sample), sample), shape)


# ----------------------------------------------------------------------------------------- poisson


def poisson_samples(stream: Stream, rate: Tensor, known: float | None = None) -> Tensor:
    """Return samples of the Poisson distribution as float64, for float64 rates; -1 if not valid.

    A rate that is `known`, the same for all, saves what is for others.
    """
    shape, count = rate.shape, rate.type.size
    rate = flat_parameter(rate)
    is_valid = logical_and(greater_equal(rate, 0.0), less(rate, math.inf))
    is_small = less(rate, _INVERTED_BELOW)
    few = many = constant(-1.0, float64)
    if known is None or 0 <= known < _INVERTED_BELOW:
        inverted = where(logical_and(is_valid, is_small), rate, 0.0)
        few = _poisson_by_inversion(stream, count, inverted)
    if known is None or known >= _INVERTED_BELOW:
        is_large = logical_and(is_valid, logical_not(is_small))
        many = _poisson_by_rejection(stream, count, is_large, where(is_small, 20.0, rate))
    found = where(is_valid, where(is_small, few, many), -1.0)
    return reshape(broadcast_to(found, (count,)), shape)


def _poisson_by_inversion(stream: Stream, count: Dim, rate: Tensor) -> Tensor:
    """Return the least counts whose distribution function is above a uniform number."""
    u = unit_uniform(stream.part(_OTHER_PART).words((count,))[0], float64)

    def is_open(term: Tensor, total: Tensor) -> Tensor:
        # The sum may stop short of 1 by rounding: then the terms have long become nothing.
        return logical_and(greater_equal(u, total), greater(term, 2.0**-64))

    def goes_on(_number: Tensor, _count: Tensor, term: Tensor, total: Tensor) -> Tensor:
        return logical_not(all(logical_not(is_open(term, total))))

    def advance(number: Tensor, count: Tensor, term: Tensor, total: Tensor) -> Any:
        goes = is_open(term, total)
        following = divide(multiply(term, rate), number)
        return (
            add(number, 1.0),
            where(goes, number, count),
            where(goes, following, term),
            where(goes, add(total, following), total),
        )

    first = broadcast_to(portable_exp(negative(rate)), (count,))
    start = (constant(1.0, float64), filled_like(first, 0), first, first)
    reached: tuple[Tensor, ...] = while_loop(
        goes_on, advance, start, maximum_iterations=_MAX_TERMS, back_prop=False
    )
    return reached[1]


def _poisson_by_rejection(stream: Stream, count: Dim, is_valid: Tensor, rate: Tensor) -> Tensor:
    """Return counts for rates of at least 10, by transformed rejection.

    W. Hoermann, "The transformed rejection method for generating Poisson random variables", 1993,
    algorithm PTRS, without its two quick decisions, which would be made of what is computed here.
    """
    root = sqrt(rate)
    b = add(multiply(root, 2.53), 0.931)
    a = add(multiply(b, 0.02483), -0.059)
    inverse_alpha = add(divide(1.1328, subtract(b, 3.4)), 1.1239)
    log_rate = portable_log(rate)

    def propose(bits: Round, *given: Tensor) -> tuple[Tensor, Tensor]:
        rate, log_rate, a, b, inverse_alpha = given
        words, other_words = bits.words()
        u = subtract(fine_uniform(words, float64), 0.5)
        us = subtract(0.5, abs(u))
        slope = add(divide(multiply(a, 2.0), us), b)
        k = floor(add(multiply(slope, u), add(rate, 0.43)))
        density = add(divide(a, multiply(us, us)), b)
        height = subtract(
            portable_log(divide(inverse_alpha, density), -127, 1),
            exponential_of_bits(other_words, float64),
        )
        log_chance = subtract(subtract(multiply(k, log_rate), rate), _log_factorial(k))
        is_accepted = logical_and(less_equal(height, log_chance), greater_equal(k, 0.0))
        return k, is_accepted

    parameters = [rate, log_rate, a, b, inverse_alpha]
    return first_accepted(stream, count, is_valid, parameters, propose)


def _log_factorial(k: Tensor) -> Tensor:
    """Return log(k!) of float64 integers k >= 0, by Stirling's series (DLMF 5.11.1) from 10 on."""
    n = add(maximum(k, 0.0), 1.0)
    is_small = less(n, 10.0)
    product = n
    for i in range(1, 8):
        product = multiply(product, add(n, float(i)))
    z = where(is_small, add(n, 8.0), n)
    inverse = divide(1.0, z)
    square = multiply(inverse, inverse)
    tail = filled_like(square, -1 / 1680)
    for coefficient in (1 / 1260, -1 / 360, 1 / 12):
        tail = add(multiply(tail, square), coefficient)
    whole = subtract(multiply(subtract(z, 0.5), portable_log(z, 0, 127)), z)
    stirling = add(add(whole, 0.5 * math.log(2 * math.pi)), multiply(tail, inverse))
    return subtract(stirling, where(is_small, portable_log(product, 0, 127), 0.0))
