"""Operands of special functions: floats of one dtype and of one shape."""

from __future__ import annotations

from typing import Any

from symgrad.graph.node import Tensor
from symgrad.graph.operands import promote_operands
from symgrad.graph.ops.elementwise import broadcast_together, float_operand


def float_operands(op: str, **values: Any) -> list[Tensor]:
    """Convert values to tensors of the float dtype they promote to and of one shape.

    Integers and bools alone become float32.
    """
    promoted = map(float_operand, promote_operands(op, *values.values()))
    return broadcast_together(op, **dict(zip(values, promoted, strict=True)))
