"""Singular value decomposition: the op, its gradient, and its algorithm.

That is QR iteration with a matrix in each lane for small ones, and one-sided Jacobi for others:
rotations that make one pair of columns orthogonal after another, until all are. Either is done to
the triangle of a QR factorisation. Jacobi's left vectors are those of another one, which also
completes them where singular values are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from symgrad.errors import NoGradientError
from symgrad.graph.batch_rules import Operands
from symgrad.graph.build import apply_node
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import add, multiply, subtract
from symgrad.graph.ops.arithmetic import sign as sign_of
from symgrad.graph.ops.block_matrices import (
    block,
    expansion,
    in_parts,
    to_columns,
    transposed,
)
from symgrad.graph.ops.block_matrices import product as block_product
from symgrad.graph.ops.comparison import equal, greater, less, where
from symgrad.graph.ops.complex_parts import complex, conj, imag, real
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.jacobi import in_order, rotate_rows, rotation, sweep_pair, sweep_until
from symgrad.graph.ops.lapack import lapack_svd
from symgrad.graph.ops.methods import JACOBI, LAPACK, check_method
from symgrad.graph.ops.qr import check_matrix, lesser, qr
from symgrad.graph.ops.slicing import place
from symgrad.graph.ops.small_bidiagonal import bidiagonal, svd_step
from symgrad.graph.ops.small_qr_iteration import bytes_of_parts, is_iterated, iterated
from symgrad.graph.ops.small_sweeps import SWEPT_OUT, orthogonalise_columns
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reduce_sum, reshape
from symgrad.graph.ops.summation import diagonal
from symgrad.graph.ops.transcendental import sqrt
from symgrad.graph.ops.triangles import (
    adjoint,
    arrived,
    diagonal_matrix,
    identity_like,
    near_one_factors,
    product,
    scale_columns,
    squares,
)
from symgrad.graph.ops.turning import quotient, turn_rates
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, Attr, TensorType

Square = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


def svd(a: Tensor, *, full: bool = False, method: str = JACOBI) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, singular values in descending order, and V' of a = U diag(s) V'."""
    u, s, vh = apply_node(svd_op, (a,), {"full": full, "method": method}).outputs
    return u, s, vh


def _infer(a: TensorType, *, full: bool, method: str) -> tuple[TensorType, TensorType, TensorType]:
    check_method("svd", method)
    check_matrix("svd", "a", a, of_complex=True)
    *batch, m, n = a.shape
    k = lesser("svd", "a", a)
    return (
        a.with_shape((*batch, m, m if full else k)),
        a.with_shape((*batch, k)).with_dtype(a.dtype.real),
        a.with_shape((*batch, n if full else k, n)),
    )


def _reference(a: Array, *, full: bool, method: str) -> tuple[Array, Array, Array]:
    *batch, m, n = a.shape
    k = min(m, n)
    u = np.full((*batch, m, m if full else k), np.nan, a.dtype)
    s = np.full((*batch, k), np.nan, a.real.dtype)
    vh = np.full((*batch, n if full else k, n), np.nan, a.dtype)
    for at in np.ndindex(*batch):
        if np.isfinite(a[at]).all():
            u[at], s[at], vh[at] = np.linalg.svd(a[at], full_matrices=full)
    return u, s, vh


def _grad(
    node: Node,
    of_u: Tensor | None,
    of_s: Tensor | None,
    of_vh: Tensor | None,
    *,
    full: bool,
    method: str,
) -> Grads:
    # Townsend (2016); with F_ij = 1 / (s_j^2 - s_i^2) off the diagonal,
    # a_bar = U (diag(s_bar) + 2 (F o odd(U' U_bar)) S + 2 S (F o odd(V' V_bar))) V'
    #         + (I - U U') U_bar S^-1 V' + U S^-1 V_bar' (I - V V').
    # Of complex matrices ' conjugates, the formula is for conjugates of gradients, and it has one
    # more term: see Note [Phases of singular vectors].
    (a,) = node.inputs
    u, s, vh = node.outputs
    of_u, of_s, of_vh = (None if g is None else conj(g) for g in map(arrived, (of_u, of_s, of_vh)))
    if full and a.shape[-1] != a.shape[-2] and not (of_u is None and of_vh is None):
        raise NoGradientError(
            "svd",
            f"the full U and V' of a: {a.type} have vectors that a does not determine",
            source=node.source,
        )
    if full and a.shape[-1] != a.shape[-2]:
        u, s, vh = svd(a, method=method)  # which can be differentiated once more
    if of_u is None and of_s is None and of_vh is None:
        return (filled_like(a, 0),)
    left = None if of_s is None else scale_columns(u, cast(of_s, a.dtype))
    if of_u is not None or of_vh is not None:
        inner, outer = _of_vectors((u, s, vh), of_u, of_vh)
        turned = product(u, inner)
        left = turned if left is None else add(left, turned)
    else:
        outer = None
    assert left is not None, "a gradient has arrived"
    found = product(left, vh)
    return (conj(found if outer is None else add(found, outer)),)


