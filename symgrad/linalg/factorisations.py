"""Matrix factorisations: Cholesky, LU, QR, eigenvalues of symmetric matrices, singular values.

All are ops of `symgrad/graph/ops/`; here are their arguments and what users are told.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from symgrad.errors import GraphError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.ops import cholesky as of_cholesky
from symgrad.graph.ops import eigh as of_eigh
from symgrad.graph.ops import lu as of_lu
from symgrad.graph.ops import qr as of_qr
from symgrad.graph.ops import svd as of_svd
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.comparison import equal
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.triangles import identity_like, matrix_transpose, triangle
from symgrad.graph.public_ops import public
from symgrad.linalg.operands import as_matrices, as_square


class LUResult(NamedTuple):
    """A permutation matrix, a lower and an upper triangular one."""

    p: Tensor
    l: Tensor  # noqa: E741 - what it is called everywhere
    u: Tensor


class QRResult(NamedTuple):
    """A matrix of orthonormal columns and an upper triangular one."""

    Q: Tensor
    R: Tensor


class EighResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values, and right ones as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@public(functions=[np.linalg.cholesky])
def cholesky(a: Any, /, *, upper: bool = False) -> Tensor:
    """Cholesky factorisation: the lower triangular L of a = L L', or the upper one of a = U' U.

    Of `a`, a symmetric matrix or a batch of them, the lower triangle is read. A matrix that is not
    positive definite gives nan. The gradient is symmetric (Murray, 2016).

    >>> sg.run(sg.linalg.cholesky(sg.constant([[4.0, 2.0], [2.0, 5.0]])))
    array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    factor = of_cholesky.cholesky(as_square("cholesky", "a", a))
    return matrix_transpose(factor) if upper else factor


@public()
def lu(a: Any, /) -> LUResult:
    """LU factorisation with partial pivoting: p, l and u of a = p @ l @ u, for square matrices.

    `l` has ones on its diagonal and no element greater than 1. A matrix without an inverse has a
    zero on the diagonal of `u`, and infinite gradients or nan (de Hoog, Anderssen and Lukas, 2011).
    """
    factors, order = of_lu.lu(as_square("lu", "a", a))
    lower = add(triangle(factors, lower=True, k=-1), identity_like(factors))
    rows = iota(factors.shape, factors.ndim - 2)
    places = broadcast_to(reshape(order, (*order.shape[:-1], 1, order.shape[-1])), factors.shape)
    permutation = astype(equal(rows, places), factors.dtype)
    return LUResult(permutation, lower, triangle(factors, lower=False))


@public(functions=[np.linalg.qr])
def qr(a: Any, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """QR factorisation: Q of orthonormal columns and upper triangular R of a = Q @ R.

    Of m rows and n columns, Q has min(m, n) columns, or m with mode "complete". The signs are those
    of Householder's reflections. Gradients: Walter and Lehmann (2010), for m < n Roberts and
    Roberts (2020); a matrix without full rank has none, and neither has a Q with columns that `a`
    does not determine (`NoGradientError`).
    """
    if mode not in ("reduced", "complete"):
        raise GraphError(
            "qr", f"mode {mode!r} is neither 'reduced' nor 'complete'", source=user_source()
        )
    return QRResult(*of_qr.qr(as_matrices("qr", "a", a), complete=mode == "complete"))


@public(functions=[np.linalg.eigh])
def eigh(a: Any, /) -> EighResult:
    """Eigenvalues, in ascending order, and orthonormal eigenvectors of symmetric matrices.

    Of `a` the lower triangle is read. The gradient is symmetric (Giles, 2008). That of eigenvectors
    is infinite or nan where their eigenvalues are equal, unless what depends on them does not
    change as they are turned; that of eigenvalues is then that of their sum.
    """
    return EighResult(*of_eigh.eigh(as_square("eigh", "a", a)))


@public(functions=[np.linalg.eigvalsh])
def eigvalsh(a: Any, /) -> Tensor:
    """Eigenvalues of symmetric matrices, in ascending order; see `eigh`."""
    return of_eigh.eigh(as_square("eigvalsh", "a", a))[0]


@public(functions=[np.linalg.svd])
def svd(a: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular value decomposition: U, S and Vh of a = U @ diag(S) @ Vh.

    Singular values are in descending order. Of m rows and n columns there are min(m, n) vectors on
    either side, or, with `full_matrices`, m on the left and n on the right. Gradients: Townsend
    (2016). They are as those of `eigh` where singular values are equal, and none of U and Vh where
    there are vectors that `a` does not determine (`NoGradientError`).
    """
    return SVDResult(*of_svd.svd(as_matrices("svd", "a", a), full=bool(full_matrices)))


@public(functions=[np.linalg.svdvals])
def svdvals(a: Any, /) -> Tensor:
    """Singular values in descending order; see `svd`."""
    return of_svd.svd(as_matrices("svdvals", "a", a))[1]
