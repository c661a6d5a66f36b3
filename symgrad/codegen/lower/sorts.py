"""Lowering of Sort: the rows of a strided array, sorted by one statement of the loop language.

The longest axis beside the sorted one becomes the rows of the statement, together with those that
walk through memory with it; what is left of the others becomes loops around it.
"""

from __future__ import annotations

from symgrad.codegen.loops.access import walks_on
from symgrad.codegen.loops.language import For, Index, SortRows, Stmt, StridedOperand
from symgrad.codegen.loops.rewrite import substitute_variable
from symgrad.codegen.lower.values import GroupValues
from symgrad.graph.node import Node
from symgrad.graph.structures import Sort

_Axis = tuple[str, int]  # a loop variable and its extent


def lower_sort(values: GroupValues, anchor: Node, spec: Sort) -> tuple[Stmt, ...]:
    """Return the loops and sorts that compute `anchor`, one for each buffer that takes it."""
    (operand,) = anchor.inputs
    shape, result = operand.type.static_shape, anchor.output
    variables = [values.loop(n) for n in shape]
    place = tuple(Index(0, ((v, 1),)) for v in variables)
    stored, inner = values.through_views(operand, place)
    source = values.linear(inner, stored.type.static_shape)
    target = values.linear(place, result.type.static_shape)
    axes = list(zip(variables, shape, strict=True))
    column = axes.pop(spec.axis)
    axes, indices = _merge(axes, (source, target))
    row = max(axes, key=lambda axis: axis[1], default=("row", 1))
    body: list[Stmt] = []
    for buffer in values.destinations(result):
        from_, to = (
            _operand(name, index, row[0], column[0])
            for name, index in zip((values.source(stored), buffer), indices, strict=True)
        )
        rows = (row[1], column[1], spec.count)
        body.append(SortRows(spec.gives, operand.dtype, to, from_, *rows, spec.descending))
    statements = tuple(body)
    for variable, extent in reversed([axis for axis in axes if axis is not row]):
        statements = (For(variable, extent, statements),)
    return statements


def _merge(axes: list[_Axis], indices: tuple[Index, ...]) -> tuple[list[_Axis], tuple[Index, ...]]:
    """Coalesce neighbours where both arrays walk through them in even steps; drop those of 1."""
    found = indices
    merged: list[_Axis] = []
    for outer, extent in reversed(axes):
        if merged and walks_on(found, outer, *merged[-1]):
            merged[-1] = (merged[-1][0], extent * merged[-1][1])
        elif extent != 1:
            merged.append((outer, extent))
            continue
        found = tuple(substitute_variable(i, outer, Index()) for i in found)
    return merged[::-1], found


def _operand(buffer: str, index: Index, row: str, column: str) -> StridedOperand:
    outside = Index(index.const, tuple(t for t in index.terms if t[0] not in (row, column)))
    return StridedOperand(buffer, outside, index.coefficient(row), index.coefficient(column))
