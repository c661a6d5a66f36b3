"""Linear systems: solve, inverses, determinants, least squares."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from symgrad.errors import DTypeError, called, user_source
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, constant
from symgrad.graph.ops import pinv as of_pinv
from symgrad.graph.ops import triangular
from symgrad.graph.ops.arithmetic import multiply
from symgrad.graph.ops.complex_parts import conj
from symgrad.graph.ops.determinant import det as of_det
from symgrad.graph.ops.determinant import sign_and_logarithm
from symgrad.graph.ops.extrema import maximum
from symgrad.graph.ops.inverse import inverse
from symgrad.graph.ops.triangles import product
from symgrad.graph.public_ops import public
from symgrad.linalg.embedding import solve_through_reals, through_reals
from symgrad.linalg.operands import (
    as_matrices,
    as_square,
    as_system,
    over_one_batch,
    without_column,
)


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its absolute value.

    >>> sg.linalg.slogdet(sg.ones((5, 2, 2))).logabsdet.shape
    (5,)
    """

    sign: Tensor
    logabsdet: Tensor


@public()
def triangular_solve(
    a: Any, b: Any, /, *, lower: bool = True, transpose: bool = False, unit_diagonal: bool = False
) -> Tensor:
    """Triangular solve: x of a @ x = b, or of a' @ x = b with `transpose`.

    Of square matrices `a` the triangle is read that `lower` says, with `unit_diagonal` without its
    diagonal, which counts as ones; nothing is conjugated. `b` is a vector, a matrix or a batch of
    matrices; batches broadcast. A zero on the diagonal divides. Gradients: Giles (2008).

    >>> sg.run(sg.linalg.triangular_solve([[2.0, 0.0], [1.0, 4.0]], [2.0, 9.0]))
    array([1., 2.], dtype=float32)
    """
    with called("triangular_solve"):
        left, right, is_vector = as_system("triangular_solve", a, b)
        left = as_square("triangular_solve", "a", left)
        found = triangular.triangular_solve(
            left, right, lower=lower, transpose=transpose, unit=unit_diagonal
        )
        return without_column(found, is_vector=is_vector)


@public()
def cho_solve(c: Any, b: Any, /) -> Tensor:
    """Solve a @ x = b with the lower Cholesky factor `c` of `a`, as `cholesky` gives it.

    >>> a = sg.constant([[4.0, 2.0], [2.0, 3.0]])
    >>> sg.run(sg.linalg.cho_solve(sg.linalg.cholesky(a), [8.0, 8.0]))
    array([1., 2.], dtype=float32)
    """
    with called("cho_solve"):
        left, right, is_vector = as_system("cho_solve", c, b)
        left = as_square("cho_solve", "c", left)
        inner = triangular.triangular_solve(left, right, lower=True)
        found = triangular.triangular_solve(conj(left), inner, lower=True, transpose=True)
        return without_column(found, is_vector=is_vector)


@public(functions=[np.linalg.solve], known_as=["linsolve"])
def solve(a: Any, b: Any, /) -> Tensor:
    """Solve a @ x = b for square matrices, by LU factorisation with partial pivoting.

    `b` is a vector if it has one axis, else a matrix or a batch of them; batches broadcast. A
    matrix without an inverse gives inf or nan, in its place of the batch. The gradient is solved
    with the same factors (Giles, 2008).

    >>> sg.run(sg.linalg.solve(sg.constant([[2.0, 0.0], [0.0, 4.0]]), sg.constant([2.0, 2.0])))
    array([1. , 0.5], dtype=float32)
    """
    with called("solve"):
        left, right, is_vector = as_system("solve", a, b)
        left = as_square("solve", "a", left)
        return without_column(solve_through_reals(left, right), is_vector=is_vector)


