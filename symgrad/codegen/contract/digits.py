"""Address computation along axes that are counted in digits: where a row, column or term is.

Windows that slide over an image are walked through so, without an array of them.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import index
from symgrad.codegen.loops.strided import Digit, run_of, walk
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class CountedAxis:
    """An axis of an operand: its stride, its digits above that, and its extent."""

    stride: int
    digits: tuple[Digit, ...]
    extent: int

    @property
    def run(self) -> int:
        """Steps that are evenly apart, from each that begins a digit."""
        return run_of(self.digits, self.extent)

    def joined(self, kept: frozenset[int]) -> CountedAxis:
        """Return this axis without digits that go on as the one below them does, but for one.

        Those whose places are `kept` stay.
        """
        digits: list[Digit] = []
        before = 1, self.stride
        for place, by in self.digits:
            if place in kept or by * before[0] != before[1] * place:
                digits.append((place, by))
                before = place, by
        return CountedAxis(self.stride, tuple(digits) or self.digits[-1:], self.extent)

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


def scaled(stride: int, scale: tuple[int, int]) -> int:
    """Return a stride in elements of which there are `scale[0]` for `scale[1]` of before."""
    return stride * scale[0] // scale[1]
