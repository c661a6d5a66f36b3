"""Logarithms and exponentials that do not lose their limits: logit, xlogy, entr, softmax, i0e.

logit, i0e and i1e are ops; the others are compositions.
"""

from __future__ import annotations

import math
from typing import Any

from symgrad.graph.node import Tensor
from symgrad.graph.ops import bessel
from symgrad.graph.ops import logit as of_logit
from symgrad.graph.ops.arithmetic import multiply, negative
from symgrad.graph.ops.comparison import (
    equal,
    greater,
    isnan,
    less,
    logical_and,
    logical_not,
    logical_or,
    where,
)
from symgrad.graph.ops.elementwise import filled_like, float_operand
from symgrad.graph.ops.transcendental import log, log1p, sigmoid
from symgrad.graph.public_ops import public
from symgrad.nn.activations import softmax as softmax_of_axis
from symgrad.special.operands import float_operands


@public()
def expit(x: Any, /) -> Tensor:
    """Compute the logistic function, `1 / (1 + e**-x)`: `sg.sigmoid` under SciPy's name.

    >>> sg.run(sg.special.expit([0.0, 2.0]))
    array([0.5      , 0.8807971], dtype=float32)
    """
    return sigmoid(x)


@public()
def logit(p: Any, /) -> Tensor:
    """Compute the logit, `log(p / (1 - p))`, the inverse of `expit`.

    Floats of any shape; integers become float32. Infinite for 0 and 1, and nan beyond. Within 4
    ulp, also near its zero at 1/2. The gradient is `1 / (p * (1 - p))`.

    >>> sg.run(sg.special.logit(0.75))  # log(3)
    array(1.0986123, dtype=float32)
    """
    return of_logit.logit(float_operand(p))


@public()
def xlogy(x: Any, y: Any, /) -> Tensor:
    """Compute `x * log(y)`, which is 0 where `x` is 0, unless `y` is nan.

    Broadcast together; integers become float32. Within 2 ulp. The gradients are `log(y)` and
    `x / y`, and 0 where `x` is 0 and the logarithm is not finite, as in PyTorch.

    >>> sg.run(sg.special.xlogy([0.0, 1.0], [0.0, 2.0]))
    array([0.       , 0.6931472], dtype=float32)
    """
    x, y = float_operands("xlogy", x=x, y=y)
    return _times_log(x, y, log, 0)


@public()
def xlog1py(x: Any, y: Any, /) -> Tensor:
    """Compute `x * log(1 + y)`, which is 0 where `x` is 0, unless `y` is nan.

    Broadcast together; integers become float32. Within 2 ulp. The gradients are `log(1 + y)` and
    `x / (1 + y)`, and 0 where `x` is 0 and the logarithm is not finite.

    >>> sg.run(sg.special.xlog1py([0.0, 1.0], [-1.0, 1.0]))
    array([0.       , 0.6931472], dtype=float32)
    """
    x, y = float_operands("xlog1py", x=x, y=y)
    return _times_log(x, y, log1p, -1)


def _times_log(x: Tensor, y: Tensor, logarithm: Any, pole: int) -> Tensor:
    """Return `x * logarithm(y)`, 0 where `x` is and the logarithm, at `pole` or below, is not."""
    has_log = logical_and(greater(y, pole), less(y, math.inf))
    is_zero = logical_and(equal(x, 0), logical_not(logical_or(has_log, isnan(y))))
    product = multiply(x, logarithm(where(is_zero, filled_like(y, pole + 1), y)))
    return where(is_zero, filled_like(x, 0), product)


@public()
def entr(x: Any, /) -> Tensor:
    """Compute the elementwise entropy, `-x * log(x)`, which is 0 at 0 and -inf below.

    Floats of any shape; integers become float32. Within 2 ulp. The gradient is `-log(x) - 1`, and
    0 where x <= 0.

    >>> sg.run(sg.special.entr([0.0, 0.5]))  # 0 and log(2) / 2
    array([-0.       ,  0.3465736], dtype=float32)
    """
    x = float_operand(x)
    is_below = less(x, 0)
    safe = where(is_below, filled_like(x, 0), x)
    return where(is_below, filled_like(x, -math.inf), negative(_times_log(safe, safe, log, 0)))


@public()
def i0e(x: Any, /) -> Tensor:
    """Compute the modified Bessel function of order 0, scaled: `e**-|x| * I0(x)`.

    Floats of any shape; integers become float32. Within 8 ulp. The gradient is
    `i1e(x) - sign(x) * i0e(x)`. Formulas: DLMF 10.25.2, 10.40.1.

    >>> sg.run(sg.special.i0e(1000.0))
    array(0.01261724, dtype=float32)
    """
    return bessel.i0e(float_operand(x))


@public()
def i1e(x: Any, /) -> Tensor:
    """Compute the modified Bessel function of order 1, scaled: `e**-|x| * I1(x)`.

    Floats of any shape; integers become float32. Within 8 ulp. The gradient is
    `i0e(x) - (sign(x) + 1 / x) * i1e(x)`, and 1/2 at 0. Formulas: DLMF 10.25.2, 10.40.1.

    >>> sg.run(sg.special.i1e(1000.0))
    array(0.01261093, dtype=float32)
    """
    return bessel.i1e(float_operand(x))


def softmax(x: Any, /, axis: Any = None) -> Tensor:
    """Compute `exp(x)` divided by its sum over `axis`, by default over all; see `sg.nn.softmax`.

    >>> sg.run(sg.special.softmax([[0.0, 0.0], [0.0, 0.0]]))
    array([[0.25, 0.25],
           [0.25, 0.25]], dtype=float32)
    """
    return softmax_of_axis(x, axis=axis)
