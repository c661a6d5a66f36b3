"""Moments for normalisation: deviations from a mean, and their variance, that lose no digits.

# Note [A mean in two parts]
# The mean of a row far from 0 is not a float: rounded, it is off by as much as the row is rounded
# itself, all elements to the same side. A row of equal elements would then deviate from its mean,
# by a little that a norm makes large. So the mean is an element of the row, a pivot, plus the mean
# distance from it; their sum is kept as a rounded part, which is subtracted first, as from floats
# nearby it is without an error, and the small rest. For equal elements both the distance and the
# deviations are exactly 0. The pivot may be any constant, which is why it has no gradient, and no
# more is read for it: the parts are numbers of a row.
#
# The variance is the mean square about a constant, less the square of the distance of the mean from
# it, for any constant. The constant is the mean, without a gradient: the distance is 0, and
# all derivatives are those of the variance, while the first one has no term for the mean that would
# have to wait for the sum of all others.
"""

from __future__ import annotations

from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import add, multiply, subtract
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.reduction import mean as mean_over
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.structure import Axes
from symgrad.graph.sizes import at_most
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class Deviations:
    """What a norm takes from its operand; `mean` and `variance` keep the axes with size 1."""

    deviation: Tensor
    mean: Tensor
    variance: Tensor


def moments_over(x: Tensor, axes: Axes) -> Deviations:
    """Return the deviations of `x` from its mean over `axes`, and the mean of their squares.

    No axis among `axes` may be known to be empty; one that is found to be when the program is
    called has no deviations.
    """
    # See Note [A mean in two parts].
    pivot = stop_gradient(_first_of(x, axes))
    distance = mean_over(subtract(x, pivot), axes, keepdims=True)
    mean = add(pivot, distance)
    rounded = stop_gradient(mean)
    rest = add(subtract(pivot, rounded), distance)
    exact = subtract(x, rounded)
    constant = stop_gradient(rest)
    around = subtract(exact, constant)
    squares = mean_over(multiply(around, around), axes, keepdims=True)
    distance_of_mean = subtract(rest, constant)
    variance = subtract(squares, multiply(distance_of_mean, distance_of_mean))
    return Deviations(subtract(exact, rest), mean, variance)


def _first_of(x: Tensor, axes: Axes) -> Tensor:
    """Return the first element of `x` along `axes`, which stay with size 1: 0 where it has none."""
    firsts = tuple(at_most(n, 1) if axis in axes else n for axis, n in enumerate(x.shape))
    first = slice_axes(x, (0,) * x.ndim, firsts, (1,) * x.ndim)
    maybe_empty = tuple(axis for axis in axes if not isinstance(firsts[axis], int))
    return sum_over(first, maybe_empty, keepdims=True) if maybe_empty else first
