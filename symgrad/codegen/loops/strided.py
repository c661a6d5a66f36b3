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
