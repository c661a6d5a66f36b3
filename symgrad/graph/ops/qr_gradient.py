"""The gradient of matrices, given that of R of their QR factors: an op of its own.

So batches of small matrices go through one loop with their factorisation, a matrix in each lane,
and Q, which only multiplies, is never made: its reflections are applied instead.
"""

from __future__ import annotations

import numpy as np

from symgrad.errors import ShapeError
from symgrad.graph.batch_rules import batch_in_front
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes, require_dtype
from symgrad.graph.ops.arithmetic import add, multiply, subtract
from symgrad.graph.ops.block_matrices import expansion, in_parts, to_columns
from symgrad.graph.ops.complex_parts import real
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.slicing import place
from symgrad.graph.ops.small_elimination import BYTES_OF_STEPS
from symgrad.graph.ops.small_matrices import is_wide_float, substitute_columns, substitution
from symgrad.graph.ops.small_qr import scaled_products
from symgrad.graph.ops.small_reflections import q_times, r_of_steps, reflected, reflects_by_steps
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reshape
from symgrad.graph.ops.summation import diagonal
from symgrad.graph.ops.triangles import (
    adjoint,
    diagonal_matrix,
    matrix_transpose,
    product,
    range_factors,
    triangle,
)
from symgrad.graph.ops.triangular import np_transpose, triangular_solve
from symgrad.graph.ops.views import narrow
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType


def qr_gradient(a: Tensor, q: Tensor, r: Tensor, g: Tensor) -> Tensor:
    """Return the gradient of real matrices a = Q R, given that of R, of which a triangle counts.

    They have no more columns than rows, and Q has as many.
    """
    return apply(qr_gradient_op, a, q, r, g)


def closed_form(q: Tensor, r: Tensor, of_q: Tensor | None, of_r: Tensor) -> Tensor:
    """Return the gradient, given those of Q and R; of complex factors, that of conjugates."""
    # Walter and Lehmann (2010); Seeger et al. (2017), section 4.2, for Q R:
    # a_bar = (Q_bar + Q copyltu(R R_bar' - Q_bar' Q)) R'^-1.
    # The diagonal of R is real.
    of_r = triangle(of_r, lower=False)
    inner = product(r, adjoint(of_r))
    if of_q is not None:
        inner = subtract(inner, product(adjoint(of_q), q))
    left = product(q, _copied(inner))
    left = left if of_q is None else add(of_q, left)
    return adjoint(triangular_solve(r, adjoint(left), lower=False))


def _copied(x: Tensor) -> Tensor:
    """Return the Hermitian matrices that have these lower triangles, copyltu of the literature."""
    below = triangle(x, lower=True, k=-1)
    return add(add(below, adjoint(below)), astype(diagonal_matrix(real(diagonal(x))), x.dtype))


def _copied_gradient(g: Tensor) -> Tensor:
    """Return the gradient of what is copied, given that of the result, of real matrices."""
    both = triangle(add(g, matrix_transpose(g)), lower=True, k=-1)
    return add(both, diagonal_matrix(diagonal(g)))


def _infer(a: TensorType, q: TensorType, r: TensorType, g: TensorType) -> TensorType:
    require_dtype("qr_gradient", "a", a, is_wide_float)
    if a.ndim < 2:
        raise ShapeError("qr_gradient", f"a: {a} has fewer than two axes")
    meet_shapes("qr_gradient", "a", a, "q", q)
    n = a.shape[-1]
    meet_shapes("qr_gradient", "R of a", a.with_shape((*a.shape[:-2], n, n)), "r", r)
    meet_shapes("qr_gradient", "r", r, "g", g)
    return a


def _reference(_a: Array, q: Array, r: Array, g: Array) -> Array:
    inner = r @ np_transpose(np.triu(g))
    left = q @ (np.tril(inner) + np_transpose(np.tril(inner, -1)))
    return np_transpose(substitution(r, np_transpose(left), lower=False, unit=False))


def _grad(node: Node, h: Tensor) -> Grads:
    # Of a_bar = Q y with y R' = s, s = copyltu(m) and m = R p', p the triangle of R_bar:
    # y_bar = Q' h, s_bar = y_bar R^-1, p_bar = m_bar' R, and that of R is m_bar p - s_bar' y.
    _, q, r, g = node.inputs
    upper = triangle(r, lower=False)
    y = product(q, node.output, transpose_a=True)
    of_y = product(q, h, transpose_a=True)
    of_s = matrix_transpose(
        triangular_solve(r, matrix_transpose(of_y), lower=False, transpose=True)
    )
    of_m = _copied_gradient(of_s)
    of_r = subtract(product(of_m, triangle(g, lower=False)), product(of_s, y, transpose_a=True))
    of_g = product(of_m, upper, transpose_a=True)
    of_q = product(h, y, transpose_b=True)
    return None, of_q, triangle(of_r, lower=False), triangle(of_g, lower=False)


def _kernel(a: TensorType, q: TensorType, r: TensorType, g: TensorType) -> Call:
    m, n = a.static_shape[-2:]

    def qr_gradient(_a: Tensor, q: Tensor, r: Tensor, g: Tensor) -> list[Tensor]:
        return [closed_form(q, r, None, g)]

    def by_steps(a: Tensor, _q: Tensor, _r: Tensor, g: Tensor) -> list[Tensor]:
        given = reshape(a, (-1, m, n)), reshape(g, (-1, n, n))
        (found,) = in_parts(lambda *t: [_by_steps(*t)], *given, nbytes=BYTES_OF_STEPS)
        return [reshape(found, a.shape)]

    def nothing(a: Tensor, *_others: Tensor) -> list[Tensor]:
        return [a]

    algorithm = by_steps if reflects_by_steps(a) else qr_gradient
    return expansion(algorithm if a.count else nothing, a, q, r, g)


def _by_steps(a: Tensor, g: Tensor) -> Tensor:
    """Return Q y, with the reflections that factorise `a`: see `_by_steps` in `qr.py`.

    What is found there is R of columns multiplied by factors; so those of g are divided by them.
    """
    count, m, n = a.type.static_shape
    factor, inverse = range_factors(a, 1)
    steps = reflected(multiply(a, broadcast_to(factor, a.shape)))
    scaled = multiply(g, broadcast_to(inverse, g.shape))
    found = scaled_products(r_of_steps(steps, m, n), to_columns(scaled), n)
    r, inner = (
        reshape(narrow(found, 0, start, n * n), shape)
        for start, shape in ((0, (n * n, 1, count)), (n * n, (n, n, count)))
    )
    y = substitute_columns(broadcast_to(r, (n * n, n, count)), inner, lower=False, unit=True)
    if m > n:
        y = place(y, (m, n, count), (0, 0, 0), (1, 1, 1))
    found = permute_dims(q_times(y, steps), (2, 1, 0))
    return multiply(found, broadcast_to(factor, found.shape))


qr_gradient_op = define(
    "qr_gradient",
    infer=_infer,
    reference=_reference,
    grad=_grad,
    kernel=_kernel,
    batch=batch_in_front,
)
