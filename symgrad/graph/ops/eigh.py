"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices: the op and its gradient.

The algorithm is QR iteration with a matrix in each lane for small ones, and Jacobi's for others:
rotations that make one pair of elements zero after another, until all are. By the method "lapack"
it is a call of LAPACK.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.graph.batch_rules import Operands, batch_in_front
from symgrad.graph.build import apply_node
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import add, multiply, subtract
from symgrad.graph.ops.block_matrices import block, expansion, in_parts, to_columns, transposed
from symgrad.graph.ops.comparison import equal, greater, where
from symgrad.graph.ops.complex_parts import conj, real
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.jacobi import in_order, rotate_rows, rotation, sweep_pair, sweep_until
from symgrad.graph.ops.lapack import lapack_eigh, lower_half
from symgrad.graph.ops.methods import JACOBI, LAPACK, check_method
from symgrad.graph.ops.slicing import place
from symgrad.graph.ops.small_qr_iteration import bytes_of_parts, is_iterated, iterated
from symgrad.graph.ops.small_sweeps import SWEPT_OUT, sweep_columns
from symgrad.graph.ops.small_tridiagonal import qr_step, tridiagonal
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reduce_sum, reshape
from symgrad.graph.ops.summation import diagonal
from symgrad.graph.ops.triangles import (
    adjoint,
    arrived,
    hermitian_part,
    identity_like,
    near_one_factors,
    product,
    range_factors,
    scale_columns,
    squares,
    triangle,
)
from symgrad.graph.ops.triangular import check_square
from symgrad.graph.ops.turning import turn_rates
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType


def eigh(a: Tensor, *, method: str = JACOBI) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues in ascending order, and the eigenvectors as columns."""
    values, vectors = apply_node(eigh_op, (a,), {"method": method}).outputs
    return values, vectors


def _infer(a: TensorType, *, method: str) -> tuple[TensorType, TensorType]:
    check_method("eigh", method)
    check_square("eigh", "a", a, of_complex=True)
    return a.with_shape(a.shape[:-1]).with_dtype(a.dtype.real), a


def _reference(a: Array, *, method: str) -> tuple[Array, Array]:
    values, vectors = np.full(a.shape[:-1], np.nan, a.real.dtype), np.full_like(a, np.nan)
    for where_ in np.ndindex(a.shape[:-2]):
        if np.isfinite(np.tril(a[where_])).all():
            values[where_], vectors[where_] = np.linalg.eigh(a[where_])
    return values, vectors


def _grad(node: Node, of_values: Tensor | None, of_vectors: Tensor | None, *, method: str) -> Grads:
    # Giles (2008), section 3.1: a_bar = V (diag(w_bar) + F o (V' V_bar)) V', F_ij = 1 / (w_j - w_i)
    # off the diagonal. a is symmetric, and so is its gradient. Of complex matrices ' conjugates,
    # the formula is for conjugates of gradients, and no vector turns in its own direction.
    values, vectors = node.outputs
    of_values, of_vectors = arrived(of_values), arrived(of_vectors)
    dtype = vectors.dtype
    left = None if of_values is None else scale_columns(vectors, cast(of_values, dtype))
    if left is not None and of_vectors is None and not dtype.is_complex:
        return (product(left, adjoint(vectors)),)  # it is symmetric but for rounding
    if of_vectors is not None:
        turned = product(adjoint(vectors), conj(of_vectors))
        rates = turn_rates(multiply(turned, 0.5), differences(values))
        mixed = product(vectors, rates)
        left = mixed if left is None else add(left, mixed)
    if left is None:
        return (filled_like(vectors, 0),)
    full = product(left, adjoint(vectors))
    return (conj(hermitian_part(full)),)


def differences(values: Tensor) -> Tensor:
    """Return w_j - w_i for each i and j."""
    n = values.shape[-1]
    square = (*values.shape, n)
    row = broadcast_to(reshape(values, (*values.shape[:-1], 1, n)), square)
    return subtract(row, broadcast_to(reshape(values, (*values.shape, 1)), square))


def _kernel(a: TensorType, *, method: str) -> Call:
    n = a.static_shape[-1]

    def eigh(a: Tensor) -> list[Tensor]:
        matrices = reshape(a, (-1, n, n))
        if method == LAPACK:
            values, vectors = lapack_eigh(matrices)
        else:
            nbytes = bytes_of_parts(matrices.type)
            found = _iterated if is_iterated(matrices.type) else _eigenpairs
            values, vectors = in_parts(found, matrices, nbytes=nbytes)
        return [reshape(values, a.shape[:-1]), reshape(vectors, a.shape)]

    def nothing(a: Tensor) -> list[Tensor]:
        return [filled(a.shape[:-1], 0, a.dtype.real), a]

    return expansion(eigh if a.count else nothing, a)


def _eigenpairs(a: Tensor) -> list[Tensor]:
    whole = lower_half(a)
    if not _is_swept_out(a):
        whole = add(whole, adjoint(triangle(whole, lower=True, k=-1)))
    factor, inverse = range_factors(whole, (1, 2))  # of rotations the products of two elements
    factor = astype(broadcast_to(factor, whole.shape), whole.dtype)
    values, rows = _diagonalise(multiply(whole, factor))
    values, rows = in_order(values, [rows], descending=False)
    values = multiply(values, broadcast_to(reshape(inverse, (a.shape[0], 1)), values.shape))
    return [values, conj(transposed(rows))]


def _is_swept_out(a: Tensor) -> bool:
    return 1 < a.type.static_shape[-1] <= SWEPT_OUT and not a.dtype.is_complex


def _diagonalise(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and, as rows, eigenvectors."""
    n = a.type.static_shape[-1]
    if n == 1:
        return reshape(real(a), (a.shape[0], 1)), add(identity_like(a), subtract(a, a))
    if _is_swept_out(a):
        return _swept_out(a)
    size = n + n % 2
    # One more row and column of zeros is never rotated: it is in its place after each sweep.
    even = place(a, (a.shape[0], size, size), (0, 0, 0), (1, 1, 1)) if size > n else a
    found, rows = sweep_until([even, identity_like(even)], size - 1, _round, _is_far)
    values = reshape(real(diagonal(found)), (a.shape[0], size))
    if size == n:
        return values, rows
    values = block(reshape(values, (a.shape[0], 1, size)), (0, 1), (0, n))
    return reshape(values, (a.shape[0], n)), block(rows, (0, n), (0, n))


