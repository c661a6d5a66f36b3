"""Matrix factorisations: Cholesky, LU, QR, eigenvalues and eigenvectors, singular values.

All are ops of `symgrad/graph/ops/`; here are their arguments and what users are told.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from symgrad.errors import GraphError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.ops import cholesky as of_cholesky
from symgrad.graph.ops import eig as of_eig
from symgrad.graph.ops import eigh as of_eigh
from symgrad.graph.ops import lu as of_lu
from symgrad.graph.ops import qr as of_qr
from symgrad.graph.ops import svd as of_svd
from symgrad.graph.ops.arithmetic import add, divide, multiply
from symgrad.graph.ops.comparison import equal
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.triangles import adjoint, identity_like, triangle
from symgrad.graph.public_ops import public
from symgrad.linalg.column_scales import scale_of_columns
from symgrad.linalg.operands import as_matrices, as_square

# How eigenvalues and singular values are computed.
Method = Literal["jacobi", "lapack"]


class LUResult(NamedTuple):
    """A permutation matrix, a lower and an upper triangular one.

    >>> p, l, u = sg.linalg.lu([[0.0, 1.0], [2.0, 4.0]])
    >>> sg.run(p @ l @ u)
    array([[0., 1.],
           [2., 4.]], dtype=float32)
    """

    p: Tensor
    l: Tensor  # noqa: E741 - what it is called everywhere
    u: Tensor


class QRResult(NamedTuple):
    """A matrix of orthonormal columns and an upper triangular one.

    >>> result = sg.linalg.qr(sg.ones((3, 2)))
    >>> result.Q.shape, result.R.shape
    ((3, 2), (2, 2))
    """

    Q: Tensor
    R: Tensor


class EighResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns.

    >>> sg.run(sg.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues)
    array([1., 2.], dtype=float32)
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns; both are complex.

    >>> sg.run(sg.linalg.eig([[0.0, -1.0], [1.0, 0.0]]).eigenvalues)
    array([0.+1.j, 0.-1.j], dtype=complex64)
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values, and right ones as rows.

    >>> result = sg.linalg.svd(sg.ones((3, 2)), full_matrices=False)
    >>> result.U.shape, result.S.shape, result.Vh.shape
    ((3, 2), (2,), (2, 2))
    """

    U: Tensor
    S: Tensor
    Vh: Tensor


