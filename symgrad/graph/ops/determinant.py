"""Determinants from LU factors, with the gradient of Jacobi's formula: the op log_determinant.

The determinant of a matrix is its sign times the exponential of a logarithm only where it is not 0;
so `det` is a product of the diagonal, and of a few rows an expansion by minors. The gradient is the
cofactors, which every matrix has.
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
from symgrad.graph.ops.arithmetic import add, multiply, remainder, subtract
from symgrad.graph.ops.arithmetic import sign as sign_of
from symgrad.graph.ops.block_matrices import expansion, from_columns, in_parts, to_columns
from symgrad.graph.ops.branches import branch
from symgrad.graph.ops.comparison import equal, greater, logical_and, where
from symgrad.graph.ops.complex_parts import complex, imag, real
from symgrad.graph.ops.conversion import astype, stop_gradient
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.lu import linear_solve, lu
from symgrad.graph.ops.reduction import prod
from symgrad.graph.ops.small_solving import (
    FEW_ROWS,
    cofactor_columns,
    cofactors_of,
    det_columns,
)
from symgrad.graph.ops.structure import broadcast_to, reduce_sum, reshape
from symgrad.graph.ops.summation import diagonal
from symgrad.graph.ops.transcendental import exp, log
from symgrad.graph.ops.triangles import (
    identity_like,
    invert_order,
    matrix_transpose,
    permute_rows,
    product,
)
from symgrad.graph.ops.triangular import check_square, triangular_solve
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType


def det(a: Tensor) -> Tensor:
    """Return the determinants of square matrices."""
    return apply(determinant_op, a, *lu(a))


def sign_and_logarithm(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the signs of determinants and the logarithms of their absolute values.

    The op has the logarithm of a complex determinant, up to a multiple of i pi.
    """
    factors, order = lu(a)
    pivots = stop_gradient(diagonal(factors))
    sign = multiply(prod(sign_of(pivots), axis=-1), parity(order, a))
    logarithm = apply(log_determinant_op, a, factors, order)
    if not a.dtype.is_complex:
        return sign, logarithm
    # The sign is turned as the imaginary part of the logarithm is: d sign = i sign d angle.
    angle = imag(logarithm)
    change = subtract(angle, stop_gradient(angle))
    return multiply(sign, exp(complex(filled_like(change, 0), change))), real(logarithm)


def parity(order: Tensor, like: Tensor) -> Tensor:
    """Return 1 for permutations of an even number of exchanges and -1 for others."""
    n = order.shape[-1]
    square = (*order.shape, n)
    rows = broadcast_to(reshape(order, (*order.shape, 1)), square)
    columns = broadcast_to(reshape(order, (*order.shape[:-1], 1, n)), square)
    is_before = greater(iota(square, order.ndim), iota(square, order.ndim - 1))
    is_inversion = astype(logical_and(is_before, greater(rows, columns)), dtypes.int64)
    count = reduce_sum(is_inversion, (order.ndim - 1, order.ndim))
    one = filled_like(astype(count, like.dtype), 1)
    return where(equal(remainder(count, 2), 0), one, filled_like(one, -1))


def _infer(op: str, a: TensorType, factors: TensorType, order: TensorType) -> TensorType:
    check_square(op, "a", a, of_complex=True)
    meet_shapes(op, "a", a, "its factors", factors)
    meet_shapes(op, "the rows of a", a.with_shape(a.shape[:-1]), "their order", order)
    return a.with_shape(a.shape[:-2])


