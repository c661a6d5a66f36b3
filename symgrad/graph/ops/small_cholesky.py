"""The gradient of small Cholesky factors, written out: see `small_matrices.py`.

A lane has a factor and its gradient, and nothing that is computed on the way goes to memory.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply
from symgrad.graph.node import Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import meet_shapes
from symgrad.graph.ops.small_matrices import (
    Row,
    as_matrices,
    as_rows,
    batch_rows,
    check_square,
    column_map,
    rows_of,
    rows_type,
    substitution,
)
from symgrad.graph.structures import ColumnMap
from symgrad.graph.types import Array, TensorType


def cholesky_gradient_columns(factor: Tensor, g: Tensor, n: int) -> Tensor:
    """Return the gradients of symmetric n by n matrices, given their factors and those of these.

    Of both the lower triangles count.
    """
    return apply(cholesky_gradient_columns_op, factor, g, n=n)


def _infer(factor: TensorType, g: TensorType, *, n: int) -> TensorType:
    check_square("cholesky_gradient_columns", factor, n)
    meet_shapes("cholesky_gradient_columns", "factor", factor, "g", g)
    return rows_type(factor, n * n)


def gradient_of_factor(factor: Array, g: Array) -> Array:
    """Return the gradient of matrices by the closed form: Murray (2016), section 3.1."""
    lower = np.tril(factor)
    flipped = lower.swapaxes(-1, -2)
    inner = np.tril(flipped @ np.tril(g))
    inner *= 1 - np.eye(g.shape[-1], dtype=g.dtype) / 2
    left = substitution(flipped, (inner + inner.swapaxes(-1, -2)) / 2, lower=False, unit=False)
    found = substitution(flipped, left.swapaxes(-1, -2), lower=False, unit=False)
    return np.asarray(found.swapaxes(-1, -2))


def _reference(factor: Array, g: Array, *, n: int) -> Array:
    return as_rows(gradient_of_factor(as_matrices(factor, n), as_matrices(g, n)))


def _gradient(factor: Row, g: Row, *, n: int) -> Row:
    """Return the symmetric s / 2 for which s L has the lower triangle of `g`, by columns from last.

    That is the factorisation in reverse, Murray (2016), section 4.1: what is taken from the
    gradient of an element of L for those that are computed of it is a row of s times a column of L.
    """
    lower, found = rows_of(factor, n), rows_of(g, n)
    for k in reversed(range(n)):
        scale = 1.0 / lower[k][k]
        for i in reversed(range(k, n)):
            rest = found[i][k]
            for j in range(k + 1, n):
                rest = rest.less(found[max(i, j)][min(i, j)], lower[j][k])
            found[i][k] = rest * scale
    return [found[max(i, j)][min(i, j)] * 0.5 for i in range(n) for j in range(n)]


def _kernel(_factor: TensorType, _g: TensorType, *, n: int) -> ColumnMap:
    return column_map(partial(_gradient, n=n), 2 * n**3 // 3 + 2 * n * n, axis=1)


def _batch(operands: Operands, *, n: int) -> Tensor:
    return batch_rows(operands, n=n)


cholesky_gradient_columns_op = define(
    "cholesky_gradient_columns",
    infer=_infer,
    reference=_reference,
    grad="none",
    kernel=_kernel,
    batch=_batch,
)
