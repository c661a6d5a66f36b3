"""Triangular solve, and what is made of it: the op that its own gradient consists of.

Large matrices are solved by halves of blocks of rows, and what is not a product is written out for
as many right sides as a vector has lanes.
"""

from __future__ import annotations

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes, require_dtype
from symgrad.graph.ops.arithmetic import divide, negative
from symgrad.graph.ops.block_matrices import (
    BLOCK,
    WRITTEN_OUT,
    block,
    cuts,
    expansion,
    in_parts,
    less_product,
    shared,
    transposed,
    write_block,
)
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.interleaved import (
    from_interleaved_columns,
    interleaved,
    interleaved_columns,
)
from symgrad.graph.ops.small_matrices import is_wide_float, substitute_columns, substitution
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reshape
from symgrad.graph.ops.summation import diagonal
from symgrad.graph.ops.triangles import product, triangle
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType, static


def triangular_solve(
    a: Tensor, b: Tensor, *, lower: bool, transpose: bool = False, unit: bool = False
) -> Tensor:
    """Solve a @ x = b, or a' @ x = b, for the triangle of `a` that `lower` names.

    Both have one batch; `b` has columns. With `unit` the diagonal counts as ones.
    """
    return apply(triangular_solve_op, a, b, lower=lower, transpose=transpose, unit=unit)


def is_wide(dtype: DType) -> bool:
    """Return whether a dtype has real or complex numbers of parts of 32 or 64 bits."""
    return dtype.is_complex or is_wide_float(dtype)


def check_square(op: str, name: str, a: TensorType, *, of_complex: bool = False) -> None:
    """Raise unless `a` is a square matrix, or a batch of them, of parts of 32 or 64 bits.

    Complex ones are refused unless `of_complex`.
    """
    require_dtype(op, name, a, is_wide if of_complex else is_wide_float)
    if a.ndim < 2:
        raise ShapeError(op, f"{name}: {a} has fewer than two axes")
    rows, columns = a.shape[-2:]
    if rows != columns and isinstance(rows, int) and isinstance(columns, int):
        raise ShapeError(op, f"{name}: {a} is not square")


def _infer(a: TensorType, b: TensorType, *, lower: bool, transpose: bool, unit: bool) -> TensorType:
    op = "triangular_solve"
    check_square(op, "a", a, of_complex=True)
    require_dtype(op, "b", b, lambda dtype: dtype == a.dtype)
    if b.ndim < 2:
        raise ShapeError(op, f"b: {b} has fewer than two axes")
    rows = a.with_shape((*a.shape[:-2], a.shape[-1]))
    meet_shapes(op, "the rows of a", rows, "those of b", b.with_shape(b.shape[:-1]))
    return b


def _reference(a: Array, b: Array, *, lower: bool, transpose: bool, unit: bool) -> Array:
    matrix = np_transpose(a) if transpose else a
    return substitution(matrix, b, lower=lower != transpose, unit=unit)


def np_transpose(a: Array) -> Array:
    """Exchange the last two axes of an array."""
    return a.swapaxes(-1, -2)


def _grad(node: Node, g: Tensor, *, lower: bool, transpose: bool, unit: bool) -> Grads:
    # Giles (2008), section 2.3: of a @ x = b, b_bar = a'^-1 x_bar and a_bar = -b_bar x'.
    a, _ = node.inputs
    x = node.output
    of_b = triangular_solve(a, g, lower=lower, transpose=not transpose, unit=unit)
    left, right = (x, of_b) if transpose else (of_b, x)
    full = negative(product(left, right, transpose_b=True))
    return triangle(full, lower=lower, k=(-1 if lower else 1) if unit else 0), of_b


def _kernel(a: TensorType, b: TensorType, *, lower: bool, transpose: bool, unit: bool) -> Call:
    n, k = static(b.shape[-2]), static(b.static_shape[-1])
    solver = TriangularSolver(lower=lower, transpose=transpose, unit=unit)

    def triangular_solve(a: Tensor, b: Tensor) -> list[Tensor]:
        given = reshape(a, (-1, n, n)), reshape(b, (-1, n, k))
        (found,) = in_parts(lambda a, b: [solver.solve(a, b)], *given)
        return [reshape(found, b.shape)]

    def nothing(_a: Tensor, b: Tensor) -> list[Tensor]:
        return [b]

    return expansion(triangular_solve if b.count else nothing, a, b)


