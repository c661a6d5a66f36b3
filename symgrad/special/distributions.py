"""Normal distribution and error functions, as users call them.

All are ops of `symgrad/graph/ops/error_functions.py`; here is what users are told.
"""

from __future__ import annotations

from typing import Any

from symgrad.graph.node import Tensor
from symgrad.graph.ops import error_functions
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.public_ops import public


@public()
def erfc(x: Any, /) -> Tensor:
    """Compute the complementary error function, `1 - erf(x)`, exact also where it is small.

    Floats of any shape; integers become float32. Within 6 ulp, of the least normal number where
    the result is below. The gradient is `-2 / sqrt(pi) * e**-x**2`. Formula: DLMF 7.2.2.

    >>> sg.run(sg.special.erfc(sg.constant(10.0, "float64")))
    array(2.08848758e-45)
    """
    return error_functions.erfc(float_operand(x))


@public()
def erfcx(x: Any, /) -> Tensor:
    """Compute the scaled complementary error function, `e**x**2 * erfc(x)`.

    Floats of any shape; integers become float32. Within 6 ulp. It falls like `1 / x`, and is
    infinite where `2 * e**x**2` is, far below 0. The gradient is `2 * x * erfcx(x) - 2 / sqrt(pi)`.

    >>> sg.run(sg.special.erfcx(100.0))
    array(0.00564161, dtype=float32)
    """
    return error_functions.erfcx(float_operand(x))


@public()
def erfinv(x: Any, /) -> Tensor:
    """Compute the inverse of `erf`.

    Floats of any shape; integers become float32. Infinite at -1 and 1, and nan beyond. Within 4
    ulp. The gradient is `sqrt(pi) / 2 * e**y**2` for the result y. Method: M. Giles, "Approximating
    the erfinv function" (GPU Computing Gems, 2011).

    >>> sg.run(sg.special.erfinv(0.5))
    array(0.47693628, dtype=float32)
    """
    return error_functions.erfinv(float_operand(x))


@public()
def ndtr(x: Any, /) -> Tensor:
    """Compute the cumulative distribution function of the standard normal distribution.

    Floats of any shape; integers become float32. Within 6 ulp, of the least normal number where
    the result is below. The gradient is the density, `e**(-x**2 / 2) / sqrt(2 * pi)`.

    >>> sg.run(sg.special.ndtr(1.96))
    array(0.9750021, dtype=float32)
    """
    return error_functions.ndtr(float_operand(x))


@public()
def ndtri(p: Any, /) -> Tensor:
    """Compute the quantile function of the standard normal distribution, the inverse of `ndtr`.

    Floats of any shape; integers become float32. Infinite for 0 and 1, and nan beyond. Within 8
    ulp. The gradient is one over the density at the result. Method: Wichura (1988), AS 241.

    >>> sg.run(sg.special.ndtri(0.975))
    array(1.9599644, dtype=float32)
    """
    return error_functions.ndtri(float_operand(p))


@public()
def log_ndtr(x: Any, /) -> Tensor:
    """Compute the logarithm of `ndtr`, also where that is too small to be a float.

    Floats of any shape; integers become float32. Within 6 ulp. The gradient, the density over
    `ndtr`, is exact in the tails too.

    >>> sg.run(sg.special.log_ndtr(-100.0))
    array(-5005.5244, dtype=float32)
    """
    return error_functions.log_ndtr(float_operand(x))
