"""Pseudoinverse (Moore-Penrose): the op, whose gradient holds for equal singular values too."""

from __future__ import annotations

import numpy as np

from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
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


def pinv(a: Tensor, *, rtol: float) -> Tensor:
    """Return pseudoinverses; singular values up to `rtol` times the greatest count as 0."""
    return apply(pinv_op, a, rtol=rtol)


def _infer(a: TensorType, *, rtol: float) -> TensorType:
    check_matrix("pinv", "a", a)
    return a.with_shape((*a.shape[:-2], a.shape[-1], a.shape[-2]))


def _reference(a: Array, *, rtol: float) -> Array:
    found = np.full((*a.shape[:-2], a.shape[-1], a.shape[-2]), np.nan, a.dtype)
    for at in np.ndindex(a.shape[:-2]):
        if np.isfinite(a[at]).all():
            found[at] = np.linalg.pinv(a[at], rcond=rtol)
    return found


def _grad(node: Node, g: Tensor, *, rtol: float) -> Grads:
    # Golub and Pereyra (1973): dP = -P da P + P P' da' (I - a P) + (I - P a) da' P' P.
    (a,) = node.inputs
    p = node.output
    inner = product(product(p, g, transpose_a=True), p, transpose_b=True)
    turned = matrix_transpose(g)
    outer_left = subtract(turned, product(a, product(p, turned)))
    left = product(product(outer_left, p), p, transpose_b=True)
    outer_right = subtract(turned, product(product(turned, p), a))
    right = product(p, product(p, outer_right), transpose_a=True)
    return (add(add(negative(inner), left), right),)


def _kernel(a: TensorType, *, rtol: float) -> Call:
    *batch, m, n = a.static_shape

    def pinv(a: Tensor) -> list[Tensor]:
        u, s, vh = svd(a)
        top = narrow(s, s.ndim - 1, 0, 1)
        limit = multiply(broadcast_to(top, s.shape), rtol)
        is_kept = logical_or(greater(s, limit), isnan(s))
        one = filled_like(s, 1)
        scale = where(is_kept, divide(one, where(is_kept, s, one)), filled_like(s, 0))
        column = broadcast_to(reshape(scale, (*s.shape, 1)), vh.shape)
        return [product(multiply(vh, column), u, transpose_a=True, transpose_b=True)]

    def nothing(a: Tensor) -> list[Tensor]:
        return [filled((*batch, n, m), 0, a.dtype)]

    return expansion(pinv if a.count else nothing, a)


def _batch(operands: Operands, *, rtol: float) -> Tensor:
    return operands.apply(*operands.lifted(), rtol=rtol)


pinv_op = define(
    "pinv", infer=_infer, reference=_reference, grad=_grad, kernel=_kernel, batch=_batch
)
