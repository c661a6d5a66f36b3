"""Gamma function and its kin: gammaln, digamma, polygamma, beta, incomplete gamma, zeta.

All are ops of `symgrad/graph/ops/`; here are their arguments and what users are told.
"""

from __future__ import annotations

from typing import Any

from symgrad.graph.node import Tensor
from symgrad.graph.ops import beta as of_beta
from symgrad.graph.ops import gamma as of_gamma
from symgrad.graph.ops import incomplete_beta, incomplete_gamma
from symgrad.graph.ops import zeta as of_zeta
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.ops.polygamma import polygamma_of_order
from symgrad.graph.ops.transcendental import exp
from symgrad.graph.public_ops import public
from symgrad.special.operands import float_operands, require_order


@public()
def gammaln(x: Any, /) -> Tensor:
    """Compute the log-gamma function, `log(|gamma(x)|)`.

    Floats of any shape; integers become float32. Infinite at 0, at negative integers and at both
    infinities. Within 8 ulp for x > 0; for x < 0, where it has zeros between the poles, within 8
    ulp of the greatest of the result, `gammaln(|x|)` and 1. The gradient is `digamma`. Formulas:
    DLMF 5.5.3, 5.11.1.

    >>> sg.run(sg.special.gammaln([0.5, 4.0]))  # log(sqrt(pi)) and log(6)
    array([0.5723649, 1.7917595], dtype=float32)
    """
    return of_gamma.gammaln(float_operand(x))


@public()
def lgamma(x: Any, /) -> Tensor:
    """Compute the log-gamma function: `sg.special.gammaln` under the name it has in C.

    >>> sg.run(sg.lgamma(10.0))
    array(12.801827, dtype=float32)
    """
    return of_gamma.gammaln(float_operand(x))


@public()
def digamma(x: Any, /) -> Tensor:
    """Compute the digamma function, the derivative of `gammaln`.

    Floats of any shape; integers become float32. At 0 it is infinite, of the sign opposite to that
    of the zero; at negative integers and at -inf it is nan. Within 6 ulp for x > 0; for x < 0
    within 6 ulp of the greatest of the result, `log(|x|)` and 1. The gradient is
    `polygamma(1, x)`. Formulas: DLMF 5.5.4, 5.11.2.

    >>> sg.run(sg.special.digamma(1.0))  # minus Euler's constant
    array(-0.5772157, dtype=float32)
    """
    return of_gamma.digamma(float_operand(x))


@public()
def polygamma(n: int, x: Any, /) -> Tensor:
    """Compute the polygamma function of order `n`, the n-th derivative of `digamma`.

    `n` is an int, not a tensor, and 0 is `digamma` itself; `x` has floats of any shape, and
    integers become float32. At 0, at negative integers and at -inf it is infinite. Within 6 + 2n
    ulp for x > 0; for x < 0 within as many of the greater of the result and `n! * pi**(n + 1)`.
    The gradient is the next order. Raises `DTypeError` for an `n` that is no int and `GraphError`
    for a negative one. Formulas: DLMF 5.15.1, 5.15.6, 25.11.28.

    >>> sg.run(sg.special.polygamma(1, 1.0))  # pi**2 / 6
    array(1.644934, dtype=float32)
    """
    order = require_order("polygamma", n)
    x = float_operand(x)
    return of_gamma.digamma(x) if order == 0 else polygamma_of_order(order, x)


@public()
def zeta(x: Any, q: Any = 1.0, /) -> Tensor:
    """Compute Hurwitz' zeta function, the sum over k >= 0 of `(q + k)**-x`; Riemann's for q = 1.

    For x > 1 and q > 0, broadcast together; integers become float32. Infinite for x = 1 and for
    q = 0, and nan for x < 1 and q < 0. Within 6 ulp. The gradient by `q` is `-x * zeta(x + 1, q)`;
    there is none by `x`, and to ask for it is a `NoGradientError`. Formula: DLMF 25.11.28.

    >>> sg.run(sg.special.zeta(2.0))  # pi**2 / 6
    array(1.644934, dtype=float32)
    """
    return of_zeta.zeta(*float_operands("zeta", x=x, q=q))


