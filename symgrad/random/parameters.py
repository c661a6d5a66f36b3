"""Parameter checks: dtypes, numbers and broadcasts that draws have in common."""

from __future__ import annotations

from typing import Any

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph.dtypes import DType, DTypeLike, as_dtype, float32, float64
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, constant
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.structure import broadcast_to
from symgrad.graph.types import Shape


def as_float(op: str, dtype: DTypeLike) -> DType:
    """Return the dtype of a draw of floats; raises `DTypeError` for any but float32 and float64."""
    wanted = as_dtype(dtype)
    if wanted not in (float32, float64):
        raise DTypeError(
            op,
            f"dtype {wanted.name} is neither float32 nor float64",
            hint="draw float32 and use astype" if wanted.is_half else None,
            source=user_source(),
        )
    return wanted


def as_integer(op: str, dtype: DTypeLike) -> DType:
    """Return the dtype of a draw of integers; raises `DTypeError` for any other."""
    wanted = as_dtype(dtype)
    if not wanted.is_integer:
        raise DTypeError(op, f"dtype {wanted.name} is no integer", source=user_source())
    return wanted


def is_number(value: Any) -> bool:
    """Return whether `value` is a number of Python."""
    return isinstance(value, int | float)


def moved(x: Tensor, scale: float, offset: float) -> Tensor:
    """Return `x * scale + offset`, without what would change nothing."""
    scaled = x if scale == 1 else multiply(x, float(scale))
    return scaled if offset == 0 else add(scaled, float(offset))


def parameter(value: Any, shape: Shape, dtype: DType) -> Tensor:
    """Return a parameter of a distribution for each element of a draw."""
    tensor = constant(value, dtype) if is_number(value) else cast(as_tensor(value), dtype)
    return broadcast_to(tensor, shape)


def named_parameter(op: str, name: str, value: Any, shape: Shape, dtype: DType) -> Tensor:
    """Return a parameter as `parameter` does; errors name the draw and the parameter."""
    tensor = numbers(op, name, value, dtype)
    try:
        return broadcast_to(tensor, shape)
    except ShapeError as error:
        problem = f"{name}: {tensor.type} does not broadcast to {list(shape)}"
        raise ShapeError(op, problem, source=user_source()) from error


def numbers(op: str, name: str, value: Any, dtype: DType | None = None) -> Tensor:
    """Return floats or integers as a tensor of `dtype`, or of their own float dtype, or float32."""
    tensor = as_tensor(value, dtype if is_number(value) and dtype else None)
    if tensor.dtype.is_bool:
        raise DTypeError(op, f"{name}: {tensor.type} is no number", source=user_source())
    if dtype is not None:
        return cast(tensor, dtype)
    return cast(tensor, float64 if tensor.dtype == float64 else float32)
