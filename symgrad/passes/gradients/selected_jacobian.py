"""Jacobians through selections: of what is gathered from x, one tangent each, whose seeds are ones.

Before, with a constant i of 10 indices and %y of 10 elements:
    %a = take %x, i    %b = slice %x {start = [0], ...}    %y = multiply %a, %b

After: %y depends on %a element by element, and so on %b. The tangent of %y for ones at %a and none
at %b has the values in column i[k] of each row k, and that for %b those in column k.

Where rows depend on no more than one element of each tensor that was selected, as in a batch, a
stencil or a bundle adjustment, this takes as many tangents as rows have elements; none of them has
an axis of seeds, and what does not depend on a selection is no part of its tangent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from symgrad.frontend.sparse_tensor import SparseTensor, SparsityPattern
from symgrad.graph import dtypes
from symgrad.graph.build import outer_tensors
from symgrad.graph.gradient_registry import has_gradient
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.conversion import identity
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.gathering import gather
from symgrad.graph.ops.slicing import concat, stack
from symgrad.graph.ops.stand_in import stands_for
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.structures import Gather, Reshape, View
from symgrad.graph.traverse import topological
from symgrad.passes.gradients.forward_mode import push_forward
from symgrad.passes.sparsity.dependence import dependences
from symgrad.records import dataclass

Numbers = NDArray[np.int64]

_MOST_SELECTIONS = 256  # more are looked at by colours
_MOST_RUNS = 16  # of rows that are made of the same tangents, each of which is written by itself


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """The elements of a Jacobian, row by row and in each by columns: which tangent has them."""

    rows: Numbers
    columns: Numbers
    selections: Numbers


def jacobian_of_selections(op: str, y: Tensor, x: Tensor) -> SparseTensor | None:
    """Return the Jacobian of `y` by `x`, None where another way is shorter."""
    selected = _selected(y, x)
    if not 0 < len(selected) <= _MOST_SELECTIONS:
        return None
    sets, numbers = dependences(op, selected, x)
    if any((sets.sizes_of(n.reshape(-1)) != 1).any() for n in numbers):
        return None
    places = [sets.indices_of(n.reshape(-1)) for n in numbers]
    entries = _entries(op, y, selected, places)
    if entries is None or not len(entries.rows):
        return None
    ends = np.concatenate([[0], np.cumsum(np.bincount(entries.rows, minlength=y.type.count))])
    pattern = SparsityPattern.of((y.type.count, x.type.count), ends, entries.columns)
    return SparseTensor(pattern, _values(y, selected, entries, ends))


def _selected(y: Tensor, x: Tensor) -> list[Tensor]:
    """Return what is made of `x` by moving elements alone and then used, nothing if that is mixed.

    One of them must not be made of another: its tangent would be part of two.
    """
    moved, sources, used = {x}, {x: set[Tensor]()}, dict[Tensor, None]()
    for node in topological([y], stop=[x]):
        given = [t for t in node.inputs if t in moved]
        if not given:
            continue
        if _is_selection(node) and given == [node.inputs[0]]:
            moved.add(node.output)
            sources[node.output] = {given[0], *sources[given[0]]}
        else:
            used.update(dict.fromkeys(given))
    used.update({y: None} if y in moved else {})
    is_mixed = any(sources[t] & used.keys() for t in used)
    return [] if is_mixed else list(used)


def _is_selection(node: Node) -> bool:
    is_moving = node.definition.structure in (View, Reshape, Gather)
    return is_moving and has_gradient(node) and stands_for(node) is None


def _entries(
    op: str, y: Tensor, selected: Sequence[Tensor], places: Sequence[Numbers]
) -> _Entries | None:
    """Return the elements, None if a row has two of one selection, or in one column."""
    starts = np.cumsum([0, *(len(p) for p in places)])
    seed = identity(filled((int(starts[-1]),), 0, y.dtype))
    seeds = [
        reshape(narrow(seed, 0, int(start), t.type.count), t.shape)
        for t, start in zip(selected, starts[:-1], strict=True)
    ]
    (tangent,) = push_forward([y], selected, seeds, outer_tensors())
    if tangent is None:
        return None
    sets, (numbers,) = dependences(op, [tangent], seed)
    sizes = sets.sizes_of(numbers.reshape(-1))
    if len(selected) > sizes.max(initial=0) * 5 // 4 + 1:
        return None
    found = sets.indices_of(numbers.reshape(-1))
    rows = np.repeat(np.arange(y.type.count), sizes)
    own = np.searchsorted(starts, found, side="right") - 1
    columns = np.concatenate(places)[found]
    order = np.lexsort((columns, rows))
    entries = _Entries(rows, columns[order], own[order])
    return None if _meet(rows, own) or _meet(rows, entries.columns) else entries


def _meet(rows: Numbers, ascending: Numbers) -> bool:
    """Return whether two elements of a row, side by side, are equal."""
    return bool(((rows[1:] == rows[:-1]) & (ascending[1:] == ascending[:-1])).any())


def _values(y: Tensor, selected: Sequence[Tensor], entries: _Entries, ends: Numbers) -> Tensor:
    outer = outer_tensors()
    tangents: dict[int, Tensor] = {}
    for number in np.unique(entries.selections).tolist():
        one = filled_like(selected[number], 1)
        (found,) = push_forward([y], [selected[number]], [one], outer)
        assert found is not None, "what a tangent reaches has one"
        tangents[number] = reshape(found, (y.type.count,))
    runs = _runs(entries.selections, ends)
    if len(runs) <= _MOST_RUNS:
        parts = [_rows(tangents, entries.selections, ends, *run) for run in runs]
        return concat(parts, axis=0) if len(parts) > 1 else parts[0]
    order = np.searchsorted(np.array(list(tangents)), entries.selections)
    flat = concat(list(tangents.values()), axis=0)
    places = order * y.type.count + entries.rows
    return gather(flat, [constant(places, dtypes.int64)], 0)


def _rows(
    tangents: dict[int, Tensor], selections: Numbers, ends: Numbers, first: int, last: int
) -> Tensor:
    """Return the elements of rows that are made of the same tangents."""
    chosen = [tangents[number] for number in selections[ends[first] : ends[first + 1]].tolist()]
    parts = [narrow(t, 0, first, last - first) for t in chosen]
    return reshape(stack(parts, axis=1), ((last - first) * len(parts),))


def _runs(selections: Numbers, ends: Numbers) -> list[tuple[int, int]]:
    """Return the first row, and that after the last, of rows made of the same tangents."""
    sizes = np.diff(ends)
    is_like = np.zeros(len(sizes), np.bool_)
    is_like[1:] = sizes[1:] == sizes[:-1]
    rows = np.repeat(np.arange(len(sizes)), sizes)
    own = np.flatnonzero(is_like[rows])
    differs = selections[own] != selections[own - sizes[rows[own]]]
    is_like[rows[own[differs]]] = False
    starts = np.flatnonzero(~is_like)
    last = [*starts[1:].tolist(), len(sizes)]
    return [pair for pair in zip(starts.tolist(), last, strict=True) if sizes[pair[0]]]
