"""The sort statement of the loop IR; all others are in `language.py`."""

from __future__ import annotations

from typing import Literal

from symgrad.codegen.loops.strided import StridedOperand
from symgrad.graph.dtypes import DType
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class SortRows:
    """A stable sort of each row of a matrix, or of the first `count` of its sorted elements.

        sort values y[0] by (32, 1) = x[0] by (32, 1) for 100 rows of 32 keep 32 descending

    It gives the `values` or, as int64, the `positions` in their row. The two zeros of a float are
    equal, and nan comes after every number in either direction. `scratch` is the buffer it works
    in, of which each part of `parallel` rows has `scratch_bytes`.
    """

    gives: Literal["values", "positions"]
    element: DType
    result: StridedOperand
    source: StridedOperand
    rows: int
    length: int
    count: int
    descending: bool
    scratch_bytes: int = 0
    scratch: str | None = None
    parallel: int | None = None

    @property
    def parts(self) -> int:
        """Into how many parts the rows are cut, 1 if they are not parallel."""
        return 1 if self.parallel is None else max(1, -(-self.rows // self.parallel))
