"""Lp norms: powers, and roots of their sums, with a gradient of 0 where the slope is infinite.

What pooling by powers and distances share; these are in `pooling.py` and `row_losses.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DTypeError, GraphError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import square
from symgrad.graph.ops.comparison import equal, where
from symgrad.graph.ops.transcendental import pow, sqrt


def check_power(op: str, p: Any) -> float:
    """Return `p`; raises `DTypeError` if it is no number, `GraphError` if it is not positive."""
    if isinstance(p, bool) or not isinstance(p, int | float | np.integer | np.floating):
        raise DTypeError(op, f"p is {p!r}, not a number", source=user_source())
    if not p > 0:
        raise GraphError(op, f"p is {p!r}, it must be positive", source=user_source())
    return float(p)


def power(x: Tensor, p: float) -> Tensor:
    """Return `x` to the power `p`, which is positive; the gradient at 0 is finite for every `p`."""
    if p == 1:
        return x
    if p == 2:
        return square(x)
    if p > 1:
        return pow(x, p)
    is_zero = equal(x, 0)
    return where(is_zero, 0, pow(where(is_zero, 1, x), p))


def root(total: Tensor, p: float) -> Tensor:
    """Return `total` to the power `1 / p`; where it is 0 so is its gradient, for every `p`."""
    is_zero = equal(total, 0)
    safe = where(is_zero, 1, total)
    if p == 2:
        safe = sqrt(safe)
    elif p != 1:
        safe = pow(safe, 1 / p)
    return where(is_zero, 0, safe)