@public()
def betaln(a: Any, b: Any, /) -> Tensor:
    """Compute the logarithm of the beta function, `gammaln(a) + gammaln(b) - gammaln(a + b)`.

    For a, b > 0, broadcast together; integers become float32. Infinite where one is 0, and nan
    where one is negative. Within 10 ulp of the greater of the result and 1, however large `a`
    and `b` are. Gradients by both. Formulas: DLMF 5.12.1, 5.11.1.

    >>> sg.run(sg.special.betaln(2.0, 3.0))  # log(1/12)
    array(-2.4849067, dtype=float32)
    """
    return of_beta.betaln(*float_operands("betaln", a=a, b=b))


@public()
def beta(a: Any, b: Any, /) -> Tensor:
    """Compute the beta function, `gamma(a) * gamma(b) / gamma(a + b)`, as `exp(betaln(a, b))`.

    For a, b > 0, broadcast together; integers become float32. Nan where one is negative. Within 8
    ulp, and as many times more as the logarithm of the result is larger than 1. Gradients by both.

    >>> sg.run(sg.special.beta(2.0, 3.0))  # 1/12
    array(0.08333334, dtype=float32)
    """
    return exp(of_beta.betaln(*float_operands("beta", a=a, b=b)))


@public()
def gammainc(a: Any, x: Any, /) -> Tensor:
    """Compute the regularized lower incomplete gamma function P(a, x).

    The integral of `t**(a-1) * e**-t` from 0 to `x`, divided by `gamma(a)`, for a, x >= 0, and nan
    elsewhere; broadcast together, and integers become float32. P(0, x) is 1 and P(a, 0) is 0;
    P(0, 0) and P(inf, inf) are nan. Within 16 ulp, and 3 ulp more for each unit of the greater of
    |x - a| and |a * log(x / a)|, since the result is like e to the difference of these. Gradients
    by both; the second derivative by `a` is a `NoGradientError`. Formulas: DLMF 8.2.4, 8.7.1.

    >>> sg.run(sg.special.gammainc(1.0, 2.0))  # 1 - e**-2
    array(0.86466473, dtype=float32)
    """
    return incomplete_gamma.gammainc(*float_operands("gammainc", a=a, x=x))


@public()
def gammaincc(a: Any, x: Any, /) -> Tensor:
    """Compute the regularized upper incomplete gamma function Q(a, x), which is 1 - P(a, x).

    Operands, gradients and error are those of `gammainc`: relative to Q, also where it is small.

    >>> sg.run(sg.special.gammaincc(1.0, 2.0))  # e**-2
    array(0.13533528, dtype=float32)
    """
    return incomplete_gamma.gammaincc(*float_operands("gammaincc", a=a, x=x))


@public()
def betainc(a: Any, b: Any, x: Any, /) -> Tensor:
    """Compute the regularized incomplete beta function I_x(a, b).

    The integral of `t**(a-1) * (1-t)**(b-1)` from 0 to `x`, divided by `beta(a, b)`, for a, b >= 0
    and x from 0 to 1, and nan elsewhere; broadcast together, and integers become float32. For
    parameters from 0.01 to 200 the relative error is within 1e-12 (5e-4 in float32), and within a
    hundred ulp where neither is far below 1. Gradients by all three, those by `a` and `b` within
    5e-13 (3e-4) of themselves; second derivatives by `a` and `b` are a `NoGradientError`. Formulas:
    DLMF 8.17.1, 8.17.20.

    >>> sg.run(sg.special.betainc(2.0, 3.0, 0.5))  # 11/16
    array(0.6875, dtype=float32)
    """
    return incomplete_beta.betainc(*float_operands("betainc", a=a, b=b, x=x))
