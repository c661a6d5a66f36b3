"""Elementwise ops, what they share: type rules, NumPy meanings, operands of one type and shape.

No op is declared here; the families are conversion, comparison, arithmetic and transcendental.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, SymgradError, user_source
from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.leaf import constant_op
from symgrad.graph.node import Infer, Tensor
from symgrad.graph.operands import (
    as_tensor,
    broadcast_shapes,
    cast,
    constant,
    promote_operands,
    require_dtype,
    require_equal_types,
)
from symgrad.graph.ops.structure import broadcast_to, broadcast_to_op
from symgrad.graph.scalars import Scalars
from symgrad.graph.spread_numbers import number_beside, spread_once
from symgrad.graph.structures import Body, Number, ScalarExpr
from symgrad.graph.types import Array, ArrayLiteral, Shape, TensorType

_NAMES = ("x", "y")
Allowed = Callable[[DType], bool]


def is_number(dtype: DType) -> bool:
    """Return whether elements are integers, floats or complex numbers."""
    return not dtype.is_bool


def is_float(dtype: DType) -> bool:
    """Return whether elements are floats."""
    return dtype.is_float


def is_inexact(dtype: DType) -> bool:
    """Return whether elements are floats or complex numbers."""
    return dtype.is_float or dtype.is_complex


def is_bool(dtype: DType) -> bool:
    """Return whether elements are bools."""
    return dtype.is_bool


def is_any(_dtype: DType) -> bool:
    """Return that elements of every dtype are taken."""
    return True


def infer_same(op: str, allowed: Allowed) -> Infer:
    """Return the type rule of an op whose operands and result have one type."""

    def infer(*operands: TensorType) -> TensorType:
        first, *rest = operands
        if allowed(first.dtype) and all([t is first for t in rest]):
            return first
        named = dict(zip(_NAMES, operands, strict=False))
        for name, operand in named.items():
            require_dtype(op, name, operand, allowed)
        return require_equal_types(op, **named)

    return infer


def infer_bool(op: str, allowed: Allowed) -> Infer:
    """Return the type rule of an op that says yes or no about operands of one type."""
    same = infer_same(op, allowed)

    def infer(*operands: TensorType) -> TensorType:
        operand = same(*operands)
        assert isinstance(operand, TensorType)
        return operand.with_dtype(dtypes.bool_)

    return infer


def rounded_once(function: Callable[..., Any]) -> Callable[..., Array]:
    """Return the NumPy meaning of an op that is one scalar operation.

    A 16-bit float is computed in float32 and rounded once, as native code does it.
    """

    def reference(*operands: Array) -> Array:
        dtype = operands[0].dtype
        wide = widen_halves(*operands)
        with np.errstate(all="ignore"):
            return np.asarray(function(*wide)).astype(dtype, copy=False)

    return reference


def rounded_from_double(function: Callable[..., Any]) -> Callable[..., Array]:
    """Return the NumPy meaning of an elementary function: what is not float64 is computed in it.

    NumPy's own functions of float32 are up to 4 units in the last place off, which folded
    constants would show. A 16-bit float is rounded to float32 in between, as native code does it.
    """

    def reference(*operands: Array) -> Array:
        dtype = operands[0].dtype
        between = widen_halves(operands[0])[0].dtype
        with np.errstate(all="ignore"):
            wide_dtype = np.complex128 if dtype.kind == "c" else np.float64
            result = np.asarray(function(*[x.astype(wide_dtype) for x in operands]))
            return result.astype(between, copy=False).astype(dtype, copy=False)

    return reference


def widen_halves(*operands: Array) -> tuple[Array, ...]:
    """Return the operands with 16-bit floats made float32, which holds them exactly."""
    is_half = dtypes.as_dtype(operands[0].dtype).is_half
    return tuple(x.astype(np.float32) for x in operands) if is_half else operands


def one_call(scalar_op: str) -> Body:
    """Return the body that is one scalar operation of the elements."""

    def body(s: Scalars[ScalarExpr], *elements: ScalarExpr) -> ScalarExpr:
        return s.call(scalar_op, *elements)

    return body


def in_float32(body: Body) -> Body:
    """Return `body` with 16-bit floats made float32, and rounded once, when all is computed."""

    def wide(s: Scalars[ScalarExpr], *elements: ScalarExpr) -> ScalarExpr:
        dtype = s.dtype_of(elements[0])
        if not dtype.is_half:
            return body(s, *elements)
        return s.cast(body(s, *[s.cast(x, dtypes.float32) for x in elements]), dtype)

    return wide


def broadcast_operands(op: str, *values: Any) -> list[Tensor]:
    """Convert `values` to tensors of the dtype they promote to and of one shape."""
    first, *rest = values
    if isinstance(first, Tensor) and all(
        [isinstance(v, Tensor) and v.type is first.type for v in rest]
    ):
        return list(values)
    if len(values) == 2 and (pair := number_beside(*values)) is not None:
        like, number = pair.tensor, pair.number
        made = spread_once(
            number, like, lambda: constant(number, like.dtype), lambda scalar: _spread(scalar, like)
        )
        return pair.with_number(made)
    tensors = promote_operands(op, *values)
    alike = _with_scalars_spread(tensors)
    if alike is not None:
        return alike
    return broadcast_together(op, **dict(zip(_NAMES, tensors, strict=True)))


def _spread(literal: Tensor, like: Tensor) -> Tensor:
    """Return a scalar in the shape of a tensor."""
    # As `broadcast_to`, of a shape that is known to be one.
    return apply(broadcast_to_op, literal, shape=like.shape) if like.shape else literal


def broadcast_together(op: str, **operands: Tensor) -> list[Tensor]:
    """Broadcast tensors to one shape; dtypes stay. Raises `ShapeError` that names the operands."""
    alike = _with_scalars_spread(list(operands.values()))
    if alike is not None:
        return alike
    shape = common_shape(op, **{name: t.type for name, t in operands.items()})
    return [broadcast_to(t, broadcast_target(t.type, shape)) for t in operands.values()]


def _with_scalars_spread(tensors: list[Tensor]) -> list[Tensor] | None:
    """Return tensors of one shape, if all of them have it but scalars, as most operands do."""
    shapes = {t.type.shape for t in tensors}
    if len(shapes) == 1:
        return tensors
    shapes.discard(())
    if len(shapes) > 1:
        return None
    like = next(t for t in tensors if t.type.shape)
    return [t if t.type.shape else _spread(t, like) for t in tensors]


def common_shape(op: str, **operands: TensorType) -> Shape:
    """Return the shape the operands broadcast to; an error points at the user's line."""
    try:
        return broadcast_shapes(op, **operands)
    except SymgradError as error:
        error.source = user_source()
        raise


