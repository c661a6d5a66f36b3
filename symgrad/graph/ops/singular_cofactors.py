"""Cofactors by LU factors, with limits where a matrix has no inverse: see `cofactors.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.nested import Traced
from symgrad.graph.node import Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, multiply, negative
from symgrad.graph.ops.block_matrices import shared
from symgrad.graph.ops.branches import branch
from symgrad.graph.ops.comparison import equal, greater, where
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import filled_like
from symgrad.graph.ops.lu import lu
from symgrad.graph.ops.lu_values import along_matrices, determinant_of, parity, transposed_inverse
from symgrad.graph.ops.reduction import prod
from symgrad.graph.ops.small_elimination import (
    det_of_steps,
    eliminated,
    factors_of_steps,
    places_of_steps,
)
from symgrad.graph.ops.small_factors import pivots_of_columns, transposed_inverses
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reduce_sum, reshape
from symgrad.graph.ops.summation import diagonal
from symgrad.graph.ops.triangles import identity_like, invert_order, permute_rows, product
from symgrad.graph.ops.triangular import triangular_solve
from symgrad.graph.ops.views import narrow

# Note [Cofactors of a singular matrix]
# With t in the place of one pivot k of p a = L U, the cofactors are d a(t)'^-1 t, where d is the
# product of the other pivots with the sign of p. As t goes to 0 that is d times the product of two
# vectors: a(1)^-1 is a sum of a matrix that stays and of u w' / t, where U(1) u = e_k, and
# w' = e_k' a(1)^-1. A column without a pivot leaves a row over, which may leave another column
# without one, whatever the rank is. So where two pivots are 0 it is a h that is factorised, where h
# is a reflection, and the cofactors are -C(a h) h: of n - 1 independent columns only the last one
# is without a pivot then. Where two pivots of that are 0, the cofactors are.

_Found = tuple[Tensor, Tensor, Tensor]  # scaled inverses, factors and the order of their rows


def cofactors_by_steps(a: Tensor) -> list[Tensor]:
    """Return the cofactors of (count, n, n) matrices, which are eliminated together."""
    n = a.type.static_shape[-1]

    def scaled(steps: list[Tensor], columns: Tensor) -> Tensor:
        places, scale = places_of_steps(steps, n), det_of_steps(steps, n)
        return transposed_inverses(narrow(columns, 0, 0, n * n), places, scale, n)

    def find(a: Tensor) -> _Found:
        steps = eliminated(a)
        columns = factors_of_steps(steps, n)
        rows = permute_dims(columns, (1, 0))
        factors = reshape(narrow(rows, 1, 0, n * n), a.shape)
        return scaled(steps, columns), factors, astype(narrow(rows, 1, n * n, n), dtypes.int64)

    steps = eliminated(a)
    columns = factors_of_steps(steps, n)
    pivots = pivots_of_columns(columns, n)
    return _or_limits(pivots, lambda: scaled(steps, columns), lambda: _limits(a, find, "steps"))


def cofactors_by_factors(a: Tensor, factors: Tensor, order: Tensor) -> list[Tensor]:
    """Return cofactors of matrices: their inverses, turned and scaled, or limits of that."""

    def scaled(a: Tensor, factors: Tensor, order: Tensor) -> Tensor:
        scale = along_matrices(determinant_of(factors, order), a)
        return multiply(scale, transposed_inverse(a, factors, order))

    def find(a: Tensor) -> _Found:
        given = lu(a)
        return scaled(a, *given), *given

    regular = partial(scaled, a, factors, order)
    return _or_limits(diagonal(factors), regular, lambda: _limits(a, find, "factors"))


def _or_limits(
    pivots: Tensor, regular: Callable[[], Tensor], singular: Callable[[], Tensor]
) -> list[Tensor]:
    """Return what is `regular` if no pivot of any matrix is 0, else the other."""
    functions = [Traced(name, ()) for name in ("regular", "singular")]
    functions[0].run(lambda: [regular()])
    functions[1].run(lambda: [singular()])
    is_zero = astype(equal(pivots, 0.0), dtypes.int64)
    count = reduce_sum(is_zero, tuple(range(is_zero.ndim)))
    return list(branch(astype(greater(count, 0), dtypes.int64), functions).outputs)


def _limits(a: Tensor, find: Callable[[Tensor], _Found], way: str) -> Tensor:
    """Return cofactors by what `find` makes of matrices, with limits where pivots are 0.

    See Note [Cofactors of a singular matrix].
    """
    n = a.type.static_shape[-1]
    normal = np.sin(1.0 + np.arange(n))  # no few of these numbers add to 0 with small factors
    values = np.eye(n) - 2 * np.outer(normal, normal) / (normal @ normal)
    reflection = broadcast_to(constant(values, a.dtype), a.shape)

    def limited_cofactors(a: Tensor) -> list[Tensor]:
        return [*_with_limits(*find(a))]

    found, is_zero = shared(limited_cofactors, a, key=(way,))
    turned, _ = shared(limited_cofactors, product(a, reflection), key=(way,))
    return where(is_zero, negative(product(turned, reflection)), found)


def _with_limits(found: Tensor, factors: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """Return what was found where no pivot is 0, the limit where one is, else 0; and where else."""
    pivots = equal(diagonal(factors), 0.0)
    count = reduce_sum(astype(pivots, dtypes.int64), (pivots.ndim - 1,))
    sign = parity(order, factors)
    limit = _limit_of_one(factors, order, astype(pivots, factors.dtype), sign)
    one, none = (along_matrices(equal(count, n), factors) for n in (1, 0))
    few = where(none, found, where(one, limit, filled_like(factors, 0)))
    return few, along_matrices(greater(count, 1), factors)


def _limit_of_one(factors: Tensor, order: Tensor, unit: Tensor, sign: Tensor) -> Tensor:
    """Return the cofactors where the pivot is 0 at which `unit` is 1.

    See Note [Cofactors of a singular matrix].
    """
    column = reshape(unit, (*unit.shape, 1))
    filled = add(factors, multiply(broadcast_to(column, factors.shape), identity_like(factors)))
    u = triangular_solve(filled, column, lower=False)
    inner = triangular_solve(filled, column, lower=False, transpose=True)
    moved = triangular_solve(filled, inner, lower=True, transpose=True, unit=True)
    w = permute_rows(moved, invert_order(order))
    scale = multiply(prod(diagonal(filled), axis=-1), sign)
    return multiply(along_matrices(scale, factors), product(w, u, transpose_b=True))
