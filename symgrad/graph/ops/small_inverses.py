"""Inverses of a few rows, written out, and what a gradient makes of them: see `small_matrices.py`.

No column of an identity is in memory: a triangle is inverted in its place, and the exchanges of
rows are made at the end, of columns.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.formulas import Condition, FloatExpr
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.small_matrices import (
    Row,
    Rows,
    as_matrices,
    as_rows,
    batch_rows,
    check_square,
    column_map,
    lu_of,
    rows_of,
    rows_type,
    substitution,
)
from symgrad.graph.structures import ColumnMap
from symgrad.graph.types import Array, TensorType

# ------------------------------------------------------------------------------ inverse_columns


def inverse_columns(a: Tensor, n: int) -> Tensor:
    """Return the inverses of n by n matrices."""
    return apply(inverse_columns_op, a, n=n)


def _inverse_infer(a: TensorType, *, n: int) -> TensorType:
    check_square("inverse_columns", a, n)
    return rows_type(a, n * n)


def _inverse_reference(a: Array, *, n: int) -> Array:
    factors, order = lu_of(as_matrices(a, n))
    moved = np.eye(n, dtype=a.dtype)[order]
    inner = substitution(factors, moved, lower=True, unit=True)
    return as_rows(substitution(factors, inner, lower=False, unit=False))


def _inverted(a: Row, n: int) -> Row:
    """Eliminate with partial pivoting; a pivot of 0 leaves no number."""
    rows = rows_of(a, n)
    scales: Row = []
    exchanges: list[tuple[int, int, Condition]] = []
    for k in range(n):
        for i in range(k + 1, n):
            is_greater = abs(rows[i][k]) > abs(rows[k][k])
            exchanges.append((k, i, is_greater))
            _exchange(rows[k], rows[i], is_greater)
        scales.append(1.0 / rows[k][k])
        for row in rows[k + 1 :]:
            row[k] = row[k] * scales[k]
            row[k + 1 :] = _less(row[k + 1 :], row[k], rows[k][k + 1 :])
    found = _by_upper(rows, _inverse_of_lower(rows), scales)
    for k, i, is_greater in reversed(exchanges):
        for row in found:
            chosen = is_greater.choose(row[i], row[k]), is_greater.choose(row[k], row[i])
            row[k], row[i] = chosen
    return [x for row in found for x in row]


def _exchange(upper: Row, lower: Row, is_chosen: Condition) -> None:
    pairs = list(zip(upper, lower, strict=True))
    upper[:] = [is_chosen.choose(y, x) for x, y in pairs]
    lower[:] = [is_chosen.choose(x, y) for x, y in pairs]


def _less(row: Row, factor: FloatExpr, other: Row) -> Row:
    return [x.less(factor, y) for x, y in zip(row, other, strict=True)]


def _inverse_of_lower(rows: Rows) -> Rows:
    """Return what -L^-1 has below its diagonal of minus ones, row by row."""
    found: Rows = []
    for i, row in enumerate(rows):
        inverse = row[:i]
        for k in range(1, i):
            inverse[:k] = _less(inverse[:k], row[k], found[k])
        found.append(inverse)
    return found


def _by_upper(rows: Rows, inverse: Rows, scales: Row) -> Rows:
    """Return U^-1 L^-1, given what -L^-1 has below its diagonal, from the last row to the first."""
    n = len(rows)
    found: Rows = [[] for _ in rows]
    for i in reversed(range(n)):
        negative = -scales[i]
        for column in range(n):
            terms = [(rows[i][j], found[j][column]) for j in range(i + 1, n)]
            if column == i:
                one = scales[i].like(1.0)
                rest = reduce(lambda total, term: total.less(*term), terms, one)
                found[i].append(rest * scales[i] if terms else scales[i])
                continue
            total = inverse[i][column] if column < i else terms[0][0] * terms[0][1]
            for term in terms if column < i else terms[1:]:
                total = total.plus(*term)
            found[i].append(total * negative)
    return found


def _inverse_kernel(_a: TensorType, *, n: int) -> ColumnMap:
    return column_map(lambda a: _inverted(a, n), 2 * n**3, axis=1)


def _inverse_batch(operands: Operands, *, n: int) -> Tensor:
    return batch_rows(operands, n=n)


inverse_columns_op = define(
    "inverse_columns",
    infer=_inverse_infer,
    reference=_inverse_reference,
    grad="none",
    kernel=_inverse_kernel,
    batch=_inverse_batch,
)


# ----------------------------------------------------------------------- inverse_change_columns


def inverse_change_columns(w: Tensor, x: Tensor, n: int) -> Tensor:
    """Return -w' x w' of n by n matrices."""
    return apply(inverse_change_columns_op, w, x, n=n)


def _change_infer(w: TensorType, x: TensorType, *, n: int) -> TensorType:
    check_square("inverse_change_columns", w, n)
    meet_shapes("inverse_change_columns", "w", w, "x", x)
    return rows_type(w, n * n)


def _change_reference(w: Array, x: Array, *, n: int) -> Array:
    turned = as_matrices(w, n).swapaxes(-1, -2)
    return as_rows(-(turned @ as_matrices(x, n) @ turned))


def _changed(w: Row, x: Row, n: int) -> Row:
    turned = [list(column) for column in zip(*rows_of(w, n), strict=True)]
    inner = _product(turned, rows_of(x, n))
    return [-x for row in _product(inner, turned) for x in row]


def _product(a: Rows, b: Rows) -> Rows:
    columns = [list(column) for column in zip(*b, strict=True)]
    return [[_dot(row, column) for column in columns] for row in a]


def _dot(a: Row, b: Row) -> FloatExpr:
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total.plus(x, y)
    return total


def _change_kernel(_w: TensorType, _x: TensorType, *, n: int) -> ColumnMap:
    return column_map(lambda w, x: _changed(w, x, n), 4 * n**3, axis=1)


def _change_batch(operands: Operands, *, n: int) -> Tensor:
    return batch_rows(operands, n=n)


inverse_change_columns_op = define(
    "inverse_change_columns",
    infer=_change_infer,
    reference=_change_reference,
    grad="none",
    kernel=_change_kernel,
    batch=_change_batch,
)
