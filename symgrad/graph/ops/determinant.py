"""Determinants from LU factors, with the gradient of Jacobi's formula: the op log_determinant.

The determinant of a matrix is its sign times the exponential of a logarithm only where it is not 0;
so `det` is a product of the diagonal, without factors in memory where rows are few. The gradient is
the cofactors, which every matrix has (`cofactors.py`).
"""

from __future__ import annotations

import numpy as np

from symgrad.graph.batch_rules import batch_in_front
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import multiply, subtract
from symgrad.graph.ops.arithmetic import sign as sign_of
from symgrad.graph.ops.block_matrices import expansion, in_parts, to_columns
from symgrad.graph.ops.cofactors import check_factors, cofactors_op, is_small
from symgrad.graph.ops.complex_parts import complex, imag, real
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.lu import lu
from symgrad.graph.ops.lu_values import (
    along_matrices,
    determinant_of,
    parity,
    pivots_of,
    transposed_inverse,
)
from symgrad.graph.ops.reduction import prod
from symgrad.graph.ops.small_elimination import (
    BYTES_OF_STEPS,
    det_of_steps,
    eliminated,
    goes_by_steps,
)
from symgrad.graph.ops.small_solving import (
    det_columns,
)
from symgrad.graph.ops.structure import reduce_sum, reshape
from symgrad.graph.ops.transcendental import exp, log
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
    pivots = stop_gradient(pivots_of(factors))
    sign = multiply(prod(sign_of(pivots), axis=-1), parity(order, a))
    logarithm = apply(log_determinant_op, a, factors, order)
    if not a.dtype.is_complex:
        return sign, logarithm
    # The sign is turned as the imaginary part of the logarithm is: d sign = i sign d angle.
    angle = imag(logarithm)
    change = subtract(angle, stop_gradient(angle))
    return multiply(sign, exp(complex(filled_like(change, 0), change))), real(logarithm)


def _pivots(factors: Array) -> Array:
    return np.diagonal(factors, axis1=-2, axis2=-1)


# ------------------------------------------------------------------------------ determinant


def _det_infer(a: TensorType, factors: TensorType, order: TensorType) -> TensorType:
    return check_factors("determinant", a, factors, order)


def _det_reference(_a: Array, factors: Array, order: Array) -> Array:
    signs = np.linalg.det(np.eye(order.shape[-1])[order]) if order.shape[-1] else 1.0
    return np.asarray(np.prod(_pivots(factors), axis=-1) * np.round(signs)).astype(factors.dtype)


def _det_grad(node: Node, g: Tensor) -> Grads:
    # Jacobi's formula: a_bar = det(a) a'^-1, which are the cofactors. None goes to the factors.
    a, factors, order = node.inputs
    return multiply(along_matrices(g, a), apply(cofactors_op, a, factors, order)), None, None


def _det_kernel(a: TensorType, factors: TensorType, order: TensorType) -> Call:
    def determinant(_a: Tensor, factors: Tensor, order: Tensor) -> list[Tensor]:
        return [determinant_of(factors, order)]

    def expanded(a: Tensor, _factors: Tensor, _order: Tensor) -> list[Tensor]:
        n = a.type.static_shape[-1]
        found = det_columns(to_columns(reshape(a, (-1, n, n))), n)
        return [reshape(found, a.shape[:-2])]

    def by_steps(a: Tensor, _factors: Tensor, _order: Tensor) -> list[Tensor]:
        n = a.type.static_shape[-1]

        def found(a: Tensor) -> list[Tensor]:
            return [reshape(det_of_steps(eliminated(a), n), a.shape[:-2])]

        (each,) = in_parts(found, reshape(a, (-1, n, n)), nbytes=BYTES_OF_STEPS)
        return [reshape(each, a.shape[:-2])]

    if not is_small(a) and goes_by_steps(a):
        return expansion(by_steps, a, factors, order)
    return expansion(expanded if is_small(a) else determinant, a, factors, order)


determinant_op = define(
    "determinant",
    infer=_det_infer,
    reference=_det_reference,
    grad=_det_grad,
    kernel=_det_kernel,
    batch=batch_in_front,
    of_pairs="expansion",
)


# -------------------------------------------------------------------------- log_determinant


def _log_infer(a: TensorType, factors: TensorType, order: TensorType) -> TensorType:
    return check_factors("log_determinant", a, factors, order)


def _log_reference(_a: Array, factors: Array, _order: Array) -> Array:
    with np.errstate(divide="ignore"):
        pivots = _pivots(factors)
        found = np.log(pivots if np.iscomplexobj(pivots) else np.abs(pivots)).sum(-1)
    return np.asarray(found).astype(factors.dtype)


def _log_grad(node: Node, g: Tensor) -> Grads:
    a, factors, order = node.inputs
    return multiply(along_matrices(g, a), transposed_inverse(a, factors, order)), None, None


def _log_kernel(a: TensorType, factors: TensorType, order: TensorType) -> Call:
    def log_determinant(_a: Tensor, factors: Tensor, _order: Tensor) -> list[Tensor]:
        pivots = pivots_of(factors)
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
