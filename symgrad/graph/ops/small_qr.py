"""QR factorisation of small matrices, written out: the op qr_columns, see `small_matrices.py`."""

from __future__ import annotations

from collections.abc import Sequence

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
    as_matrices,
    as_rows,
    batch_rows,
    column_map,
    is_wide_float,
    rows_of,
    rows_type,
)
from symgrad.graph.structures import ColumnMap
from symgrad.graph.types import Array, TensorType

ROWS_WRITTEN_OUT = 6  # and columns, of a matrix of which all reflections are written out


def qr_columns(a: Tensor, *, n: int, k: int) -> Tensor:
    """Factorise matrices of n columns: the elements of Q, which has k columns, and then of R."""
    return apply(qr_columns_op, a, n=n, k=k)


def _infer(a: TensorType, *, n: int, k: int) -> TensorType:
    require_dtype("qr_columns", "a", a, is_wide_float)
    size = a.shape[0] if a.ndim else 0
    if not isinstance(size, int) or n < 1 or size % n or a.ndim < 2:
        raise ShapeError("qr_columns", f"a: {a} has no rows of {n} elements on axis 0")
    return rows_type(a, size // n * k + k * n)


def _reference(a: Array, *, n: int, k: int) -> Array:
    matrices = as_matrices(a, n)
    mode = "complete" if k > min(matrices.shape[-2:]) else "reduced"
    q, r = np.linalg.qr(matrices, "complete" if mode == "complete" else "reduced")
    return np.concatenate([as_rows(q), as_rows(r)], 1).astype(a.dtype)


def _factored(a: Row, n: int, k: int) -> Sequence[FloatExpr]:
    r = rows_of(a, n)
    m = len(r)
    zero, one = a[0].like(0.0), a[0].like(1.0)
    reflections: list[tuple[Row, FloatExpr]] = []
    for j in range(min(m, n)):
        vector, weight, corner = reflection([r[i][j] for i in range(j, m)])
        _reflect(r, j, range(j + 1, n), vector, weight)
        r[j][j] = corner
        for i in range(j + 1, m):
            r[i][j] = zero
        reflections.append((vector, weight))
    q = [[one if i == j else zero for j in range(k)] for i in range(m)]
    for j in reversed(range(min(m, n))):
        vector, weight = reflections[j]
        _reflect(q, j, range(j, k), vector, weight)
    return [x for row in (*q, *r[:k]) for x in row]


def reflection(x: Row, *, least: float = 0.0) -> tuple[Row, FloatExpr, FloatExpr]:
    """Return v, w and c with (I - w v v') x = (c, 0, ..., 0).

    Where what is behind the first element has less than `least` as its squares, it counts as zeros.
    """
    first, zero = x[0], x[0].like(0.0)
    beyond = zero
    for element in x[1:]:
        beyond = beyond.plus(element, element)
    length = beyond.plus(first, first).sqrt()
    is_done = beyond < least if least else beyond.equals(0.0)
    corner = is_done.choose(first, (first < 0.0).choose(length, -length))
    divisor = is_done.choose(first.like(1.0), corner)
    weight = is_done.choose(zero, (corner - first) / divisor)
    scale = 1.0 / is_done.choose(first.like(1.0), first - corner)
    vector = [first.like(1.0), *(is_done.choose(zero, element * scale) for element in x[1:])]
    return vector, weight, corner


def _reflect(x: Rows, start: int, columns: range, vector: Row, weight: FloatExpr) -> None:
    """Apply a reflection to the rows from `start` on, in these columns."""
    for j in columns:
        seen = x[start][j]
        for i, element in enumerate(vector[1:], start + 1):
            seen = seen.plus(element, x[i][j])
        seen = seen * weight
        x[start][j] = x[start][j] - seen
        for i, element in enumerate(vector[1:], start + 1):
            x[i][j] = x[i][j].less(element, seen)


def _kernel(a: TensorType, *, n: int, k: int) -> ColumnMap:
    m = a.static_shape[0] // n
    return column_map(lambda x: _factored(x, n, k), 2 * m * n * (n + k), axis=1)


def _batch(operands: Operands, *, n: int, k: int) -> Tensor:
    return batch_rows(operands, n=n, k=k)


qr_columns_op = define(
    "qr_columns",
    infer=_infer,
    reference=_reference,
    grad="none",
    kernel=_kernel,
    batch=_batch,
)
