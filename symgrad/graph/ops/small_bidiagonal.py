"""Implicit QR iteration for singular values of small matrices, written out (Golub and Kahan).

A matrix is reduced to two diagonals, and a lane has one: see `small_qr_iteration.py`. The two sides
of a state are the rotations of columns and those of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.formulas import Condition, FloatExpr
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import require_dtype
from symgrad.graph.ops.small_matrices import (
    Row,
    batch_columns,
    column_map,
    is_wide_float,
    on_arrays,
    rows_of,
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
from symgrad.graph.ops.small_reflections import q_times, reflect, step_of
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.structures import ColumnMap
from symgrad.graph.types import Array, TensorType


def bidiagonal(a: Tensor, n: int) -> tuple[list[Tensor], Tensor]:
    """Return orthogonal V and U, as (n, n, count) columns, and the state of B, where a = U B V'.

    `a` is n by n columns; B has two diagonals, and nothing below the first.
    """
    count = a.type.static_shape[-1]
    matrix = reshape(a, (n, n, count))
    left: list[Tensor] = []
    right: list[Tensor] = []
    on: list[Tensor] = []
    beside: list[Tensor] = []
    start = 0
    while n - start > REDUCED_AT_ONCE:
        for steps, corners in ((left, on), (right, beside)):  # of columns and, turned, of rows
            step, corner, matrix = _without_first(matrix, start)
            steps.append(step)
            corners.append(corner)
        start += 1
    size = n - start
    last = apply(bidiagonal_columns_op, reshape(matrix, (size * size, count)), n=n, start=start)
    place = 0
    for parts, rows in zip((left, right, on, beside), _rows_of_last(n, start), strict=True):
        parts += [narrow(last, 0, place, rows)] if rows else []
        place += rows
    sides = [orthogonal(right, n, 1, a), orthogonal(left, n, 0, a)]
    return sides, begun([*on, *beside], n, 2)


def _without_first(matrix: Tensor, start: int) -> tuple[Tensor, Tensor, Tensor]:
    """Reflect the first column of (rows, columns, count) to one element, and the other columns.

    Return the step, behind `start` rows, the element, and the other columns turned, as rows.
    """
    size, columns, count = matrix.type.static_shape
    first = reshape(narrow(matrix, 1, 0, 1), (size, count))
    step, corner = step_of(first, start, LEAST_SQUARE[matrix.dtype.short])
    others = narrow(matrix, 1, 1, columns - 1)
    return step, corner, q_times(others, [narrow(step, 0, start, size + 1)])


def svd_step(state: Tensor, least: int) -> Tensor:
    """Do an implicit QR step of the product B' B of matrices of two diagonals.

    What is left beside the diagonal is counted for rows from `least` on.
    """
    return apply(svd_step_op, state, least=least)


# ------------------------------------------------------------------------- bidiagonal_columns


def _rows_of_last(n: int, start: int) -> tuple[int, int, int, int]:
    """Return the rows of two steps and of two diagonals, if `start` rows were reduced before."""
    size = n - start
    return (size - 1) * (n + 1), max(size - 2, 0) * n, size, size - 1


def _bidiagonal_infer(x: TensorType, *, n: int, start: int) -> TensorType:
    require_dtype("bidiagonal_columns", "x", x, is_wide_float)
    size = n - start
    if x.ndim < 2 or size < 1 or x.shape[0] != size * size:
        raise ShapeError("bidiagonal_columns", f"x: {x} has no matrices of {size} rows on axis 0")
    return x.with_shape((sum(_rows_of_last(n, start)), *x.shape[1:]))


def _reduced(x: Row, *, n: int, start: int) -> list[FloatExpr]:
    size, zero = n - start, x[0].like(0.0)
    rows = rows_of(x, size)
    of_rows, of_columns = [], []
    for k in range(size - 1):
        columns = [list(column) for column in zip(*rows, strict=True)]
        of_rows.append(_reflected(columns, k, k))
        rows = [list(row) for row in zip(*columns, strict=True)]
        if k < size - 2:
            of_columns.append(_reflected(rows, k, k + 1))
    found = [
        *_step([[zero] * start + vector for vector, _ in of_rows], of_rows),
        *_step([[zero] * start + vector[1:] for vector, _ in of_columns], of_columns),
    ]
    found += [rows[k][k] for k in range(size)]
    return found + [rows[k][k + 1] for k in range(size - 1)]


def _reflected(lines: list[Row], k: int, first: int) -> tuple[Row, FloatExpr]:
    """Make what is behind element `first` of line k zeros, and reflect the lines behind it."""
    line = lines[k]
    zero = line[0].like(0.0)
    found, weight, corner = reflection(line[first:], least=LEAST_SQUARE[zero.short])
    vector = [zero] * first + found
    reflect(lines[k + 1 :], first, (vector, weight))
    line[first:] = [corner] + [zero] * (len(line) - first - 1)
    return vector, weight


def _step(vectors: list[Row], reflections: Sequence[tuple[Row, FloatExpr]]) -> list[FloatExpr]:
    elements = [element for row in zip(*vectors, strict=True) for element in row]
    return elements + [weight for _, weight in reflections]


def _bidiagonal_reference(x: Array, *, n: int, start: int) -> Array:
    return on_arrays(partial(_reduced, n=n, start=start), (x,))


def _bidiagonal_kernel(_x: TensorType, *, n: int, start: int) -> ColumnMap:
    flops = sum(8 * size**2 for size in range(n - start + 1))
    return column_map(partial(_reduced, n=n, start=start), flops)


def _bidiagonal_batch(operands: Operands, *, n: int, start: int) -> Tensor:
    return batch_columns(operands, n=n, start=start)


bidiagonal_columns_op = define(
    "bidiagonal_columns",
    infer=_bidiagonal_infer,
    reference=_bidiagonal_reference,
    grad="none",
    kernel=_bidiagonal_kernel,
    batch=_bidiagonal_batch,
)


# ----------------------------------------------------------------------------------- svd_step


def _svd_step_infer(state: TensorType, *, least: int) -> TensorType:
    n = rows_of_state("svd_step", state, 2)
    if not 0 <= least < n:
        raise ShapeError("svd_step", f"least: {least} is no row of {n}")
    return state


def _begin(is_active: Sequence[Condition], diagonal: Row, beside: Row) -> FloatExpr:
    """Return the first element of a block of B, less what the shift of B' B makes of it.

    The shift is the square of the least singular value of the last two rows; where an element of
    the diagonal is next to nothing there is none, so that a step finds the singular value 0.
    """
    top, above, between, bottom = at_ends(is_active, diagonal, beside)
    least, most = abs(top), abs(top)
    for is_here, element, next_to_it in zip(is_active, beside, diagonal[1:], strict=True):
        size = abs(next_to_it)
        least = is_here.choose(least.least(size), least)
        most = is_here.choose(most.greatest(size).greatest(abs(element)), most)
    above, bottom, square = abs(above), abs(bottom), between * between
    outer, inner = above + bottom, above - bottom
    outer, inner = square.plus(outer, outer), square.plus(inner, inner)
    roots = outer * outer.rsqrt() + inner * inner.rsqrt()
    shift = above * bottom * 2.0 / roots
    # Neither are there digits of a shift that is less than the rounding of the first square.
    root = math.sqrt(np.finfo(top.dtype.numpy).eps)
    is_shifted = (least > most * root) & (shift > abs(top) * root)
    sign = (top < 0.0).choose(top.like(-1.0), 1.0)
    return is_shifted.choose((abs(top) - shift) * sign.plus(shift, 1.0 / top), top)


def _stepped(state: Row, *, least: int) -> list[FloatExpr]:
    n = (len(state) + 4) // 6
    diagonal, beside = list(state[:n]), list(state[n : 2 * n - 1])
    zero = state[0].like(0.0)
    is_active = last_block(beside)
    start = along = _begin(is_active, diagonal, beside)
    bulge = beside[0]
    turns = []
    for k, is_here in enumerate(is_active):
        if k:
            is_first = is_here & ~is_active[k - 1]
            along = is_first.choose(start, along)
            bulge = is_first.choose(beside[k], bulge)
        cosine, sine, length = rotation(along, bulge, is_here)
        if k:
            done = is_here.choose(length, along)
            beside[k - 1] = is_active[k - 1].choose(done, beside[k - 1])
        here, element, below = diagonal[k], is_here.choose(beside[k], zero), diagonal[k + 1]
        here, element = (cosine * here).plus(sine, element), (cosine * element).less(sine, here)
        of_columns = cosine, sine
        cosine, sine, length = rotation(here, below * sine, is_here)
        below = below * of_columns[0]
        diagonal[k] = is_here.choose(length, here)
        along = (cosine * element).plus(sine, below)
        diagonal[k + 1] = (cosine * below).less(sine, element)
        if k + 1 < len(beside):
            bulge, beside[k + 1] = sine * beside[k + 1], cosine * beside[k + 1]
        turns.append((*of_columns, cosine, sine))
    beside[-1] = is_active[-1].choose(along, beside[-1])
    return stepped_state(diagonal, beside, turns, least)


def _svd_step_reference(state: Array, *, least: int) -> Array:
    return on_arrays(partial(_stepped, least=least), (state,))


def _svd_step_kernel(state: TensorType, *, least: int) -> ColumnMap:
    return column_map(partial(_stepped, least=least), 10 * state.static_shape[0])


def _svd_step_batch(operands: Operands, *, least: int) -> Tensor:
    return batch_columns(operands, least=least)


svd_step_op = define(
    "svd_step",
    infer=_svd_step_infer,
    reference=_svd_step_reference,
    grad="none",
    kernel=_svd_step_kernel,
    batch=_svd_step_batch,
)
