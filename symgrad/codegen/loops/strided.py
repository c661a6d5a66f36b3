"""Affine indices of the loop IR, and matrices in buffers that are walked through by strides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


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
    """`border(7, 7, 1)(1536, 1)(1, 8)`: the left operand of a product is 0 outside of some lines.

    Row m and term k meet in line `1 * (m // 7 % 7) + 1 * (k // 1536)` of a padded image, and what
    is not in the lines 1 to 7 is padding. So terms may be left out, where the right operand has
    nothing that makes another number than 0 of them.
    """

    row_place: int
    row_count: int
    row_step: int
    term_place: int
    term_step: int
    first: int
    stop: int

    def terms_of(self, row: int, k: int) -> tuple[int, int]:
        """Return from which to which of `k` terms a row has elements that are no padding."""
        line = self.row_step * (row // self.row_place % self.row_count)
        most = k // self.term_place
        first, stop = (
            min(max(-((line - end) // self.term_step), 0), most) for end in (self.first, self.stop)
        )
        return first * self.term_place, max(first, stop) * self.term_place

    def share_left_out(self, k: int) -> float:
        """Return which part of all products of `k` terms is with padding."""
        spans = [self.terms_of(line * self.row_place, k) for line in range(self.row_count)]
        taken = sum(stop - first for first, stop in spans)
        return 1 - taken / (k * self.row_count)


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


def check_border(lhs: np.ndarray[Any, Any], border: ZeroBorder | None) -> None:
    """Assert that the left operand of a product is 0 where `border` says so."""
    for row in range(len(lhs) if border is not None else 0):
        assert border is not None, "there are rows of a product with a border only"
        first, stop = border.terms_of(row, lhs.shape[1])
        padding = np.delete(lhs[row], slice(first, stop))
        assert not padding.any(), f"row {row} is not 0 outside of {border}"