def _round(values: Sequence[Tensor]) -> list[Tensor]:
    a, rows = values
    half = a.type.static_shape[-1] // 2
    first, second = (0, half), (half, 2 * half)
    p, q, between = (
        diagonal(block(a, *places))
        for places in ((first, first), (second, second), (first, second))
    )
    cosine, sine = rotation(real(subtract(q, p)), between)
    turned = rotate_rows(a, cosine, sine)
    turned = adjoint(rotate_rows(adjoint(turned), cosine, sine))
    return [turned, rotate_rows(rows, cosine, sine)]


def _is_far(a: Tensor, _rows: Tensor) -> Tensor:
    return _is_off(a, (1, 2))


def _is_off(a: Tensor, axes: tuple[int, int]) -> Tensor:
    """Return whether what is off the diagonal along two axes is more than rounding."""
    n = a.type.static_shape[axes[0]]
    sizes = squares(a)
    is_row_of = equal(iota(a.shape, axes[0]), iota(a.shape, axes[1]))
    off = where(is_row_of, filled_like(sizes, 0), sizes)
    limit = (n * float(np.finfo(a.dtype.numpy).eps)) ** 2
    return greater(reduce_sum(off, axes), multiply(reduce_sum(sizes, axes), limit))


def _swept_out(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return what `_diagonalise` does of lower triangles, with sweeps that are written out."""
    found, rows = sweep_pair(a, sweep_columns, lambda x: _is_off(x, (0, 1)))
    return diagonal(found), rows


def _iterated(a: Tensor) -> list[Tensor]:
    """Return what `_eigenpairs` does, by three diagonals and QR steps."""
    count, n, _ = a.type.static_shape
    factor, inverse = near_one_factors(lower_half(a), (1, 2))
    scaled = multiply(a, broadcast_to(factor, a.shape))
    vectors, state = tridiagonal(to_columns(scaled), n)
    values, (columns,) = iterated(qr_step, state, [vectors])
    rows = permute_dims(columns, (2, 0, 1))
    values, rows = in_order(permute_dims(values, (1, 0)), [rows], descending=False)
    values = multiply(values, broadcast_to(reshape(inverse, (count, 1)), values.shape))
    return [values, transposed(rows)]


def _batch(operands: Operands, *, method: str) -> list[Tensor]:
    return batch_in_front(operands, method=method)


eigh_op = define(
    "eigh",
    infer=_infer,
    reference=_reference,
    grad=_grad,
    kernel=_kernel,
    batch=_batch,
    of_pairs="expansion",
)
