"""Householder reflections of tall panels: a loop over few columns, with the rows side by side.

The reflections of a panel are applied as one, I - V T V' (compact WY: Schreiber and Van Loan,
1989), where ' conjugates. No op is declared here.
"""

from __future__ import annotations

from symgrad.graph import dtypes
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, divide, multiply, negative, subtract
from symgrad.graph.ops.block_matrices import block, less_product, product, transposed
from symgrad.graph.ops.comparison import equal, greater, less, logical_and, where
from symgrad.graph.ops.complex_parts import conj, imag, real
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.scan import scan_loop
from symgrad.graph.ops.structure import broadcast_to, reduce_sum, reshape
from symgrad.graph.ops.transcendental import sqrt
from symgrad.graph.ops.triangles import identity_like, range_factors, squares, triangle
from symgrad.graph.ops.triangular import triangular_solve
from symgrad.graph.ops.windows import read_window
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Reflections:
    """A product of reflections, I - V T V', of which `vectors` are V and `inner` is T."""

    vectors: Tensor
    inner: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Return the product of this with `x`."""
        seen = product(self.inner, product(conj(self.vectors), x, transpose_a=True))
        return less_product(x, self.vectors, seen)

    def apply_adjoint(self, x: Tensor) -> Tensor:
        """Return the product of the conjugate transpose of this with `x`."""
        seen = product(conj(self.vectors), x, transpose_a=True)
        seen = product(conj(self.inner), seen, transpose_a=True)
        return less_product(x, self.vectors, seen)


def factor_panel(a: Tensor) -> tuple[Reflections, Tensor]:
    """Return the reflections that make (count, m, n) panels upper triangular, and the triangles.

    There are no more columns than rows.
    """
    count, _, n = a.type.static_shape
    columns = transposed(a)
    zero = constant(0, dtypes.int64)
    start = [columns, _column(columns, zero), filled((count, n), 0, a.dtype), zero]
    body = Traced("qr_step", [t.type for t in start])
    body.run(_step)
    packed, _, weights, _ = scan_loop(constant(n, dtypes.int64), start, (), body, n).outputs
    lines = transposed(packed)
    vectors = add(triangle(lines, lower=True, k=-1), identity_like(lines))
    corner = triangle(block(lines, (0, n), (0, n)), lower=False)
    return Reflections(vectors, _inner(vectors, weights)), corner


def _inner(vectors: Tensor, weights: Tensor) -> Tensor:
    """Return T, of which the inverse is the upper triangle of V' V with 1 / weights before it.

    That is (I + D S)^-1 D, where D has the weights, which may be 0, and S is the strict triangle.
    """
    count, n = weights.type.static_shape
    between = triangle(product(conj(vectors), vectors, transpose_a=True), lower=False, k=1)
    scales = broadcast_to(reshape(weights, (count, n, 1)), between.shape)
    diagonal = multiply(identity_like(between), scales)
    return triangular_solve(multiply(between, scales), diagonal, lower=False, unit=True)


def _column(columns: Tensor, place: Tensor) -> Tensor:
    count, _, m = columns.type.static_shape
    return reshape(read_window(columns, [place], (1,), 1), (count, m))


def _step(columns: Tensor, column: Tensor, weights: Tensor, place: Tensor) -> list[Tensor]:
    """Reflect what a column has from its diagonal on to the diagonal, and the columns after it."""
    count, _, m = columns.type.static_shape
    line = iota((count, m), 1)
    zeros = filled_like(column, 0)
    factor, inverse = range_factors(where(less(line, place), zeros, column), 1)
    column = multiply(column, astype(broadcast_to(factor, column.shape), column.dtype))
    tail = where(greater(line, place), column, zeros)
    beyond = reshape(reduce_sum(squares(tail), (1,)), (count, 1))
    first = reshape(read_window(column, [place], (1,), 1), (count, 1))
    length = sqrt(add(squares(first), beyond))
    is_done = equal(beyond, 0.0)
    if first.dtype.is_complex:  # what is on the diagonal is real
        is_done = logical_and(is_done, equal(imag(first), 0.0))
    signed = where(less(real(first), 0.0), length, negative(length))
    corner = where(is_done, first, astype(signed, first.dtype))
    one = filled_like(first, 1)
    weight = where(is_done, filled_like(first, 0), divide(subtract(corner, first), corner))
    scale = divide(one, where(is_done, one, subtract(first, corner)))
    scaled = multiply(tail, broadcast_to(scale, tail.shape))
    vector = where(equal(line, place), filled_like(tail, 1), scaled)
    seen = reduce_sum(multiply(columns, _over(conj(vector), columns, 1)), (2,))
    seen = multiply(seen, broadcast_to(conj(weight), seen.shape))
    reflected = subtract(columns, multiply(_over(seen, columns, 2), _over(vector, columns, 1)))
    row, across = iota(columns.shape, 1), iota(columns.shape, 2)
    corner = multiply(corner, astype(inverse, corner.dtype))
    packed = where(greater(across, place), _over(vector, columns, 1), columns)
    packed = where(equal(across, place), _over(_line(corner, m), columns, 1), packed)
    changed = where(equal(row, place), packed, where(greater(row, place), reflected, columns))
    of_place = equal(iota(weights.shape, 1), place)
    weights = where(of_place, broadcast_to(weight, weights.shape), weights)
    following = add(place, 1)
    return [changed, _column(changed, following), weights, following]


def _line(x: Tensor, size: int) -> Tensor:
    return broadcast_to(x, (x.type.static_shape[0], size))


def _over(x: Tensor, like: Tensor, axis: int) -> Tensor:
    """Repeat `x` along an axis that it lacks and `like` has."""
    shape = list(like.shape)
    shape[axis] = 1
    return broadcast_to(reshape(x, tuple(shape)), like.shape)