@public(functions=[np.linalg.cholesky])
def cholesky(a: Any, /, *, upper: bool = False) -> Tensor:
    """Cholesky factorisation: the lower triangular L of a = L L', or the upper one of a = U' U.

    Of `a`, a symmetric or Hermitian matrix or a batch of them, the lower triangle is read, and of
    its diagonal the real part; ' conjugates. A matrix that is not positive definite gives nan. The
    gradient is symmetric or Hermitian, too (Murray, 2016).

    >>> sg.run(sg.linalg.cholesky(sg.constant([[4.0, 2.0], [2.0, 5.0]])))
    array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    factor = of_cholesky.cholesky(as_square("cholesky", "a", a))
    return adjoint(factor) if upper else factor


@public()
def lu(a: Any, /) -> LUResult:
    """LU factorisation with partial pivoting: p, l and u of a = p @ l @ u, for square matrices.

    `l` has ones on its diagonal and no element of a size above 1. A matrix without an inverse has a
    zero on the diagonal of `u`, and infinite gradients or nan (de Hoog, Anderssen and Lukas, 2011).

    >>> sg.run(sg.linalg.lu([[1.0, 2.0], [2.0, 8.0]]).u)
    array([[ 2.,  8.],
           [ 0., -2.]], dtype=float32)
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
    of Householder's reflections, and the diagonal of R is real, also of complex matrices.
    Gradients: Walter and Lehmann (2010), for m < n Roberts and Roberts (2020); a matrix without
    full rank has none, and neither has a Q with columns that `a` does not determine
    (`NoGradientError`).

    >>> sg.run(sg.abs(sg.linalg.qr([[3.0, 0.0], [4.0, 5.0]]).R))
    array([[5., 4.],
           [0., 3.]], dtype=float32)
    """
    if mode not in ("reduced", "complete"):
        raise GraphError(
            "qr", f"mode {mode!r} is neither 'reduced' nor 'complete'", source=user_source()
        )
    matrices = as_matrices("qr", "a", a)
    scale = scale_of_columns(matrices)
    q, r = of_qr.qr(multiply(matrices, scale), complete=mode == "complete")
    return QRResult(q, divide(r, scale))


@public(functions=[np.linalg.eigh])
def eigh(a: Any, /, *, method: Method = "jacobi") -> EighResult:
    """Eigenvalues, in ascending order, and orthonormal eigenvectors of symmetric matrices.

    Of `a`, which is symmetric or Hermitian, the lower triangle is read. The gradient is symmetric
    or Hermitian, too (Giles, 2008). That of eigenvectors is infinite or nan where their eigenvalues
    are equal, unless what depends on them does not change as they are turned; that of eigenvalues
    is then that of their sum. Complex eigenvectors have phases that `a` does not determine: what
    depends on them has no gradient with a meaning.

    With `method="lapack"` LAPACK computes them, which is far faster from 17 rows on: SciPy's
    (the extra `linalg`) in memory, and in an export the symbols of `-llapack`. The numbers then
    depend on that library in their last bits.

    >>> values, vectors = sg.linalg.eigh(sg.constant([[2.0, 1.0], [1.0, 2.0]]))
    >>> sg.run([values, sg.abs(vectors)])
    [array([0.99999994, 2.9999998 ], dtype=float32), array([[0.70710677, 0.70710677],
           [0.70710677, 0.70710677]], dtype=float32)]
    """
    return EighResult(*of_eigh.eigh(as_square("eigh", "a", a), method=method))


@public(functions=[np.linalg.eigvalsh])
def eigvalsh(a: Any, /, *, method: Method = "jacobi") -> Tensor:
    """Eigenvalues of symmetric or Hermitian matrices, in ascending order; see `eigh`.

    Of (..., n, n) they are (..., n), real. The gradient is v diag(g) vᴴ, where values repeat of
    vectors that `eigh` gives. Raises `ShapeError` for matrices that are not square.

    >>> sg.run(sg.linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]]))
    array([0.99999994, 2.9999998 ], dtype=float32)
    """
    return of_eigh.eigh(as_square("eigvalsh", "a", a), method=method)[0]


@public(functions=[np.linalg.eig])
def eig(a: Any, /) -> EigResult:
    """Eigenvalues, in no order, and eigenvectors of square matrices, by LAPACK.

    Both are complex, of real matrices, too. Vectors have length 1 and a greatest element that is
    real. Gradients: Giles (2008), Boeddeker et al. (2017). Where eigenvalues are equal, those of
    eigenvalues and of vectors have no number, or one that means nothing. A matrix that is not
    finite gives nan. For symmetric and Hermitian matrices use `eigh`.

    LAPACK's `geev` is SciPy's (the extra `linalg`) in memory, and in an export the symbol of
    `-llapack`. Raises `CompileError` where it is in no library of the process.

    >>> values, vectors = sg.linalg.eig(sg.constant([[2.0, 0.0], [0.0, 1.0]]))
    >>> sg.run([values, vectors])
    [array([2.+0.j, 1.+0.j], dtype=complex64), array([[1.+0.j, 0.+0.j],
           [0.+0.j, 1.+0.j]], dtype=complex64)]
    """
    return EigResult(*of_eig.eig(as_square("eig", "a", a)))


@public(functions=[np.linalg.eigvals])
def eigvals(a: Any, /) -> Tensor:
    """Eigenvalues of square matrices, in no order, which are complex; see `eig`.

    >>> sg.run(sg.linalg.eigvals([[0.0, -1.0], [1.0, 0.0]]))
    array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return of_eig.eig(as_square("eigvals", "a", a))[0]


@public(functions=[np.linalg.svd])
def svd(a: Any, /, *, full_matrices: bool = True, method: Method = "jacobi") -> SVDResult:
    """Singular value decomposition: U, S and Vh of a = U @ diag(S) @ Vh.

    Singular values are in descending order. Of m rows and n columns there are min(m, n) vectors on
    either side, or, with `full_matrices`, m on the left and n on the right. Gradients: Townsend
    (2016). They are as those of `eigh` where singular values are equal, and none of U and Vh where
    there are vectors that `a` does not determine (`NoGradientError`). A column of a complex U and
    the row of Vh have phases of which `a` determines the sum alone.

    With `method="lapack"` LAPACK computes them, which is far faster from 17 rows on: SciPy's
    (the extra `linalg`) in memory, and in an export the symbols of `-llapack`. The numbers then
    depend on that library in their last bits.

    >>> sg.run(sg.linalg.svd([[0.0, 2.0], [3.0, 0.0]]).S)
    array([3., 2.], dtype=float32)
    """
    matrices = as_matrices("svd", "a", a)
    return SVDResult(*of_svd.svd(matrices, full=bool(full_matrices), method=method))


@public(functions=[np.linalg.svdvals])
def svdvals(a: Any, /, *, method: Method = "jacobi") -> Tensor:
    """Singular values in descending order; see `svd`.

    Of (..., m, n) they are (..., min(m, n)), real. The gradient is u diag(g) vᴴ, where values
    repeat of vectors that `svd` gives. Raises `ShapeError` for what is no matrix.

    >>> sg.run(sg.linalg.svdvals([[0.0, 2.0], [3.0, 0.0]]))
    array([3., 2.], dtype=float32)
    """
    return of_svd.svd(as_matrices("svdvals", "a", a), method=method)[1]
