"""Discrete draws: categories, and counts of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.graph.dtypes import DType, int32
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.comparison import equal
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.portable import portable_log
from symgrad.graph.ops.reduction import argmax, sum
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.types import Shape
from symgrad.random.distributions import unit_gumbel
from symgrad.random.parameters import as_integer, numbers
from symgrad.random.streams import Stream

_MAX_SPAN = 2**32


def as_logits(op: str, name: str, value: Any) -> Tensor:
    """Return floats with an axis of categories, which is not empty."""
    logits = numbers(op, name, value)
    if not logits.ndim or logits.shape[-1] == 0:
        problem = f"{name}: {logits.type} has no last axis of categories"
        raise ShapeError(op, problem, source=user_source())
    return logits


def range_of(low: Any, high: Any, dtype: DType) -> tuple[int, int]:
    """Return the limits of a range of integers that `dtype` holds, as ints."""
    low, high = (
        _required_int("integers", name, limit) for name, limit in (("low", low), ("high", high))
    )
    as_integer("integers", dtype)
    limits = np.iinfo(dtype.numpy)
    if not 0 < high - low <= _MAX_SPAN:
        problem = f"there are {high - low} integers from {low} to below {high}, not 1 to 2**32"
        raise GraphError("integers", problem, source=user_source())
    if low < limits.min or high - 1 > limits.max:
        problem = f"{dtype.name} does not hold all from {low} to {high - 1}"
        raise GraphError("integers", problem, source=user_source())
    return low, high


def categorical_samples(stream: Stream, logits: Tensor, shape: Shape) -> Tensor:
    """Return int64 positions along the last axis of `logits`, for `shape` before its other axes.

    The position of the greatest of `logits` plus Gumbel noise (E. J. Gumbel, "Statistical theory
    of extreme values", 1954): noise and maximum are one kernel, and nothing is summed.
    """
    whole = (*shape, *logits.shape)
    noise = unit_gumbel(stream.words(whole)[0], logits.dtype)
    return argmax(add(broadcast_to(stop_gradient(logits), whole), noise), axis=-1)


def multinomial_counts(stream: Stream, n: int, p: Tensor, dtype: DType) -> Tensor:
    """Return how often each category of the last axis of `p` is among `n` draws of one."""
    drawn = categorical_samples(stream, portable_log(stop_gradient(p)), (n,))
    column = reshape(drawn, (*drawn.shape, 1))
    whole = (*drawn.shape, p.shape[-1])
    categories = iota(whole, len(whole) - 1)
    is_there = equal(broadcast_to(column, whole), categories)
    return cast(sum(cast(is_there, int32), axis=0), dtype)


def as_count(op: str, name: str, value: Any) -> int:
    """Return an int that is not negative."""
    count = _required_int(op, name, value)
    if count < 0:
        raise GraphError(op, f"{name} {count} is negative", source=user_source())
    return count


def _required_int(op: str, name: str, value: Any) -> int:
    number = as_int(value)
    if number is None:
        raise DTypeError(op, f"{name} {value!r} is no int", source=user_source())
    return number
