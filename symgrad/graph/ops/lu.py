"""LU factorisation with partial pivoting: the op, its gradient, and its algorithm by blocks.

`linear_solve` is a solution that is found from factors, and whose gradient needs no others.
"""

from __future__ import annotations

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.batch_rules import Operands, batch_in_front
from symgrad.graph.build import apply, apply_node
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes, require_dtype
from symgrad.graph.ops.arithmetic import add, negative
from symgrad.graph.ops.block_matrices import (
    BLOCK,
    PART_BYTES,
    WRITTEN_OUT,
    block,
    expansion,
    in_parts,
    less_product,
    shared,
    to_columns,
)
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.lu_panels import factor_panel
from symgrad.graph.ops.slicing import concat, slice_axes
from symgrad.graph.ops.small_elimination import (
    BYTES_OF_STEPS,
    MOST_SIDES,
    eliminated,
    factors_of_steps,
    goes_by_steps,
    solve_by_steps,
)
from symgrad.graph.ops.small_matrices import lu_columns, lu_of, substitution
from symgrad.graph.ops.small_solving import FEW_ROWS, solve_columns
from symgrad.graph.ops.structure import permute_dims, reshape
from symgrad.graph.ops.triangles import (
    arrived,
    identity_like,
    invert_order,
    matrix_transpose,
    permute_rows,
    product,
    triangle,
)
from symgrad.graph.ops.triangular import TriangularSolver, check_square, triangular_solve
from symgrad.graph.ops.views import narrow
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType, static

_PIVOTS_WRITTEN_OUT = 8  # rows of a matrix whose pivots are found by selects


