"""Layers: functions of an input and of parameters that the caller holds."""

from __future__ import annotations

from typing import Any

from symgrad.errors import ShapeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.contraction import matmul


def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """Compute `x @ weight + bias`, where `weight` has shape (features in, features out)."""
    x, weight = as_tensor(x), as_tensor(weight)
    if weight.ndim != 2:
        raise ShapeError("linear", f"weight: {weight.type} is no matrix", source=user_source())
    product = matmul(x, weight)
    return product if bias is None else add(product, bias)
