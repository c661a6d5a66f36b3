"""Affine indices of the loop IR, and matrices in buffers that are walked through by strides."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Quotient:
    """`(i + 3) // 4`: floor division of an index by a positive integer."""

    index: Index
    by: int


@dataclass(frozen=True, slots=True)
class Modulus:
    """`(i + 3) % 4`: what the floor division by a positive integer leaves, never negative."""

    index: Index
    by: int


# A plain string is a loop variable, or a name that a `Check` bound.
IndexAtom = str | Quotient | Modulus


@dataclass(frozen=True, slots=True)
class Index:
    """`4*i + j - 1`: an affine expression, in elements; the terms are distinct and non-zero."""

    const: int = 0
    terms: tuple[tuple[IndexAtom, int], ...] = ()

    def coefficient(self, atom: IndexAtom) -> int:
        """Return the factor of `atom`, 0 if it does not occur on its own."""
        return dict(self.terms).get(atom, 0)


# `56:3712`: of an axis that is counted in digits, how many steps make one of this digit, and the
# stride of that. The digit below it, and in the end the plain stride, starts again at 0.
Digit = tuple[int, int]
NO_SHIFT = Index()
# `-63, 1`: diagonals of a matrix from one to the one before another, each by column minus row.
Diagonals = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PrefetchedPart:
    """`prefetches(352, 704, 2)`: from line 352 on 704 lines of the next, one in 2 steps of k."""

    first: int
    lines: int
    steps: int


@dataclass(frozen=True, slots=True)
class StridedOperand:
    """`a[784*i] by (64 56:3712, 1)`: a matrix in a buffer, its first element and strides.

    `index` holds the variables of the loops around the product; `rows` and `columns` are the
    strides in elements along the operand's two axes. Along an axis with digits, from the lowest to
    the highest, steps are counted in them (mixed radix): here row 57 is at 3712 + 64. So the rows
    may be the windows of an image, which overlap, and the columns what is in a window.
    """

    buffer: str
    index: Index
    rows: int
    columns: int
    row_digits: tuple[Digit, ...] = ()
    column_digits: tuple[Digit, ...] = ()


@dataclass(frozen=True, slots=True)
class ZeroBorder:
    """`border(8, 7, 1)(512, 3, 1)(1, 8)`: the left operand of a product is 0 outside of some lines.

    Row m and term k meet in line `1 * (m // 8 % 7) + 1 * (k // 512 % 3)` of a padded image, and
    what is not in the lines 1 to 7 is padding. So terms may be left out, where the right operand
    has nothing that makes another number than 0 of them. An `absent` one (`absent(8, 7, 1)...`) is
    in no memory: the operand has no elements there, and 0 is taken for them. One along a diagonal,
    `border(1, 64, -1)(1, 64, 1)(-63, 1)`, has lines that terms go up and rows go down: here an
    operand is 0 where a term is behind the row, as weights of queries are for keys behind them.
    """

    row_place: int
    row_count: int
    row_step: int
    term_place: int
    term_count: int
    term_step: int
    first: int
    stop: int
    absent: bool = False

    def terms_of(self, row: int) -> tuple[int, int]:
        """Return from which to which digit of the terms a row has elements that are no padding."""
        line = self.row_step * (row // self.row_place % self.row_count)
        first, stop = (
            min(max(-((line - end) // self.term_step), 0), self.term_count)
            for end in (self.first, self.stop)
        )
        return first, max(first, stop)

    @property
    def is_diagonal(self) -> bool:
        """Whether lines are diagonals: of a row one term further than of the row above."""
        return (self.row_place, self.term_place) == (1, 1) and self.row_step == -self.term_step

    def is_along(self, run: int) -> bool:
        """Return whether a run of so many terms is a whole walk across the lines."""
        return self.term_place == 1 and self.term_count == run

    @property
    def share_left_out(self) -> float:
        """Which part of all products is with padding."""
        spans = [self.terms_of(line * self.row_place) for line in range(self.row_count)]
        taken = sum(stop - first for first, stop in spans)
        return 1 - taken / (self.term_count * self.row_count)

    def is_padding(self, rows: int, terms: int) -> np.ndarray[Any, Any]:
        """Return which elements of a left operand of that size are padding."""
        row, term = np.arange(rows)[:, np.newaxis], np.arange(terms)
        line = self.row_step * (row // self.row_place % self.row_count)
        line = line + self.term_step * (term // self.term_place % self.term_count)
        return (line < self.first) | (line >= self.stop)

    def reach(self, row_stride: int, term_stride: int) -> tuple[int, int]:
        """Return the least and the greatest offset, by strides of both digits, of no padding."""
        spans = [self.terms_of(line * self.row_place) for line in range(self.row_count)]
        offsets = [
            line * row_stride + term * term_stride
            for line, (first, stop) in enumerate(spans)
            if first < stop
            for term in (first, stop - 1)
        ]
        return min(offsets, default=0), max(offsets, default=0)


def walk(stride: int, digits: tuple[Digit, ...], extent: int) -> list[tuple[int, int, int]]:
    """Return for each digit of an axis, the lowest first: steps that make one, extent, stride."""
    lowest: list[Digit] = [(1, stride), *digits]
    ends = [place for place, _ in digits] + [extent]
    return [(place, end // place, by) for (place, by), end in zip(lowest, ends, strict=True)]


def run_of(digits: tuple[Digit, ...], extent: int) -> int:
    """Return how many steps along an axis, from each that begins a digit, are evenly apart."""
    return digits[0][0] if digits else extent


def tiles_along(digits: tuple[Digit, ...], extent: int, size: int) -> int:
    """Return how many tiles of `size` steps at most there are along an axis: none in two runs."""
    run = run_of(digits, extent)
    return extent // max(run, 1) * -(-run // size)


def walked(stride: int, digits: tuple[Digit, ...], extent: int) -> np.ndarray[Any, Any]:
    """Return how far each step along an axis is from the first."""
    steps, total = np.arange(extent), np.zeros(extent, np.int64)
    for place, size, by in walk(stride, digits, extent):
        total += by * (steps // place % max(size, 1))
    return total


def read_padded(
    buffer: np.ndarray[Any, Any],
    places: np.ndarray[Any, Any],
    borders: tuple[ZeroBorder, ...],
    shift: int = 0,
) -> np.ndarray[Any, Any]:
    """Return the left operand of a product, the elements of `buffer` at `places`; 0 if absent.

    Lines of `borders` lie `shift` further on. Raises AssertionError where it is not 0 though one
    of these says so.
    """
    moved = [replace(b, first=b.first + shift, stop=b.stop + shift) for b in borders]
    padding = [(border, border.is_padding(*places.shape)) for border in moved]
    absent = np.zeros(places.shape, bool)
    for border, where in padding:
        absent |= where & border.absent
    lhs = np.where(absent, np.zeros((), buffer.dtype), buffer[np.where(absent, 0, places)])
    for border, where in padding:
        rows = np.flatnonzero((where & (lhs != 0)).any(axis=1))
        assert not len(rows), f"row {rows[0]} is not 0 outside of {border}"
    return lhs


def without_unread(
    sums: np.ndarray[Any, Any], read: Diagonals | None, shift: int
) -> np.ndarray[Any, Any]:
    """Return results of a product with nan, or the least number, for those that nothing reads.

    What is read is `shift` further on.
    """
    if read is None:
        return sums
    (rows, columns), is_float = sums.shape, np.issubdtype(sums.dtype, np.inexact)
    across = np.arange(columns) - np.arange(rows)[:, np.newaxis]
    is_read = (across - shift >= read[0]) & (across - shift < read[1])
    return np.where(is_read, sums, np.nan if is_float else np.iinfo(sums.dtype).min)
