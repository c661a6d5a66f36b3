"""Operands of special functions: floats of one dtype and of one shape, and static orders."""

from __future__ import annotations

from typing import Any

from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import promote_operands
from symgrad.graph.ops.elementwise import broadcast_together, float_operand


def float_operands(op: str, **values: Any) -> list[Tensor]:
    """Convert values to tensors of the float dtype they promote to and of one shape.

    Integers and bools alone become float32. Raises `ShapeError` that names the operands.
    """
    promoted = map(float_operand, promote_operands(op, *values.values()))
    return broadcast_together(op, **dict(zip(values, promoted, strict=True)))


def require_order(op: str, n: Any) -> int:
    """Return the order `n` of a derivative, an int >= 0; an error is at the user's line."""
    order = as_int(n)
    if order is None:
        problem, hint = f"n must be an int, it is {n!r}", "for tensors n build one for each n"
        raise DTypeError(op, problem, hint=hint, source=user_source())
    if order < 0:
        raise GraphError(op, f"n is {order}, it must not be negative", source=user_source())
    return order
