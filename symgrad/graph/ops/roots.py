"""Subgradient of square roots: that of a norm at 0 is 0, where the slope of a root is none.

A root of a sum of squares is a length, which has a corner at 0. `sqrt` alone has an infinite slope
there, which the 0 that a square hands on makes nan.
"""

from __future__ import annotations

from symgrad.graph.node import Tensor
from symgrad.graph.ops.comparison import equal, where
from symgrad.graph.ops.transcendental import sqrt


def root_of_squares(total: Tensor) -> Tensor:
    """Return the square root of a sum of squares, elementwise; the gradient at 0 is 0."""
    is_zero = equal(total, 0)
    return where(is_zero, 0, sqrt(where(is_zero, 1, total)))
