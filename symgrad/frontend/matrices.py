"""Structured matrices: the identity matrix and the triangles of a matrix, by its indices."""

from __future__ import annotations

from typing import Any

from symgrad.errors import ShapeError, user_source
from symgrad.frontend.creation import as_shape, zeros_like
from symgrad.graph.devices import require_device
from symgrad.graph.dtypes import (
    DEFAULT_FLOAT,
    DTypeLike,
    dtype_or,
)
from symgrad.graph.given_arrays import require_size
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.comparison import equal, greater_equal, where
from symgrad.graph.ops.gathering import iota
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim
from symgrad.graph.types import Shape


@public(is_standard=True)
def eye(
    n_rows: Dim,
    n_cols: Dim | None = None,
    /,
    *,
    k: Dim = 0,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """Return a matrix of ones on the `k`-th diagonal above the main one, and zeros.

    It is float32 if no dtype is given.

    >>> sg.run(sg.eye(2, 3, k=1))
    array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    require_device("eye", device)
    shape = as_shape("eye", (n_rows, n_rows if n_cols is None else n_cols))
    row, column = iota(shape, 0), iota(shape, 1)
    offset = _diagonal_within("eye", k, shape)
    moved = row if isinstance(offset, int) and offset == 0 else add(row, offset)
    return cast(equal(moved, column), dtype_or(dtype, DEFAULT_FLOAT))


def _diagonal_within(op: str, k: Any, shape: Shape) -> Dim:
    """Return `k`, or the first diagonal that is beyond the matrix: an int64 holds its indices."""
    number, (rows, columns) = require_size(op, "k", k), shape[-2:]
    if isinstance(number, int) and isinstance(rows, int) and isinstance(columns, int):
        return max(-rows, min(number, columns))
    return number


@public(is_standard=True)
def tril(x: Any, /, *, k: Dim = 0) -> Tensor:
    """Return `x` with zeros above the `k`-th diagonal of its last two axes.

    >>> sg.run(sg.tril([[1, 2], [3, 4]]))
    array([[1, 0],
           [3, 4]], dtype=int32)
    """
    x = as_tensor(x)
    row, column = _matrix_indices("tril", x)
    offset = _diagonal_within("tril", k, x.shape)
    return where(greater_equal(add(row, offset), column), x, zeros_like(x))


@public(is_standard=True)
def triu(x: Any, /, *, k: Dim = 0) -> Tensor:
    """Return `x` with zeros below the `k`-th diagonal of its last two axes.

    >>> sg.run(sg.triu([[1, 2], [3, 4]]))
    array([[1, 2],
           [0, 4]], dtype=int32)
    """
    x = as_tensor(x)
    row, column = _matrix_indices("triu", x)
    offset = _diagonal_within("triu", k, x.shape)
    return where(greater_equal(column, add(row, offset)), x, zeros_like(x))


def _matrix_indices(op: str, x: Tensor) -> tuple[Tensor, Tensor]:
    if x.ndim < 2:
        raise ShapeError(op, f"x: {x.type} has fewer than two axes", source=user_source())
    shape = x.shape[-2:]
    return iota(shape, 0), iota(shape, 1)
