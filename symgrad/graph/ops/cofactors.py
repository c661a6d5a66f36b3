"""Cofactors of matrices and what they change by, also where there is no inverse.

They are the first and the second derivative of a determinant, polynomials in the elements of the
matrix: so there is no matrix that does not have them. Those of a few rows are expanded by minors;
larger ones come from LU factors, or where these say nothing from singular values.
"""

from __future__ import annotations

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.batch_rules import batch_in_front
from symgrad.graph.build import apply
from symgrad.graph.nested import Traced
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.block_matrices import expansion, in_parts, to_columns
from symgrad.graph.ops.branches import branch
from symgrad.graph.ops.comparison import greater, logical_and, logical_not, where
from symgrad.graph.ops.complex_parts import conj
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.lu import lu
from symgrad.graph.ops.lu_values import along_matrices, determinant_of, transposed_inverse
from symgrad.graph.ops.reduction import max as greatest
from symgrad.graph.ops.reduction import min as least
from symgrad.graph.ops.running_products import cumprod_op
from symgrad.graph.ops.singular_cofactors import cofactors_by_factors, cofactors_by_steps
from symgrad.graph.ops.small_elimination import BYTES_OF_STEPS, goes_by_steps
from symgrad.graph.ops.small_solving import FEW_ROWS, cofactor_columns, cofactors_of
from symgrad.graph.ops.structure import broadcast_to, reduce_sum, reshape
from symgrad.graph.ops.summation import diagonal
from symgrad.graph.ops.svd import svd
from symgrad.graph.ops.triangles import (
    adjoint,
    diagonal_matrix,
    matrix_transpose,
    product,
    triangle,
)
from symgrad.graph.ops.triangular import check_square
from symgrad.graph.sizes import Dim
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType


def check_factors(op: str, a: TensorType, factors: TensorType, order: TensorType) -> TensorType:
    """Check matrices and their LU factors; return the type of a number for each."""
    check_square(op, "a", a, of_complex=True)
    meet_shapes(op, "a", a, "its factors", factors)
    meet_shapes(op, "the rows of a", a.with_shape(a.shape[:-1]), "their order", order)
    return a.with_shape(a.shape[:-2])


def is_small(a: TensorType) -> bool:
    """Return whether there are matrices, whose cofactors are expanded by minors."""
    return a.count > 0 and a.static_shape[-1] <= FEW_ROWS and not a.dtype.is_complex


# -------------------------------------------------------------------------------- cofactors


def _cofactors_infer(a: TensorType, factors: TensorType, order: TensorType) -> TensorType:
    check_factors("cofactors", a, factors, order)
    return a


def _cofactors_reference(a: Array, _factors: Array, _order: Array) -> Array:
    return cofactors_of(a)


def _cofactors_grad(node: Node, g: Tensor) -> Grads:
    # The change is that of a gradient, so it is symmetric: its own transpose.
    return apply(cofactor_change_op, *node.inputs, g), None, None


def _cofactors_kernel(a: TensorType, factors: TensorType, order: TensorType) -> Call:
    def expanded(a: Tensor, _factors: Tensor, _order: Tensor) -> list[Tensor]:
        n = a.type.static_shape[-1]
        return [reshape(_expanded_cofactors(reshape(a, (-1, n, n))), a.shape)]

    def nothing(a: Tensor, _factors: Tensor, _order: Tensor) -> list[Tensor]:
        return [a]

    def by_steps(a: Tensor, _factors: Tensor, _order: Tensor) -> list[Tensor]:
        n = a.type.static_shape[-1]
        given = reshape(a, (-1, n, n))
        return [reshape(in_parts(cofactors_by_steps, given, nbytes=BYTES_OF_STEPS)[0], a.shape)]

    algorithm = expanded if is_small(a) else cofactors_by_factors
    if not is_small(a) and goes_by_steps(a):
        algorithm = by_steps
    return expansion(algorithm if a.count else nothing, a, factors, order)


def _expanded_cofactors(a: Tensor) -> Tensor:
    """Return the cofactors of a row of small matrices, by minors."""
    n = a.type.static_shape[-1]
    return reshape(cofactor_columns(to_columns(a), n), a.shape)


