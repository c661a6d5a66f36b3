"""Matrices of a diagonal, and diagonals of matrices, as NumPy has them; no op is declared."""

from __future__ import annotations

from typing import Any

from symgrad.errors import ShapeError, user_source
from symgrad.graph.given_arrays import require_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.comparison import equal, where
from symgrad.graph.ops.elementwise import filled
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.slicing import place
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.summation import diagonal
from symgrad.graph.public_ops import public


@public()
def diag(x: Any, /, k: int = 0) -> Tensor:
    """Return a matrix with the vector `x` on its `k`-th diagonal, or that diagonal of a matrix `x`.

    The gradient of either is the other. Raises `ShapeError` for more than two axes.

    >>> sg.run(sg.diag(sg.constant([1, 2])))
    array([[1, 0],
           [0, 2]], dtype=int32)
    """
    x, k = as_tensor(x), require_int("diag", "k", k)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        problem = f"x: {x.type} is neither a vector nor a matrix"
        raise ShapeError("diag", problem, source=user_source())
    size = x.shape[0] + abs(k)
    column = place(x, (size,), (max(k, 0),), (1,))
    shape = (size, size)
    is_diagonal = equal(add(iota(shape, 0), k) if k else iota(shape, 0), iota(shape, 1))
    return where(is_diagonal, broadcast_to(column, shape), filled(shape, 0, x.dtype))


@public()
def diagflat(x: Any, /, k: int = 0) -> Tensor:
    """Return a matrix with the elements of `x`, in row-major order, on its `k`-th diagonal.

    >>> sg.run(sg.diagflat([1, 2], k=1))
    array([[0, 1, 0],
           [0, 0, 2],
           [0, 0, 0]], dtype=int32)
    """
    x = as_tensor(x)
    return diag(reshape(x, (x.size,)), k)
