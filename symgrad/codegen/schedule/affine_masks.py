"""Affine masks: in which columns of each row comparisons of indices hold, in closed form.

    t1: i64 = index(i + 64*b)  t2: i64 = index(j)  t3: bool = ge(t1, t2)

holds in columns 0 to i + 64*b. What is compared is linear in the column, and any integer of the row
and of loops around; a conjunction holds where both its parts do. Of others nothing is said here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.codegen.loops.language import Atom, Cast, Const, Expr, Index, IndexValue, Op, Ref
from symgrad.graph.dtypes import DType
from symgrad.records import dataclass

_Numbers = np.ndarray[Any, Any]
# What a comparison asks of the difference of its sides: whether it, or its negative, is so large.
_SIDES = {
    "ge": ((1, 0),),
    "gt": ((1, 1),),
    "le": ((-1, 0),),
    "lt": ((-1, 1),),
    "eq": ((1, 0), (-1, 0)),
}
_LARGEST = 1 << 53  # of numbers: sums of two, and by so many columns, are then exact in int64


@dataclass(frozen=True, slots=True)
class ColumnSpans:
    """The first and the last column of each row; the last is before the first if there is none.

    With `has_gaps` not all columns between them are meant in all rows.
    """

    first: _Numbers
    last: _Numbers
    has_gaps: bool = False

    def within(self, other: ColumnSpans) -> ColumnSpans:
        """Return the columns that are in both."""
        first, last = np.maximum(self.first, other.first), np.minimum(self.last, other.last)
        return ColumnSpans(first, last, self.has_gaps or other.has_gaps)

    def are_all(self, columns: int) -> bool:
        """Return whether every row has all of so many columns."""
        return not self.has_gaps and bool(
            (self.first <= 0).all() and (self.last >= columns - 1).all()
        )


@dataclass(frozen=True, slots=True)
class _RowNumber:
    """A number of each row, and what each column adds to it."""

    start: _Numbers
    step: int


def affine_spans(
    condition: Ref,
    values: Mapping[str, Expr],
    rows: Sequence[tuple[str, int]],
    column: tuple[str, int],
) -> ColumnSpans | None:
    """Return in which columns a condition holds, None if that has no closed form.

    Given are the values that it is made of, and the extents of the loops over `rows`, with those
    around, and over columns: spans have an axis for each of `rows`. Indices of other loops are 0.
    """
    return _AffineMask(values, rows, column).spans(condition)


class _AffineMask:
    """What a condition is made of, by row and column."""

    def __init__(
        self, values: Mapping[str, Expr], rows: Sequence[tuple[str, int]], column: tuple[str, int]
    ) -> None:
        self._values = values
        self._column, self._columns = column
        self._shape = tuple(extent for _, extent in rows)
        places = np.ogrid[tuple(slice(extent) for extent in self._shape)]
        self._places = {name: place for (name, _), place in zip(rows, places, strict=True)}

    def spans(self, condition: Atom) -> ColumnSpans | None:
        value = self._value(condition)
        if not isinstance(value, Op) or len(value.args) != 2:
            return None
        one, other = value.args
        if value.name == "and":
            first, second = self.spans(one), self.spans(other)
            return first.within(second) if first is not None and second is not None else None
        if value.name not in _SIDES:
            return None
        lhs, rhs = self._number(one), self._number(other)
        if lhs is None or rhs is None:
            return None
        start, step = lhs.start - rhs.start, lhs.step - rhs.step
        found = ColumnSpans(np.asarray(0), np.asarray(self._columns - 1))
        for sign, least in _SIDES[value.name]:
            found = found.within(self._not_negative(sign * start - least, sign * step))
        return found

    def _not_negative(self, start: _Numbers, step: int) -> ColumnSpans:
        """Return the columns in which `start + step * column >= 0`."""
        start = np.broadcast_to(start, self._shape)
        first, last = np.zeros_like(start), np.full_like(start, self._columns - 1)
        if step > 0:
            return ColumnSpans(-(start // step), last)
        return ColumnSpans(first, start // -step if step else np.where(start < 0, -1, last))

    def _value(self, atom: Atom) -> Expr:
        return self._values[atom.name] if isinstance(atom, Ref) else atom

    def _number(self, atom: Atom) -> _RowNumber | None:
        """Return an integer of rows and columns; None if it is not linear, or would wrap around."""
        value = self._value(atom)
        found = self._integer(value) if value.dtype.is_integer else None
        is_known = found is not None and self._is_within(found, value.dtype)
        return found if is_known else None

    def _integer(self, value: Expr) -> _RowNumber | None:
        if isinstance(value, Cast):
            return self._number(value.value)
        if isinstance(value, Ref):
            return self._number(value)
        if isinstance(value, Const):
            is_small = abs(value.value) <= _LARGEST
            return _RowNumber(np.asarray(value.value, np.int64), 0) if is_small else None
        if isinstance(value, IndexValue):
            return self._place(value.index)
        if not isinstance(value, Op) or len(value.args) != 2:
            return None
        lhs, rhs = map(self._number, value.args)
        return None if lhs is None or rhs is None else _computed(value.name, lhs, rhs)

    def _place(self, index: Index) -> _RowNumber | None:
        if not all(isinstance(atom, str) for atom, _ in index.terms):
            return None
        rows = (place * index.coefficient(n) for n, place in self._places.items())
        start = sum(rows, np.asarray(index.const, np.int64))
        return _RowNumber(start, index.coefficient(self._column))

    def _is_within(self, number: _RowNumber, dtype: DType) -> bool:
        limits = np.iinfo(dtype.numpy)
        least, most = max(limits.min, -_LARGEST), min(limits.max, _LARGEST)
        ends = number.start, number.start + number.step * (self._columns - 1)
        return all(least <= end.min() and end.max() <= most for end in ends)


def _computed(name: str, lhs: _RowNumber, rhs: _RowNumber) -> _RowNumber | None:
    if name in ("add", "sub"):
        sign = 1 if name == "add" else -1
        return _RowNumber(lhs.start + sign * rhs.start, lhs.step + sign * rhs.step)
    if name in ("max", "min") and lhs.step == rhs.step:
        of_both = np.maximum if name == "max" else np.minimum
        return _RowNumber(of_both(lhs.start, rhs.start), lhs.step)
    return None
