"""Norms of vectors and matrices, and the rank; gradients are 0 where a norm is."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from symgrad.errors import GraphError, ShapeError, called, user_source
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, normalize_axis
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import multiply
from symgrad.graph.ops.comparison import equal, greater, not_equal, where
from symgrad.graph.ops.complex_parts import conj, real
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.elementwise import filled_like, is_inexact
from symgrad.graph.ops.reduction import max as greatest
from symgrad.graph.ops.reduction import min as least
from symgrad.graph.ops.structure import broadcast_to, expand_dims, reduce_sum, reshape
from symgrad.graph.ops.svd import svd
from symgrad.graph.ops.transcendental import pow, sqrt
from symgrad.graph.ops.views import moveaxis, narrow
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import at_most
from symgrad.linalg.operands import as_matrices, over_one_batch
from symgrad.linalg.solving import tolerance

MatrixOrder = int | float | Literal["fro", "nuc"]
_MATRIX_ORDERS = (1, -1, 2, -2, math.inf, -math.inf)


@public(functions=[np.linalg.vector_norm])
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """Norm of vectors along `axis`, one or more, of order `ord`; of all elements for None.

    Order p is the sum of |x|**p to the power 1 / p, inf and -inf are the greatest and the least
    |x|, and 0 counts what is not 0. The gradient is 0 where the norm is, and that of inf and -inf
    is shared by equal elements as that of `max`. Norms of halves are computed in float32. Powers
    overflow and vanish as NumPy's do: of order 2 beyond 1e19 in float32, and 1e154 in float64.

    >>> sg.run([sg.linalg.vector_norm([3.0, -4.0]), sg.linalg.vector_norm([3.0, -4.0], ord=1)])
    [array(5., dtype=float32), array(7., dtype=float32)]
    """
    with called("vector_norm"):
        tensor = as_tensor(x)
        rows, kept = _rows(_wide(tensor), axis)
        found = _of_dtype(_norm_of_rows(rows, _as_number("vector_norm", ord)), tensor)
        return reshape(found, kept) if keepdims else found


def _wide(x: Tensor) -> Tensor:
    """Return `x` as floats of 32 or 64 bits: squares of halves overflow beyond 255."""
    return x if is_inexact(x.dtype) and not x.dtype.is_half else cast(x, dtypes.float32)


def _of_dtype(found: Tensor, x: Tensor) -> Tensor:
    """Round a norm of `x` to what `x` is of, where those are halves."""
    return cast(found, x.dtype) if x.dtype.is_half else found


def _rows(x: Tensor, axis: Any) -> tuple[Tensor, tuple[Any, ...]]:
    """Return `x` with the elements of a vector along the last axis, and its shape without them."""
    if axis is None:
        return reshape(x, (-1,)) if x.ndim != 1 else x, (1,) * x.ndim
    given = axis if isinstance(axis, tuple | list) else (axis,)
    places = [normalize_axis("vector_norm", a, x.ndim) for a in given]
    kept = tuple(1 if a in places else n for a, n in enumerate(x.shape))
    if len(places) == 1:
        return moveaxis(x, places[0], -1), kept
    moved = moveaxis(x, places, list(range(x.ndim - len(places), x.ndim)))
    rest = moved.shape[: x.ndim - len(places)]
    size: Any = 1
    for n in moved.shape[x.ndim - len(places) :]:
        size = size * n
    return reshape(moved, (*rest, size)), kept


def _as_number(op: str, order: Any) -> float:
    if isinstance(order, bool) or not isinstance(order, int | float | np.number):
        raise GraphError(op, f"ord is {order!r}, not a number", source=user_source())
    return float(order)


def _norm_of_rows(x: Tensor, order: float) -> Tensor:
    last = (x.ndim - 1,)
    size = absolute(x)
    if order == math.inf:
        return greatest(size, axis=-1)
    if order == -math.inf:
        return least(size, axis=-1)
    if order == 0:
        return reduce_sum(astype(not_equal(x, 0), size.dtype), last)
    if order == 1:
        return reduce_sum(size, last)
    if order == 2:
        total = reduce_sum(_squares(x), last)
        return _where_positive(total, sqrt)
    if order < 0:
        return pow(reduce_sum(pow(size, order), last), 1 / order)
    powers = _where_positive(size, lambda t: pow(t, order))
    return _where_positive(reduce_sum(powers, last), lambda t: pow(t, 1 / order))


def _squares(x: Tensor) -> Tensor:
    return real(multiply(x, conj(x)))  # which of a real x are x * x


def _where_positive(x: Tensor, function: Any) -> Tensor:
    """Apply a function with f(0) = 0 whose gradient at 0 is to be 0."""
    is_zero = equal(x, 0)
    found = function(where(is_zero, filled_like(x, 1), x))
    return where(is_zero, filled_like(x, 0), found)


@public(functions=[np.linalg.matrix_norm])
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: MatrixOrder | None = "fro") -> Tensor:
    """Norm of matrices, whose axes are the last two, of order `ord`.

    "fro" is the length of all elements, "nuc" the sum of singular values, 2 and -2 the greatest and
    the least of these, 1 and -1 the greatest and the least sum of the |x| of a column, inf and -inf
    of a row. The gradient is 0 where the norm of a matrix of zeros is.

    >>> sg.run(sg.linalg.matrix_norm([[3.0, 0.0], [4.0, 0.0]]))
    array(5., dtype=float32)
    """
    with called("matrix_norm"):
        tensor = as_tensor(x)
        matrix = as_matrices("matrix_norm", "x", _wide(tensor))
        found = _of_dtype(_norm_of_matrices(matrix, ord), tensor)
        return reshape(found, (*matrix.shape[:-2], 1, 1)) if keepdims else found


def _norm_of_matrices(x: Tensor, order: MatrixOrder | None) -> Tensor:
    last = x.ndim - 1
    if order is None or order == "fro":
        total = reduce_sum(_squares(x), (last - 1, last))
        return _where_positive(total, sqrt)
    if order != "nuc" and order not in _MATRIX_ORDERS:
        known = "'fro', 'nuc', 1, -1, 2, -2, inf, -inf"
        raise GraphError("matrix_norm", f"ord is {order!r}, none of {known}", source=user_source())
    if order in ("nuc", 2, -2):
        values = svd(x)[1]
        if order == "nuc":
            return reduce_sum(values, (values.ndim - 1,))
        return greatest(values, axis=-1) if order == 2 else least(values, axis=-1)
    is_column = order in (1, -1)
    sums = reduce_sum(absolute(x), (last - 1 if is_column else last,))
    return greatest(sums, axis=-1) if order in (1, math.inf) else least(sums, axis=-1)


@public(functions=[np.linalg.norm])
def norm(
    x: Any, ord: MatrixOrder | None = None, axis: Any = None, keepdims: bool = False
) -> Tensor:
    """Norm of a vector or a matrix, as NumPy's: of all elements if neither order nor axis is given.

    With two axes, or two axes in all and an order, it is `matrix_norm`, else `vector_norm`.

    >>> sg.run(sg.linalg.norm([[3.0, 4.0], [6.0, 8.0]], axis=1))
    array([ 5., 10.], dtype=float32)
    """
    with called("norm"):
        tensor = as_tensor(x)
        if axis is None and ord is None:
            return vector_norm(tensor, keepdims=keepdims)
        places = axis if isinstance(axis, tuple | list) or axis is None else (axis,)
        if places is None:
            places = tuple(range(tensor.ndim))
        if len(places) == 1:
            order = 2 if ord is None else ord
            return vector_norm(tensor, axis=places[0], keepdims=keepdims, ord=_number(order))
        if len(places) != 2:
            raise ShapeError(
                "norm", f"x: {tensor.type} has axes {places}, not one or two", source=user_source()
            )
        moved = moveaxis(tensor, list(places), [-2, -1])
        found = matrix_norm(moved, ord=ord)
        if not keepdims:
            return found
        return expand_dims(found, tuple(normalize_axis("norm", a, tensor.ndim) for a in places))


def _number(order: MatrixOrder) -> float:
    if isinstance(order, str):
        raise GraphError(
            "norm", f"ord {order!r} is for two axes, and there is one", source=user_source()
        )
    return order


@public(functions=[np.linalg.matrix_rank])
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """Rank of matrices: how many singular values exceed `rtol` times the greatest, as int64.

    By default that is the greater of the sizes times the rounding of the dtype, else a number, or a
    tensor that broadcasts with the batch.

    >>> sg.run(sg.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]))
    array(1)
    """
    with called("matrix_rank"):
        matrix = as_matrices("matrix_rank", "x", x)
        columns = expand_dims(svd(matrix)[1], -1)
        least = tolerance("matrix_rank", matrix, rtol)
        columns, least = over_one_batch("matrix_rank", columns, least)
        *batch, count, _ = columns.shape
        values = reshape(columns, (*batch, count))
        first = narrow(values, len(batch), 0, at_most(count, 1))  # of a size that may be 0
        most = reduce_sum(first, (len(batch),))
        limit = expand_dims(multiply(most, least), -1)
        is_counted = greater(values, broadcast_to(limit, values.shape))
        return reduce_sum(astype(is_counted, dtypes.int64), (len(batch),))
