"""Cotangent accumulation: summing what several consumers contribute to one tensor's gradient.

Only the order of the additions is decided here, and it never depends on anything but the terms.
Slices that lie side by side, such as the parts of a split, have their cotangents joined rather than
padded with zeros and added: the gradient of a split is a concat.

    %3 = pad %1 {low = [0, 0], shape = [2, 8]}       %3 = concat %1, %2 {axis = 1}
    %4 = pad %2 {low = [0, 4], shape = [2, 8]}   ->
    %5 = add %3, %4
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from symgrad.graph.build import derived_from
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.slicing import concat, place, place_op
from symgrad.graph.types import static
from symgrad.records import dataclass


class AggregationMethod(Enum):
    """How the cotangents that reach one tensor are added; results differ by rounding at most.

    >>> sg.AggregationMethod.DEFAULT is sg.AggregationMethod.ADD_N
    True
    """

    ADD_N = 0
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2
    DEFAULT = 0


def add_all(terms: Sequence[Tensor], method: AggregationMethod) -> Tensor:
    """Accumulate cotangents of one type: from the left for ADD_N, else in balanced pairs."""
    assert terms, "there is nothing to add"
    terms = _joined(terms)
    if method is AggregationMethod.ADD_N:
        total = terms[0]
        for term in terms[1:]:
            total = add(total, term)
        return total
    level = list(terms)
    while len(level) > 1:
        pairs = [add(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs if len(level) % 2 == 0 else [*pairs, level[-1]]
    return level[0]


@dataclass(frozen=True, slots=True)
class _PaddedPart:
    """A term of a sum, the one at `position`: `inner` from `start` on along an axis, and zeros."""

    position: int
    inner: Tensor
    axis: int
    start: int

    @property
    def stop(self) -> int:
        return self.start + static(self.inner.shape[self.axis])


def _joined(terms: Sequence[Tensor]) -> list[Tensor]:
    """Return terms of the same sum: parts that lie side by side are one, where their first was."""
    parts = [part for i, term in enumerate(terms) if (part := _part_of(i, term)) is not None]
    found: dict[int, Tensor] = dict(enumerate(terms))
    for run in _runs(parts) if len(parts) > 1 else ():
        positions = sorted(part.position for part in run)
        whole = _join(run, terms[positions[0]])
        for position in positions:
            del found[position]
        found[positions[0]] = whole
    return [found[position] for position in sorted(found)]


def _part_of(position: int, term: Tensor) -> _PaddedPart | None:
    """Return what a term puts where along one axis, None if it is no such term."""
    node = term.node
    if node.definition is not place_op or node.attrs["value"] != 0:
        return None
    (inner,) = node.inputs
    low, step = node.attrs["low"], node.attrs["step"]
    assert isinstance(low, tuple), "a pad says where its operand begins"
    axes = [a for a, (n, m) in enumerate(zip(inner.shape, term.shape, strict=True)) if n != m]
    if len(axes) != 1 or step != (1,) * term.ndim:
        return None
    (axis,) = axes
    start = low[axis]
    if not isinstance(start, int) or not isinstance(inner.shape[axis], int):
        return None
    return _PaddedPart(position, inner, axis, start)


def _runs(parts: Sequence[_PaddedPart]) -> Iterator[list[_PaddedPart]]:
    """Yield parts each of which begins where the one before it ends, two or more of them."""
    run: list[_PaddedPart] = []
    for part in sorted(parts, key=lambda part: (part.axis, part.start)):
        if run and (run[-1].axis, run[-1].stop) != (part.axis, part.start):
            if len(run) > 1:
                yield run
            run = []
        run.append(part)
    if len(run) > 1:
        yield run


def _join(run: Sequence[_PaddedPart], term: Tensor) -> Tensor:
    """Return the sum of a run of parts, of the type of `term`, one of them."""
    axis = run[0].axis
    with derived_from(term.node):
        whole = concat([part.inner for part in run], axis=axis)
        low = [run[0].start if a == axis else 0 for a in range(term.ndim)]
        return place(whole, term.shape, tuple(low), (1,) * term.ndim)