def lu(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return L, without its diagonal of ones, and U in one matrix, and the order of the rows.

    Row i of L @ U is row `order[i]` of `a`. Where a column has no pivot but 0 it is left as it is.
    """
    factors, order = apply_node(lu_op, (a,), {}).outputs
    return factors, order


def _infer(a: TensorType) -> tuple[TensorType, TensorType]:
    check_square("lu", "a", a, of_complex=True)
    return a, TensorType(dtypes.int64, a.shape[:-1])


def _grad(node: Node, g: Tensor | None, _of_order: Tensor | None) -> Grads:
    # de Hoog, Anderssen and Lukas (2011): of P a = L U,
    # P a_bar = L'^-1 (tril(L' L_bar, -1) + triu(U_bar U')) U'^-1.
    factors, order = node.outputs
    g = arrived(g)
    if g is None:
        return (filled_like(factors, 0),)
    lower = add(triangle(factors, lower=True, k=-1), identity_like(factors))
    upper = triangle(factors, lower=False)
    of_lower, of_upper = triangle(g, lower=True, k=-1), triangle(g, lower=False)
    inner = add(
        triangle(product(lower, of_lower, transpose_a=True), lower=True, k=-1),
        triangle(product(of_upper, upper, transpose_b=True), lower=False),
    )
    left = triangular_solve(factors, inner, lower=True, transpose=True, unit=True)
    right = triangular_solve(factors, matrix_transpose(left), lower=False)
    return (permute_rows(matrix_transpose(right), invert_order(order)),)


def _kernel(a: TensorType) -> Call:
    n = static(a.shape[-1])

    def lu(a: Tensor) -> list[Tensor]:
        matrices = reshape(a, (-1, n, n))
        is_by_steps = n > _PIVOTS_WRITTEN_OUT and goes_by_steps(matrices.type)
        nbytes = BYTES_OF_STEPS if is_by_steps else PART_BYTES
        factors, order = in_parts(_factor_square, matrices, nbytes=nbytes)
        return [reshape(factors, a.shape), reshape(order, a.shape[:-1])]

    def nothing(a: Tensor) -> list[Tensor]:
        return [a, filled(a.shape[:-1], 0, dtypes.int64)]

    return expansion(lu if a.count else nothing, a)


def _factor_square(a: Tensor) -> tuple[Tensor, Tensor]:
    count, n, _ = a.type.static_shape
    if n > _PIVOTS_WRITTEN_OUT and goes_by_steps(a.type):
        found = permute_dims(factors_of_steps(eliminated(a), n), (1, 0))
        factors = reshape(narrow(found, 1, 0, n * n), a.shape)
        return factors, astype(narrow(found, 1, n * n, n), dtypes.int64)
    if n > _PIVOTS_WRITTEN_OUT or a.dtype.is_complex:
        return _factor(a)
    found = lu_columns(to_columns(a), n)
    factors = reshape(slice_axes(found, (0, 0), (count, n * n), (1, 1)), a.shape)
    order = slice_axes(found, (0, n * n), (count, n), (1, 1))
    return factors, astype(order, dtypes.int64)


def _factor(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors of square matrices and the order of their rows."""
    factors, _, order = _factor_columns(a, is_part=False)
    return factors, order


def _factor_columns(a: Tensor, *, is_part: bool) -> tuple[Tensor, Tensor | None, Tensor]:
    """Factorise the left half, then what is left of the right one (recursively).

    Returns the factors in the square at the top, what is below it if there are more rows, and the
    order. Each of both is read by products of its own, and rows are moved where they are read.
    """
    _, m, n = a.type.static_shape
    if n <= BLOCK:
        factors, order = _factor_few_columns(a)
        square = block(factors, (0, n), (0, n))
        return square, block(factors, (n, m), (0, n)) if m > n else None, order
    half = WRITTEN_OUT * (-(-n // WRITTEN_OUT) // 2)
    corner, left, first = _factor_columns(block(a, (0, m), (0, half)), is_part=True)
    assert left is not None, "no rows below the left half of a matrix"
    right = block(a, (0, m), (half, n))
    beside, others = (permute_rows(right, part) for part in _cut(first, half))
    # Parts of the same size share a function; the whole has none to share with, and copies nothing.
    (above,) = shared(_solved_above, corner, beside) if is_part else _solved_above(corner, beside)
    last, below, second = _factor_columns(less_product(others, left, above), is_part=True)
    moved = [permute_rows(left, part) for part in _cut(second, n - half)]
    bottom = concat([moved[0], last], axis=2)
    square = concat([concat([corner, above], axis=2), bottom], axis=1)
    below = None if below is None else concat([moved[1], below], axis=2)
    return square, below, _followed_by(first, second, half)


def _cut(order: Tensor, size: int) -> list[Tensor]:
    """Return the first rows of an order, and the others if there are any."""
    m = order.type.static_shape[1]
    head = narrow(order, 1, 0, size)
    return [head, narrow(order, 1, size, m - size)] if m > size else [head]


def _factor_few_columns(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factorise up to a block of columns by halves, too, and keep all rows of them together.

    Rows of few elements are joined by code that is as long as they are.
    """
    _, m, n = a.type.static_shape
    if n <= WRITTEN_OUT:
        return factor_panel(a)
    half = WRITTEN_OUT * (-(-n // WRITTEN_OUT) // 2)
    left, first = _factor_few_columns(block(a, (0, m), (0, half)))
    right = permute_rows(block(a, (0, m), (half, n)), first)
    corner = block(left, (0, half), (0, half))
    (above,) = shared(_solved_above, corner, block(right, (0, half), (0, n - half)))
    below = block(left, (half, m), (0, half))
    rest = less_product(block(right, (half, m), (0, n - half)), below, above)
    last, second = _factor_few_columns(rest)
    bottom = concat([permute_rows(below, second), last], axis=2)
    top = concat([corner, above], axis=2)
    return concat([top, bottom], axis=1), _followed_by(first, second, half)


def _solved_above(corner: Tensor, right: Tensor) -> list[Tensor]:
    """Return the rows of U beside a square that is factorised: one function for each size."""
    return [TriangularSolver(lower=True, unit=True).solve(corner, right)]


def _followed_by(first: Tensor, second: Tensor, start: int) -> Tensor:
    """Return the order `first` with that of its rows from `start` on changed to `second`."""
    count, m = first.type.static_shape
    head = slice_axes(first, (0, 0), (count, start), (1, 1))
    tail = slice_axes(first, (0, start), (count, m - start), (1, 1))
    moved = permute_rows(reshape(tail, (*tail.shape, 1)), second)
    return concat([head, reshape(moved, tail.shape)], axis=1)


def _reference(a: Array) -> tuple[Array, Array]:
    return lu_of(a)


lu_op = define(
    "lu",
    infer=_infer,
    reference=_reference,
    grad=_grad,
    kernel=_kernel,
    batch=batch_in_front,
    of_pairs="expansion",
)


# ------------------------------------------------------------------------------ linear_solve


def linear_solve(
    a: Tensor, factors: Tensor, order: Tensor, b: Tensor, *, transpose: bool = False
) -> Tensor:
    """Solve a @ x = b, or a' @ x = b, with `factors` and `order` of `lu(a)`."""
    return apply(linear_solve_op, a, factors, order, b, transpose=transpose)


def _solve_infer(
    a: TensorType, factors: TensorType, order: TensorType, b: TensorType, *, transpose: bool
) -> TensorType:
    op = "linear_solve"
    check_square(op, "a", a, of_complex=True)
    meet_shapes(op, "a", a, "its factors", factors)
    meet_shapes(op, "the rows of a", a.with_shape(a.shape[:-1]), "their order", order)
    require_dtype(op, "b", b, lambda dtype: dtype == a.dtype)
    meet_shapes(
        op, "the rows of a", a.with_shape(a.shape[:-1]), "those of b", b.with_shape(b.shape[:-1])
    )
    return b


def _solve_reference(
    _a: Array, factors: Array, order: Array, b: Array, *, transpose: bool
) -> Array:
    places = order[..., None]
    if not transpose:
        moved = np.take_along_axis(b, np.broadcast_to(places, b.shape), -2)
        inner = substitution(factors, moved, lower=True, unit=True)
        return substitution(factors, inner, lower=False, unit=False)
    flipped = factors.swapaxes(-1, -2)
    inner = substitution(flipped, b, lower=True, unit=False)
    found = substitution(flipped, inner, lower=False, unit=True)
    back = np.argsort(places, axis=-2)
    return np.take_along_axis(found, np.broadcast_to(back, b.shape), -2)


def _solve_grad(node: Node, g: Tensor, *, transpose: bool) -> Grads:
    # Giles (2008), section 2.3: b_bar = a'^-1 x_bar and a_bar = -b_bar x'. It is all of the
    # gradient of `a`: none goes to the factors.
    a, factors, order, _ = node.inputs
    of_b = linear_solve(a, factors, order, g, transpose=not transpose)
    left, right = (node.output, of_b) if transpose else (of_b, node.output)
    return negative(product(left, right, transpose_b=True)), None, None, of_b


def _solve_kernel(
    a: TensorType, factors: TensorType, order: TensorType, b: TensorType, *, transpose: bool
) -> Call:
    def linear_solve(_a: Tensor, factors: Tensor, order: Tensor, b: Tensor) -> list[Tensor]:
        if not transpose:
            moved = permute_rows(b, order)
            inner = triangular_solve(factors, moved, lower=True, unit=True)
            return [triangular_solve(factors, inner, lower=False)]
        inner = triangular_solve(factors, b, lower=False, transpose=True)
        found = triangular_solve(factors, inner, lower=True, transpose=True, unit=True)
        return [permute_rows(found, invert_order(order))]

    def eliminate(a: Tensor, _factors: Tensor, _order: Tensor, b: Tensor) -> list[Tensor]:
        n, width = b.type.static_shape[-2:]

        left, right = reshape(a, (-1, n, n)), reshape(b, (-1, n, width))
        found = solve_columns(to_columns(left), to_columns(right), n, transpose=transpose)
        return [reshape(found, b.shape)]

    def by_steps(a: Tensor, _factors: Tensor, _order: Tensor, b: Tensor) -> list[Tensor]:
        left, right = reshape(a, (-1, n, n)), reshape(b, (-1, n, width))

        def solved(a: Tensor, b: Tensor) -> list[Tensor]:
            # A solution and its gradient have the same steps: see `passes/placement/fuse_parts.py`.
            return [reshape(solve_by_steps(b, eliminated(a), transpose=transpose), b.shape)]

        return [reshape(in_parts(solved, left, right, nbytes=BYTES_OF_STEPS)[0], b.shape)]

    def nothing(_a: Tensor, _factors: Tensor, _order: Tensor, b: Tensor) -> list[Tensor]:
        return [b]

    n, width = b.static_shape[-2:]
    is_small = width <= n <= FEW_ROWS and not a.dtype.is_complex
    algorithm = eliminate if is_small else linear_solve
    if width <= MOST_SIDES and not is_small and goes_by_steps(a):
        algorithm = by_steps
    return expansion(algorithm if b.count else nothing, a, factors, order, b)


def _solve_batch(operands: Operands, *, transpose: bool) -> Tensor:
    return operands.apply(*operands.lifted(), transpose=transpose)


linear_solve_op = define(
    "linear_solve",
    infer=_solve_infer,
    reference=_solve_reference,
    grad=_solve_grad,
    kernel=_solve_kernel,
    batch=_solve_batch,
    of_pairs="expansion",
)
