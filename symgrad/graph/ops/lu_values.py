"""LU factorisation: determinants, their signs, pivots and transposed inverses of its factors.

Nothing here is an op: see `determinant.py` and `cofactors.py`.
"""

from __future__ import annotations

from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import multiply, remainder
from symgrad.graph.ops.block_matrices import WRITTEN_OUT, block, cuts
from symgrad.graph.ops.comparison import equal, greater, logical_and, where
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.inverse import inverse_by
from symgrad.graph.ops.reduction import prod
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import broadcast_to, reduce_sum, reshape
from symgrad.graph.ops.summation import diagonal
from symgrad.graph.ops.triangles import matrix_transpose


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


def determinant_of(factors: Tensor, order: Tensor) -> Tensor:
    """Return the determinants of matrices of which these are the LU factors."""
    return multiply(prod(pivots_of(factors), axis=-1), parity(order, factors))


def pivots_of(factors: Tensor) -> Tensor:
    """Return the diagonals of LU factors.

    They are read by blocks: factors that are joined of those, and of which no more is used, are
    never joined.
    """
    n = factors.shape[-1]
    if not isinstance(n, int) or n <= WRITTEN_OUT:
        return diagonal(factors)
    matrices = reshape(factors, (-1, n, n))
    parts = [diagonal(block(matrices, cut, cut)) for cut in cuts(n, WRITTEN_OUT)]
    return reshape(concat(parts, axis=-1), factors.shape[:-1])


def transposed_inverse(a: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Return the transposes of the inverses."""
    return matrix_transpose(inverse_by(a, factors, order))


def along_matrices(x: Tensor, like: Tensor) -> Tensor:
    """Return a number for each matrix at all elements of it."""
    return broadcast_to(reshape(x, (*x.shape, 1, 1)), like.shape)
