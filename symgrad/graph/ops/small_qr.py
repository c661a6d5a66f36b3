"""QR factorisation of small matrices, written out, and products for its gradient.

The ops are qr_columns and scaled_products: see `small_matrices.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.formulas import FloatExpr
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes, require_dtype
from symgrad.graph.ops.small_matrices import (
    Row,
    Rows,
    as_columns,
    as_matrices,
    as_rows,
    batch_columns,
    batch_rows,
    check_square,
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


# ----------------------------------------------------------------------------- scaled_products


def scaled_products(r: Tensor, g: Tensor, n: int) -> Tensor:
    """Return columns of R with ones on its diagonal, and of symmetric matrices scaled with it.

    Of upper triangles R and G, given as columns, R is D U with a diagonal D, and U comes first; the
    symmetric matrix S that has the lower triangle of R G' follows as D^-1 S.
    """
    return apply(scaled_products_op, r, g, n=n)


def _products_infer(r: TensorType, g: TensorType, *, n: int) -> TensorType:
    check_square("scaled_products", r, n)
    meet_shapes("scaled_products", "r", r, "g", g)
    return r.with_shape((2 * n * n, *r.shape[1:]))


def _products_reference(r: Array, g: Array, *, n: int) -> Array:
    upper, other = (np.triu(as_matrices(x, n)) for x in (r, g))
    lower = np.tril(upper @ other.swapaxes(-1, -2))
    scale = np.diagonal(upper, axis1=-2, axis2=-1)
    with np.errstate(all="ignore"):
        unit = upper / scale[..., :, None]
        symmetric = (lower + np.tril(lower, -1).swapaxes(-1, -2)) / scale[..., :, None]
    return np.concatenate([as_columns(unit), as_columns(symmetric)]).astype(r.dtype)


def _products(r: Row, g: Row, *, n: int) -> list[FloatExpr]:
    upper, other, zero = rows_of(r, n), rows_of(g, n), r[0].like(0.0)
    scales = [1.0 / upper[i][i] for i in range(n)]
    lower: Rows = []
    for i in range(n):
        lower.append([])
        for j in range(i + 1):
            total = upper[i][i] * other[j][i]
            for k in range(i + 1, n):
                total = total.plus(upper[i][k], other[j][k])
            lower[i].append(total)
    for i in range(n):
        upper[i] = [zero] * i + [zero.like(1.0)] + [x * scales[i] for x in upper[i][i + 1 :]]
    unit = [element for row in upper for element in row]
    symmetric = [lower[max(i, j)][min(i, j)] * scales[i] for i in range(n) for j in range(n)]
    return [*unit, *symmetric]


def _products_kernel(_r: TensorType, _g: TensorType, *, n: int) -> ColumnMap:
    return column_map(partial(_products, n=n), n**3 // 3 + 2 * n * n)


def _products_batch(operands: Operands, *, n: int) -> Tensor:
    return batch_columns(operands, n=n)


scaled_products_op = define(
    "scaled_products",
    infer=_products_infer,
    reference=_products_reference,
    grad="none",
    kernel=_products_kernel,
    batch=_products_batch,
)
