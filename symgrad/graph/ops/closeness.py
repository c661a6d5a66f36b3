"""Tests of equality up to a tolerance, elementwise and of whole tensors; no op is declared."""

from __future__ import annotations

from typing import Any

from symgrad.errors import called
from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, promote_operands
from symgrad.graph.ops.arithmetic import abs as abs_of
from symgrad.graph.ops.arithmetic import add, isfinite, multiply, subtract
from symgrad.graph.ops.comparison import equal, isnan, less_equal, logical_and, logical_or
from symgrad.graph.ops.elementwise import broadcast_together, filled, is_inexact
from symgrad.graph.ops.extrema import maximum, minimum
from symgrad.graph.ops.reduction import all as all_over
from symgrad.graph.ops.structure import accumulator_dtype
from symgrad.graph.public_ops import public


@public()
def isclose(
    x: Any, y: Any, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Compute whether `|x - y| <= atol + rtol * |y|`, or both are the same infinity, as NumPy.

    nan is close to nothing, with `equal_nan` to nan. 16-bit floats are compared in float32.

    >>> bool(sg.run(sg.isclose(sg.constant(1.0), 1.0 + 1e-6)))
    True
    """
    x, y = promote_operands("isclose", x, y)
    wide = dtypes.uint8 if x.dtype.is_bool else accumulator_dtype(x.dtype)
    x, y = broadcast_together("isclose", x=cast(x, wide), y=cast(y, wide))
    # The difference of unsigned integers is taken the way that it is none below 0.
    distance = (
        abs_of(subtract(x, y)) if is_inexact(wide) else subtract(maximum(x, y), minimum(x, y))
    )
    near = less_equal(distance, add(multiply(abs_of(y), float(rtol)), float(atol)))
    found = logical_or(logical_and(near, isfinite(y)), equal(x, y))
    return logical_or(found, logical_and(isnan(x), isnan(y))) if equal_nan else found


@public()
def allclose(
    x: Any, y: Any, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Compute whether all elements are close, as a scalar bool; see `isclose`.

    >>> sg.run(sg.allclose([1.0, 2.0], [1.0, 2.000001]))
    array(True)
    """
    with called("allclose"):
        return all_over(isclose(x, y, rtol, atol, equal_nan))


@public()
def array_equal(x: Any, y: Any, /, equal_nan: bool = False) -> Tensor:
    """Compute whether shapes and all elements are equal, as a scalar bool.

    Shapes that differ are not equal, where their sizes are known; where a size is not, it must be
    the other's when a program is called. With `equal_nan` nan equals nan.

    >>> sg.run(sg.array_equal([1, 2], [1, 3]))
    array(False)
    """
    x, y = as_tensor(x), as_tensor(y)
    sizes = zip(x.shape, y.shape, strict=False)
    if x.ndim != y.ndim or any(m != n and isinstance(m, int) and isinstance(n, int)
                               for m, n in sizes):  # fmt: skip
        return filled((), False, dtypes.bool_)
    same = equal(x, y)
    return all_over(logical_or(same, logical_and(isnan(x), isnan(y))) if equal_nan else same)
