"""Scaled sum of squares: the norm of tensors together, of any dtypes, and what clips by it.

The squares of float32 and bfloat16 are summed in float64: gradients that explode are beyond what
float32 holds long before they are so themselves. Those of float64 are scaled by a power of 2 where
the greatest is far out, so that no square overflows, nor vanishes beside 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, common_dtype
from symgrad.graph.ops.arithmetic import abs as size_of
from symgrad.graph.ops.arithmetic import add, isfinite
from symgrad.graph.ops.comparison import greater, less, logical_and, logical_or, where
from symgrad.graph.ops.reduction import any as any_of
from symgrad.graph.ops.roots import root_of_squares
from symgrad.optim.hyperparameters import Rate
from symgrad.optim.norms import sum_of_squares

# Where the greatest number is beyond, all are multiplied by 2**-600, where it is below the
# reciprocal by 2**600: no sum of fewer than 2**60 squares overflows, and what vanishes is no digit.
_FAR, _SHIFT = 2.0**480, 2.0**600
# What large lengths of float64 are told in where they are compared: they may be beyond it.
_UNIT = 2.0**-64
# A factor below the first number would have few digits in the dtype. There the second one is a
# factor apart.
_LEAST_FACTOR = {dtypes.float64: (2.0**-1000, 2.0**-500), dtypes.float32: (2.0**-126, 2.0**-126)}


def length_of(xs: Sequence[Tensor]) -> Tensor:
    """Return the norm of tensors together, a scalar."""
    root, back = _root_and_scale(xs)
    return root if back is None else root * back


def factors(xs: Sequence[Tensor], most: Rate, dtype: DType) -> tuple[Tensor, Tensor]:
    """Return two scalars of a dtype, 1 or a product that scales the norm of `xs` to `most`.

    They are nan where a number is not finite.
    """
    length, back = _root_and_scale(xs)
    limit = cast(as_tensor(most, length.dtype), length.dtype)
    if back is not None:
        unit = where(greater(back, 1), as_tensor(_UNIT, dtypes.float64), 1)
        length, limit = length * (back * unit), limit * unit
    least, coarse = _LEAST_FACTOR[dtype]
    factor = limit / length
    is_long, is_split = greater(length, limit), less(factor, least)
    fine = where(is_split, limit * (1 / coarse) / length, factor)
    fine = where(isfinite(length), where(is_long, fine, 1), np.nan)
    first = as_tensor(coarse, dtype)
    return where(logical_and(is_long, is_split), first, 1), cast(fine, dtype)


def _root_and_scale(xs: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Return two scalars whose product is the norm; the second is a power of 2, None for 1."""
    if not any(x.dtype is dtypes.float64 for x in xs):
        squares = [sum_of_squares(cast(x, _dtype_of_squares(x))) for x in xs]
        return root_of_squares(_joined(add, squares)), None
    wide = [cast(x, dtypes.float64) for x in xs]
    is_large = _joined(logical_or, [any_of(greater(size_of(x), _FAR)) for x in wide])
    is_moderate = _joined(logical_or, [any_of(greater(size_of(x), 1 / _FAR)) for x in wide])
    down, up = (as_tensor(c, dtypes.float64) for c in (1 / _SHIFT, _SHIFT))
    shift = where(is_large, down, where(is_moderate, 1, up))
    back = where(is_large, up, where(is_moderate, 1, down))
    return root_of_squares(_joined(add, [sum_of_squares(x * shift) for x in wide])), back


def _dtype_of_squares(x: Tensor) -> DType:
    return dtypes.float32 if x.dtype is dtypes.float16 else dtypes.float64


def _joined(function: Callable[..., Tensor], numbers: Sequence[Tensor]) -> Tensor:
    widest = common_dtype("global_norm", [n.dtype for n in numbers], [])
    return functools.reduce(function, [cast(n, widest) for n in numbers])
