"""Mixed-radix axes of a product: loops that are counted as one, with a digit for each."""

from __future__ import annotations

import math

from symgrad.codegen.loops.language import Index
from symgrad.codegen.loops.strided import Digit
from symgrad.records import dataclass

Axis = tuple[str, int]  # a loop variable and its extent


@dataclass(frozen=True, slots=True)
class CountedAxes:
    """An axis of a product that is counted in `digits`, loops of which the last is the lowest."""

    digits: list[Axis]

    @property
    def whole(self) -> Axis:
        return self.digits[-1][0], math.prod(extent for _, extent in self.digits)

    def of(self, index: Index) -> tuple[int, tuple[Digit, ...]]:
        """Return the stride of `index` along the axis, and its digits."""
        place, found = 1, []
        for variable, extent in reversed(self.digits):
            found.append((place, index.coefficient(variable)))
            place *= extent
        return found[0][1], tuple(found[1:])
