"""The gradient of a Cholesky factor, an op of its own: its algorithm goes by blocks as well.

So it takes twice the operations of the factorisation, where the closed form has products and
triangular systems of whole matrices, twelve times as many as the factorisation has. Of small
matrices it is written out.
"""

from __future__ import annotations

from symgrad.graph.batch_rules import batch_in_front
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.arithmetic import add, multiply, subtract
from symgrad.graph.ops.block_matrices import (
    BLOCK,
    WRITTEN_OUT,
    block,
    cuts,
    expansion,
    in_parts,
    less_product,
    shared,
    to_columns,
    transposed,
    write_block,
)
from symgrad.graph.ops.complex_parts import conj
from symgrad.graph.ops.small_cholesky import cholesky_gradient_columns, gradient_of_factor
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.triangles import (
    half_diagonal,
    hermitian_part,
    matrix_transpose,
    product,
    triangle,
)
from symgrad.graph.ops.triangular import TriangularSolver, check_square, triangular_solve
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType, static


def cholesky_gradient(factor: Tensor, g: Tensor) -> Tensor:
    """Return the gradient of symmetric matrices, given their real factors L and that of these."""
    return apply(cholesky_gradient_op, factor, g)


def closed_form(factor: Tensor, g: Tensor) -> Tensor:
    """Return the same by the formula of whole matrices; of complex factors, that of conjugates."""
    # Murray (2016), section 3.1: a_bar = sym(L'^-1 phi(L' L_bar) L^-1), where phi takes the lower
    # triangle with half the diagonal. a is symmetric, and so is its gradient; ' conjugates.
    turned = conj(triangle(factor, lower=True))
    inner = half_diagonal(product(turned, triangle(g, lower=True), transpose_a=True))
    left = triangular_solve(turned, hermitian_part(inner), lower=True, transpose=True)
    solved = triangular_solve(factor, matrix_transpose(left), lower=True, transpose=True)
    return matrix_transpose(solved)


def _infer(factor: TensorType, g: TensorType) -> TensorType:
    check_square("cholesky_gradient", "factor", factor)
    meet_shapes("cholesky_gradient", "factor", factor, "g", g)
    return factor


def _reference(factor: Array, g: Array) -> Array:
    return gradient_of_factor(factor, g)


def _grad(node: Node, h: Tensor) -> Grads:
    # Of a_bar = L'^-1 s L^-1, s = sym(phi(m)) and m = L' p, where p is the triangle of L_bar:
    # s_bar = L^-1 h L'^-1, m_bar = phi(sym(s_bar)), p_bar = L m_bar, and that of L is
    # p m_bar' - a_bar (h + h') L'^-1.
    factor, g = node.inputs
    left = triangular_solve(factor, h, lower=True)
    of_s = triangular_solve(factor, matrix_transpose(left), lower=True)
    of_m = half_diagonal(hermitian_part(of_s))
    of_g = triangle(product(triangle(factor, lower=True), of_m), lower=True)
    both = product(node.output, add(h, matrix_transpose(h)))
    right = matrix_transpose(triangular_solve(factor, matrix_transpose(both), lower=True))
    through_m = product(triangle(g, lower=True), of_m, transpose_b=True)
    return triangle(subtract(through_m, right), lower=True), of_g


def _kernel(factor: TensorType, g: TensorType) -> Call:
    n = static(factor.static_shape[-1])

    def cholesky_gradient(factor: Tensor, g: Tensor) -> list[Tensor]:
        given = (reshape(x, (-1, n, n)) for x in (factor, multiply(g, 0.5)))
        (found,) = in_parts(lambda factor, half: [_by_blocks(factor, half)], *given)
        return [reshape(found, factor.shape)]

    def written_out(factor: Tensor, g: Tensor) -> list[Tensor]:
        columns = [to_columns(reshape(x, (-1, n, n))) for x in (factor, g)]
        return [reshape(cholesky_gradient_columns(columns[0], columns[1], n), factor.shape)]

    def nothing(factor: Tensor, _g: Tensor) -> list[Tensor]:
        return [factor]

    algorithm = written_out if n <= WRITTEN_OUT else cholesky_gradient
    return expansion(algorithm if factor.count else nothing, factor, g)


def _by_blocks(factor: Tensor, half: Tensor) -> Tensor:
    """Return the gradient, given half of that of the factor, of which the lower triangle counts.

    Murray (2016), section 4.2: block by block from the last one, the factorisation in reverse.
    There elements off the diagonal count twice; with halves they are what they are in symmetric
    matrices, and each block is written on both sides of the diagonal.
    """
    n = factor.type.static_shape[-1]
    solver = TriangularSolver(lower=True, transpose=True)
    found = half
    for low, high in reversed(cuts(n, BLOCK if n > BLOCK else WRITTEN_OUT)):
        corner = block(factor, (low, high), (low, high))
        beside = block(factor, (low, high), (0, low))
        below = None
        if high < n:
            below = transposed(block(found, (high, n), (low, high)))
            below = solver.solve(corner, below)
            found = write_block(found, transposed(below), high, low)
            found = write_block(found, below, low, high)
        if below is not None and low:
            rest = less_product(block(found, (high, n), (0, low)), below, beside, transpose_a=True)
            found = write_block(found, rest, high, 0)
        # Blocks are read after what is written before: so every block is written in its place.
        of_corner = block(found, (low, high), (low, high))
        if below is not None:
            of_corner = less_product(of_corner, below, block(factor, (high, n), (low, high)))
        of_corner = _of_diagonal(corner, of_corner)
        found = write_block(found, of_corner, low, low)
        if low:
            of_beside = block(found, (low, high), (0, low))
            if below is not None:
                of_beside = less_product(of_beside, below, block(factor, (high, n), (0, low)))
            found = write_block(found, less_product(of_beside, of_corner, beside), low, 0)
    return found


def _of_diagonal(factor: Tensor, half: Tensor) -> Tensor:
    """Return the gradient of a block on the diagonal."""
    if factor.type.static_shape[-1] <= WRITTEN_OUT:
        return multiply(closed_form(factor, half), 2.0)

    def factor_gradient(factor: Tensor, half: Tensor) -> list[Tensor]:
        return [_by_blocks(factor, half)]

    (found,) = shared(factor_gradient, factor, half)
    return found


cholesky_gradient_op = define(
    "cholesky_gradient",
    infer=_infer,
    reference=_reference,
    grad=_grad,
    kernel=_kernel,
    batch=batch_in_front,
)
