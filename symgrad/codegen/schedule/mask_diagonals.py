"""Mask analysis: between which diagonals of a matrix the condition of a select is true.

    t1: bool = m[64*i + j]                                 // data that is the same in each step
    t2: i64 = index(i + 64*b)  t3: i64 = index(j)  t4: bool = ge(t2, t3)   // or made of indices

What masks in memory hold is given; what is made of indices has a closed form (`affine_masks.py`) or
is computed by the interpreter. Where a loop around goes through blocks of rows, the diagonals of
each are as many rows further on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

import numpy as np

from symgrad.codegen.loops.canonical import canonical
from symgrad.codegen.loops.index_arithmetic import index_of, scaled_sum
from symgrad.codegen.loops.language import (
    Expr,
    For,
    Index,
    Indexed,
    IndexValue,
    Kernel,
    Let,
    Load,
    Param,
    Ref,
    Stmt,
    Store,
)
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.rewrite import arguments, index_names
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.strided import NO_SHIFT
from symgrad.codegen.schedule.affine_masks import ColumnSpans, affine_spans
from symgrad.cost_model.products import LARGEST_MASK
from symgrad.graph.dtypes import bool_
from symgrad.records import dataclass

_Numbers = np.ndarray[Any, Any]
Masks = Mapping[str, _Numbers]
_Axis = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ShiftedDiagonals:
    """Diagonals from `first` to the one before `stop`, which loops around move by `shift`."""

    first: int
    stop: int
    shift: Index = NO_SHIFT

    @property
    def turned(self) -> ShiftedDiagonals:
        """Those of the transposed matrix."""
        return ShiftedDiagonals(1 - self.stop, 1 - self.first, scaled_sum([(self.shift, -1)]))


def diagonals_of(
    condition: str,
    values: Mapping[str, Expr],
    masks: Masks,
    axes: tuple[_Axis, _Axis],
    extents: Mapping[str, int],
) -> ShiftedDiagonals | None:
    """Return between which diagonals of rows and columns, the `axes`, a condition holds.

    Given are the values that it may be made of, and how long the loops around are. None is returned
    if that is not known, or it holds nowhere.
    """
    found = _loaded(values.get(condition), masks, axes, extents)
    found = found or _of_indices(condition, values, axes, extents)
    if found is None:
        return None
    around, spans = found
    rows, *turns = np.nonzero(spans.first <= spans.last)
    if not len(rows):
        return None
    low, high = (side[(rows, *turns)] - rows for side in (spans.first, spans.last))
    moves = [_move(low, high, turns, number, n) for number, (_, n) in enumerate(around)]
    moved = sum((by * turn for by, turn in zip(moves, turns, strict=True)), np.zeros_like(rows))
    terms = [(name, by) for (name, _), by in zip(around, moves, strict=True) if by]
    first, stop = int((low - moved).min()), int((high - moved).max()) + 1
    return ShiftedDiagonals(first, stop, index_of(*terms))


def holds_everywhere(
    condition: str,
    values: Mapping[str, Expr],
    masks: Masks,
    axes: tuple[_Axis, _Axis],
    extents: Mapping[str, int],
) -> bool:
    """Return whether a condition is known to hold in all rows and columns, whatever is around."""
    found = _loaded(values.get(condition), masks, axes, extents)
    found = found or _of_indices(condition, values, axes, extents)
    return found is not None and found[1].are_all(columns=axes[1][1])


def _spans(holds: _Numbers) -> ColumnSpans:
    """Return in which columns a mask holds, given by row, column and loops around."""
    columns = holds.shape[1]
    last = columns - 1 - holds[:, ::-1].argmax(axis=1)
    first = np.where(holds.any(axis=1), holds.argmax(axis=1), columns)
    has_gaps = bool((holds.sum(axis=1) < last - first + 1).any())
    return ColumnSpans(first, last, has_gaps)


def _move(
    low: _Numbers, high: _Numbers, turns: Sequence[_Numbers], number: int, extent: int
) -> int:
    """Return by how much each turn of a loop moves one side of the diagonals, 0 if not evenly.

    The other side may be bounded by the matrix. All other loops are in their first turn.
    """
    is_first = np.ones(low.shape, np.bool_)
    for other, turn in enumerate(turns):
        if other != number:
            is_first &= turn == 0
    turn = turns[number][is_first]
    if len(np.unique(turn)) < extent:
        return 0
    lows, highs = np.full(extent, np.iinfo(np.int64).max), np.full(extent, np.iinfo(np.int64).min)
    np.minimum.at(lows, turn, low[is_first])
    np.maximum.at(highs, turn, high[is_first])
    steps = (np.diff(side) for side in (highs, lows))
    return next((int(by[0]) for by in steps if by[0] and (by == by[0]).all()), 0)


def _around(names: Sequence[str], axes: Sequence[_Axis], extents: Mapping[str, int]) -> list[_Axis]:
    """Return the loops around rows and columns that matter, which have several turns."""
    inner = {name for name, _ in axes}
    others = dict.fromkeys(name for name in names if name not in inner)
    return [(name, extents[name]) for name in others if extents[name] > 1]


def _loaded(
    value: Expr | None, masks: Masks, axes: tuple[_Axis, _Axis], extents: Mapping[str, int]
) -> tuple[list[_Axis], ColumnSpans] | None:
    """Return the loops around, and where a mask in memory holds: by row and these."""
    if not isinstance(value, Load) or value.buffer not in masks:
        return None
    index = value.index
    names = [atom for atom, _ in index.terms if isinstance(atom, str)]
    if len(names) < len(index.terms) or not _are_known(names, axes, extents):
        return None
    around = _around(names, axes, extents)
    place: Any = index.const
    for number, (name, extent) in enumerate((*axes, *around)):
        steps = np.arange(extent) * index.coefficient(name)
        place = place + steps.reshape([-1 if n == number else 1 for n in range(2 + len(around))])
    return around, _spans(masks[value.buffer][place])


def _of_indices(
    condition: str,
    values: Mapping[str, Expr],
    axes: tuple[_Axis, _Axis],
    extents: Mapping[str, int],
) -> tuple[list[_Axis], ColumnSpans] | None:
    """Return the same of a condition that is made of indices alone."""
    lets: dict[str, Let] = {}
    if not _collect(condition, values, lets):
        return None
    names = [name for let in lets.values() for name in _names(let.value)]
    if not _are_known(names, axes, extents):
        return None
    around = _around(names, axes, extents)
    row, column = axes
    rows = (row, *around)
    if math.prod(extent for _, extent in rows) > LARGEST_MASK:
        return None
    known = {let.name: let.value for let in lets.values()}
    spans = affine_spans(Ref(condition, bool_), known, rows, column)
    if spans is not None:
        return around, spans
    loops = (*axes, *around)
    if math.prod(extent for _, extent in loops) > LARGEST_MASK:
        return None
    once = [(name, 1) for name in dict.fromkeys(names) if name not in dict(loops)]
    return around, _spans(_interpreted(condition, tuple(lets.values()), loops, once))


def _interpreted(
    condition: str, lets: tuple[Let, ...], loops: Sequence[_Axis], once: Sequence[_Axis]
) -> _Numbers:
    """Return a condition at each place of `loops`; loops of one turn are around."""
    shape = [extent for _, extent in loops]
    places = [(name, math.prod(shape[n + 1 :])) for n, (name, _) in enumerate(loops)]
    store = Store("mask", index_of(*places), Ref(condition, bool_))
    body: tuple[Stmt, ...] = (*lets, store)
    for name, extent in reversed((*once, *loops)):
        body = (For(name, extent, body),)
    mask = Param("mask", bool_, math.prod(shape), "out")
    kernel = canonical(Kernel("mask", (mask,), body))
    return _computed(_OfText(print_kernel(kernel), kernel)).reshape(shape)


@dataclass(frozen=True, slots=True)
class _OfText:
    """A kernel that goes by its text, which tells apart what is equal, as 0.0 and -0.0."""

    text: str
    kernel: Kernel = field(compare=False)


@lru_cache(maxsize=8)  # a mask is up to 2 MB, and those of a block of rows are alike
def _computed(made: _OfText) -> _Numbers:
    (param,) = made.kernel.params
    mask = np.zeros(param.count, np.bool_)
    run_kernel(made.kernel, {param.name: mask})
    return mask


def _collect(name: str, values: Mapping[str, Expr], lets: dict[str, Let]) -> bool:
    """Note what a value is made of, in order; return whether that is indices and numbers alone."""
    value = values.get(name)
    reads = isinstance(value, Indexed) and not isinstance(value, IndexValue)
    if value is None or reads:
        return False
    used = (atom.name for atom in arguments(value) if isinstance(atom, Ref))
    if not all(other in lets or _collect(other, values, lets) for other in used):
        return False
    lets[name] = Let(name, value)
    return True


def _names(value: Expr) -> Iterator[str]:
    if isinstance(value, IndexValue):
        yield from index_names(value.index)


def _are_known(names: Sequence[str], axes: Sequence[_Axis], extents: Mapping[str, int]) -> bool:
    return all(name in extents or name in dict(axes) for name in names)