def broadcast_target(x: TensorType, shape: Shape) -> Shape:
    """Return what to broadcast `x` to where operands meet in `shape`.

    Where an unknown size meets another it stays: the two must be equal, and it must not be
    broadcast when it turns out to be 1, since gradients have been built as if it were not.
    """
    lead = len(shape) - x.ndim
    own = (n if n != 1 else shape[lead + axis] for axis, n in enumerate(x.shape))
    return (*shape[:lead], *own)


def float_operand(x: Any) -> Tensor:
    """Return `x` as a tensor of floats or complex numbers: integers and bools become float32."""
    tensor = as_tensor(x)
    return tensor if is_inexact(tensor.dtype) else cast(tensor, dtypes.float32)


def real_operand(op: str, x: Any) -> Tensor:
    """Return `x` as a tensor of floats; raises `DTypeError` if it is complex."""
    tensor = float_operand(x)
    if tensor.dtype.is_complex:
        raise DTypeError(
            op,
            f"{tensor.type} is complex, real numbers are needed",
            hint="take sg.real, sg.imag or sg.abs of it",
            source=user_source(),
        )
    return tensor


def float_operands(op: str, *values: Any) -> list[Tensor]:
    """Convert `values` to tensors of one float dtype and of one shape; integers become float32."""
    return [float_operand(x) for x in broadcast_operands(op, *values)]


def filled(shape: Shape, value: Number, dtype: DType) -> Tensor:
    """Return a tensor of `shape` whose elements are all `value`; nothing big is stored."""
    return broadcast_to(constant(value, dtype), shape)


def filled_like(x: Tensor, value: Number) -> Tensor:
    """Return a tensor of the type of `x` whose elements are all `value`."""
    return filled(x.shape, value, x.dtype)


def uniform_value(tensor: Tensor) -> Number | None:
    """Return the one value all elements of a constant have, also seen through views, else None."""
    literal = uniform_literal(tensor)
    return None if literal is None else number_of(literal)


def uniform_literal(tensor: Tensor) -> ArrayLiteral | None:
    """Return the one element of a constant, also seen through views, None for anything else."""
    constant = uniform_constant(tensor)
    value = None if constant is None else constant.node.attrs["value"]
    return value if isinstance(value, ArrayLiteral) else None


def uniform_constant(tensor: Tensor) -> Tensor | None:
    """Return the constant of one element of which `tensor` is views, None for anything else."""
    while tensor.node.definition.is_view:
        (tensor,) = tensor.node.inputs
    if tensor.node.definition is not constant_op:
        return None
    value = tensor.node.attrs["value"]
    return tensor if isinstance(value, ArrayLiteral) and value.array.size == 1 else None


def number_of(literal: ArrayLiteral) -> Number:
    """Return the value of a constant that has one element."""
    number: Number = literal.array.item()
    return number


def tangents_or_zeros(
    operands: Sequence[Tensor], tangents: Sequence[Tensor | None]
) -> list[Tensor]:
    """Return the tangents of `operands`, zeros for one that has none."""
    pairs = zip(operands, tangents, strict=True)
    return [filled_like(x, 0) if t is None else t for x, t in pairs]
