"""Padding of convolutions: which lines of a product's left operand are zeros, and the row order.

A tile of a product may leave out the terms that read padding if all of its rows do so. Rows of one
line of an image share the lines above and below; only those of one pixel, in all images, share what
is beside it as well. So with enough images these come beside each other, which leaves out most; and
then the padding need not be in memory at all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from symgrad.codegen.loops.language import Index, ZeroBorder
from symgrad.codegen.lower.axes import Axis, CountedAxes
from symgrad.cost_model.products import LEAST_LEFT_OUT, LEAST_ROWS_BESIDE, SUM_AT_ONCE
from symgrad.graph.node import Tensor
from symgrad.graph.structures import Place
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class Lines:
    """What of an axis is not padding: from where to where, of what `index` walks through."""

    index: Index
    first: int
    stop: int
    absent: bool

    def border(self, rows: Sequence[Axis], inner: Sequence[Axis]) -> ZeroBorder | None:
        """Return what the lines are to a product with these rows and terms; None if nothing."""
        row, term = (_digit(axes, self.index) for axes in (rows, inner))
        if len(self.index.terms) != 2 or row is None or term is None:
            return None
        first, stop = (max(end - self.index.const, 0) for end in (self.first, self.stop))
        border = ZeroBorder(*row, *term, first, max(first, stop), self.absent)
        return border if border.share_left_out > 0 else None


def lines_of(
    spec: Place, padded: Tensor, place: tuple[Index, ...], *, absent: bool
) -> tuple[Lines, ...]:
    """Return where along each axis of a tensor that is a pad with zeros it has elements."""
    if spec.fill != 0 or spec.adds or len(spec.operands) != 1:
        return ()
    sizes = padded.node.inputs[0].type.static_shape
    maps = zip(spec.operands[0], place, strict=True)
    return tuple(
        Lines(at, m.offset, m.offset + step * (sizes[axis] - 1) + 1, absent)
        for m, at in maps
        for axis, step in m.terms
        if len(m.terms) == 1 and step > 0 and sizes[axis] > 0
    )


def _digit(axes: Sequence[Axis], index: Index) -> tuple[int, int, int] | None:
    """Return the one of `axes` that `index` goes on along: its place, extent and step; or None."""
    place, found = 1, []
    for variable, extent in reversed(axes):
        if (step := index.coefficient(variable)) > 0:
            found.append((place, extent, step))
        place *= extent
    return found[0] if len(found) == 1 else None


def rows_beside(
    rows: Sequence[Axis], inner: Sequence[Axis], lines: Sequence[Lines], lhs: Index
) -> tuple[list[Axis], frozenset[str]] | None:
    """Return the rows with those of one pixel beside each other, and variables that stay digits.

    None if there are too few of them, or hardly more is left out so, or if rows lie side by side in
    `lhs`: then they can be lanes, which they are where the product has few columns.
    """
    padded = [line for line in lines if line.border(rows, inner) is not None]
    of_lines = {atom for line in padded for atom, _ in line.index.terms}
    walking = frozenset(variable for variable, _ in (*rows, *inner) if variable in of_lines)
    images = math.prod(extent for variable, extent in rows if variable not in walking)
    if images < LEAST_ROWS_BESIDE:
        return None
    turned = sorted(rows, key=lambda axis: axis[0] not in walking)
    more = _taken(rows, inner, padded) - _taken(turned, inner, padded)
    if any(line.absent for line in padded):
        return turned, walking
    are_lanes = lhs.coefficient(rows[-1][0]) == 1
    return (turned, walking) if more >= LEAST_LEFT_OUT and not are_lanes else None


def terms_beside(
    rows: Sequence[Axis], inner: Sequence[Axis], lines: Sequence[Lines], lhs: Index
) -> list[Axis]:
    """Return the terms of sums with those of one pixel, in all images, beside each other.

    So it is where rows are channels, and pixels with their padding are packed: what a place in a
    window has of a line are then terms side by side. Of more terms than are added up at once a
    block has many lines of few images, which overlap less than few lines of all images do.
    """
    found = [(line, line.border(rows, inner)) for line in lines if line.absent]
    borders = [border for _, border in found if border is not None]
    padded = [line for line, border in found if border is not None]
    of_lines = {atom for line in padded for atom, _ in line.index.terms}
    images = math.prod(extent for variable, extent in inner if variable not in of_lines)
    are_channels = bool(rows) and lhs.coefficient(rows[-1][0]) == 1
    are_few = math.prod(extent for _, extent in inner) <= SUM_AT_ONCE
    if not borders or not are_channels or not are_few or images < LEAST_ROWS_BESIDE:
        return list(inner)
    return sorted(inner, key=lambda axis: axis[0] not in of_lines)


def _taken(rows: Sequence[Axis], inner: Sequence[Axis], lines: Sequence[Lines]) -> float:
    """Return the share of products that is taken where tiles are rows of the lowest digit."""
    borders = [line.border(rows, inner) for line in lines]
    return math.prod(1 - b.share_left_out for b in borders if b is not None and b.row_place > 1)


def counted_borders(
    rows: CountedAxes, inner: CountedAxes, lines: Sequence[Lines], loops: Collection[Axis]
) -> tuple[ZeroBorder, ...]:
    """Return the borders of digits other than the lowest; axes that are no `loops` were merged.

    What is absent may be so along the lowest digit of the terms, where these are pixels.
    """
    digits = (
        [(variable if (variable, n) in loops else "merged", n) for variable, n in axis.digits]
        for axis in (rows, inner)
    )
    row, term = digits
    found = (line.border(row, term) for line in lines)
    return tuple(
        b for b in found if b is not None and b.row_place > 1 and (b.absent or b.term_place > 1)
    )
