"""Inverses of square matrices: the op, from LU factors or written out, and its gradient."""

from __future__ import annotations

import numpy as np

from symgrad.graph.batch_rules import batch_in_front
from symgrad.graph.build import apply
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.arithmetic import add, negative
from symgrad.graph.ops.block_matrices import expansion, to_columns
from symgrad.graph.ops.lu import linear_solve, lu
from symgrad.graph.ops.small_inverses import inverse_change_columns, inverse_columns
from symgrad.graph.ops.small_matrices import substitution
from symgrad.graph.ops.small_solving import FEW_ROWS
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.triangles import identity_like, matrix_transpose, product
from symgrad.graph.ops.triangular import check_square
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType


def inverse(a: Tensor) -> Tensor:
    """Return the inverses of square matrices."""
    return inverse_by(a, *lu(a))


def inverse_by(a: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Return the inverses of matrices `a` with `factors` and `order` of `lu(a)`."""
    return apply(inverse_op, a, factors, order)


def _is_written_out(a: TensorType) -> bool:
    return a.count > 0 and a.static_shape[-1] <= FEW_ROWS and not a.dtype.is_complex


def _infer(a: TensorType, factors: TensorType, order: TensorType) -> TensorType:
    check_square("inverse", "a", a, of_complex=True)
    meet_shapes("inverse", "a", a, "its factors", factors)
    meet_shapes("inverse", "the rows of a", a.with_shape(a.shape[:-1]), "their order", order)
    return a


def _reference(_a: Array, factors: Array, order: Array) -> Array:
    n = factors.shape[-1]
    moved = np.eye(n, dtype=factors.dtype)[order]
    inner = substitution(factors, moved, lower=True, unit=True)
    return substitution(factors, inner, lower=False, unit=False)


def _grad(node: Node, g: Tensor) -> Grads:
    # Giles (2008), section 2.2.3: of w = a^-1, a_bar = -w' w_bar w'. None goes to the factors.
    return apply(inverse_change_op, node.output, g), None, None


def _kernel(a: TensorType, factors: TensorType, order: TensorType) -> Call:
    def inverse(a: Tensor, factors: Tensor, order: Tensor) -> list[Tensor]:
        return [linear_solve(a, factors, order, identity_like(a))]

    def eliminate(a: Tensor, _factors: Tensor, _order: Tensor) -> list[Tensor]:
        n = a.type.static_shape[-1]
        return [reshape(inverse_columns(to_columns(reshape(a, (-1, n, n))), n), a.shape)]

    return expansion(eliminate if _is_written_out(a) else inverse, a, factors, order)


inverse_op = define(
    "inverse",
    infer=_infer,
    reference=_reference,
    grad=_grad,
    kernel=_kernel,
    batch=batch_in_front,
    of_pairs="expansion",
)


# --------------------------------------------------------------------------- inverse_change


def _change_infer(w: TensorType, x: TensorType) -> TensorType:
    check_square("inverse_change", "w", w, of_complex=True)
    meet_shapes("inverse_change", "w", w, "x", x)
    return w


def _change_reference(w: Array, x: Array) -> Array:
    turned = w.swapaxes(-1, -2)
    return np.asarray(-(turned @ x @ turned))


def _change_grad(node: Node, g: Tensor) -> Grads:
    # Of y = -w' x w', x_bar = -w y_bar w and w_bar = -(x w' y_bar' + y_bar' w' x).
    w, x = node.inputs
    right = product(product(x, w, transpose_b=True), g, transpose_b=True)
    left = product(product(g, w, transpose_a=True, transpose_b=True), x)
    return negative(add(right, left)), apply(inverse_change_op, matrix_transpose(w), g)


def _change_kernel(w: TensorType, x: TensorType) -> Call:
    def inverse_change(w: Tensor, x: Tensor) -> list[Tensor]:
        inner = product(w, x, transpose_a=True)
        return [negative(product(inner, w, transpose_b=True))]

    def written_out(w: Tensor, x: Tensor) -> list[Tensor]:
        n = w.type.static_shape[-1]
        left, right = (to_columns(reshape(t, (-1, n, n))) for t in (w, x))
        return [reshape(inverse_change_columns(left, right, n), w.shape)]

    return expansion(written_out if _is_written_out(w) else inverse_change, w, x)


inverse_change_op = define(
    "inverse_change",
    infer=_change_infer,
    reference=_change_reference,
    grad=_change_grad,
    kernel=_change_kernel,
    batch=batch_in_front,
    of_pairs="expansion",
)