@public(functions=[np.linalg.inv])
def inv(a: Any, /) -> Tensor:
    """Inverse of square matrices; inf or nan for one that has none. To solve, use `solve`.

    `a` is (..., n, n), integers are inverted in float32. The gradient by it is -bᴴ g bᴴ for an
    inverse b and its cotangent g. Raises `ShapeError` for matrices that are not square.

    >>> sg.run(sg.linalg.inv([[2.0, 0.0], [0.0, 4.0]]))
    array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    with called("inv"):
        return through_reals(inverse, as_square("inv", "a", a))


@public(functions=[np.linalg.det])
def det(a: Any, /) -> Tensor:
    """Compute the determinant of square matrices: by minors up to 4 rows, else by elimination.

    Those of 2 rows are right to a unit in the last place, and those of integers are exact up to 4.
    The gradient is the cofactors (Jacobi's formula), also where the determinant is 0, and so is its
    derivative (Stewart, 1998); a third one is nan there.

    >>> sg.run(sg.linalg.det([[1.0, 2.0], [3.0, 4.0]]))
    array(-2., dtype=float32)
    """
    with called("det"):
        return of_det(as_square("det", "a", a))


@public(functions=[np.linalg.slogdet])
def slogdet(a: Any, /) -> SlogdetResult:
    """Sign of the determinant of square matrices, and the logarithm of its absolute value.

    They are 0 and -inf where it is 0. The gradient of the logarithm is the transposed inverse. The
    sign of a complex determinant has absolute value 1, and has a gradient; that of a real one none.

    >>> sg.run(list(sg.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])))
    [array(-1., dtype=float32), array(0., dtype=float32)]
    """
    with called("slogdet"):
        return SlogdetResult(*sign_and_logarithm(as_square("slogdet", "a", a)))


@public(functions=[np.linalg.pinv])
def pinv(a: Any, /, *, rtol: Any = None) -> Tensor:
    """Pseudoinverse (Moore-Penrose) by singular values.

    Those up to `rtol` times the greatest count as 0; it is the greater of the sizes times the
    rounding of the dtype by default, else a number, or a tensor that broadcasts with the batch.
    Gradients: Golub and Pereyra (1973), right where the rank does not change; none of `rtol`.

    >>> sg.run(sg.linalg.pinv([[2.0, 0.0], [0.0, 0.0]]))
    array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    >>> matrices = [[[2.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 1.0]]]
    >>> sg.run(sg.linalg.pinv(matrices, rtol=[0.4, 0.6])[:, 1, 1])
    array([1., 0.], dtype=float32)
    """
    with called("pinv"):
        return _pseudoinverse("pinv", as_matrices("pinv", "a", a), rtol)


def _pseudoinverse(op: str, a: Tensor, rtol: Any) -> Tensor:
    matrices, least = over_one_batch(op, a, tolerance(op, a, rtol))
    return through_reals(partial(of_pinv.pinv, rtol=least), matrices, is_turned=True)


def tolerance(op: str, a: Tensor, rtol: Any) -> Tensor:
    """Return `rtol`, or the one that follows from sizes and dtype, in the dtype of parts of `a`."""
    dtype = a.dtype.real
    if rtol is None:
        longer = maximum(*(as_tensor(n, dtypes.int64) for n in a.shape[-2:]))
        rounding = float(np.finfo(dtype.numpy).eps)
        return multiply(cast(longer, dtype), rounding)
    given = constant(rtol, dtype) if type(rtol) in (int, float) else as_tensor(rtol)
    if given.dtype.is_complex or given.dtype.is_bool:
        raise DTypeError(op, f"rtol: {given.type} is no real number", source=user_source())
    return cast(given, dtype)


@public()
def lstsq(a: Any, b: Any, /, *, rtol: Any = None) -> Tensor:
    """Least squares: the x of least length for which a @ x is nearest to `b`.

    That is `pinv(a, rtol=rtol) @ b`: `a` is (..., m, n) and `b` a vector of m, a matrix or a batch
    of matrices of m rows; integers are solved in float32. The gradient is that of `pinv`. Raises
    `ShapeError` if rows differ.

    >>> sg.run(sg.linalg.lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0]))
    array([1.       , 1.9999999], dtype=float32)
    """
    with called("lstsq"):
        left, right, is_vector = as_system("lstsq", a, b)
        inverse = _pseudoinverse("lstsq", left, rtol)
        return without_column(product(inverse, right), is_vector=is_vector)
