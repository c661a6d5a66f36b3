"""Spans of terms: from which to which step of k a tile of a GEMM adds up, as generated code.

Of a convolution that leaves out padding each digit of k has a span of its own.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import index
from symgrad.codegen.loops.strided import ZeroBorder

# Where a block of steps of k starts, and where it stops.
TermSpan = tuple[ir.Value, ir.Value]


def emit_inside(
    builder: ir.IRBuilder,
    borders: tuple[ZeroBorder, ...],
    piece: tuple[ir.Value, int],
    within: tuple[TermSpan, ...],
) -> TermSpan:
    """Return from which to which of its steps a piece of a line is inside of all `borders`.

    It is given by its first step of k and its size; the last border is along the line.
    """
    step, size = piece
    *above, (border, line) = zip(borders, within, strict=True)
    place = builder.urem(step, index(border.term_count))
    first = at_least(builder, builder.sub(line[0], place), index(0))
    stop = at_most(builder, builder.sub(line[1], place), index(size))
    for digit, span in above:
        at = builder.urem(step, index(digit.term_place * digit.term_count))
        is_behind = builder.icmp_signed(">=", at, span[0])
        is_inside = builder.and_(is_behind, builder.icmp_signed("<", at, span[1]))
        stop = builder.select(is_inside, stop, first)
    return first, at_least(builder, stop, first)


def emit_next(
    builder: ir.IRBuilder,
    borders: tuple[ZeroBorder, ...],
    step: ir.Value,
    within: tuple[TermSpan, ...],
) -> ir.Value:
    """Return the first step of k from `step` on that is `within` the spans of inner digits.

    What is behind the last one of a digit begins with its first one in the next higher digit; that
    may be one to leave out, so there are as many rounds as digits.
    """
    for _ in within:
        for border, (first, stop) in zip(borders, within, strict=True):
            cycle = border.term_place * border.term_count
            at = builder.urem(step, index(cycle))
            is_before = builder.icmp_signed("<", at, first)
            is_behind = builder.icmp_signed(">=", at, stop)
            ahead = builder.sub(first, at)
            behind = builder.add(ahead, index(cycle))
            skipped = builder.select(is_behind, behind, index(0))
            skipped = builder.select(is_before, ahead, skipped)
            step = builder.add(step, skipped)
    return step


def at_least(builder: ir.IRBuilder, value: ir.Value, bound: ir.Value) -> ir.Value:
    """Return the greater of a count and its lower bound."""
    return builder.select(builder.icmp_signed("<", value, bound), bound, value)


def at_most(builder: ir.IRBuilder, value: ir.Value, bound: ir.Value) -> ir.Value:
    """Return the smaller of a count and its upper bound."""
    return builder.select(builder.icmp_signed("<", value, bound), value, bound)
