"""Products and functions of matrices: the cross product, traces, powers and the exponential."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, ShapeError, called, user_source
from symgrad.frontend.container import leafwise
from symgrad.graph.dtypes import DTypeLike
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, normalize_axis, promote_operands
from symgrad.graph.ops import expm as of_expm
from symgrad.graph.ops import sqrtm as of_sqrtm
from symgrad.graph.ops import summation, vector_products
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import broadcast_together
from symgrad.graph.ops.triangles import identity_like
from symgrad.graph.public_ops import public
from symgrad.linalg.embedding import solve_through_reals, through_reals
from symgrad.linalg.operands import as_square


@leafwise
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Cross product of vectors of 3 elements along `axis`; all other axes broadcast.

    >>> sg.run(sg.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]))
    array([0., 0., 1.], dtype=float32)
    """
    with called("cross"):
        first, second = promote_operands("cross", x1, x2)
        a, b = broadcast_together("cross", x1=first, x2=second)
        normalize_axis("cross", axis, a.ndim)
        return vector_products.cross(a, b, axis=axis)


@leafwise
def trace(x: Any, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """Sum the elements at `offset` from the diagonal of the last two axes.

    >>> sg.run(sg.linalg.trace([[1.0, 2.0], [3.0, 4.0]], offset=1))
    array(2., dtype=float32)
    """
    tensor = as_tensor(x)
    return summation.trace(tensor if dtype is None else astype(tensor, dtype), offset=offset)


@public(functions=[np.linalg.matrix_power])
def matrix_power(x: Any, n: int, /) -> Tensor:
    """Raise square matrices to the power of the int `n`, by repeated squaring.

    Power 0 is the identity, and a negative one that of the inverse, of integers in float32. The
    gradient is that of the products. Raises `ShapeError` for matrices that are not square, and
    `DTypeError` for a power that is no int.

    >>> sg.run(sg.linalg.matrix_power([[1.0, 1.0], [0.0, 1.0]], 5))
    array([[1., 5.],
           [0., 1.]], dtype=float32)
    """
    with called("matrix_power"):
        power = as_int(n)
        if power is None:
            raise DTypeError("matrix_power", f"n is {n!r}, not an int", source=user_source())
        matrix = as_square("matrix_power", "x", x) if power < 0 else _square(x)
        if power == 0:
            return identity_like(matrix)
        if power < 0:
            matrix = solve_through_reals(matrix, identity_like(matrix))
        return _power(matrix, abs(power))


def _square(x: Any) -> Tensor:
    tensor = as_tensor(x)
    sizes = tensor.shape[-2:]
    if len(sizes) < 2 or (all(isinstance(n, int) for n in sizes) and sizes[0] != sizes[1]):
        problem = f"x: {tensor.type} is no square matrix"
        raise ShapeError("matrix_power", problem, source=user_source())
    return tensor


def _power(x: Tensor, n: int) -> Tensor:
    found = None
    while n:
        if n & 1:
            found = x if found is None else matmul(found, x)
        n >>= 1
        x = matmul(x, x) if n else x
    assert found is not None, "some power is greater than 0"
    return found


@public()
def expm(a: Any, /) -> Tensor:
    """Matrix exponential of square matrices, by a Pade approximant, scaling and squaring.

    Algorithm: Higham (2005); gradient: Mathias (1996), an exponential of twice the size.

    >>> sg.run(sg.linalg.expm(sg.constant([[0.0, 1.0], [0.0, 0.0]])))
    array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    return through_reals(of_expm.expm, as_square("expm", "a", a))


@public()
def sqrtm(a: Any, /) -> Tensor:
    """Principal square root of square matrices: X of a = X @ X, its eigenvalues in the right half.

    Of a matrix that has no such root of real numbers, as one with a negative eigenvalue, it is nan;
    so it is of a singular matrix that is not symmetric. The gradient is the solution of Sylvester's
    equation for X, and is nan where `a` is singular.

    Formula: N. J. Higham, Functions of Matrices (2008), section 6.3.

    >>> sg.run(sg.linalg.sqrtm(sg.constant([[1.0, 4.0], [0.0, 9.0]])))
    array([[1., 1.],
           [0., 3.]], dtype=float32)
    """
    return through_reals(of_sqrtm.sqrtm, as_square("sqrtm", "a", a))
