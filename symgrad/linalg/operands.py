"""Arguments of linear algebra: what its functions have in common about them."""

from __future__ import annotations

from typing import Any

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, broadcast_shapes, cast, promote_operands
from symgrad.graph.ops.elementwise import broadcast_target, is_inexact
from symgrad.graph.ops.structure import broadcast_to
from symgrad.graph.types import Shape


def as_matrices(op: str, name: str, x: Any) -> Tensor:
    """Return a matrix or a batch of them as floats of 32 or 64 bits; integers become float32."""
    tensor = as_wide_float(op, name, as_tensor(x))
    if tensor.ndim < 2:
        raise ShapeError(op, f"{name}: {tensor.type} has fewer than two axes", source=user_source())
    return tensor


def as_square(op: str, name: str, x: Any) -> Tensor:
    """Return a square matrix or a batch of them, as `as_matrices` does."""
    tensor = as_matrices(op, name, x)
    m, n = tensor.shape[-2:]
    if isinstance(m, int) and isinstance(n, int) and m != n:
        raise ShapeError(op, f"{name}: {tensor.type} is not square", source=user_source())
    return tensor


def as_wide_float(op: str, name: str, x: Tensor) -> Tensor:
    """Return `x` with parts of 32 or 64 bits; integers become float32, and 16 bits are refused."""
    if x.dtype.is_half:
        problem = f"{name}: {x.type} is none of float32, float64, complex64, complex128"
        raise DTypeError(op, problem, hint="use astype", source=user_source())
    return x if is_inexact(x.dtype) else cast(x, dtypes.float32)


def as_system(op: str, a: Any, b: Any) -> tuple[Tensor, Tensor, bool]:
    """Return matrices and right sides of one dtype and one batch, and whether `b` is a vector.

    A vector is made a column.
    """
    left, right = promote_operands(op, a, b)
    left, right = as_matrices(op, "a", left), as_wide_float(op, "b", right)
    if not right.ndim:
        raise ShapeError(op, f"b: {right.type} has no axis", source=user_source())
    is_vector = right.ndim == 1
    if is_vector:
        right = right.reshape((*right.shape, 1))
    m, n = left.shape[-2], right.shape[-2]
    if isinstance(m, int) and isinstance(n, int) and m != n:
        raise ShapeError(op, f"rows differ: a: {left.type}, b: {right.type}", source=user_source())
    batches = [t.type.with_shape(t.shape[:-2]) for t in (left, right)]
    batch = broadcast_shapes(op, a=batches[0], b=batches[1])
    return _over(left, batch), _over(right, batch), is_vector


def over_one_batch(op: str, x: Tensor, rtol: Tensor) -> tuple[Tensor, Tensor]:
    """Return matrices `x` and a number `rtol` for each, over the batch that both broadcast to."""
    own = x.type.with_shape(x.shape[:-2])
    batch = broadcast_shapes(op, batch=own, rtol=rtol.type)
    return _over(x, batch), broadcast_to(rtol, broadcast_target(rtol.type, batch))


def without_column(x: Tensor, *, is_vector: bool) -> Tensor:
    """Return what was found for a column as a vector."""
    return x.reshape(x.shape[:-1]) if is_vector else x


def _over(x: Tensor, batch: Shape) -> Tensor:
    own = x.type.with_shape(x.shape[:-2])
    return broadcast_to(x, (*broadcast_target(own, batch), *x.shape[-2:]))
