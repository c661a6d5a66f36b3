"""Lowering to GEMM: a Contract as a matrix product, where its operands are matrices in memory.

The labels of a contraction fall into four groups: in both operands and the result (batch), in the
left one and the result (rows), in the right one and the result (columns), in both operands only
(inner). Neighbours within a group become one axis where every buffer walks through both in steps
of one size; what is left over of batch, rows and columns becomes loops around the product.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from symgrad.codegen.loops.access import walks_on
from symgrad.codegen.loops.index_arithmetic import modulus, quotient
from symgrad.codegen.loops.language import For, Index, Product, Stmt, Store, StridedOperand
from symgrad.codegen.loops.rewrite import indices, map_indices, statements, substitute_variable
from symgrad.codegen.lower.axes import Axis, CountedAxes
from symgrad.codegen.lower.padding import (
    Lines,
    counted_borders,
    lines_of,
    rows_beside,
    terms_beside,
)
from symgrad.codegen.lower.values import GroupValues
from symgrad.cost_model.products import DENSE_COLUMNS, LEAST_RESULTS_COUNTED, WIDE_COLUMNS
from symgrad.graph.node import Node, Tensor
from symgrad.graph.structures import Contract, Place
from symgrad.passes.costs import kernel_spec
from symgrad.passes.fusion.windows import multiplies_matrices
from symgrad.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """An operand as a strided array in memory: its buffer and its index in the loop variables.

    `lines` say of axes of it which part of each is not padding of zeros, which may be `absent`.
    """

    buffer: str
    index: Index
    lines: tuple[Lines, ...] = ()


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
    if not multiplies_matrices(anchor, spec):
        return None
    loops = {label: (values.loop(n), n) for label, n in sizes.items()}
    of_lhs, of_rhs = (
        tuple(Index(0, ((loops[k][0], 1),)) for k in labels) for labels in (spec.lhs, spec.rhs)
    )
    left = _strided(values, lhs, values.windowed(spec, of_lhs))
    right = _strided(values, rhs, of_rhs)
    return None if left is None or right is None else (loops, left, right)


def _strided(values: GroupValues, tensor: Tensor, index: tuple[Index, ...]) -> MatrixOperand | None:
    stored, place = values.through_views(tensor, index)
    lines: tuple[Lines, ...] = ()
    spec = kernel_spec(stored.node)
    if isinstance(spec, Place):
        absent = values.is_left_out(stored)
        lines = lines_of(spec, stored, place, absent=absent)
        if absent:
            stored, place = stored.node.inputs[0], values.within(spec, place)
    offset = values.linear(place, stored.type.static_shape)
    if not values.is_in_memory(stored) or not all(isinstance(a, str) for a, _ in offset.terms):
        return None
    return MatrixOperand(values.source(stored), offset, lines)


def build_product(
    loops: dict[str, Axis],
    spec: Contract,
    left: MatrixOperand,
    right: MatrixOperand,
    make: Callable[[StridedOperand, StridedOperand, Axis, Axis, Axis, tuple[Stmt, ...]], Product],
    body: tuple[Stmt, ...],
    *,
    divides_rows: bool,
) -> tuple[Stmt, ...] | None:
    """Return loops around a product, or None if the inner labels do not make one axis.

    `body` is what is done with each element, in the variables of `loops`. With `divides_rows` its
    indices are divided out of those of the product's rows where it does not walk evenly as well.
    """
    axes = _grouped(loops, spec)
    lhs, rhs = left.index, right.index
    axes.inner.sort(key=lambda axis: -abs(lhs.coefficient(axis[0])))
    kept: frozenset[str] = frozenset()
    beside = rows_beside(axes.rows, axes.inner, left.lines, lhs)
    if beside is not None:
        axes.rows, kept = beside
        axes.inner = terms_beside(axes.rows, axes.inner, left.lines, lhs)
    axes.inner, (lhs, rhs), _ = _merge(axes.inner, (lhs, rhs), (), kept)
    if len(axes.inner) > 1 and spec.windows is None:
        return None
    axes.columns, (rhs,), body = _merge(axes.columns, (rhs,), body)
    if (divides_rows or kept) and axes.rows:
        row, around_rows, lhs, body = _divided_rows(axes.rows, lhs, body, spec, kept)
    else:
        axes.rows, (lhs,), body = _merge(axes.rows, (lhs,), body)
        row, around_rows, body = _chosen(axes.rows, "row", body, spec, Index())
    results = math.prod(loops[label][1] for label in spec.out)
    is_counted = results >= LEAST_RESULTS_COUNTED
    column, around_columns, body = _chosen(
        axes.columns, "column", body, spec, rhs, is_counted=is_counted
    )
    inner = CountedAxes(axes.inner or [("inner", 1)])
    product = make(
        _operand(left.buffer, lhs, row, inner),
        _operand(right.buffer, rhs, inner, column),
        row.whole,
        column.whole,
        inner.whole,
        body,
    )
    borders = counted_borders(row, inner, left.lines, set(loops.values()))
    product = replace(product, borders=borders)
    result: tuple[Stmt, ...] = (product,)
    for variable, extent in reversed([*axes.batch, *around_rows, *around_columns]):
        result = (For(variable, extent, result),)
    return result


def _chosen(
    axes: list[Axis],
    name: str,
    body: tuple[Stmt, ...],
    spec: Contract,
    operand: Index,
    *,
    is_counted: bool = False,
) -> tuple[CountedAxes, list[Axis], tuple[Stmt, ...]]:
    """Return the axis of the product among `axes`, those that are loops around it, and the body.

    That is a wide one whose elements lie side by side in `operand`, as those of a panel do, else
    one of a vector or more that lie so in the result, else the longest. The body walks evenly
    through all digits of one axis, which only an operand tells apart: so it does with windows, and
    with `is_counted` where columns are few.
    """
    if not axes:
        return CountedAxes([(name, 1)]), [], body
    if spec.windows is None:
        stored = [s.index for s in statements(body) if isinstance(s, Store)]

        def preference(axis: Axis) -> tuple[bool, bool, int]:
            variable, extent = axis
            is_panel = extent >= WIDE_COLUMNS and abs(operand.coefficient(variable)) == 1
            is_dense = any(index.coefficient(variable) == 1 for index in stored)
            return is_panel, extent >= DENSE_COLUMNS and is_dense, extent

        chosen = max(axes, key=preference)
        is_narrow = chosen is axes[-1] and chosen[1] < WIDE_COLUMNS
        run = _runs(axes, body)[-1] if is_counted and is_narrow else CountedAxes([chosen])
        return _counted(axes, run, body)
    return _counted(axes, max(_runs(axes, body), key=lambda axis: axis.whole[1]), body)


def _runs(axes: list[Axis], body: tuple[Stmt, ...]) -> list[CountedAxes]:
    """Return neighbours among `axes` that the body walks through in even steps."""
    groups = [[axes[-1]]]
    for outer in reversed(axes[:-1]):
        variable, extent = CountedAxes(groups[-1]).whole
        if walks_on(indices(body), outer[0], variable, extent):
            groups[-1].insert(0, outer)
        else:
            groups.append([outer])
    return [*map(CountedAxes, reversed(groups))]


def _counted(
    axes: list[Axis], counted: CountedAxes, body: tuple[Stmt, ...]
) -> tuple[CountedAxes, list[Axis], tuple[Stmt, ...]]:
    """Return the axis of a product, the loops around it, and the body in its whole variable."""
    for variable, _ in counted.digits[:-1]:
        _, body = _at_zero((), body, variable)
    return counted, [axis for axis in axes if axis not in counted.digits], body


def _divided_rows(
    axes: list[Axis],
    lhs: Index,
    body: tuple[Stmt, ...],
    spec: Contract,
    kept: frozenset[str],
) -> tuple[CountedAxes, list[Axis], Index, tuple[Stmt, ...]]:
    """Return the rows of the product, the loops around it, and both indices in their variables.

    The rows are as many as the left operand has in even steps, or with windows all of them.
    """
    wide = [axis for axis in axes if axis[1] != 1] or axes[:1]
    for variable, _ in (axis for axis in axes if axis not in wide):
        _, body = _at_zero((), body, variable)
    merged, (lhs,), _ = _merge(axes, (lhs,), (), kept)
    if spec.windows is not None:
        rows = CountedAxes(merged)
        return rows, [], lhs, _divided(body, rows.whole, wide)
    for whole in reversed(merged):
        digits: list[Axis] = []
        while math.prod(extent for _, extent in digits) < whole[1]:
            digits.insert(0, wide.pop())
        body = _divided(body, whole, digits)
    longest = max(merged, key=lambda axis: axis[1])
    return CountedAxes([longest]), [axis for axis in merged if axis is not longest], lhs, body


def _divided(body: tuple[Stmt, ...], whole: Axis, digits: list[Axis]) -> tuple[Stmt, ...]:
    """Replace the variables of `digits` by what they are where an axis of all of them is."""
    variable, place = whole
    at: dict[str, Index] = {}
    for digit, extent in digits:
        place //= max(extent, 1)
        extents = {variable: whole[1]}
        high = quotient(Index(0, ((variable, 1),)), max(place, 1), extents)
        at[digit] = modulus(high, max(extent, 1), extents)

    def change(index: Index) -> Index:
        # The lowest digit first: its variable is that of the whole axis.
        for digit, _ in reversed(digits):
            index = substitute_variable(index, digit, at[digit])
        return index

    return map_indices(body, change)


def _grouped(loops: dict[str, Axis], spec: Contract) -> _Axes:
    axes = _Axes([], [], [], [])
    for label in (*spec.out, *(k for k in spec.lhs if k not in spec.out)):
        if label in spec.lhs and label in spec.rhs:
            (axes.batch if label in spec.out else axes.inner).append(loops[label])
        else:
            (axes.rows if label in spec.lhs else axes.columns).append(loops[label])
    return axes


def _merge(
    axes: list[Axis],
    operands: tuple[Index, ...],
    body: tuple[Stmt, ...],
    kept: frozenset[str] = frozenset(),
) -> tuple[list[Axis], tuple[Index, ...], tuple[Stmt, ...]]:
    """Merge neighbours among `axes` where operands and body walk through both in even steps.

    Those that are `kept` stay axes of their own. An axis of size 1 goes, unless it is all there is:
    its variable is 0 wherever it occurs.
    """
    wide = [axis for axis in axes if axis[1] != 1] or axes[:1]
    gone = [variable for variable, extent in axes if (variable, extent) not in wide]
    merged = wide[-1:]
    for outer, extent in reversed(wide[:-1]):
        variable, inner_extent = merged[-1]
        is_even = walks_on((*operands, *indices(body)), outer, variable, inner_extent)
        if is_even and kept.isdisjoint((outer, variable)):
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


def _operand(buffer: str, index: Index, rows: CountedAxes, columns: CountedAxes) -> StridedOperand:
    inside = {variable for axis in (rows, columns) for variable, _ in axis.digits}
    outside = Index(index.const, tuple(t for t in index.terms if t[0] not in inside))
    (row, row_digits), (column, column_digits) = rows.of(index), columns.of(index)
    return StridedOperand(buffer, outside, row, column, row_digits, column_digits)
