"""Hyperparameters: the kinds of learning rate, and checks of single numbers.

A check returns the value it was given, or raises with the optimizer and the argument named. What
the numbers mean is said where the rule is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.given_arrays import as_int
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.graph.source_lines import built_by_any_line

Rate = float | Tensor
Schedule = Callable[[Tensor], Any]
LearningRate = Rate | Schedule


def check_learning_rate(subject: str, lr: Any) -> LearningRate:
    """Return `lr`: a number that is not negative, a scalar float tensor, or a schedule."""
    return lr if callable(lr) else check_rate(subject, "lr", lr)


def check_rate(subject: str, name: str, rate: Any) -> Rate:
    """Return `rate`: a number that is not negative, as a float, or a scalar float tensor."""
    if not isinstance(rate, Tensor):
        if not _is_number(rate):
            raise DTypeError(
                subject, f"{name} is {rate!r}, neither a number nor a tensor", source=user_source()
            )
        return float(check_not_negative(subject, name, rate))
    if not rate.dtype.is_float:
        raise DTypeError(subject, f"{name}: {rate.type} is no float", source=user_source())
    if rate.ndim:
        raise ShapeError(subject, f"{name}: {rate.type} is no scalar", source=user_source())
    return rate


def check_fraction(subject: str, name: str, value: Any) -> float:
    """Return `value`; raises `GraphError` unless it is at least 0 and less than 1."""
    if not 0 <= _number(subject, name, value) < 1:
        raise GraphError(subject, f"{name} is {value!r}, not in [0, 1)", source=user_source())
    return float(value)


def check_not_negative(subject: str, name: str, value: Any) -> float:
    """Return `value`; raises `GraphError` if it is negative or NaN."""
    if not _number(subject, name, value) >= 0:
        raise GraphError(
            subject, f"{name} is {value!r}, it must not be negative", source=user_source()
        )
    return float(value)


def check_positive(subject: str, name: str, value: Any) -> float:
    """Return `value`; raises `GraphError` unless it is greater than 0."""
    if not _number(subject, name, value) > 0:
        raise GraphError(subject, f"{name} is {value!r}, it must be positive", source=user_source())
    return float(value)


def _number(subject: str, name: str, value: Any) -> Any:
    if not _is_number(value):
        raise DTypeError(subject, f"{name} is {value!r}, not a number", source=user_source())
    return value


def _is_number(value: Any) -> bool:
    """Return whether `value` is a real number, also as an array of no axes has it."""
    if isinstance(value, np.ndarray):
        return not value.shape and value.dtype.kind in "fiu"
    return isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)


def check_count(subject: str, name: str, value: Any) -> int:
    """Return `value`; raises `DTypeError` if it is no int and `GraphError` if it is less than 1."""
    count = as_int(value)
    if count is None:
        raise DTypeError(subject, f"{name} is {value!r}, not an int", source=user_source())
    check_positive(subject, name, count)
    return count


def rate_at(subject: str, schedule: Schedule, step: Tensor) -> Tensor:
    """Return the rate that `schedule` gives at `step`, in float64."""
    with built_by_any_line():
        made = schedule(step)
    rate = check_rate(subject, "the result of the schedule", made)
    return cast(as_tensor(rate, dtypes.float64), dtypes.float64)
