"""Affine indices of the loop IR, and matrices in buffers that are walked through by strides."""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True)
class StridedOperand:
    """`a[784*i + k] by (m: 784, k: 1)`: a matrix in a buffer, its first element and strides.

    `index` holds the variables of the loops around the product; `rows` and `columns` are the
    strides in elements along the operand's two axes.
    """

    buffer: str
    index: Index
    rows: int
    columns: int
