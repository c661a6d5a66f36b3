"""Sweeps of Jacobi rotations, written out for small matrices: sweep_columns, orthogonalise_columns.

A column has the elements of two matrices of n rows, one behind the other: of the second the rows
are turned with those of the first. See `small_matrices.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import require_dtype
from symgrad.graph.ops.small_matrices import (
    Row,
    Rows,
    as_columns,
    as_matrices,
    batch_columns,
    column_map,
    is_wide_float,
    rows_of,
)
from symgrad.graph.structures import ColumnMap
from symgrad.graph.types import Array, TensorType

SWEPT_OUT = 4  # rows of a matrix of which sweeps of rotations are written out
# Of a difference to twice what is between: beyond it an angle is much less than rounding.
_MOST_RATIO = {"f32": 2.0**32, "f64": 2.0**61}


def sweep_columns(x: Tensor, n: int) -> Tensor:
    """Rotate each pair of rows and columns of symmetric matrices, and other rows with them.

    Of the symmetric matrices lower triangles are read.
    """
    return apply(sweep_columns_op, x, n=n)


def orthogonalise_columns(x: Tensor, n: int) -> Tensor:
    """Rotate each pair of rows so that they are orthogonal, and other rows with them."""
    return apply(orthogonalise_columns_op, x, n=n)


def _infer_for(op: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, n: int) -> TensorType:
        require_dtype(op, "x", x, is_wide_float)
        if x.ndim < 2 or n < 1 or x.shape[0] != 2 * n * n:
            raise ShapeError(op, f"x: {x} does not have the elements of two matrices on axis 0")
        return x

    return infer


def _pairs(n: int) -> list[tuple[int, int]]:
    """Return all pairs of rows; those of a round are disjoint (the circle method)."""
    places = list(range(n + n % 2))
    found = []
    for _ in places[1:]:
        ends = zip(places, reversed(places), strict=True)
        found += [(min(pair), max(pair)) for pair in list(ends)[: len(places) // 2]]
        places = [places[0], places[-1], *places[1:-1]]
    return [(p, q) for p, q in found if q < n]


def _turn(p: Array, q: Array, between: Array) -> Array:
    angle = 0.5 * np.arctan2(2 * between, q - p)
    angle = np.where(angle > np.pi / 4, angle - np.pi / 2, angle)
    angle = np.where(angle < -np.pi / 4, angle + np.pi / 2, angle)
    angle = np.where(between == 0, 0, angle)
    rows = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def _rotation(difference: FloatExpr, between: FloatExpr) -> tuple[FloatExpr, FloatExpr]:
    """Return cosine and sine of the lesser angle that makes `between` zero: none if it is tiny.

    They are those of the tangent 1 / w, which is never divided.
    """
    is_diagonal = between.equals(0.0)
    one = between.like(1.0)
    ratio = difference / (is_diagonal.choose(one, between) * 2.0)
    size = abs(ratio)
    w = size + one.plus(size, size).sqrt()
    shrunk = 1.0 / one.plus(w, w).sqrt()
    # Sines that turn nothing would make products too small to be normal numbers, which are slow.
    is_none = is_diagonal | (size > _MOST_RATIO[ratio.short])
    sine = is_none.choose(between.like(0.0), (ratio < 0.0).choose(-shrunk, shrunk))
    return is_none.choose(one, w * shrunk), sine


def _rotated(
    p: FloatExpr, q: FloatExpr, cosine: FloatExpr, sine: FloatExpr
) -> tuple[FloatExpr, FloatExpr]:
    return (cosine * p).less(sine, q), (cosine * q).plus(sine, p)


def _rotate_rows(rows: Rows, p: int, q: int, cosine: FloatExpr, sine: FloatExpr) -> None:
    pairs = zip(rows[p], rows[q], strict=True)
    turned = [_rotated(u, v, cosine, sine) for u, v in pairs]
    rows[p], rows[q] = [u for u, _ in turned], [v for _, v in turned]


def _batch(operands: Operands, *, n: int) -> Tensor:
    return batch_columns(operands, n=n)


# ------------------------------------------------------------------------------ sweep_columns


def _sweep_reference(x: Array, *, n: int) -> Array:
    turned, moved = np.array(as_matrices(x[: n * n], n)), np.array(as_matrices(x[n * n :], n))
    turned = np.tril(turned) + np.tril(turned, -1).swapaxes(-1, -2)
    for p, q in _pairs(n):
        turn = _turn(turned[..., p, p], turned[..., q, q], turned[..., p, q])
        pair = [p, q]
        turned[..., pair, :] = turn @ turned[..., pair, :]
        turned[..., :, pair] = turned[..., :, pair] @ turn.swapaxes(-1, -2)
        moved[..., pair, :] = turn @ moved[..., pair, :]
    return np.concatenate([as_columns(turned), as_columns(moved)]).astype(x.dtype)


def _swept(x: Row, n: int) -> Sequence[FloatExpr]:
    matrix, vectors = rows_of(x[: n * n], n), rows_of(x[n * n :], n)
    for p, q in _pairs(n):
        between = matrix[q][p]
        cosine, sine = _rotation(matrix[q][q] - matrix[p][p], between)
        _rotate_rows(vectors, p, q, cosine, sine)
        for i in (i for i in range(n) if i not in (p, q)):
            (a, b), (c, d) = _below(i, p), _below(i, q)
            matrix[a][b], matrix[c][d] = _rotated(matrix[a][b], matrix[c][d], cosine, sine)
        first = _rotated(matrix[p][p], between, cosine, sine)
        second = _rotated(between, matrix[q][q], cosine, sine)
        matrix[p][p] = (cosine * first[0]).less(sine, second[0])
        matrix[q][q] = (cosine * second[1]).plus(sine, first[1])
        matrix[q][p] = between.like(0.0)
    lines = [matrix[max(i, j)][min(i, j)] for i in range(n) for j in range(n)]
    return [*lines, *(element for row in vectors for element in row)]


def _below(i: int, j: int) -> tuple[int, int]:
    """Return the place in the lower triangle of an element of a symmetric matrix."""
    return max(i, j), min(i, j)


def _sweep_kernel(_x: TensorType, *, n: int) -> ColumnMap:
    return column_map(lambda x: _swept(x, n), len(_pairs(n)) * (12 * n + 16))


sweep_columns_op = define(
    "sweep_columns",
    infer=_infer_for("sweep_columns"),
    reference=_sweep_reference,
    grad="none",
    kernel=_sweep_kernel,
    batch=_batch,
)


# ---------------------------------------------------------------------- orthogonalise_columns


def _orthogonal_reference(x: Array, *, n: int) -> Array:
    turned, moved = np.array(as_matrices(x[: n * n], n)), np.array(as_matrices(x[n * n :], n))
    for p, q in _pairs(n):
        u, v = turned[..., p, :], turned[..., q, :]
        turn = _turn((u * u).sum(-1), (v * v).sum(-1), (u * v).sum(-1))
        for rows in (turned, moved):
            rows[..., [p, q], :] = turn @ rows[..., [p, q], :]
    return np.concatenate([as_columns(turned), as_columns(moved)]).astype(x.dtype)


def _orthogonalised(x: Row, n: int) -> Sequence[FloatExpr]:
    lines, vectors = rows_of(x[: n * n], n), rows_of(x[n * n :], n)
    for p, q in _pairs(n):
        difference = _dot(lines[q], lines[q]) - _dot(lines[p], lines[p])
        cosine, sine = _rotation(difference, _dot(lines[p], lines[q]))
        _rotate_rows(lines, p, q, cosine, sine)
        _rotate_rows(vectors, p, q, cosine, sine)
    return [element for row in (*lines, *vectors) for element in row]


def _dot(a: Row, b: Row) -> FloatExpr:
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total.plus(x, y)
    return total


def _orthogonal_kernel(_x: TensorType, *, n: int) -> ColumnMap:
    return column_map(lambda x: _orthogonalised(x, n), len(_pairs(n)) * (18 * n + 12))


orthogonalise_columns_op = define(
    "orthogonalise_columns",
    infer=_infer_for("orthogonalise_columns"),
    reference=_orthogonal_reference,
    grad="none",
    kernel=_orthogonal_kernel,
    batch=_batch,
)
