"""Matrices of a structure: Toeplitz and banded ones."""

from __future__ import annotations

from typing import Any

from symgrad.errors import ShapeError, called, user_source
from symgrad.frontend.iteration import scan
from symgrad.graph.given_arrays import require_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import promote_operands
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.comparison import equal, less, where
from symgrad.graph.ops.complex_parts import conj
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.gathering import gather, iota
from symgrad.graph.ops.reduction import argmax
from symgrad.graph.ops.slicing import concat, flip, place
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.views import narrow
from symgrad.graph.public_ops import public
from symgrad.linalg.operands import as_wide_float


@public()
def toeplitz(c: Any, r: Any = None, /) -> Tensor:
    """Toeplitz matrix: `c` is its first column and `r`, without its first element, its first row.

    Without `r` it is symmetric, or Hermitian: the row is the conjugate of the column. Both are
    vectors of any dtype. The gradient of an element is the sum along its diagonal. Raises
    `ShapeError` for what is no vector.

    >>> sg.run(sg.linalg.toeplitz([1, 2, 3], [1, 4]))
    array([[1, 4],
           [2, 1],
           [3, 2]], dtype=int32)
    """
    with called("toeplitz"):
        column, row = promote_operands("toeplitz", c, c if r is None else r)
        if r is None and column.dtype.is_complex:
            row = conj(row)
        for name, x in (("c", column), ("r", row)):
            if x.ndim != 1:
                raise ShapeError("toeplitz", f"{name}: {x.type} is no vector", source=user_source())
        m, n = column.shape[0], row.shape[0]
        line = concat([flip(column), narrow(row, 0, 1, n - 1)])
        places = add(subtract(iota((m, n), 1), iota((m, n), 0)), m - 1)
        return gather(line, [places], 0)


@public()
def solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any, /) -> Tensor:
    """Solve a @ x = b for a banded matrix, by elimination with partial pivoting.

    `l_and_u` says how many diagonals lie below and above the main one. The rows of `ab` are the
    diagonals, the highest first: ab[u + i - j, j] is a[i, j], as for SciPy. `b` is a vector or a
    matrix. A tridiagonal system has (1, 1). Takes time in proportion to the rows. Integers are
    solved in float32. The gradient by `b` is solved with the transposed matrix, and that by `ab`
    is 0 outside of the matrix. Raises `ShapeError` for an `ab` of another number of rows.

    >>> ab = [[0.0, 1.0, 1.0], [2.0, 2.0, 2.0], [1.0, 1.0, 0.0]]
    >>> sg.run(sg.linalg.solve_banded((1, 1), ab, [3.0, 4.0, 3.0]))
    array([1., 1., 1.], dtype=float32)
    """
    with called("solve_banded"):
        low, high = (require_int("solve_banded", "a number of diagonals", n) for n in l_and_u)
        bands, sides = promote_operands("solve_banded", ab, b)
        bands = as_wide_float("solve_banded", "ab", bands)
        sides = as_wide_float("solve_banded", "b", sides)
        if low < 0 or high < 0 or bands.ndim != 2 or bands.shape[0] != low + high + 1:
            problem = f"ab: {bands.type} does not have {low} + 1 + {high} rows"
            raise ShapeError("solve_banded", problem, source=user_source())
        if sides.ndim not in (1, 2):
            problem = f"b: {sides.type} is neither a vector nor a matrix"
            raise ShapeError("solve_banded", problem, source=user_source())
        given = sides if sides.ndim == 2 else reshape(sides, (sides.shape[0], 1))
        found = _Band(low, high, given.shape[1]).solve(bands, given)
        return reshape(found, sides.shape)


class _Band:
    """Elimination of a band: what can still change are `low` + 1 rows, a window that moves down.

    A row of the window has the elements from its diagonal on, `low` + `high` + 1 with what pivoting
    fills in, and then those of the right sides.
    """

    def __init__(self, low: int, high: int, sides: Any) -> None:
        self.low = low
        self.width = low + high + 1
        self.high = high
        self.sides = sides

    def solve(self, bands: Tensor, b: Tensor) -> Tensor:
        """Return the solution, found from the last row to the first."""
        rows = self._rows(bands, b)
        first = [self._moved(narrow(rows, 0, i, 1), self.low - i) for i in range(self.low)]
        empty = filled((0, *rows.shape[1:]), 0, rows.dtype)
        entering = narrow(rows, 0, self.low, b.shape[0])
        _, pivots = scan(self._eliminate, concat(first) if first else empty, entering)
        known = filled((self.width - 1, self.sides), 0, rows.dtype)
        _, found = scan(self._substitute, known, pivots, reverse=True)
        solution: Tensor = found
        return solution

    def _rows(self, bands: Tensor, b: Tensor) -> Tensor:
        """Return all rows as they enter the window, and as many of zeros as leave it at the end."""
        n = b.shape[0]
        last = self.width - 1
        shape = (n + self.low, self.width)
        padded = place(bands, (self.width, self.low + n + last), (0, self.low), (1, 1))
        i, j = iota(shape, 0), iota(shape, 1)
        elements = gather(padded, [subtract(last, j), add(i, j)], 0)
        elements = where(less(i, n), elements, filled_like(elements, 0))
        sides = place(b, (n + self.low, self.sides), (0, 0), (1, 1))
        return concat([elements, sides], axis=1)

    def _moved(self, row: Tensor, count: int) -> Tensor:
        """Return rows without their first `count` elements, zeros behind the others."""
        elements = narrow(row, 1, count, self.width - count)
        zeros = filled((row.shape[0], count), 0, row.dtype)
        return concat([elements, zeros, narrow(row, 1, self.width, self.sides)], axis=1)

    def _eliminate(self, waiting: Tensor, entering: Tensor) -> tuple[Tensor, Tensor]:
        """Take the pivot of a column and its row out of the window."""
        window = concat([waiting, reshape(entering, (1, -1))])
        first = narrow(window, 1, 0, 1)
        chosen = argmax(absolute(reshape(first, (-1,))), axis=0)
        pivot_row = reshape(gather(window, [reshape(chosen, (1,))], 0), (1, -1))
        top = broadcast_to(narrow(window, 0, 0, 1), window.shape)
        is_chosen = equal(iota(window.shape, 0), chosen)
        others = narrow(where(is_chosen, top, window), 0, 1, self.low)
        pivot = broadcast_to(narrow(pivot_row, 1, 0, 1), (self.low, 1))
        one = filled_like(pivot, 1)
        factor = divide(narrow(others, 1, 0, 1), where(equal(pivot, 0), one, pivot))
        product = multiply(
            broadcast_to(factor, others.shape), broadcast_to(pivot_row, others.shape)
        )
        return self._moved(subtract(others, product), 1), reshape(pivot_row, (-1,))

    def _substitute(self, known: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        """Solve for one unknown, the later ones being known."""
        line = reshape(row, (1, -1))
        side = narrow(line, 1, self.width, self.sides)
        rest = subtract(side, matmul(narrow(line, 1, 1, self.width - 1), known))
        x = divide(rest, narrow(line, 1, 0, 1))
        following = concat([x, narrow(known, 0, 0, self.width - 2)]) if self.width > 2 else x
        return (following if self.width > 1 else known), reshape(x, (-1,))
