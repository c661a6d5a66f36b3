"""Sweeps of Jacobi rotations, written out for small matrices: the op sweep_columns.

See `small_matrices.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.small_matrices import (
    Row,
    as_columns,
    as_matrices,
    batch_columns,
    check_square,
    column_map,
    rows_of,
)
from symgrad.graph.structures import ColumnMap
from symgrad.graph.types import Array, TensorType

_SWEEPS = 2  # before a look at what is left
SWEPT_OUT = 6  # rows of a symmetric matrix of which sweeps of rotations are written out


def sweep_columns(a: Tensor, rows: Tensor, n: int) -> Tensor:
    """Rotate each pair of rows and columns of symmetric matrices, and `rows` with them, some times.

    The result has the elements of the matrices and then those of the rows.
    """
    return apply(sweep_columns_op, a, rows, n=n)


def _sweep_infer(a: TensorType, rows: TensorType, *, n: int) -> TensorType:
    check_square("sweep_columns", a, n)
    meet_shapes("sweep_columns", "a", a, "rows", rows)
    return a.with_shape((2 * n * n, *a.shape[1:]))


def _sweep_reference(a: Array, rows: Array, *, n: int) -> Array:
    if not n:
        return a
    turned, moved = np.array(as_matrices(a, n)), np.array(as_matrices(rows, n))
    for p, q in _pairs(n):
        turn = _turn(turned[..., p, p], turned[..., q, q], turned[..., p, q])
        pair = [p, q]
        turned[..., pair, :] = turn @ turned[..., pair, :]
        turned[..., :, pair] = turned[..., :, pair] @ turn.swapaxes(-1, -2)
        moved[..., pair, :] = turn @ moved[..., pair, :]
    return np.concatenate([as_columns(turned), as_columns(moved)]).astype(a.dtype)


def _pairs(n: int) -> list[tuple[int, int]]:
    """Return the pairs of rows of some sweeps, one after another."""
    return [(p, q) for p in range(n) for q in range(p + 1, n)] * _SWEEPS


def _turn(p: Array, q: Array, between: Array) -> Array:
    angle = 0.5 * np.arctan2(2 * between, q - p)
    angle = np.where(angle > np.pi / 4, angle - np.pi / 2, angle)
    angle = np.where(angle < -np.pi / 4, angle + np.pi / 2, angle)
    angle = np.where(between == 0, 0, angle)
    rows = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def _swept(a: Row, rows: Row, n: int) -> Sequence[FloatExpr]:
    matrix, vectors = rows_of(a, n), rows_of(rows, n)
    for p, q in _pairs(n):
        cosine, sine = _rotation(matrix[q][q] - matrix[p][p], matrix[p][q])
        for x in (matrix, vectors):
            pairs = list(zip(x[p], x[q], strict=True))
            x[p] = [(cosine * u).less(sine, v) for u, v in pairs]
            x[q] = [(cosine * v).plus(sine, u) for u, v in pairs]
        for row in matrix:
            row[p], row[q] = (
                (cosine * row[p]).less(sine, row[q]),
                (cosine * row[q]).plus(sine, row[p]),
            )
    return [x for row in (*matrix, *vectors) for x in row]


def _rotation(difference: FloatExpr, between: FloatExpr) -> tuple[FloatExpr, FloatExpr]:
    """Return cosine and sine of the lesser angle that makes `between` zero."""
    is_diagonal = between.equals(0.0)
    ratio = difference / (is_diagonal.choose(between.like(1.0), between) * 2.0)
    root = (ratio * ratio + 1.0).sqrt()
    signed = (ratio < 0.0).choose(-root, root)
    tangent = is_diagonal.choose(between.like(0.0), 1.0 / (ratio + signed))
    cosine = 1.0 / (tangent * tangent + 1.0).sqrt()
    return cosine, cosine * tangent


def _sweep_kernel(_a: TensorType, _rows: TensorType, *, n: int) -> ColumnMap:
    return column_map(lambda a, rows: _swept(a, rows, n), len(_pairs(n)) * (18 * n + 12))


def _sweep_batch(operands: Operands, *, n: int) -> Tensor:
    return batch_columns(operands, n=n)


sweep_columns_op = define(
    "sweep_columns",
    infer=_sweep_infer,
    reference=_sweep_reference,
    grad="none",
    kernel=_sweep_kernel,
    batch=_sweep_batch,
)
