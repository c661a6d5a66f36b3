"""Systems and determinants of a few rows, written out: ops that see a matrix as a column.

A system is solved by one elimination of matrix and right sides, which are not kept as factors: to
do it again, for a gradient, costs less than to write factors and to read them. Determinants and
cofactors are those of Laplace's expansion, which divides by nothing. What larger matrices take is
in `symgrad/graph/ops/lu.py` and `symgrad/graph/ops/determinant.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph import dtypes
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.formulas import Condition, FloatExpr
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes, require_dtype
from symgrad.graph.ops.small_matrices import (
    Row,
    Rows,
    as_matrices,
    as_rows,
    batch_columns,
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

FEW_ROWS = 4  # of matrices whose systems are solved here


# ------------------------------------------------------------------------------------ solve


def solve_columns(a: Tensor, b: Tensor, n: int, *, transpose: bool) -> Tensor:
    """Solve a @ x = b, or a' @ x = b, for n by n matrices and right sides of n rows."""
    return apply(solve_columns_op, a, b, n=n, transpose=transpose)


def _solve_infer(a: TensorType, b: TensorType, *, n: int, transpose: bool) -> TensorType:
    op = "solve_columns"
    check_square(op, a, n)
    require_dtype(op, "b", b, lambda dtype: dtype == a.dtype)
    if not b.ndim or not isinstance(b.shape[0], int) or b.shape[0] % n:
        raise ShapeError(op, f"b: {b} does not have the elements of {n} rows on axis 0")
    meet_shapes(op, "a", a.with_shape(a.shape[1:]), "b", b.with_shape(b.shape[1:]))
    return rows_type(b, b.shape[0])