def _transposed_inverse(a: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    inverse = linear_solve(a, factors, order, identity_like(a))
    return matrix_transpose(inverse)


def _along(x: Tensor, like: Tensor) -> Tensor:
    return broadcast_to(reshape(x, (*x.shape, 1, 1)), like.shape)


def _pivots(factors: Array) -> Array:
    return np.diagonal(factors, axis1=-2, axis2=-1)


# ------------------------------------------------------------------------------ determinant


def _det_infer(a: TensorType, factors: TensorType, order: TensorType) -> TensorType:
    return _infer("determinant", a, factors, order)


def _det_reference(_a: Array, factors: Array, order: Array) -> Array:
    signs = np.linalg.det(np.eye(order.shape[-1])[order]) if order.shape[-1] else 1.0
    return np.asarray(np.prod(_pivots(factors), axis=-1) * np.round(signs)).astype(factors.dtype)


def _det_grad(node: Node, g: Tensor) -> Grads:
    # Jacobi's formula: a_bar = det(a) a'^-1, which are the cofactors. None goes to the factors.
    a, factors, order = node.inputs
    return multiply(_along(g, a), apply(cofactors_op, a, factors, order)), None, None


def _det_kernel(a: TensorType, factors: TensorType, order: TensorType) -> Call:
    def determinant(a: Tensor, factors: Tensor, order: Tensor) -> list[Tensor]:
        return [multiply(prod(diagonal(factors), axis=-1), parity(order, a))]

    def expanded(a: Tensor, _factors: Tensor, _order: Tensor) -> list[Tensor]:
        n = a.type.static_shape[-1]
        found = in_parts(lambda t: [det_columns(to_columns(t), n)[0]], reshape(a, (-1, n, n)))
        return [reshape(found[0], a.shape[:-2])]

    return expansion(expanded if _is_small(a) else determinant, a, factors, order)


def _is_small(a: TensorType) -> bool:
    """Return whether there are matrices, whose determinants are expanded by minors."""
    return a.count > 0 and a.static_shape[-1] <= FEW_ROWS and not a.dtype.is_complex


determinant_op = define(
    "determinant",
    infer=_det_infer,
    reference=_det_reference,
    grad=_det_grad,
    kernel=_det_kernel,
    batch=batch_in_front,
    of_pairs="expansion",
)


# -------------------------------------------------------------------------------- cofactors


def _cofactors_infer(a: TensorType, factors: TensorType, order: TensorType) -> TensorType:
    _infer("cofactors", a, factors, order)
    return a


def _cofactors_reference(a: Array, _factors: Array, _order: Array) -> Array:
    return cofactors_of(a)


def _cofactors_grad(node: Node, g: Tensor) -> Grads:
    # Of C = det(a) W with W = a'^-1: dC = tr(W' da) C - W da' C, so that
    # a_bar = sum(g * C) W - C g' W. Where a has no inverse there is no number.
    a, factors, order = node.inputs
    c, w = node.output, _transposed_inverse(a, factors, order)
    total = reduce_sum(multiply(g, c), (g.ndim - 2, g.ndim - 1))
    crossed = product(product(c, g, transpose_b=True), w)
    return subtract(multiply(_along(total, a), w), crossed), None, None


def _cofactors_kernel(a: TensorType, factors: TensorType, order: TensorType) -> Call:
    def expanded(a: Tensor, _factors: Tensor, _order: Tensor) -> list[Tensor]:
        n = a.type.static_shape[-1]

        def part(t: Tensor) -> list[Tensor]:
            return [from_columns(cofactor_columns(to_columns(t), n), n, n)]

        return [reshape(in_parts(part, reshape(a, (-1, n, n)))[0], a.shape)]

    def nothing(a: Tensor, _factors: Tensor, _order: Tensor) -> list[Tensor]:
        return [a]

    algorithm = expanded if _is_small(a) else _cofactors_by_factors
    return expansion(algorithm if a.count else nothing, a, factors, order)


# Note [Cofactors of a singular matrix]
# With t in the place of one pivot k of p a = L U, the cofactors are d a(t)'^-1 t, where d is the
# product of the other pivots with the sign of p. As t goes to 0 that is d times the product of two
# vectors: a(1)^-1 is a sum of a matrix that stays and of u w' / t, where U(1) u = e_k, and
# w' = e_k' a(1)^-1. Where two pivots are 0, the cofactors are.


def _cofactors_by_factors(a: Tensor, factors: Tensor, order: Tensor) -> list[Tensor]:
    """Scale the inverse, and where a pivot is 0 take the limit of that."""
    is_zero = equal(diagonal(factors), 0.0)
    count = reduce_sum(astype(is_zero, dtypes.int64), (is_zero.ndim - 1,))
    sign = parity(order, a)
    functions = [Traced(name, ()) for name in ("regular", "singular")]

    def regular() -> list[Tensor]:
        scale = multiply(prod(diagonal(factors), axis=-1), sign)
        return [multiply(_along(scale, a), _transposed_inverse(a, factors, order))]

    def singular() -> list[Tensor]:
        (found,) = regular()
        limit = _singular_cofactors(factors, order, astype(is_zero, a.dtype), sign)
        one, none = (_along(equal(count, n), a) for n in (1, 0))
        return [where(none, found, where(one, limit, filled_like(a, 0)))]

    functions[0].run(regular)
    functions[1].run(singular)
    index = astype(greater(reduce_sum(count, tuple(range(count.ndim))), 0), dtypes.int64)
    return list(branch(index, functions).outputs)


def _singular_cofactors(factors: Tensor, order: Tensor, unit: Tensor, sign: Tensor) -> Tensor:
    """Return the cofactors where the pivot is 0 at which `unit` is 1.

    See Note [Cofactors of a singular matrix].
    """
    column = reshape(unit, (*unit.shape, 1))
    filled = add(factors, multiply(broadcast_to(column, factors.shape), identity_like(factors)))
    u = triangular_solve(filled, column, lower=False)
    inner = triangular_solve(filled, column, lower=False, transpose=True)
    moved = triangular_solve(filled, inner, lower=True, transpose=True, unit=True)
    w = permute_rows(moved, invert_order(order))
    scale = multiply(prod(diagonal(filled), axis=-1), sign)
    return multiply(_along(scale, factors), product(w, u, transpose_b=True))


cofactors_op = define(
    "cofactors",
    infer=_cofactors_infer,
    reference=_cofactors_reference,
    grad=_cofactors_grad,
    kernel=_cofactors_kernel,
    batch=batch_in_front,
    of_pairs="expansion",
)


# -------------------------------------------------------------------------- log_determinant


def _log_infer(a: TensorType, factors: TensorType, order: TensorType) -> TensorType:
    return _infer("log_determinant", a, factors, order)


def _log_reference(_a: Array, factors: Array, _order: Array) -> Array:
    with np.errstate(divide="ignore"):
        pivots = _pivots(factors)
        found = np.log(pivots if np.iscomplexobj(pivots) else np.abs(pivots)).sum(-1)
    return np.asarray(found).astype(factors.dtype)


def _log_grad(node: Node, g: Tensor) -> Grads:
    a, factors, order = node.inputs
    return multiply(_along(g, a), _transposed_inverse(a, factors, order)), None, None


def _log_kernel(a: TensorType, factors: TensorType, order: TensorType) -> Call:
    def log_determinant(_a: Tensor, factors: Tensor, _order: Tensor) -> list[Tensor]:
        pivots = diagonal(factors)
        pivots = log(pivots if pivots.dtype.is_complex else absolute(pivots))
        return [reduce_sum(pivots, (pivots.ndim - 1,))]

    return expansion(log_determinant, a, factors, order)


log_determinant_op = define(
    "log_determinant",
    infer=_log_infer,
    reference=_log_reference,
    grad=_log_grad,
    kernel=_log_kernel,
    batch=batch_in_front,
    of_pairs="expansion",
)
