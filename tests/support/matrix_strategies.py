"""Recipes of random graphs for products, linear algebra and Fourier transforms."""

from __future__ import annotations

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops import (
    arithmetic,
    contraction,
    conversion,
    fourier,
    small_matrices,
    structure,
    triangular,
)
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


def columns(pool: Pool) -> Tensor:
    """Solve for what the pool has, its first axis being columns, or transform even or many."""
    x = _wide(pool.any(1))
    n = x.type.static_shape[0]
    is_solved = n % 2 and n <= small_matrices.MOST_SUBSTITUTED
    found = _substituted(pool, x) if is_solved else _transformed(pool, x)
    return conversion.astype(found, pool.dtype)


def _substituted(pool: Pool, x: Tensor) -> Tensor:
    n = x.type.static_shape[0]
    x = structure.reshape(x, (n, 1)) if x.ndim == 1 else x
    matrix = constant(_triangular(pool, n).reshape((n * n, *(1,) * (x.ndim - 1))), x.dtype)
    matrix = structure.broadcast_to(matrix, (n * n, *x.shape[1:]))
    return small_matrices.substitute_columns(matrix, x, lower=True, unit=pool.chance())


def _transformed(pool: Pool, x: Tensor) -> Tensor:
    """Transform along some axis, to complex numbers or to real ones."""
    axis = pool.axis(x) % x.ndim
    n = x.type.static_shape[axis]
    scale = 1 / max(n, 1)
    if pool.chance():
        re, im = fourier.fourier(x, x, axis, scale, is_inverse=pool.chance())
        return arithmetic.add(re, im)
    re, im = fourier.real_fourier(x, axis, scale)
    return fourier.hermitian_fourier(im, re, axis, n)


def _wide(x: Tensor) -> Tensor:
    """Return `x` in a dtype in which matrices are factorised."""
    return conversion.astype(x, dtypes.float32) if x.dtype.is_half else x


def matmul(pool: Pool) -> Tensor:
    """Multiply by a few columns, or by itself."""
    x = pool.any(1)
    size = x.type.static_shape[-1]
    y = constant(pool.array((size, pool.integer(1, 3))))
    if x.ndim == 2 and x.shape[0] == size and pool.integer(0, 1):
        y = x
    return contraction.matmul(x, y)


def tensordot(pool: Pool) -> Tensor:
    """Contract the first axes with those of an array of the same shape."""
    x = pool.any(1)
    axes = tuple(range(pool.integer(0, x.ndim)))
    return contraction.tensordot(x, pool.array(x.type.static_shape), axes=(axes, axes))
