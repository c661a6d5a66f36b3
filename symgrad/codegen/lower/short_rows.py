"""Unrolling of short axes: coordinates, quaternions and the like are written out, as short rows.

    for i in 0..256 { for j in 0..256 { for c in 0..3 { d[i, j, c] = x[j, c] - x[i, c] } } }
        ->  for i in 0..256 { for j in 0..256 {
              d[i, j, 0] = x[j, 0] - x[i, 0]   d[i, j, 1] = ...   d[i, j, 2] = ...
            } }

The elements of a row are then values beside each other and the longer axis has the vectors, of
which `loops/short_rows.py` says how they are loaded and stored. What all elements of a row share is
computed once. A row is left a loop where it makes one axis with the one before it: then vectors lie
along both, whatever their lengths. So is one that an index finds, see `_fills_vectors`. Of a
product of few terms the few columns are written out, whichever axis of the result they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from symgrad.codegen.loops.access import body_flops, walks_on
from symgrad.codegen.loops.language import (
    For,
    Generated,
    Index,
    Let,
    Load,
    Prefix,
    Stmt,
    has_check,
)
from symgrad.codegen.loops.rewrite import indices, is_free_of, statements
from symgrad.cost_model import LEAST_ROWS, LEAST_SPREAD_FLOPS, LONGEST_ROW, MOST_WRITTEN_OUT
from symgrad.graph.node import Node
from symgrad.graph.structures import Contract, Reduce
from symgrad.passes.fusion.partition import FusionGroup, Specs
from symgrad.passes.fusion.windows import few_beside
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class ShortRows:
    """What of a kernel is written out: an axis of its results, and what folds fold over."""

    axis: int | None = None
    has_short_folds: bool = False

    @property
    def are_any(self) -> bool:
        """Whether anything is written out."""
        return self.axis is not None or self.has_short_folds

    def outside(self, shape: Sequence[int]) -> Sequence[int]:
        """Return the sizes of the axes that loops are over."""
        return shape if self.axis is None else (*shape[: self.axis], *shape[self.axis + 1 :])

    def elements(self, index: tuple[Index, ...], shape: Sequence[int]) -> list[tuple[Index, ...]]:
        """Return the places in results of `shape` of what is written out in loops at `index`."""
        if self.axis is None:
            return [index]
        before, behind = index[: self.axis], index[self.axis :]
        return [(*before, Index(place), *behind) for place in range(shape[self.axis])]


NO_ROWS = ShortRows()


def places_within(axes: Sequence[tuple[int | str, int]]) -> Iterator[dict[int | str, Index]]:
    """Yield every place along axes that are written out, in row-major order."""
    for place in itertools.product(*(range(extent) for _, extent in axes)):
        yield {key: Index(at) for (key, _), at in zip(axes, place, strict=True)}


def short_rows(group: FusionGroup, specs: Specs, body: Sequence[Stmt]) -> ShortRows:
    """Return what to write out of the kernel of `group`, which is `body` with plain loops."""
    anchor = group.anchor
    spec = None if anchor is None else specs[anchor]
    is_fold = isinstance(spec, Reduce) or (isinstance(spec, Contract) and spec.windows is None)
    is_plain = is_free_of(body, Prefix) and is_free_of(body, Generated) and _fills_vectors(body)
    if not (anchor is None or is_fold) or not is_plain or len(body) != 1:
        return NO_ROWS
    shape = group.domain if anchor is None else anchor.output.type.static_shape
    code = len(list(statements(body)))
    folded = 1 if anchor is None else _count_folded(anchor, spec)
    are_folds_short = 2 <= folded <= LONGEST_ROW and code * folded <= MOST_WRITTEN_OUT
    axis, is_beside = len(shape) - 1, False
    if anchor is not None and isinstance(spec, Contract) and are_folds_short:
        label = few_beside(anchor, spec)
        is_beside = label is not None
        axis = axis if label is None else spec.out.index(label)
    row = shape[axis] if shape else 0
    written = row * (folded if are_folds_short else 1)
    are_results_short = (
        2 <= row <= LONGEST_ROW
        and code * written <= MOST_WRITTEN_OUT
        and (is_beside or not _has_longer_axis(body[0], folded))
    )
    count = math.prod(shape) // max(row, 1) * (1 if are_folds_short else folded)
    if (count if are_results_short else math.prod(shape)) < LEAST_ROWS:
        return NO_ROWS
    return ShortRows(axis if are_results_short else None, are_folds_short)


# Note [Rows that an index finds]
# A row of 3 that a gather reads is 2 loads as it lies. In vectors of many rows each lane has its
# index taken out of a register, loads 2 pieces and is shuffled: on a Zen 5, per row of float32, a
# copy takes 4.4 cycles so and 3.3 as it lies, of rows of 4 4.7 and 2.4, a difference of two rows
# 6.7 and 4.1, and distances of two points 6.5 and 7. Along a row of 3 a vector has 2 lanes,
# though: sines of 3 take 45 cycles as they lie and 13 in vectors of 16 lanes, exponentials 17, 4.
# Columns that are stacked have no row that could be loaded: their loops go through the result once
# for each column, and normals of triangles take 26 cycles so and 8 written out.


def _fills_vectors(body: Sequence[Stmt]) -> bool:
    """Return whether vectors of elements of many rows pay, see Note [Rows that an index finds]."""
    return not has_check(tuple(body)) or body_flops(list(statements(body))) >= LEAST_SPREAD_FLOPS


def _count_folded(anchor: Node, spec: object) -> int:
    """Return how many elements each element of the result of a fold is made of."""
    if isinstance(spec, Reduce):
        shape = anchor.inputs[0].type.static_shape
        return math.prod(shape[axis] for axis in spec.axes)
    assert isinstance(spec, Contract), "a fold is a Reduce or a Contract"
    sizes = spec.sizes(*(t.type.static_shape for t in anchor.inputs))
    return math.prod(n for label, n in sizes.items() if label not in spec.out)


def _has_longer_axis(statement: Stmt, folded: int) -> bool:
    """Return whether vectors lie along rows: these are no rows, or go on where others end."""
    loops: list[For] = []
    body: tuple[Stmt, ...] = (statement,)
    while len(body) == 1 and isinstance(body[0], For):
        loops.append(body[0])
        body = body[0].body
    longer = [loop for loop in loops if loop.extent != 1]
    loads = [s.value for s in statements(body) if isinstance(s, Let) and isinstance(s.value, Load)]
    if longer and any(load.index.coefficient(longer[-1].var) not in (0, 1) for load in loads):
        return True
    if len(longer) < 2:
        return folded == 1
    *_, outer, inner = longer
    return walks_on(indices(body), outer.var, inner.var, inner.extent)
