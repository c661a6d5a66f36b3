"""Real embedding of complex matrices: A + iB as the matrix [[A, -B], [B, A]] of twice the size.

Products, inverses, pseudoinverses and exponentials of embeddings are embeddings of these, of which
the first block column says all; eigenvalues of a Hermitian matrix and singular values come twice.
Triangles and orthonormal factors are no embeddings, and so are not computed by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from symgrad.graph.node import Tensor
from symgrad.graph.ops import eigh as of_eigh
from symgrad.graph.ops import svd as of_svd
from symgrad.graph.ops.arithmetic import add, multiply, negative
from symgrad.graph.ops.complex_parts import complex, conj, imag, real
from symgrad.graph.ops.lu import linear_solve, lu
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import reduce_sum, reshape
from symgrad.graph.ops.triangles import matrix_transpose, triangle
from symgrad.graph.ops.views import narrow
from symgrad.graph.sizes import Dim

# How eigenvalues and singular values are computed.
Method = Literal["jacobi", "lapack"]


def _embedded(x: Tensor) -> Tensor:
    re, im = real(x), imag(x)
    rows = concat([re, negative(im)], axis=-1), concat([im, re], axis=-1)
    return concat(rows, axis=-2)


def _column(x: Tensor) -> Tensor:
    """Return the first block column of an embedding: the parts, one above the other."""
    return concat([real(x), imag(x)], axis=-2)


def _from_column(x: Tensor, rows: Dim, columns: Dim) -> Tensor:
    """Return the complex matrices, of so many rows and columns, of a first block column."""
    top, bottom = (_part(x, start, rows, columns) for start in (0, rows))
    return complex(top, bottom)


def _part(x: Tensor, start: Dim, rows: Dim, columns: Dim) -> Tensor:
    found = narrow(x, x.ndim - 2, start, rows)
    return narrow(found, x.ndim - 1, 0, columns)


def through_reals(
    function: Callable[[Tensor], Tensor], x: Tensor, *, is_turned: bool = False
) -> Tensor:
    """Apply a function of real matrices, which commutes with the embedding, to complex ones.

    With `is_turned` its result has the shape of the transpose. Real ones are left as they are.
    """
    if not x.dtype.is_complex:
        return function(x)
    found = function(_embedded(x))
    rows, columns = x.shape[-2:]
    return _from_column(found, columns, rows) if is_turned else _from_column(found, rows, columns)


def solve_through_reals(a: Tensor, b: Tensor) -> Tensor:
    """Solve a @ x = b for square matrices, real or complex ones."""
    if not a.dtype.is_complex:
        return linear_solve(a, *lu(a), b)
    wide = _embedded(a)
    found = linear_solve(wide, *lu(wide), _column(b))
    return _from_column(found, b.shape[-2], b.shape[-1])


def singular_values(x: Tensor, method: Method = "jacobi") -> Tensor:
    """Return the singular values of matrices, in descending order."""
    if not x.dtype.is_complex:
        return of_svd.svd(x, method=method)[1]
    return _once(of_svd.svd(_embedded(x), method=method)[1])


def hermitian_eigenvalues(x: Tensor, method: Method) -> Tensor:
    """Return the eigenvalues of matrices by their lower triangles, in ascending order."""
    if not x.dtype.is_complex:
        return of_eigh.eigh(x, method=method)[0]
    below = triangle(x, lower=True, k=-1)
    diagonal = triangle(triangle(real(x), lower=True), lower=False)
    whole = add(add(below, matrix_transpose(conj(below))), diagonal)
    return _once(of_eigh.eigh(_embedded(whole), method=method)[0])


def _once(values: Tensor) -> Tensor:
    """Return the means of neighbours: of each pair of equal values one, with half of the gradient.

    The gradient of one of two equal eigenvalues alone would depend on the vectors chosen.
    """
    last = values.ndim - 1
    pairs = reshape(values, (*values.shape[:-1], -1, 2))
    return multiply(reduce_sum(pairs, (last + 1,)), 0.5)
