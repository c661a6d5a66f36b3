"""LU factorisation of tall panels: a loop over few columns, with the rows side by side.

Rows stay where they are until the end (implicit pivoting), so a step writes each element once, in
its place. Tall panels are made of few heights, and those of a height are one function: else most of
a program were loops that differ in how many rows they have. No op is declared here.
"""

from __future__ import annotations

from symgrad.graph import dtypes
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.block_matrices import shared, transposed
from symgrad.graph.ops.comparison import equal, greater_equal, less, where
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.ordering import argsort
from symgrad.graph.ops.reduction import argmax
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reshape
from symgrad.graph.ops.triangles import permute_rows
from symgrad.graph.ops.views import narrow
from symgrad.graph.ops.windows import read_window

_STEP_OF_HEIGHTS = 64  # to which the rows of a panel are rounded up, of tall ones to twice that


def factor_panel(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return L and U of (count, m, n) panels, m no less than n, in one, and the order of rows.

    Rows that are no pivots keep their order.
    """
    count, m, n = a.type.static_shape
    if m <= 2 * _STEP_OF_HEIGHTS:
        factors, order = _factored(a)
        return factors, order
    step = _STEP_OF_HEIGHTS if m <= 8 * _STEP_OF_HEIGHTS else 2 * _STEP_OF_HEIGHTS
    height = -(-m // step) * step
    # Rows of zeros below are no pivots while another row is left: of equals the first is one.
    below = filled((count, height - m, n), 0, a.dtype)
    factors, order = shared(_factored, concat([a, below], axis=1) if height > m else a)
    return narrow(factors, 1, 0, m), narrow(order, 1, 0, m)


def _factored(a: Tensor) -> list[Tensor]:
    count, m, n = a.type.static_shape
    ranks = add(iota((count, m), 1), m)  # a row that is no pivot yet has m or more
    columns = transposed(a)
    start = [columns, _column(columns, constant(0, dtypes.int64)), ranks, _number(0)]
    body = Traced("lu_step", [t.type for t in start])
    body.run(_step)
    columns, _, ranks, _, factors = scan_loop(_number(n), start, (), body, n).outputs
    is_left = less(_over(iota((n,), 0), (1, n, 1), columns), _over(ranks, (count, 1, m), columns))
    found = where(is_left, permute_dims(factors, (1, 0, 2)), columns)
    order = argsort(ranks, axis=1)
    return [permute_rows(transposed(found), order), order]


def _number(value: int) -> Tensor:
    return constant(value, dtypes.int64)


def _column(columns: Tensor, place: Tensor) -> Tensor:
    """Return the column at `place` of all panels, their rows side by side."""
    count, _, m = columns.type.static_shape
    return reshape(read_window(columns, [place], (1,), 1), (count, m))


def _step(columns: Tensor, column: Tensor, ranks: Tensor, place: Tensor) -> list[Tensor]:
    """Find the pivot of a column and subtract multiples of its row from those without a pivot.

    What these have in the columns before is nothing from then on; the factors are given apart.
    """
    count, n, m = columns.type.static_shape
    is_free = greater_equal(ranks, m)
    size = absolute(column)
    size = where(is_free, size, filled_like(size, -1.0))
    row = argmax(size, axis=1, keepdims=True)
    pivots = read_window(transposed(columns), [iota((count, 1), 0), row], (1, 1), 0)
    pivots = reshape(pivots, (count, n))
    pivot = reshape(read_window(pivots, [place], (1,), 1), (count, 1))
    ranks = where(equal(iota(ranks.shape, 1), broadcast_to(row, ranks.shape)), place, ranks)
    one = filled_like(pivot, 1.0)
    scale = where(equal(pivot, 0.0), one, divide(one, pivot))
    factor = multiply(column, broadcast_to(scale, column.shape))
    multiples = multiply(
        _over(pivots, (count, n, 1), columns), _over(factor, (count, 1, m), columns)
    )
    is_below = _over(greater_equal(ranks, m), (count, 1, m), columns)
    columns = where(is_below, subtract(columns, multiples), columns)
    following = add(place, 1)
    return [columns, _column(columns, following), ranks, following, factor]


def _over(x: Tensor, shape: tuple[int, ...], like: Tensor) -> Tensor:
    return broadcast_to(reshape(x, shape), like.shape)