class TriangularSolver:
    """The algorithm, for matrices with one axis that counts them."""

    def __init__(self, *, lower: bool, transpose: bool = False, unit: bool = False) -> None:
        self.lower = lower
        self.transpose = transpose
        self.unit = unit
        self._is_forward = lower != transpose

    def solve(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the solution for all columns of `b`."""
        if a.dtype.is_complex:
            return self._by_reals(a, b)
        n = a.type.static_shape[-1]
        if n <= WRITTEN_OUT:
            return self._written_out(a, b)
        return self._by_blocks(a, b, BLOCK if n > BLOCK else WRITTEN_OUT)

    def _by_reals(self, a: Tensor, b: Tensor) -> Tensor:
        """Divide rows by the diagonal: a triangle with ones there is embedded as another one."""
        matrix = transposed(a) if self.transpose else a
        lower = self._is_forward
        if not self.unit:
            pivots = reshape(diagonal(matrix), (a.shape[0], a.shape[-1], 1))
            matrix, b = (divide(x, broadcast_to(pivots, x.shape)) for x in (matrix, b))
        strict = triangle(matrix, lower=lower, k=-1 if lower else 1)
        solver = TriangularSolver(lower=lower, unit=True)
        found = solver.solve(interleaved(strict), interleaved_columns(b))
        return from_interleaved_columns(found)

    def _by_blocks(self, a: Tensor, b: Tensor, size: int) -> Tensor:
        pieces = cuts(a.type.static_shape[-1], size)
        order = pieces if self._is_forward else pieces[::-1]
        return self._solved(a, filled_like(b, 0), b, order)

    def _solved(
        self, a: Tensor, found: Tensor, rest: Tensor, order: list[tuple[int, int]]
    ) -> Tensor:
        """Write the solution into the rows of `found` in `order`, of which `rest` is what is left.

        Half of the rows are solved, and what they come to is taken from the others by one product:
        one with so many rows as well as so many terms is faster than those of single blocks.
        """
        if len(order) == 1:
            (place,) = order
            return write_block(found, self._diagonal(block(a, place, place), rest), place[0], 0)
        half = (len(order) + 1) // 2
        known, left = _span(order[:half]), _span(order[half:])
        start, columns = min(known[0], left[0]), (0, rest.type.static_shape[-1])

        def of_rest(place: tuple[int, int]) -> Tensor:
            return block(rest, (place[0] - start, place[1] - start), columns)

        found = self._solved(a, found, of_rest(known), order[:half])
        part = block(a, known, left) if self.transpose else block(a, left, known)
        solved = block(found, known, columns)
        rest = less_product(of_rest(left), part, solved, transpose_a=self.transpose)
        return self._solved(a, found, rest, order[half:])

    def _diagonal(self, a: Tensor, b: Tensor) -> Tensor:
        if a.type.static_shape[-1] <= WRITTEN_OUT:
            return self._written_out(a, b)

        def solve_block(a: Tensor, b: Tensor) -> list[Tensor]:
            return [self._by_blocks(a, b, WRITTEN_OUT)]

        (found,) = shared(solve_block, a, b, key=(self.lower, self.transpose, self.unit))
        return found

    def _written_out(self, a: Tensor, b: Tensor) -> Tensor:
        count, n, k = b.type.static_shape
        matrix = transposed(a) if self.transpose else a
        columns = permute_dims(reshape(matrix, (count, n * n)), (1, 0))
        columns = broadcast_to(reshape(columns, (n * n, count, 1)), (n * n, count, k))
        sides = permute_dims(b, (1, 0, 2))
        return substitute_columns(columns, sides, lower=self._is_forward, unit=self.unit)


def _span(places: list[tuple[int, int]]) -> tuple[int, int]:
    return min(first for first, _ in places), max(last for _, last in places)


def _batch(operands: Operands, *, lower: bool, transpose: bool, unit: bool) -> Tensor:
    return operands.apply(*operands.lifted(), lower=lower, transpose=transpose, unit=unit)


triangular_solve_op = define(
    "triangular_solve",
    infer=_infer,
    reference=_reference,
    grad=_grad,
    kernel=_kernel,
    batch=_batch,
    of_pairs="expansion",
)
