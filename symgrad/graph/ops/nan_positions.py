"""Positions and cumulative sums that leave out nan; no op is declared here.

Sums, extremes and moments that do are in `statistics`, quantiles in `order_statistics`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import called
from symgrad.graph.dtypes import DTypeLike
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.comparison import isnan, where
from symgrad.graph.ops.cumulative import cumprod, cumsum
from symgrad.graph.ops.reduction import all, argmax, argmin
from symgrad.graph.ops.statistics import without_nan
from symgrad.graph.public_ops import public


@public(functions=[np.nanargmax])
def nanargmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the position of the greatest element along `axis` that is no nan, as int64.

    It is -1 where all are nan, the first of several otherwise; see `argmax`.

    >>> sg.run(sg.nanargmax([1.0, float("nan"), 3.0]))
    array(2)
    """
    with called("nanargmax"):
        return _position(argmax, x, -np.inf, axis, keepdims)


@public(functions=[np.nanargmin])
def nanargmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the position of the least element along `axis` that is no nan; see `nanargmax`.

    >>> sg.run(sg.nanargmin([1.0, float("nan"), 3.0]))
    array(0)
    """
    with called("nanargmin"):
        return _position(argmin, x, np.inf, axis, keepdims)


def _position(
    find: Callable[..., Tensor], x: Any, worst: float, axis: int | None, keepdims: bool
) -> Tensor:
    tensor = as_tensor(x)
    if not tensor.dtype.is_float:
        return find(tensor, axis, keepdims=keepdims)
    is_nan = isnan(tensor)
    found = find(without_nan(tensor, worst), axis, keepdims=keepdims)
    # Beside nan a worst element may be a number, and a later one: then that is the first number.
    number = argmin(is_nan, axis, keepdims=keepdims)
    best = without_nan(tensor, worst)
    is_worst = all(best == worst, axis, keepdims=keepdims)
    found = where(is_worst, number, found)
    return where(all(is_nan, axis, keepdims=keepdims), -1, found)


@public(functions=[np.nancumsum])
def nancumsum(x: Any, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Cumulative sum with nan as 0, which gets no gradient; see `cumsum`.

    >>> sg.run(sg.nancumsum([1.0, float("nan"), 3.0]))
    array([1., 1., 4.], dtype=float32)
    """
    with called("nancumsum"):
        return cumsum(without_nan(x, 0), axis, dtype)


@public(functions=[np.nancumprod])
def nancumprod(x: Any, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Cumulative product with nan as 1, which gets no gradient; see `cumprod`.

    >>> sg.run(sg.nancumprod([2.0, float("nan"), 3.0]))
    array([2., 2., 6.], dtype=float32)
    """
    with called("nancumprod"):
        return cumprod(without_nan(x, 1), axis, dtype)
