"""Address computation along axes that are counted in digits: where a row, column or term is.

Windows that slide over an image are walked through so, without an array of them.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import index
from symgrad.codegen.loops.strided import Digit, walk
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class CountedAxis:
    """An axis of an operand: its stride, its digits above that, and its extent."""

    stride: int
    digits: tuple[Digit, ...]
    extent: int

    def offset(self, builder: ir.IRBuilder, at: ir.Value) -> ir.Value:
        """Return how many elements step `at` of the axis is from its first."""
        if not self.digits:
            return builder.mul(at, index(self.stride))
        total = index(0)
        for place, size, by in walk(self.stride, self.digits, self.extent):
            digit = at if place == 1 else builder.udiv(at, index(place))
            if place * size < self.extent:
                digit = builder.urem(digit, index(size))
            total = builder.add(total, builder.mul(digit, index(by)))
        return total
