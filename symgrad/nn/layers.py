"""Layers: functions of an input and of parameters that the caller holds."""

from __future__ import annotations

from typing import Any

from symgrad.errors import GraphError, ShapeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.comparison import where
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.public_ops import public
from symgrad.random.keyed import draws_of


@public()
def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """Compute `x @ weight + bias`, where `weight` has shape (features in, features out)."""
    x, weight = as_tensor(x), as_tensor(weight)
    if weight.ndim != 2:
        raise ShapeError("linear", f"weight: {weight.type} is no matrix", source=user_source())
    product = matmul(x, weight)
    return product if bias is None else add(product, bias)


@public()
def dropout(x: Any, rate: float, generator: Any) -> Tensor:
    """Set each element of `x` to 0 with the chance `rate`, and scale the others by 1 / (1 - rate).

    So the mean stays: it is for training, and a graph for evaluation does without. `generator` is
    a generator, or a key. The elements are chosen anew in each step of a program that carries
    `generator.advance()` out. Raises `GraphError` for a rate that is not from 0 to below 1, and
    `DTypeError` for what is neither generator nor key.

    N. Srivastava and others, "Dropout: a simple way to prevent neural networks from overfitting",
    2014; scaled while training rather than after.
    """
    if not 0 <= rate < 1:
        raise GraphError("dropout", f"rate {rate} is not in [0, 1)", source=user_source())
    values = float_operand(x)
    if rate == 0:
        return values
    is_kept = draws_of("dropout", generator).bernoulli(1 - rate, values.shape)
    return where(is_kept, multiply(values, 1 / (1 - rate)), 0)
