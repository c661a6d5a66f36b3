"""Implicit QR iteration of small symmetric matrices, reduced to three diagonals, written out.

A lane has a matrix: see `small_qr_iteration.py`.
"""

from __future__ import annotations

from functools import partial

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
    batch_columns,
    column_map,
    is_wide_float,
    on_arrays,
)
from symgrad.graph.ops.small_qr import reflection
from symgrad.graph.ops.small_qr_iteration import (
    LEAST_SQUARE,
    REDUCED_AT_ONCE,
    at_ends,
    begun,
    last_block,
    orthogonal,
    rotation,
    rows_of_state,
    stepped_state,
)
from symgrad.graph.ops.views import narrow
from symgrad.graph.structures import ColumnMap
from symgrad.graph.types import Array, TensorType
from symgrad.records import dataclass

_COLUMNS = 2  # of a matrix that are reduced by one kernel


def tridiagonal(a: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return orthogonal Q, as (n, n, count) columns, and the state of T, where a = Q T Q'.

    Of `a`, n by n columns, the lower triangle counts.
    """
    found: tuple[list[Tensor], ...] = [], [], [], [a]
    start = 0
    while start < n:
        part = _SymmetricPart(n, start)
        a = apply(tridiagonal_columns_op, found[-1][-1], n=n, start=start)
        place = 0
        for pieces, count in zip(found, part.rows, strict=True):
            if count:
                pieces.append(narrow(a, 0, place, count))
            place += count
        start += part.width
    steps, diagonal, beside, _ = found
    return orthogonal(steps, n, 1, a), begun([*diagonal, *beside], n, 1)


def qr_step(state: Tensor, least: int) -> Tensor:
    """Do an implicit QR step of matrices of three diagonals, with Wilkinson's shift.

    What is left beside the diagonal is counted for rows from `least` on.
    """
    return apply(qr_step_op, state, least=least)


# ------------------------------------------------------------------------ tridiagonal_columns


@dataclass(frozen=True, slots=True)
class _SymmetricPart:
    """What a kernel makes of a matrix of n rows of which `start` columns are reduced."""

    n: int
    start: int

    @property
    def size(self) -> int:
        """Rows of the matrix that is left."""
        return self.n - self.start

    @property
    def width(self) -> int:
        """Elements of the diagonal that it finds."""
        return self.size if self.size <= REDUCED_AT_ONCE else _COLUMNS

    @property
    def beside(self) -> int:
        """Elements beside the diagonal that it finds."""
        return min(self.width, self.size - 1)

    @property
    def reflections(self) -> int:
        """Reflections that it does, of all rows but the first."""
        return max(min(self.width, self.size - 2), 0)

    @property
    def rows(self) -> tuple[int, int, int, int]:
        """Rows of its result: a step, what is on and beside the diagonal, what is left."""
        left = self.size - self.width
        return self.reflections * self.n, self.width, self.beside, left * (left + 1) // 2


def _tridiagonal_infer(x: TensorType, *, n: int, start: int) -> TensorType:
    require_dtype("tridiagonal_columns", "x", x, is_wide_float)
    size = n - start
    if x.ndim < 2 or size < 1 or x.shape[0] not in (size * size, size * (size + 1) // 2):
        raise ShapeError("tridiagonal_columns", f"x: {x} has no matrices of {size} rows on axis 0")
    return x.with_shape((sum(_SymmetricPart(n, start).rows), *x.shape[1:]))


def _reduced(x: Row, *, n: int, start: int) -> list[FloatExpr]:
    part = _SymmetricPart(n, start)
    size, rows, place = part.size, [], 0
    for i in range(size):
        rows.append(list(x[place : place + i + 1]))
        place += size if len(x) == size * size else i + 1
    zero = x[0].like(0.0)
    vectors, weights, beside = [], [], []
    for k in range(part.reflections):
        below = [rows[i][k] for i in range(k + 1, size)]
        vector, weight, corner = reflection(below, least=LEAST_SQUARE[zero.short])
        _reflect(rows, k + 1, vector, weight)
        vectors.append([zero] * (start + k) + vector)
        weights.append(weight)
        beside.append(corner)
    if part.beside > part.reflections:
        beside.append(rows[size - 1][size - 2])
    step = [element for row in zip(*vectors, strict=True) for element in row] + weights
    diagonal = [rows[i][i] for i in range(part.width)]
    left = [rows[i][j] for i in range(part.width, size) for j in range(part.width, i + 1)]
    return [*step, *diagonal, *beside, *left]


def _reflect(rows: Rows, first: int, vector: Row, weight: FloatExpr) -> None:
    """Apply I - w v v' from both sides to what is behind row and column `first` of a triangle."""
    # A - v q' - q v' for p = w A v and q = p - w (p' v) v / 2.
    places = range(first, len(rows))
    products = []
    for i in places:
        total = rows[i][first]
        for j in places[1:]:
            total = total.plus(rows[max(i, j)][min(i, j)], vector[j - first])
        products.append(total * weight)
    seen = products[0]
    for x, y in zip(products[1:], vector[1:], strict=True):
        seen = seen.plus(x, y)
    half = seen * weight * 0.5
    changes = [products[0] - half]
    changes += [x.less(half, y) for x, y in zip(products[1:], vector[1:], strict=True)]
    for i in places:
        for j in range(first, i + 1):
            element = rows[i][j].less(vector[i - first], changes[j - first])
            rows[i][j] = element.less(changes[i - first], vector[j - first])


def _tridiagonal_reference(x: Array, *, n: int, start: int) -> Array:
    return on_arrays(partial(_reduced, n=n, start=start), (x,))


def _tridiagonal_kernel(_x: TensorType, *, n: int, start: int) -> ColumnMap:
    part = _SymmetricPart(n, start)
    flops = sum(4 * (part.size - k) ** 2 for k in range(part.reflections))
    return column_map(partial(_reduced, n=n, start=start), flops + part.size)


def _tridiagonal_batch(operands: Operands, *, n: int, start: int) -> Tensor:
    return batch_columns(operands, n=n, start=start)


tridiagonal_columns_op = define(
    "tridiagonal_columns",
    infer=_tridiagonal_infer,
    reference=_tridiagonal_reference,
    grad="none",
    kernel=_tridiagonal_kernel,
    batch=_tridiagonal_batch,
)


# ------------------------------------------------------------------------------------ qr_step


def _qr_step_infer(state: TensorType, *, least: int) -> TensorType:
    n = rows_of_state("qr_step", state, 1)
    if not 0 <= least < n:
        raise ShapeError("qr_step", f"least: {least} is no row of {n}")
    return state


def _begin(top: FloatExpr, above: FloatExpr, between: FloatExpr, bottom: FloatExpr) -> FloatExpr:
    """Return the first element of a block less Wilkinson's shift, which is of its last two rows."""
    half, square = (above - bottom) * 0.5, between * between
    sum_of_squares = square.plus(half, half)
    root = sum_of_squares * sum_of_squares.rsqrt()
    return top - bottom + square / (half + (half < 0.0).choose(-root, root))


def _stepped(state: Row, *, least: int) -> list[FloatExpr]:
    n = (len(state) + 2) // 4
    diagonal, beside = list(state[:n]), list(state[n : 2 * n - 1])
    zero, one = state[0].like(0.0), state[0].like(1.0)
    is_active = last_block(beside)
    start = bulge = _begin(*at_ends(is_active, diagonal, beside))
    cosine, sine, shift = one, one, zero
    turns = []
    for k, is_here in enumerate(is_active):
        if k:
            is_first = is_here & ~is_active[k - 1]
            bulge, sine = is_first.choose(start, bulge), is_first.choose(one, sine)
        element = is_here.choose(beside[k], zero)
        across, along = sine * element, cosine * element
        cosine, sine, length = rotation(bulge, across, is_here)
        if k:
            done = is_here.choose(length, bulge)
            beside[k - 1] = is_active[k - 1].choose(done, beside[k - 1])
        here = diagonal[k] - shift
        turned = ((diagonal[k + 1] - here) * sine).plus(cosine, along * 2.0)
        shift = sine * turned
        diagonal[k] = here + shift
        bulge = (-along).plus(cosine, turned)
        turns.append((cosine, sine))
    diagonal[-1] = diagonal[-1] - shift
    beside[-1] = is_active[-1].choose(bulge, beside[-1])
    return stepped_state(diagonal, beside, turns, least)


def _qr_step_reference(state: Array, *, least: int) -> Array:
    return on_arrays(partial(_stepped, least=least), (state,))


def _qr_step_kernel(state: TensorType, *, least: int) -> ColumnMap:
    return column_map(partial(_stepped, least=least), 8 * state.static_shape[0])


def _qr_step_batch(operands: Operands, *, least: int) -> Tensor:
    return batch_columns(operands, least=least)


qr_step_op = define(
    "qr_step",
    infer=_qr_step_infer,
    reference=_qr_step_reference,
    grad="none",
    kernel=_qr_step_kernel,
    batch=_qr_step_batch,
)
