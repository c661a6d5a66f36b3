"""Recipes of random graphs for linear algebra."""

from __future__ import annotations

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops import conversion, small_matrices, structure, triangular
from symgrad.graph.types import Array
from tests.support.pool import Pool


def _triangular(pool: Pool, n: int) -> Array:
    """Return a triangular matrix with an inverse that keeps values small."""
    return np.tril(pool.array((n, n)), -1) / 4 + 2 * np.eye(n)


def triangular_solve(pool: Pool) -> Tensor:
    """Solve for what the pool has with a matrix of known values."""
    x = _wide(pool.any(2))
    matrix = constant(_triangular(pool, x.type.static_shape[-2]), x.dtype)
    matrix = structure.broadcast_to(matrix, (*x.shape[:-2], *matrix.shape))
    is_turned = pool.chance()
    found = triangular.triangular_solve(matrix, x, lower=True, transpose=is_turned)
    return conversion.astype(found, pool.dtype)


def substitute(pool: Pool) -> Tensor:
    """Solve for what the pool has, its first axis being columns."""
    x = _wide(pool.any(1))
    n = x.type.static_shape[0]
    matrix = constant(_triangular(pool, n).reshape((n * n, *(1,) * (x.ndim - 1))), x.dtype)
    matrix = structure.broadcast_to(matrix, (n * n, *x.shape[1:]))
    found = small_matrices.substitute_columns(matrix, x, lower=True, unit=pool.chance())
    return conversion.astype(found, pool.dtype)


def _wide(x: Tensor) -> Tensor:
    """Return `x` in a dtype in which matrices are factorised."""
    return conversion.astype(x, dtypes.float32) if x.dtype.is_half else x
