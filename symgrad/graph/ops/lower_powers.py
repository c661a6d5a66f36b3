"""Corners of the power rule: y * x**(y - 1) where y is 0 and x so small that its inverse overflows.

The product is 0 there, and so are its derivatives to x; as floats it would be 0 times infinity.
"""

from __future__ import annotations

from symgrad.graph.dtypes import float_limits
from symgrad.graph.node import Tensor
from symgrad.graph.ops.arithmetic import abs as absolute
from symgrad.graph.ops.arithmetic import subtract
from symgrad.graph.ops.comparison import equal, greater, logical_and, logical_not, where
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.elementwise import filled_like, uniform_value


def lower_power(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the base and the exponent of x**(y - 1), by which y is multiplied in the derivative.

    At y = 0 the product and its derivatives to x are 0, where powers of x overflow as well: the
    exponent is 0 where 1 / x is infinite or nan, and for an x so small that its third power has no
    inverse the base is x as a constant. Elsewhere it depends on both at y = 0 too: the derivative
    of y * x**(y - 1) by y is 1 / x there.
    """
    lower = subtract(y, filled_like(y, 1))
    known = uniform_value(y)
    if known is not None and known != 0:
        return x, lower
    is_zero = equal(y, filled_like(y, 0))
    if x.dtype.is_complex:
        is_undefined = logical_and(is_zero, equal(x, filled_like(x, 0)))
        return x, where(is_undefined, filled_like(y, 0), lower)
    size, greatest = absolute(x), float_limits(x.dtype).maxexp
    has_inverse = greater(size, filled_like(x, 2.0 ** (1 - greatest)))
    is_small = logical_not(greater(size, filled_like(x, 2.0 ** -(greatest // 3))))
    base = where(logical_and(is_zero, is_small), stop_gradient(x), x)
    return base, where(logical_and(is_zero, logical_not(has_inverse)), filled_like(y, 0), lower)