def _solve_reference(a: Array, b: Array, *, n: int, transpose: bool) -> Array:
    matrices = as_matrices(a, n)
    factors, order = lu_of(matrices.swapaxes(-1, -2) if transpose else matrices)
    right = as_matrices(b, b.shape[0] // n)
    places = np.broadcast_to(order[..., None], right.shape)
    moved = np.take_along_axis(right, places, -2)
    inner = substitution(factors, moved, lower=True, unit=True)
    return as_rows(substitution(factors, inner, lower=False, unit=False)).astype(b.dtype)


def _solved(a: Row, b: Row, n: int, *, transpose: bool) -> Row:
    """Eliminate with partial pivoting; a pivot of 0 leaves no number."""
    matrix = rows_of(a, n)
    turned = [list(column) for column in zip(*matrix, strict=True)] if transpose else matrix
    rows = [[*left, *right] for left, right in zip(turned, rows_of(b, len(b) // n), strict=True)]
    scales = []
    for k in range(n):
        for i in range(k + 1, n):
            _exchange_greater(rows, i, k)
        scales.append(1.0 / rows[k][k])
        for i in range(k + 1, n):
            _subtract(rows[i], rows[i][k] * scales[k], rows[k], k + 1)
    for k in reversed(range(n)):
        for j in range(k + 1, n):
            _subtract(rows[k], rows[k][j], rows[j], n)
        rows[k][n:] = [x * scales[k] for x in rows[k][n:]]
    return [x for row in rows for x in row[n:]]


def _exchange_greater(rows: Rows, i: int, k: int) -> Condition:
    """Exchange two rows, from column k on, where the lower one has the greater element in it.

    Return where that is.
    """
    is_greater = abs(rows[i][k]) > abs(rows[k][k])
    for j in range(k, len(rows[k])):
        upper, lower = rows[k][j], rows[i][j]
        rows[k][j] = is_greater.choose(lower, upper)
        rows[i][j] = is_greater.choose(upper, lower)
    return is_greater


def _subtract(row: Row, factor: FloatExpr, other: Row, start: int) -> None:
    """Subtract a multiple of another row from column `start` on."""
    for j in range(start, len(row)):
        row[j] = row[j].less(factor, other[j])


def _solve_kernel(_a: TensorType, b: TensorType, *, n: int, transpose: bool) -> ColumnMap:
    width = n + b.static_shape[0] // n
    algorithm = partial(_solved, n=n, transpose=transpose)
    return column_map(algorithm, 2 * n * n * width, axis=1)


def _solve_batch(operands: Operands, *, n: int, transpose: bool) -> Tensor:
    return batch_rows(operands, n=n, transpose=transpose)


solve_columns_op = define(
    "solve_columns",
    infer=_solve_infer,
    reference=_solve_reference,
    grad="none",
    kernel=_solve_kernel,
    batch=_solve_batch,
)


# -------------------------------------------------------------------------------- cofactors


def det_columns(a: Tensor, n: int) -> Tensor:
    """Return the determinants of n by n matrices, as columns of one element."""
    return apply(det_columns_op, a, n=n)


def cofactor_columns(a: Tensor, n: int) -> Tensor:
    """Return the cofactors of n by n matrices: the derivative of the determinant."""
    return apply(cofactor_columns_op, a, n=n)


def cofactors_of(a: Array) -> Array:
    """Return the cofactors of matrices, each from a determinant."""
    n = a.shape[-1]
    result = np.empty_like(a)
    for i, j in itertools.product(range(n), repeat=2):
        minor = np.delete(np.delete(a, i, axis=-2), j, axis=-1)
        result[..., i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return result


_PAIRS = tuple(itertools.combinations(range(4), 2))  # the last one has what the first has not
_GREAT = 2.0**1000  # products of minors of two rows, whose sum may overflow
_SMALL = 2.0**-1000  # what the upper ones are then scaled by


class _Minors:
    """Determinants of parts of a matrix, each computed once."""

    def __init__(self, a: Row, n: int) -> None:
        self._rows = rows_of(a, n)
        self._found: dict[tuple[tuple[int, ...], tuple[int, ...]], FloatExpr] = {}

    def of(self, rows: tuple[int, ...], columns: tuple[int, ...]) -> FloatExpr:
        """Return the determinant of these rows and columns, expanded along the first row."""
        if not rows:
            return self._rows[0][0].like(1.0)
        if (rows, columns) not in self._found:
            self._found[rows, columns] = self._expanded(rows, columns)
        return self._found[rows, columns]

    def _expanded(self, rows: tuple[int, ...], columns: tuple[int, ...]) -> FloatExpr:
        first = self._rows[rows[0]]
        if len(rows) == 1:
            return first[columns[0]]
        rest = [(*columns[:j], *columns[j + 1 :]) for j in range(len(columns))]
        terms = [first[c] * self.of(rows[1:], r) for c, r in zip(columns, rest, strict=True)]
        total = terms[0]
        for j, term in enumerate(terms[1:]):
            total = total + term if j % 2 else total - term
        return total


def _determinant(a: Row, n: int) -> list[FloatExpr]:
    """Expand by minors of two rows that lose nothing to cancellation.

    A sum of products of minors cancels by the square of the condition where the two least singular
    values are small: three rows have one such value less, and lose what the condition says. Those
    of four rows, and their sum, are two floats each, or one float64 for float32. Integers that are
    held exactly lose nothing.
    """
    rows = rows_of(a, n)
    if n < 4:
        return [_by_minors(rows, _crosswise)]
    if a[0].is_single:
        wide = [[x.to(dtypes.float64) for x in row] for row in rows]
        return [_by_minors(wide, _exact_crosswise).to(dtypes.float32)]
    return [_by_double_minors(rows)]


def _by_minors(rows: Rows, minor: Callable[[Row, Row, int, int], FloatExpr]) -> FloatExpr:
    """Return the determinant of up to four rows, by minors of the last two."""
    if len(rows) == 1:
        return rows[0][0]
    lower = [
        minor(rows[-2], rows[-1], i, j) for i, j in itertools.combinations(range(len(rows)), 2)
    ]
    if len(rows) == 2:
        return lower[0]
    if len(rows) == 3:
        first, second, third = rows[0]
        return (first * lower[2]).less(second, lower[1]).plus(third, lower[0])
    total = rows[0][0].like(0.0)
    for (i, j), below in zip(_PAIRS, reversed(lower), strict=True):
        above = minor(rows[0], rows[1], i, j)
        total = total.plus(above, below) if (i + j) % 2 else total.less(above, below)
    return total


def _crosswise(upper: Row, lower: Row, i: int, j: int) -> FloatExpr:
    """Return the minor of two columns within two units in the last place (Kahan).

    What the rounding of one product takes from it is found exactly, and given back. Where that
    product overflows there is nothing to give back.
    """
    product = upper[j] * lower[i]
    lost = upper[j].product_error(lower[i])
    lost = (abs(product) < math.inf).choose(lost, 0.0)
    return (-product).plus(upper[i], lower[j]) - lost


def _exact_crosswise(upper: Row, lower: Row, i: int, j: int) -> FloatExpr:
    """Return the minor of two columns, of elements whose products are exact."""
    return (upper[i] * lower[j]).less(upper[j], lower[i])


def _by_double_minors(rows: Rows) -> FloatExpr:
    """Return the determinant of four rows, of minors and a sum that are two floats each.

    Where products of minors overflow, or nearly, those of the upper rows are scaled down: else
    infinities of both signs would be added. Elsewhere they are not, since a minor that vanished
    may have been that of a great one below it, as where columns are of many sizes.
    """
    upper, lower = (
        [_exact_minor(*two, i, j) for i, j in _PAIRS]
        for two in ((rows[0], rows[1]), (rows[2], rows[3]))
    )
    products = (a * b for (a, _), (b, _) in zip(upper, reversed(lower), strict=True))
    size = reduce(FloatExpr.greatest, (abs(product) for product in products))
    scale, back = ((size > _GREAT).choose(size.like(x), 1.0) for x in (_SMALL, 1.0 / _SMALL))
    total = rest = size.like(0.0)
    for (i, j), above, (b, b_rest) in zip(_PAIRS, upper, reversed(lower), strict=True):
        factor = scale if (i + j) % 2 else -scale
        a, a_rest = (part * factor for part in above)
        total, lost = _exact_sum(total, a * b)
        rest = rest + (lost + a.product_error(b).plus(a, b_rest).plus(a_rest, b + b_rest))
    # What is lost of factors near overflow is nan where products are not fused.
    found = total + rest
    return (abs(found) < math.inf).choose(found, total) * back


def _exact_minor(upper: Row, lower: Row, i: int, j: int) -> tuple[FloatExpr, FloatExpr]:
    ahead, behind = upper[i] * lower[j], upper[j] * lower[i]
    total, lost = _exact_sum(ahead, -behind)
    rest = upper[i].product_error(lower[j]) - upper[j].product_error(lower[i])
    return total, lost + rest


def _exact_sum(a: FloatExpr, b: FloatExpr) -> tuple[FloatExpr, FloatExpr]:
    """Return a sum and what rounding took from it (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _cofactors(a: Row, n: int) -> Sequence[FloatExpr]:
    minors, every = _Minors(a, n), range(n)
    result = []
    for i, j in itertools.product(every, every):
        rest = (tuple(k for k in every if k != i), tuple(k for k in every if k != j))
        minor = minors.of(*rest)
        result.append(-minor if (i + j) % 2 else minor)
    return result


def _det_infer(a: TensorType, *, n: int) -> TensorType:
    check_square("det_columns", a, n)
    return a.with_shape((1, *a.shape[1:]))


def _det_reference(a: Array, *, n: int) -> Array:
    return np.asarray(np.linalg.det(as_matrices(a, n)))[None].astype(a.dtype)


def _det_kernel(_a: TensorType, *, n: int) -> ColumnMap:
    return column_map(lambda a: _determinant(a, n), 2 * math.factorial(n))


def _det_batch(operands: Operands, *, n: int) -> Tensor:
    return batch_columns(operands, n=n)


det_columns_op = define(
    "det_columns",
    infer=_det_infer,
    reference=_det_reference,
    grad="none",
    kernel=_det_kernel,
    batch=_det_batch,
)


def _cofactor_infer(a: TensorType, *, n: int) -> TensorType:
    check_square("cofactor_columns", a, n)
    return rows_type(a, n * n)


def _cofactor_reference(a: Array, *, n: int) -> Array:
    return as_rows(cofactors_of(as_matrices(a, n)))


def _cofactor_kernel(_a: TensorType, *, n: int) -> ColumnMap:
    return column_map(lambda a: _cofactors(a, n), 2 * n * math.factorial(n), axis=1)


def _cofactor_batch(operands: Operands, *, n: int) -> Tensor:
    return batch_rows(operands, n=n)


cofactor_columns_op = define(
    "cofactor_columns",
    infer=_cofactor_infer,
    reference=_cofactor_reference,
    grad="none",
    kernel=_cofactor_kernel,
    batch=_cofactor_batch,
)