cofactors_op = define(
    "cofactors",
    infer=_cofactors_infer,
    reference=_cofactors_reference,
    grad=_cofactors_grad,
    kernel=_cofactors_kernel,
    batch=batch_in_front,
    of_pairs="expansion",
)


# -------------------------------------------------------------------------- cofactor_change


def _change_infer(
    a: TensorType, factors: TensorType, order: TensorType, direction: TensorType
) -> TensorType:
    check_factors("cofactor_change", a, factors, order)
    meet_shapes("cofactor_change", "a", a, "direction", direction)
    return a


def _change_reference(a: Array, _factors: Array, _order: Array, direction: Array) -> Array:
    """Compute each change from minors that lack two rows and two columns."""
    n = a.shape[-1]
    result = np.zeros_like(a)
    for i, j, k, l in np.ndindex(n, n, n, n):  # noqa: E741 - as in a formula of indices
        if i != k and j != l:
            sign = (-1) ** (i + j + k + l) * (1 if (i < k) == (j < l) else -1)
            minor = np.delete(np.delete(a, (i, k), axis=-2), (j, l), axis=-1)
            result[..., i, j] += sign * np.linalg.det(minor) * direction[..., k, l]
    return result


def _change_grad(node: Node, g: Tensor) -> Grads:
    # With W = a'^-1 and d = det(a) it is d (<W, x> W - W x' W), x the direction, of which this is
    # the derivative by a; by x it is its own transpose. Where a has no inverse there is no number.
    a, factors, order, x = node.inputs
    w = transposed_inverse(a, factors, order)
    by_x, by_g = (product(product(w, t, transpose_b=True), w) for t in (x, g))
    of_x, of_g = (along_matrices(_inner(w, t), a) for t in (x, g))
    crossed = along_matrices(_inner(g, by_x), a)
    both = add(
        product(product(by_x, g, transpose_b=True), w),
        product(product(by_g, x, transpose_b=True), w),
    )
    scaled = multiply(subtract(multiply(of_x, of_g), crossed), w)
    mixed = add(multiply(of_g, by_x), multiply(of_x, by_g))
    scale = along_matrices(determinant_of(factors, order), a)
    by_a = multiply(scale, add(scaled, subtract(both, mixed)))
    return by_a, None, None, apply(cofactor_change_op, a, factors, order, g)


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Return the sums of products of elements."""
    return reduce_sum(multiply(a, b), (a.ndim - 2, a.ndim - 1))


def _change_kernel(
    a: TensorType, factors: TensorType, order: TensorType, direction: TensorType
) -> Call:
    def expanded(a: Tensor, _factors: Tensor, _order: Tensor, x: Tensor) -> list[Tensor]:
        n = a.type.static_shape[-1]
        pair = (reshape(t, (-1, n, n)) for t in (a, x))
        return [reshape(in_parts(lambda *t: [_polarised(*t)], *pair)[0], a.shape)]

    def nothing(a: Tensor, *_others: Tensor) -> list[Tensor]:
        return [a]

    algorithm = expanded if is_small(a) else _change_by_factors
    return expansion(algorithm if a.count else nothing, a, factors, order, direction)


def _polarised(a: Tensor, x: Tensor) -> Tensor:
    """Return the change of the cofactors of up to 4 rows, which are polynomials of degree 3.

    C(a + t x) for t = 1 and -1 has the terms that are odd in t, the last of which is C(x).
    """
    n = a.type.static_shape[-1]
    if n == 1:
        return filled_like(a, 0)
    if n == 2:
        return _expanded_cofactors(x)
    sizes = [greatest(absolute(t), axis=(1, 2)) for t in (a, x)]
    is_scaled = logical_and(*(greater(size, 0.0) for size in sizes))
    # Where x is far larger or smaller than a, one of them would be lost in the sums.
    ratio = along_matrices(where(is_scaled, divide(*sizes), filled_like(sizes[0], 1)), a)
    step = multiply(x, ratio)
    ahead, behind = (_expanded_cofactors(t) for t in (add(a, step), subtract(a, step)))
    odd = multiply(subtract(ahead, behind), 0.5)
    return divide(odd if n == 3 else subtract(odd, _expanded_cofactors(step)), ratio)


# Note [Change of the cofactors of a singular matrix]
# Of a diagonal matrix s the cofactors change along x by sum_k P[i, k] x[k, k] at [i, i], and by
# -P[i, j] x[j, i] at [i, j], where P[i, j] is the product of all of s but the i-th and the j-th.
# With a = U s V', where ' conjugates, those of a are det(U V') conj(U) C(s) conj(V'); and the
# change is that of C(s) along what x is between U and V, taken back. Nothing is divided by, so it
# is right for all matrices. It costs singular values, and is used where LU factors have lost half
# of the digits: a pivot is below the square root of the precision beside the greatest.


def _change_by_factors(a: Tensor, factors: Tensor, order: Tensor, x: Tensor) -> list[Tensor]:
    """Use the inverse, and where a matrix has hardly one its singular values."""
    pivots = absolute(diagonal(factors))
    tolerance = float(np.sqrt(np.finfo(pivots.dtype.numpy).eps))
    smallest, bound = least(pivots, axis=-1), multiply(greatest(pivots, axis=-1), tolerance)
    is_close = logical_not(greater(smallest, bound))
    functions = [Traced(name, ()) for name in ("regular", "close to singular")]

    def regular() -> list[Tensor]:
        w = transposed_inverse(a, factors, order)
        crossed = product(product(w, x, transpose_b=True), w)
        inner = subtract(multiply(along_matrices(_inner(w, x), a), w), crossed)
        return [multiply(along_matrices(determinant_of(factors, order), a), inner)]

    def close() -> list[Tensor]:
        chosen = along_matrices(is_close, a)
        return [where(chosen, _change_by_values(a, x), regular()[0])]

    functions[0].run(regular)
    functions[1].run(close)
    count = reduce_sum(astype(is_close, dtypes.int64), tuple(range(is_close.ndim)))
    return list(branch(astype(greater(count, 0), dtypes.int64), functions).outputs)


def _change_by_values(a: Tensor, x: Tensor) -> Tensor:
    """Return the change by singular values.

    See Note [Change of the cofactors of a singular matrix].
    """
    u, s, vh = svd(a)
    scale = multiply(*(determinant_of(*lu(t)) for t in (u, vh)))
    between = product(product(adjoint(u), x), adjoint(vh))
    others = astype(_products_without_two(s), a.dtype)
    diagonals = reshape(diagonal(between), (*s.shape, 1))
    on_diagonal = reshape(product(others, diagonals), s.shape)
    rotated = subtract(diagonal_matrix(on_diagonal), matrix_transpose(multiply(others, between)))
    found = product(product(conj(u), rotated), conj(vh))
    return multiply(along_matrices(scale, a), found)


def _products_without_two(s: Tensor) -> Tensor:
    """Return for each i and j the product of all of `s` but two of them, 0 where they are one."""
    *batch, n = s.shape
    last = s.ndim - 1

    def before(x: Tensor, *, reverse: bool = False) -> Tensor:
        return apply(cumprod_op, x, axis=x.ndim - 1, reverse=reverse, exclusive=True)

    def spread(x: Tensor, *shape: Dim) -> Tensor:
        return broadcast_to(reshape(x, (*batch, *shape)), (*batch, n, n))

    rows = spread(s, 1, n)
    is_behind = greater(iota(rows.shape, last + 1), iota(rows.shape, last))
    between = before(where(is_behind, rows, filled_like(rows, 1)))
    ends = multiply(spread(before(s), n, 1), spread(before(s, reverse=True), 1, n))
    upper = triangle(multiply(between, ends), lower=False, k=1)
    return add(upper, matrix_transpose(upper))


cofactor_change_op = define(
    "cofactor_change",
    infer=_change_infer,
    reference=_change_reference,
    grad=_change_grad,
    kernel=_change_kernel,
    batch=batch_in_front,
    of_pairs="expansion",
)
