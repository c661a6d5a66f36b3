"""Determinants from LU factors, with the gradient of Jacobi's formula: the op log_determinant.

The determinant of a matrix is its sign times the exponential of a logarithm only where it is not 0;
so `det` is a product of the diagonal, and `determinant` says what its gradient is.
"""

from __future__ import annotations

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.batch_rules import batch_in_front
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import multiply, remainder
from symgrad.graph.ops.arithmetic import sign as sign_of
from symgrad.graph.ops.block_matrices import expansion
from symgrad.graph.ops.comparison import equal, greater, logical_and, where
from symgrad.graph.ops.conversion import astype, stop_gradient
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.lu import linear_solve, lu
from symgrad.graph.ops.reduction import prod
from symgrad.graph.ops.structure import broadcast_to, reduce_sum, reshape
from symgrad.graph.ops.summation import diagonal
from symgrad.graph.ops.transcendental import log
from symgrad.graph.ops.triangles import identity_like, matrix_transpose
from symgrad.graph.ops.triangular import check_square
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType


def det(a: Tensor) -> Tensor:
    """Return the determinants of square matrices."""
    return apply(determinant_op, a, *lu(a))


def sign_and_logarithm(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the signs of determinants and the logarithms of their absolute values."""
    factors, order = lu(a)
    pivots = stop_gradient(diagonal(factors))
    sign = multiply(prod(sign_of(pivots), axis=-1), parity(order, a))
    return sign, apply(log_determinant_op, a, factors, order)


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
    check_square(op, "a", a)
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
    # Jacobi's formula: a_bar = det(a) a'^-1. None goes to the factors.
    a, factors, order = node.inputs
    scale = _along(multiply(g, node.output), a)
    return multiply(scale, _transposed_inverse(a, factors, order)), None, None


def _det_kernel(a: TensorType, factors: TensorType, order: TensorType) -> Call:
    def determinant(a: Tensor, factors: Tensor, order: Tensor) -> list[Tensor]:
        return [multiply(prod(diagonal(factors), axis=-1), parity(order, a))]

    return expansion(determinant, a, factors, order)


determinant_op = define(
    "determinant",
    infer=_det_infer,
    reference=_det_reference,
    grad=_det_grad,
    kernel=_det_kernel,
    batch=batch_in_front,
)


# -------------------------------------------------------------------------- log_determinant


def _log_infer(a: TensorType, factors: TensorType, order: TensorType) -> TensorType:
    return _infer("log_determinant", a, factors, order)


def _log_reference(_a: Array, factors: Array, _order: Array) -> Array:
    with np.errstate(divide="ignore"):
        found = np.log(np.abs(_pivots(factors))).sum(-1)
    return np.asarray(found).astype(factors.dtype)


def _log_grad(node: Node, g: Tensor) -> Grads:
    a, factors, order = node.inputs
    return multiply(_along(g, a), _transposed_inverse(a, factors, order)), None, None


def _log_kernel(a: TensorType, factors: TensorType, order: TensorType) -> Call:
    def log_determinant(_a: Tensor, factors: Tensor, _order: Tensor) -> list[Tensor]:
        pivots = log(absolute(diagonal(factors)))
        return [reduce_sum(pivots, (pivots.ndim - 1,))]

    return expansion(log_determinant, a, factors, order)


log_determinant_op = define(
    "log_determinant",
    infer=_log_infer,
    reference=_log_reference,
    grad=_log_grad,
    kernel=_log_kernel,
    batch=batch_in_front,
)
