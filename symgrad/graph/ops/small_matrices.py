"""Factorisations of small matrices, written out: ops that see a matrix as a column of elements.

Operands have the elements of a matrix, in row-major order, along axis 0; all other axes count
matrices. So every step of an algorithm is one instruction for as many matrices as a vector has
lanes. Results have the elements behind the first of these axes, which is where rows of matrices lie
in memory. What is factorised in blocks has these for the blocks along its diagonal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.formulas import FloatExpr
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes, require_dtype
from symgrad.graph.ops.portable import ArrayScalars
from symgrad.graph.ops.structure import permute_dims
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import ColumnMap, ScalarExpr
from symgrad.graph.types import Array, TensorType

Row = list[FloatExpr]
Rows = list[Row]
MOST_SUBSTITUTED = 64  # rows of a triangle: code, and time to compile it, grow as their square
Algorithm = Callable[..., Sequence[FloatExpr]]


def is_wide_float(dtype: DType) -> bool:
    """Return whether matrices of this dtype are factorised: float32 and float64."""
    return dtype.is_float and not dtype.is_half


def column_map(algorithm: Algorithm, flops: int, *, axis: int = 0) -> ColumnMap:
    """Return the structure of an algorithm on expressions: from columns to one along `axis`."""

    def body(s: Scalars[ScalarExpr], *columns: Sequence[ScalarExpr]) -> Sequence[ScalarExpr]:
        wrapped = [[FloatExpr(s, element) for element in column] for column in columns]
        return [element.value for element in algorithm(*wrapped)]

    return ColumnMap(body, flops, (axis,))


def rows_of(column: Sequence[FloatExpr], width: int) -> Rows:
    """Return the rows of a matrix that is given as a column."""
    return [list(column[i : i + width]) for i in range(0, len(column), width)]


def on_arrays(algorithm: Callable[..., list[FloatExpr]], operands: Sequence[Array]) -> Array:
    """Return what an algorithm does to arrays of many columns: a reference."""
    scalars = ArrayScalars()
    wrapped = [[FloatExpr(scalars, row) for row in operand] for operand in operands]
    with np.errstate(all="ignore"):
        found = [x.value for x in algorithm(*wrapped)]
    return np.stack(np.broadcast_arrays(*found)).astype(operands[0].dtype)


def as_matrices(columns: Array, width: int) -> Array:
    """Return columns as an array of matrices, whose axes are the last two."""
    rest = columns.shape[1:]
    return np.moveaxis(columns.reshape(columns.shape[0] // width, width, *rest), (0, 1), (-2, -1))


def as_columns(matrices: Array) -> Array:
    """Return what `as_matrices` takes apart."""
    columns = np.moveaxis(matrices, (-2, -1), (0, 1))
    return np.ascontiguousarray(
        columns.reshape(columns.shape[0] * columns.shape[1], *columns.shape[2:])
    )


def rows_type(a: TensorType, count: int) -> TensorType:
    """Return the type of results of `count` elements for operands like `a`."""
    return a.with_shape((a.shape[1], count, *a.shape[2:]))


def as_rows(matrices: Array) -> Array:
    """Return matrices as results have their elements: behind the first axis that counts them."""
    return np.ascontiguousarray(np.swapaxes(as_columns(matrices), 0, 1))


def batch_rows(operands: Operands, **attrs: Any) -> Tensor:
    """Give operands of `rows_type` results the axis, as the first of those that count matrices."""
    inner = [permute_dims(t, (1, 0, *range(2, t.ndim))) for t in operands.lifted()]
    result = operands.apply(*inner, **attrs)
    return permute_dims(result, (0, 2, 1, *range(3, result.ndim)))


def batch_columns(operands: Operands, **attrs: Any) -> Tensor:
    """Give operands and result the axis behind that of the elements, and move it to the front."""
    inner = [permute_dims(t, (1, 0, *range(2, t.ndim))) for t in operands.lifted()]
    result = operands.apply(*inner, **attrs)
    return permute_dims(result, (1, 0, *range(2, result.ndim)))


def check_square(op: str, a: TensorType, n: int) -> None:
    """Raise unless `a` has n by n matrices, and an axis that counts them."""
    require_dtype(op, "a", a, is_wide_float)
    if a.ndim < 2:
        raise ShapeError(op, f"a: {a} has no axis that counts matrices")
    if n < 1 or a.shape[0] != n * n:
        raise ShapeError(op, f"a: {a} does not have the {n * n} elements of a matrix on axis 0")


# --------------------------------------------------------------------------------- cholesky


def cholesky_columns(a: Tensor, n: int) -> Tensor:
    """Factorise n by n matrices, given by their lower triangles: the factor L, zeros above."""
    return apply(cholesky_columns_op, a, n=n)


def _cholesky_infer(a: TensorType, *, n: int) -> TensorType:
    check_square("cholesky_columns", a, n)
    return rows_type(a, n * n)


def cholesky_or_nan(a: Array) -> Array:
    """Return the lower factors of matrices, all nan for one that is not positive definite."""
    result = np.full_like(a, np.nan)
    symmetric = np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2).conj()
    for place in np.ndindex(a.shape[:-2]):
        try:
            if np.isfinite(symmetric[place]).all():
                result[place] = np.linalg.cholesky(symmetric[place])
        except np.linalg.LinAlgError:
            continue
    return result


def _cholesky_reference(a: Array, *, n: int) -> Array:
    return as_rows(cholesky_or_nan(as_matrices(a, n)))


def _cholesky_rows(a: Row, n: int) -> Sequence[FloatExpr]:
    """Left-looking: an element is finished before the next is begun, and so leaves its register."""
    if not n:
        return []
    rows = rows_of(a, n)
    for j in range(n):
        pivot = _less_dot(rows[j][j], rows[j], rows[j], j)
        rows[j][j] = root = (pivot > 0.0).choose(pivot.sqrt(), float("nan"))
        scale = 1.0 / root
        for i in range(j + 1, n):
            rows[i][j] = _less_dot(rows[i][j], rows[i], rows[j], j) * scale
    # What follows a pivot that is nan is nan; what comes before it is no factor either.
    last = rows[-1][-1]
    nothing = last - last
    return [
        x + nothing if column <= place else nothing
        for place, row in enumerate(rows)
        for column, x in enumerate(row)
    ]


def _less_dot(start: FloatExpr, a: Row, b: Row, count: int) -> FloatExpr:
    """Return `start` less the products of the first elements, one after another."""
    for k in range(count):
        start = start.less(a[k], b[k])
    return start


def _cholesky_kernel(_a: TensorType, *, n: int) -> ColumnMap:
    flops = n * (n + 1) * (2 * n + 1) // 6 + 2 * n
    return column_map(lambda a: _cholesky_rows(a, n), flops, axis=1)


def _cholesky_batch(operands: Operands, *, n: int) -> Tensor:
    return batch_rows(operands, n=n)


cholesky_columns_op = define(
    "cholesky_columns",
    infer=_cholesky_infer,
    reference=_cholesky_reference,
    grad="none",
    kernel=_cholesky_kernel,
    batch=_cholesky_batch,
)


# ------------------------------------------------------------------------------ substitution


def substitute_columns(a: Tensor, b: Tensor, *, lower: bool, unit: bool) -> Tensor:
    """Solve a @ x = b for triangular n by n matrices `a` and columns `b` of n elements.

    That is written out, so n is 64 at most; `triangular_solve` takes larger matrices in blocks.
    """
    return apply(substitute_columns_op, a, b, lower=lower, unit=unit)


def _substitute_infer(a: TensorType, b: TensorType, *, lower: bool, unit: bool) -> TensorType:
    op = "substitute_columns"
    require_dtype(op, "b", b, lambda dtype: dtype == a.dtype)
    if not b.ndim or not isinstance(b.shape[0], int):
        raise ShapeError(op, f"b: {b} has no known number of elements on axis 0")
    check_square(op, a, b.shape[0])
    if b.shape[0] > MOST_SUBSTITUTED:
        raise ShapeError(op, f"a: {a} has matrices of more than {MOST_SUBSTITUTED} rows")
    meet_shapes(op, "a", a.with_shape(a.shape[1:]), "b", b.with_shape(b.shape[1:]))
    return rows_type(b, b.shape[0])


def triangular_part(a: Array, *, lower: bool, unit: bool) -> Array:
    """Return the triangles of matrices that count."""
    n = a.shape[-1]
    part = np.tril(a) if lower else np.triu(a)
    return part * (1 - np.eye(n, dtype=a.dtype)) + np.eye(n, dtype=a.dtype) if unit else part


def substitution(a: Array, b: Array, *, lower: bool, unit: bool) -> Array:
    """Solve a @ x = b row after row; a zero on the diagonal divides."""
    x = np.array(b)
    part = triangular_part(a, lower=lower, unit=unit)
    n = a.shape[-1]
    with np.errstate(all="ignore"):
        for i in range(n) if lower else reversed(range(n)):
            known = slice(0, i) if lower else slice(i + 1, n)
            row = part[..., i : i + 1, known] @ x[..., known, :]
            x[..., i, :] = (x[..., i, :] - row[..., 0, :]) / part[..., i, i, None]
    return x


def _substitute_reference(a: Array, b: Array, *, lower: bool, unit: bool) -> Array:
    matrices = as_matrices(a, b.shape[0])
    found = substitution(matrices, as_matrices(b, 1), lower=lower, unit=unit)
    return as_rows(found).astype(b.dtype)


def _substituted(a: Row, b: Row, *, lower: bool, unit: bool) -> Row:
    n = len(b)
    rows, x = rows_of(a, n), list(b)
    for i in range(n) if lower else range(n - 1, -1, -1):
        for j in range(i) if lower else range(n - 1, i, -1):
            x[i] = x[i].less(rows[i][j], x[j])
        if not unit:
            x[i] = x[i] * (1.0 / rows[i][i])
    return x


def _substitute_kernel(_a: TensorType, b: TensorType, *, lower: bool, unit: bool) -> ColumnMap:
    n = b.static_shape[0]
    algorithm = partial(_substituted, lower=lower, unit=unit)
    return column_map(algorithm, n * (n + 1), axis=1)


def _substitute_batch(operands: Operands, *, lower: bool, unit: bool) -> Tensor:
    return batch_rows(operands, lower=lower, unit=unit)


substitute_columns_op = define(
    "substitute_columns",
    infer=_substitute_infer,
    reference=_substitute_reference,
    grad="none",
    kernel=_substitute_kernel,
    batch=_substitute_batch,
)


# --------------------------------------------------------------------------------------- lu


def lu_columns(a: Tensor, n: int) -> Tensor:
    """Factorise n by n matrices with partial pivoting.

    A column of the result has the elements of L below the diagonal and of U, and then for each of
    their rows, as a float, which row of `a` it comes from.
    """
    return apply(lu_columns_op, a, n=n)


def _lu_infer(a: TensorType, *, n: int) -> TensorType:
    check_square("lu_columns", a, n)
    return rows_type(a, n * n + n)


def lu_of(a: Array) -> tuple[Array, Array]:
    """Return L and U of matrices in one, and the order of rows; a column of zeros stays."""
    lu = np.array(a)
    n = a.shape[-1]
    order = np.broadcast_to(np.arange(n), a.shape[:-1]).copy()
    with np.errstate(all="ignore"):
        for place in np.ndindex(a.shape[:-2]):
            _eliminate(lu[place], order[place])
    return lu, order


def _eliminate(lu: Array, order: Array) -> None:
    for k in range(len(order)):
        p = k + int(np.argmax(np.abs(lu[k:, k])))
        lu[[k, p]] = lu[[p, k]]
        order[[k, p]] = order[[p, k]]
        if lu[k, k] != 0:
            lu[k + 1 :, k] /= lu[k, k]
        lu[k + 1 :, k + 1 :] -= np.outer(lu[k + 1 :, k], lu[k, k + 1 :])


def _lu_reference(a: Array, *, n: int) -> Array:
    lu, order = lu_of(as_matrices(a, n))
    return np.concatenate([as_rows(lu), np.moveaxis(order, -1, 1)], 1).astype(a.dtype)


def _lu_rows(a: Row, n: int) -> Sequence[FloatExpr]:
    # With each row goes its number.
    rows = [[*row, row[0].like(float(i))] for i, row in enumerate(rows_of(a, n))]
    for k in range(n):
        for i in range(k + 1, n):
            is_greater = abs(rows[i][k]) > abs(rows[k][k])
            pairs = list(zip(rows[i], rows[k], strict=True))
            rows[k] = [is_greater.choose(x, y) for x, y in pairs]
            rows[i] = [is_greater.choose(y, x) for x, y in pairs]
        pivot = rows[k][k]
        scale = pivot.equals(0.0).choose(pivot.like(1.0), 1.0 / pivot)
        for i in range(k + 1, n):
            rows[i][k] = factor = rows[i][k] * scale
            for j in range(k + 1, n):
                rows[i][j] = rows[i][j].less(factor, rows[k][j])
    return [x for row in rows for x in row[:n]] + [row[n] for row in rows]


def _lu_kernel(_a: TensorType, *, n: int) -> ColumnMap:
    return column_map(lambda a: _lu_rows(a, n), 2 * n**3 // 3 + n**3, axis=1)


def _lu_batch(operands: Operands, *, n: int) -> Tensor:
    return batch_rows(operands, n=n)


lu_columns_op = define(
    "lu_columns",
    infer=_lu_infer,
    reference=_lu_reference,
    grad="none",
    kernel=_lu_kernel,
    batch=_lu_batch,
)
