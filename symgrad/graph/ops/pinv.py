"""Pseudoinverse (Moore-Penrose): the op, whose gradient holds for equal singular values too."""

from __future__ import annotations

import numpy as np

from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import require_equal_types
from symgrad.graph.ops.arithmetic import add, divide, multiply, negative, subtract
from symgrad.graph.ops.block_matrices import expansion
from symgrad.graph.ops.comparison import greater, isnan, logical_or, where
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.qr import check_matrix
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.svd import svd
from symgrad.graph.ops.triangles import matrix_transpose, product
from symgrad.graph.ops.views import narrow
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType


def pinv(a: Tensor, rtol: Tensor) -> Tensor:
    """Return pseudoinverses; singular values up to `rtol` times the greatest count as 0.

    There is a `rtol` for each matrix, of the same dtype.
    """
    return apply(pinv_op, a, rtol)


def _infer(a: TensorType, rtol: TensorType) -> TensorType:
    check_matrix("pinv", "a", a)
    one_each = a.with_shape(a.shape[:-2])
    batch = require_equal_types("pinv", one_for_each_a=one_each, rtol=rtol).shape
    return a.with_shape((*batch, a.shape[-1], a.shape[-2]))


def _reference(a: Array, rtol: Array) -> Array:
    found = np.full((*a.shape[:-2], a.shape[-1], a.shape[-2]), np.nan, a.dtype)
    for at in np.ndindex(a.shape[:-2]):
        if np.isfinite(a[at]).all():
            found[at] = np.linalg.pinv(a[at], rcond=rtol[at])
    return found


def _grad(node: Node, g: Tensor) -> Grads:
    # Golub and Pereyra (1973): dP = -P da P + P P' da' (I - a P) + (I - P a) da' P' P. Between the
    # tolerances at which the rank changes the result is constant in them.
    a, _ = node.inputs
    p = node.output
    inner = product(product(p, g, transpose_a=True), p, transpose_b=True)
    turned = matrix_transpose(g)
    outer_left = subtract(turned, product(a, product(p, turned)))
    left = product(product(outer_left, p), p, transpose_b=True)
    outer_right = subtract(turned, product(product(turned, p), a))
    right = product(p, product(p, outer_right), transpose_a=True)
    return add(add(negative(inner), left), right), None


def _kernel(a: TensorType, rtol: TensorType) -> Call:
    *batch, m, n = a.static_shape

    def pinv(a: Tensor, rtol: Tensor) -> list[Tensor]:
        u, s, vh = svd(a)
        least = multiply(narrow(s, s.ndim - 1, 0, 1), reshape(rtol, (*rtol.shape, 1)))
        limit = broadcast_to(least, s.shape)
        is_kept = logical_or(greater(s, limit), isnan(s))
        one = filled_like(s, 1)
        scale = where(is_kept, divide(one, where(is_kept, s, one)), filled_like(s, 0))
        column = broadcast_to(reshape(scale, (*s.shape, 1)), vh.shape)
        return [product(multiply(vh, column), u, transpose_a=True, transpose_b=True)]

    def nothing(a: Tensor, rtol: Tensor) -> list[Tensor]:
        return [filled((*batch, n, m), 0, a.dtype)]

    return expansion(pinv if a.count else nothing, a, rtol)


def _batch(operands: Operands) -> Tensor:
    return operands.apply(*operands.lifted())


pinv_op = define(
    "pinv", infer=_infer, reference=_reference, grad=_grad, kernel=_kernel, batch=_batch
)
