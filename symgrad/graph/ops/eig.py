"""Eigenvalues and eigenvectors of square matrices: the op, which LAPACK computes, and its gradient.

Those of symmetric and Hermitian matrices are in `eigh.py`.
"""

from __future__ import annotations

import numpy as np

from symgrad.graph.batch_rules import Operands, batch_in_front
from symgrad.graph.build import apply_node
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.block_matrices import expansion
from symgrad.graph.ops.comparison import equal, where
from symgrad.graph.ops.complex_parts import complex, conj, imag, real
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.eigh import differences
from symgrad.graph.ops.elementwise import filled, filled_like
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.lapack import lapack_eig
from symgrad.graph.ops.lu import linear_solve, lu
from symgrad.graph.ops.reduction import argmax
from symgrad.graph.ops.structure import broadcast_to, reduce_sum, reshape
from symgrad.graph.ops.triangles import arrived, diagonal_matrix, product
from symgrad.graph.ops.triangular import check_square
from symgrad.graph.ops.turning import off_diagonal, quotient
from symgrad.graph.structures import Call
from symgrad.graph.types import Array, TensorType


def eig(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues, in no order, and eigenvectors of length 1 as columns."""
    values, vectors = apply_node(eig_op, (a,), {}).outputs
    return values, vectors


def _infer(a: TensorType) -> tuple[TensorType, TensorType]:
    check_square("eig", "a", a, of_complex=True)
    vectors = a.with_dtype(a.dtype.complex)
    return vectors.with_shape(a.shape[:-1]), vectors


def _reference(a: Array) -> tuple[Array, Array]:
    dtype = np.result_type(a.dtype, np.complex64)
    values, vectors = np.full(a.shape[:-1], np.nan, dtype), np.full(a.shape, np.nan, dtype)
    for at in np.ndindex(a.shape[:-2]):
        if np.isfinite(a[at]).all():
            values[at], vectors[at] = np.linalg.eig(a[at])
    return values, vectors


# Note [Length and phase of eigenvectors]
# A multiple of an eigenvector is another one. LAPACK has vectors v of length 1 whose greatest
# element v_k is real. Of a change t of a vector, t - v (Re(v' t) + i Im(t_k) / v_k) keeps that.


def _grad(node: Node, of_values: Tensor | None, of_vectors: Tensor | None) -> Grads:
    # Giles (2008), section 3.1; Boeddeker et al. (2017), for complex matrices:
    # a_bar = V^-T (diag(w_bar) + F o (V^T V_bar)) V^T, F_ij = 1 / (w_j - w_i) off the diagonal.
    # Nothing is conjugated, but for what keeps the length of vectors.
    (a,) = node.inputs
    values, vectors = node.outputs
    of_values, of_vectors = arrived(of_values), arrived(of_vectors)
    inner = None if of_values is None else diagonal_matrix(of_values)
    if of_vectors is not None:
        turned = product(vectors, _kept(vectors, of_vectors), transpose_a=True)
        mixed = _quotient(off_diagonal(turned), differences(values))
        inner = mixed if inner is None else add(inner, mixed)
    if inner is None:
        return (filled_like(a, 0),)
    side = product(inner, vectors, transpose_b=True)
    found = linear_solve(vectors, *lu(vectors), side, transpose=True)
    return (found if a.dtype.is_complex else real(found),)


def _kept(v: Tensor, g: Tensor) -> Tensor:
    """Return the gradient of vectors before they are given their length and phase.

    See Note [Length and phase of eigenvectors].
    """
    last = v.ndim - 1
    total = reduce_sum(multiply(g, v), (last - 1,))
    size = absolute(v)
    place = argmax(stop_gradient(size), axis=-2)
    is_greatest = equal(iota(v.shape, last - 1), _along(place, v))
    greatest = reduce_sum(where(is_greatest, real(v), filled_like(size, 0)), (last - 1,))
    along = multiply(_along(complex(real(total), filled_like(greatest, 0)), v), conj(v))
    angle = _along(divide(imag(total), greatest), v)
    zero = filled_like(angle, 0)
    across = complex(zero, where(is_greatest, angle, zero))
    return subtract(subtract(g, along), across)


def _along(x: Tensor, like: Tensor) -> Tensor:
    """Repeat what each column has for all elements of it."""
    return broadcast_to(reshape(x, (*x.shape[:-1], 1, x.shape[-1])), like.shape)


def _quotient(x: Tensor, y: Tensor) -> Tensor:
    """Return x / y of complex numbers, but 0 for 0 / 0: what is not turned has no rate."""
    is_equal = equal(y, 0.0)
    apart = divide(x, where(is_equal, filled_like(y, 1), y))
    return where(is_equal, quotient(x, filled_like(real(y), 0)), apart)


def _kernel(a: TensorType) -> Call:
    n = a.static_shape[-1]

    def eig(a: Tensor) -> list[Tensor]:
        values, vectors = lapack_eig(reshape(a, (-1, n, n)))
        return [reshape(values, a.shape[:-1]), reshape(vectors, a.shape)]

    def nothing(a: Tensor) -> list[Tensor]:
        dtype = a.dtype.complex
        return [filled(a.shape[:-1], 0, dtype), filled(a.shape, 0, dtype)]

    return expansion(eig if a.count else nothing, a)


def _batch(operands: Operands) -> list[Tensor]:
    return batch_in_front(operands)


eig_op = define(
    "eig",
    infer=_infer,
    reference=_reference,
    grad=_grad,
    kernel=_kernel,
    batch=_batch,
    of_pairs="expansion",
)
