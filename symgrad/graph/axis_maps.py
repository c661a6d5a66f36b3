"""Affine index maps: the place along one axis, by the indices of others."""

from __future__ import annotations

from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class AxisMap:
    """`offset + sum(coefficient * index[axis])` over the axes of the other side."""

    offset: int = 0
    terms: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def axis(axis: int, coefficient: int = 1, offset: int = 0) -> AxisMap:
        return AxisMap(offset, ((axis, coefficient),))


@dataclass(frozen=True, slots=True)
class Windows:
    """Sliding windows: an operand of `shape` that is read where the affine maps `index` say.

    There is one map for each axis of the operand in memory, in the axes of the windows.
    """

    shape: tuple[int, ...]
    index: tuple[AxisMap, ...]