def _of_vectors(
    factors: tuple[Tensor, Tensor, Tensor], of_u: Tensor | None, of_vh: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return what gradients of vectors give between U and V', and beyond what these span."""
    u, s, vh = factors
    zero = filled_like(product(u, u, transpose_a=True), 0)
    rows, columns = (_along(s, zero, axis) for axis in (-1, -2))
    distance = multiply(subtract(columns, rows), add(columns, rows))
    rows, columns = cast(rows, u.dtype), cast(columns, u.dtype)
    inner, outer = [], []
    if of_u is not None:
        turning = product(adjoint(u), of_u)
        turned = turn_rates(turning, distance)
        inner.append(add(multiply(turned, columns), _phases(turning, columns)))
        outer.append(_beyond(u, of_u, s, vh))
    if of_vh is not None:
        turning = product(vh, adjoint(of_vh))
        turned = turn_rates(turning, distance)
        inner.append(subtract(multiply(rows, turned), _phases(turning, columns)))
        outer.append(adjoint(_beyond(adjoint(vh), adjoint(of_vh), s, adjoint(u))))
    return reduce(add, inner), reduce(add, outer)


# Note [Phases of singular vectors]
# A column of U and the row of V' beside it can be multiplied by a phase and by its conjugate; a
# does not determine it, only that of their product. The imaginary part of a diagonal element of
# U' da V turns it, divided by the singular value: one half is taken to turn U and the other V.


def _phases(turning: Tensor, sizes: Tensor) -> Tensor:
    """Return what turning the phases of vectors gives: see Note [Phases of singular vectors]."""
    if not turning.dtype.is_complex:
        return filled_like(turning, 0)
    angles = diagonal_matrix(multiply(imag(diagonal(turning)), 0.5))
    return complex(filled_like(angles, 0), quotient(angles, real(sizes)))


def _along(s: Tensor, like: Tensor, axis: int) -> Tensor:
    """Repeat singular values along one of the last two axes of `like`."""
    shape = list(like.shape)
    shape[axis] = 1
    return broadcast_to(reshape(s, tuple(shape)), like.shape)


def _beyond(u: Tensor, of_u: Tensor, s: Tensor, vh: Tensor) -> Tensor:
    """Return (I - U U') U_bar S^-1 V', which is 0 for a square U."""
    rows, columns = u.shape[-2:]
    if rows == columns:
        return filled_like(product(u, vh), 0)
    rest = subtract(of_u, product(u, product(adjoint(u), of_u)))
    return product(quotient(rest, _along(s, rest, -2)), vh)


def _kernel(a: TensorType, *, full: bool, method: str) -> Call:
    *batch, m, n = a.static_shape
    k = min(m, n)

    def factor(square: Square, a: Tensor) -> list[Tensor]:
        if m >= n:
            return list(_tall(a, square, full=full))
        v, s, u = _tall(adjoint(a), square, full=full)
        return [u, s, v]

    def svd(a: Tensor) -> list[Tensor]:
        matrices = reshape(a, (-1, m, n))
        if method == LAPACK:
            u, s, vh = lapack_svd(matrices, full=full)
        else:
            build = partial(factor, _iterated if is_iterated(matrices.type) else _square)
            u, s, v = in_parts(build, matrices, nbytes=bytes_of_parts(matrices.type))
            vh = adjoint(v)
        return [
            reshape(u, (*batch, m, m if full else k)),
            reshape(s, (*batch, k)),
            reshape(vh, (*batch, n if full else k, n)),
        ]

    def nothing(a: Tensor) -> list[Tensor]:
        u = filled((*batch, m, m if full else k), 0, a.dtype)
        vh = filled((*batch, n if full else k, n), 0, a.dtype)
        return [identity_like(u), filled((*batch, k), 0, a.dtype.real), identity_like(vh)]

    return expansion(svd if a.count else nothing, a)


def _tall(a: Tensor, square: Square, *, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, the singular values and V of matrices with no more columns than rows."""
    count, m, _ = a.type.static_shape
    if m == 1:
        return square(a)
    # Squares of elements, and those of their squares, must not overflow.
    factor, inverse = near_one_factors(a, (1, 2))
    scaled = _scaled(a, cast(factor, a.dtype))
    u, s, v = _tall_scaled(scaled, square, full=full)
    return u, multiply(s, broadcast_to(reshape(inverse, (count, 1)), s.shape)), v


def _scaled(a: Tensor, factor: Tensor) -> Tensor:
    """Return matrices times factors (count, 1, 1): in lanes, where reflections read them there."""
    count, m, n = a.type.static_shape
    if m > n or not is_iterated(a.type):
        return multiply(a, broadcast_to(factor, a.shape))
    columns = to_columns(a)
    columns = multiply(columns, broadcast_to(reshape(factor, (1, count)), columns.shape))
    return reshape(permute_dims(columns, (1, 0)), a.shape)


def _tall_scaled(a: Tensor, square: Square, *, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    count, m, n = a.type.static_shape
    if m > n:
        q, r = qr(a, complete=full)
        inner, s, v = square(block(r, (0, n), (0, n)))
        if not full:
            return block_product(q, inner), s, v
        wide = add(
            place(inner, (count, m, m), (0, 0, 0), (1, 1, 1)),
            _identity_from(filled((count, m, m), 0, a.dtype), n),
        )
        return block_product(q, wide), s, v
    return square(a)


def _identity_from(x: Tensor, start: int) -> Tensor:
    """Return `x` with ones on the diagonal from row `start` on."""
    count, m, _ = x.type.static_shape
    ones = identity_like(block(x, (start, m), (start, m)))
    return place(ones, (count, m, m), (0, start, start), (1, 1, 1))


def _square(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    count, n, _ = a.type.static_shape
    if n == 1:
        s, one = absolute(a), filled_like(a, 1)
        sign = where(equal(a, 0.0), one, sign_of(a))
        return sign, reshape(s, (count, 1)), one
    columns, vectors = _orthogonalised(transposed(a))
    lengths = sqrt(reduce_sum(squares(columns), (2,)))
    lengths, columns, vectors = in_order(lengths, [columns, vectors], descending=True)
    q, r = qr(transposed(columns))
    signs = reshape(real(diagonal(r)), (count, 1, n))
    signs = where(less(signs, 0.0), filled_like(signs, -1), filled_like(signs, 1))
    return multiply(q, cast(broadcast_to(signs, q.shape), a.dtype)), lengths, transposed(vectors)


def _iterated(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `_square` does, by two diagonals and QR steps."""
    count, n, _ = a.type.static_shape
    sides, state = bidiagonal(to_columns(a), n)
    values, turned = iterated(svd_step, state, sides)
    v, u = (permute_dims(columns, (2, 0, 1)) for columns in turned)
    values = permute_dims(values, (1, 0))
    one = filled_like(values, 1)
    signs = reshape(where(less(values, 0.0), filled_like(one, -1), one), (count, n, 1))
    values, u, v, signs = in_order(absolute(values), [u, v, signs], descending=True)
    u = multiply(u, broadcast_to(signs, u.shape))
    return transposed(u), values, transposed(v)


def _orthogonalised(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return columns, as rows, that rotations have made orthogonal, and the rotations."""
    count, n, _ = columns.type.static_shape
    if n <= SWEPT_OUT and not columns.dtype.is_complex:
        return sweep_pair(columns, orthogonalise_columns, _is_askew)
    size = n + n % 2
    if size > n:  # one more column of zeros is never rotated, and is in its place after each sweep
        columns = place(columns, (count, size, n), (0, 0, 0), (1, 1, 1))
    vectors = identity_like(filled((count, size, size), 0, columns.dtype))
    columns, vectors = sweep_until([columns, vectors], size - 1, _round, _is_far)
    return block(columns, (0, n), (0, n)), block(vectors, (0, n), (0, n))


def _is_askew(rows: Tensor) -> Tensor:
    """Return what `_is_far` does of rows and their elements along the first two axes."""
    n, m, count = rows.type.static_shape
    limit = max(n, m) * float(np.finfo(rows.dtype.numpy).eps)
    first, second = (
        broadcast_to(reshape(rows, shape), (n, n, m, count))
        for shape in ((n, 1, m, count), (1, n, m, count))
    )
    products = absolute(reduce_sum(multiply(first, second), (2,)))
    lengths = sqrt(reduce_sum(squares(rows), (1,)))
    one, other = (
        broadcast_to(reshape(lengths, shape), products.shape)
        for shape in ((n, 1, count), (1, n, count))
    )
    is_same = equal(iota(products.shape, 0), iota(products.shape, 1))
    off = where(is_same, filled_like(products, 0), products)
    return greater(off, multiply(multiply(one, other), limit))


def _round(values: Sequence[Tensor]) -> list[Tensor]:
    columns, vectors = values
    _, size, m = columns.type.static_shape
    half = size // 2
    p, q = block(columns, (0, half), (0, m)), block(columns, (half, size), (0, m))
    between = reduce_sum(multiply(p, conj(q)), (2,))
    difference = reduce_sum(subtract(squares(q), squares(p)), (2,))
    cosine, sine = rotation(difference, between)
    return [rotate_rows(columns, cosine, sine), rotate_rows(vectors, cosine, sine)]


def _is_far(columns: Tensor, _vectors: Tensor) -> Tensor:
    """Return whether two columns are less orthogonal than rounding allows."""
    size, m = columns.type.static_shape[1:]
    limit = max(size, m) * float(np.finfo(columns.dtype.numpy).eps)
    products = absolute(block_product(columns, conj(columns), transpose_b=True))
    lengths = sqrt(reduce_sum(squares(columns), (2,)))
    allowed = multiply(_along(lengths, products, -1), _along(lengths, products, -2))
    off = multiply(products, subtract(filled_like(products, 1), identity_like(products)))
    return greater(off, multiply(allowed, limit))


def _batch(operands: Operands, *, full: bool, method: str) -> list[Tensor]:
    attrs: dict[str, Attr] = {"full": full, "method": method}
    return list(apply_node(svd_op, tuple(operands.lifted()), attrs).outputs)


svd_op = define(
    "svd",
    infer=_infer,
    reference=_reference,
    grad=_grad,
    kernel=_kernel,
    batch=_batch,
    of_pairs="expansion",
)
