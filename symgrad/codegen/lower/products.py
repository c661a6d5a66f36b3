"""Lowering to GEMM: a Contract as a matrix product, where its operands are matrices in memory.

The labels of a contraction fall into four groups: in both operands and the result (batch), in the
left one and the result (rows), in the right one and the result (columns), in both operands only
(inner). Neighbours within a group become one axis where every buffer walks through both in steps
of one size; what is left over of batch, rows and columns becomes loops around the product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from symgrad.codegen.loops.access import walks_on
from symgrad.codegen.loops.language import For, Index, Product, Stmt, StridedOperand
from symgrad.codegen.loops.rewrite import indices, map_indices, substitute_variable
from symgrad.codegen.lower.values import GroupValues
from symgrad.cost_model import MIN_PRODUCTS
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Contract

Axis = tuple[str, int]  # a loop variable and its extent


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """An operand as a strided array in memory: its buffer and its index in the loop variables."""

    buffer: str
    index: Index


@dataclass(slots=True)
class _Axes:
    batch: list[Axis]
    rows: list[Axis]
    columns: list[Axis]
    inner: list[Axis]


def plan_product(
    values: GroupValues, anchor: Node, spec: Contract
) -> tuple[dict[str, Axis], MatrixOperand, MatrixOperand] | None:
    """Return the loop of each label and the operands, or None if a fold should be used."""
    lhs, rhs = anchor.inputs
    sizes = spec.sizes(lhs.type.static_shape, rhs.type.static_shape)
    rows = math.prod(n for k, n in sizes.items() if k not in spec.rhs)
    columns = math.prod(n for k, n in sizes.items() if k not in spec.lhs)
    if spec.windows is not None:
        return None
    if rows < 2 or columns < 2 or math.prod(sizes.values()) < MIN_PRODUCTS:
        return None
    loops = {label: (values.loop(n), n) for label, n in sizes.items()}
    left = _strided(values, lhs, [loops[k] for k in spec.lhs])
    right = _strided(values, rhs, [loops[k] for k in spec.rhs])
    return None if left is None or right is None else (loops, left, right)


def _strided(values: GroupValues, tensor: Tensor, axes: Sequence[Axis]) -> MatrixOperand | None:
    index = tuple(Index(0, ((variable, 1),)) for variable, _ in axes)
    stored, place = values.through_views(tensor, index)
    offset = values.linear(place, stored.type.static_shape)
    if not values.is_in_memory(stored) or not all(isinstance(a, str) for a, _ in offset.terms):
        return None
    return MatrixOperand(values.source(stored), offset)


def build_product(
    loops: dict[str, Axis],
    spec: Contract,
    left: MatrixOperand,
    right: MatrixOperand,
    make: Callable[[StridedOperand, StridedOperand, Axis, Axis, Axis, tuple[Stmt, ...]], Product],
    body: tuple[Stmt, ...],
) -> tuple[Stmt, ...] | None:
    """Return loops around a product, or None if the inner labels do not make one axis.

    `body` is what is done with each element, in the variables of `loops`.
    """
    axes = _grouped(loops, spec)
    lhs, rhs = left.index, right.index
    axes.inner.sort(key=lambda axis: -abs(lhs.coefficient(axis[0])))
    axes.inner, (lhs, rhs), _ = _merge(axes.inner, (lhs, rhs), ())
    if len(axes.inner) > 1:
        return None
    axes.rows, (lhs,), body = _merge(axes.rows, (lhs,), body)
    axes.columns, (rhs,), body = _merge(axes.columns, (rhs,), body)
    row, around_rows = _largest(axes.rows, "row")
    column, around_columns = _largest(axes.columns, "column")
    inner = axes.inner[0] if axes.inner else ("inner", 1)
    product = make(
        _operand(left.buffer, lhs, row, inner),
        _operand(right.buffer, rhs, inner, column),
        row,
        column,
        inner,
        body,
    )
    result: tuple[Stmt, ...] = (product,)
    for variable, extent in reversed([*axes.batch, *around_rows, *around_columns]):
        result = (For(variable, extent, result),)
    return result


def _grouped(loops: dict[str, Axis], spec: Contract) -> _Axes:
    axes = _Axes([], [], [], [])
    for label in (*spec.out, *(k for k in spec.lhs if k not in spec.out)):
        if label in spec.lhs and label in spec.rhs:
            (axes.batch if label in spec.out else axes.inner).append(loops[label])
        else:
            (axes.rows if label in spec.lhs else axes.columns).append(loops[label])
    return axes


def _merge(
    axes: list[Axis], operands: tuple[Index, ...], body: tuple[Stmt, ...]
) -> tuple[list[Axis], tuple[Index, ...], tuple[Stmt, ...]]:
    """Merge neighbours among `axes` where operands and body walk through both in even steps.

    An axis of size 1 goes, unless it is all there is: its variable is 0 wherever it occurs.
    """
    wide = [axis for axis in axes if axis[1] != 1] or axes[:1]
    gone = [variable for variable, extent in axes if (variable, extent) not in wide]
    merged = wide[-1:]
    for outer, extent in reversed(wide[:-1]):
        variable, inner_extent = merged[-1]
        if walks_on((*operands, *indices(body)), outer, variable, inner_extent):
            gone.append(outer)
            merged[-1] = (variable, extent * inner_extent)
        else:
            merged.append((outer, extent))
    for variable in gone:
        operands, body = _at_zero(operands, body, variable)
    return list(reversed(merged)), operands, body


def _at_zero(
    operands: tuple[Index, ...], body: tuple[Stmt, ...], variable: str
) -> tuple[tuple[Index, ...], tuple[Stmt, ...]]:
    def change(index: Index) -> Index:
        return substitute_variable(index, variable, Index())

    return tuple(map(change, operands)), map_indices(body, change)


def _largest(axes: list[Axis], name: str) -> tuple[Axis, list[Axis]]:
    if not axes:
        return (name, 1), []
    chosen = max(axes, key=lambda axis: axis[1])
    return chosen, [axis for axis in axes if axis is not chosen]


def _operand(buffer: str, index: Index, rows: Axis, columns: Axis) -> StridedOperand:
    inside = (rows[0], columns[0])
    outside = Index(index.const, tuple(t for t in index.terms if t[0] not in inside))
    return StridedOperand(
        buffer, outside, index.coefficient(rows[0]), index.coefficient(columns[0])
    )
