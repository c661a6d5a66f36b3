"""Triangles, diagonals, transposes and ranges of batched matrices, for factorisations.

Sizes may be unknown. Nothing here checks its operands, and no op is declared.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from symgrad.graph.dtypes import DType
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.comparison import equal, greater, greater_equal, less, where
from symgrad.graph.ops.complex_parts import conj, imag, real
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.ordering import argsort
from symgrad.graph.ops.reduction import max as greatest
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reduce_sum, reshape
from symgrad.graph.ops.subgraph import is_zero
from symgrad.graph.ops.windows import read_window
from symgrad.graph.sizes import at_most


def arrived(g: Tensor | None) -> Tensor | None:
    """Return a gradient, None for the zeros that stand for none."""
    return None if g is None or is_zero(g) else g


def matrix_transpose(x: Tensor) -> Tensor:
    """Exchange the last two axes."""
    last = x.ndim - 1
    return permute_dims(x, (*range(last - 1), last, last - 1))


def product(
    a: Tensor, b: Tensor, *, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    """Multiply matrices of equal batches."""
    return matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def triangle(x: Tensor, *, lower: bool, k: int = 0) -> Tensor:
    """Return `x` with zeros above, or below, its k-th diagonal; what is there may be nan."""
    shape = x.shape[-2:]
    row, column = iota(shape, 0), iota(shape, 1)
    row = add(row, k) if k else row
    is_inside = greater_equal(row, column) if lower else greater_equal(column, row)
    return where(broadcast_to(is_inside, x.shape), x, filled_like(x, 0))


def identity_like(x: Tensor) -> Tensor:
    """Return ones on the diagonal of matrices like those of `x`."""
    shape = x.shape[-2:]
    ones = filled_like(x, 1)
    is_diagonal = broadcast_to(equal(iota(shape, 0), iota(shape, 1)), ones.shape)
    return where(is_diagonal, ones, filled_like(ones, 0))


def invert_order(order: Tensor) -> Tensor:
    """Return the inverses of permutations."""
    return argsort(order, axis=-1)


def permute_rows(x: Tensor, order: Tensor) -> Tensor:
    """Return matrices with their rows in the order of `order`, an index for each row of each.

    Indices are taken to be in range, so nothing here can fail.
    """
    shape = order.shape
    if 0 in x.shape:  # which has no window to read
        return filled((*shape, x.shape[-1]), 0, x.dtype)
    starts = [iota(shape, axis) for axis in range(order.ndim - 1)]
    sizes = tuple(at_most(n, 1) for n in x.shape[:-1])
    rows = read_window(x, [*starts, order], sizes, 0)
    maybe_empty = tuple(order.ndim + a for a, n in enumerate(sizes) if not isinstance(n, int))
    return reshape(reduce_sum(rows, maybe_empty), (*shape, x.shape[-1]))


def near_one_factors(x: Tensor, axis: int | tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return what to multiply by, so that the greatest element is not far from 1, and back.

    It is a power of two for what lies along `axis`, which stays with size 1; what leads back is nan
    where an element is not finite.
    """
    top = greatest(absolute(x), axis=axis, keepdims=True)
    one = filled_like(top, 1)
    factor, inverse, rest = one, one, top
    most = int(np.finfo(x.dtype.numpy).maxexp)
    for bits in (most >> k for k in range(1, most.bit_length()) if most >> k >= 16):
        for sign, is_far in ((-1, greater(rest, 2.0**bits)), (1, less(rest, 2.0**-bits))):
            nearer, farther = (filled_like(top, 2.0 ** (s * bits)) for s in (sign, -sign))
            rest = multiply(rest, where(is_far, nearer, one))
            factor = multiply(factor, where(is_far, nearer, one))
            inverse = multiply(inverse, where(is_far, farther, one))
    return factor, where(less(top, math.inf), inverse, filled_like(top, math.nan))


def half_diagonal(x: Tensor) -> Tensor:
    """Return the lower triangles with their diagonals halved."""
    return multiply(add(triangle(x, lower=True), triangle(x, lower=True, k=-1)), 0.5)


def adjoint(x: Tensor) -> Tensor:
    """Return the conjugates of the transposes, which are those of real matrices."""
    return conj(matrix_transpose(x))


def squares(x: Tensor) -> Tensor:
    """Return the squares of absolute values."""
    return real(multiply(x, conj(x))) if x.dtype.is_complex else multiply(x, x)


def hermitian_part(x: Tensor) -> Tensor:
    """Return (x + x') / 2, where ' conjugates: the symmetric part of real matrices."""
    return multiply(add(x, adjoint(x)), 0.5)


def diagonal_matrix(x: Tensor) -> Tensor:
    """Return matrices with vectors on their diagonals."""
    n = x.shape[-1]
    rows = broadcast_to(reshape(x, (*x.shape, 1)), (*x.shape, n))
    is_diagonal = equal(iota((n, n), 0), iota((n, n), 1))
    return where(broadcast_to(is_diagonal, rows.shape), rows, filled_like(rows, 0))


def scale_columns(x: Tensor, factors: Tensor) -> Tensor:
    """Return matrices with each column multiplied by a factor of its own.

    Columns are scaled as rows of the transposed, which is how vectors lie that were put in order.
    """
    rows = matrix_transpose(x)
    column = reshape(factors, (*factors.shape, 1))
    return matrix_transpose(multiply(rows, broadcast_to(column, rows.shape)))


def scaled_range(dtype: DType) -> tuple[float, float, float]:
    """Return beyond which magnitudes a column is scaled before it is squared, and by what.

    What is above the first is divided by the third, what is below the second multiplied: a power of
    two, so nothing is rounded, and whatever is between is left as it is.
    """
    bits = int(np.finfo(dtype.numpy).maxexp)
    return 2.0 ** (2 * bits // 5), 2.0 ** -(2 * bits // 5), 2.0 ** (3 * bits // 4)


def range_factors(x: Tensor, axis: int | tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return what to multiply by, so that no square of elements overflows or vanishes, and back.

    It is one number for what lies along `axis`, which stays with size 1, and is 1 unless the
    greatest element is near the ends of the range of exponents: see `scaled_range`.
    """
    parts = [real(x), imag(x)] if x.dtype.is_complex else [x]
    tops = [greatest(absolute(part), axis=axis, keepdims=True) for part in parts]
    top = functools.reduce(maximum, tops)
    large, small, shift = scaled_range(top.dtype)
    one, high, low = (filled_like(top, value) for value in (1, shift, 1 / shift))
    is_large, is_small = greater(top, large), less(top, small)
    return (
        where(is_large, low, where(is_small, high, one)),
        where(is_large, high, where(is_small, low, one)),
    )
