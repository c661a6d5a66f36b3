"""NumPy's reductions on tensors: `where=`, `initial=`, `dtype=` and `ddof=` in terms of ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ShapeError, user_source
from symgrad.frontend.creation import asarray
from symgrad.frontend.numpy_arguments import adapts
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DTypeLike, as_dtype
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.graph.ops import arithmetic, comparison, extrema, reduction, statistics, structure


def sum_of(
    a: Any, axis: Any = None, dtype: DTypeLike | None = None, keepdims: bool = False,
    initial: Any = None, where: Any = True,
) -> Tensor:  # fmt: skip
    """Sum what `where` holds for, and `initial`."""
    total = reduction.sum(_chosen(a, where, 0), axis, dtype=dtype, keepdims=keepdims)
    return total if initial is None else arithmetic.add(total, initial)


def product_of(
    a: Any, axis: Any = None, dtype: DTypeLike | None = None, keepdims: bool = False,
    initial: Any = None, where: Any = True,
) -> Tensor:  # fmt: skip
    """Multiply what `where` holds for, and `initial`."""
    total = reduction.prod(_chosen(a, where, 1), axis, dtype=dtype, keepdims=keepdims)
    return total if initial is None else arithmetic.multiply(total, initial)


def greatest_of(
    a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Tensor:
    """Take the greatest of `initial` and what `where` holds for."""
    return _extreme(reduction.max, extrema.maximum, a, axis, keepdims, initial, where)


def least_of(
    a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Tensor:
    """Take the least of `initial` and what `where` holds for."""
    return _extreme(reduction.min, extrema.minimum, a, axis, keepdims, initial, where)


def _extreme(
    reduce: Any, meet: Any, a: Any, axis: Any, keepdims: bool, initial: Any, where: Any
) -> Tensor:
    x = as_tensor(a)
    if initial is None and where is not True:
        raise ShapeError(
            f"numpy.{reduce.__name__}",
            "where= leaves nothing to begin with",
            hint="give initial=",
            source=user_source(),
        )
    if initial is None:
        found: Tensor = reduce(x, axis, keepdims=keepdims)
        return found
    first = cast(as_tensor(initial), x.dtype)
    chosen = _chosen(x, where, first)
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if any(x.shape[a] == 0 for a in axes):
        like = reduction.sum(x, axis, keepdims=keepdims)
        return structure.broadcast_to(first, like.shape)
    met: Tensor = meet(reduce(chosen, axis, keepdims=keepdims), first)
    return met


def any_of(a: Any, axis: Any = None, keepdims: bool = False, where: Any = True) -> Tensor:
    """Compute whether one of those that `where` holds for is true, or not 0."""
    return reduction.any(_chosen(a, where, 0), axis, keepdims=keepdims)


def all_of(a: Any, axis: Any = None, keepdims: bool = False, where: Any = True) -> Tensor:
    """Compute whether all of those that `where` holds for are true, or not 0."""
    return reduction.all(_chosen(a, where, 1), axis, keepdims=keepdims)


def _chosen(a: Any, where: Any, otherwise: Any) -> Tensor:
    x = as_tensor(a)
    if where is True:
        return x
    return comparison.where(where, x, cast(as_tensor(otherwise), x.dtype))


adapts("sum", np.sum)(sum_of)
adapts("prod", np.prod)(product_of)
adapts("max", np.max, np.amax)(greatest_of)
adapts("min", np.min, np.amin)(least_of)
adapts("any", np.any)(any_of)
adapts("all", np.all)(all_of)


@adapts("mean", np.mean)
def _mean(
    a: Any, axis: Any = None, dtype: DTypeLike | None = None, keepdims: bool = False,
    *, where: Any = True,
) -> Tensor:  # fmt: skip
    x = as_tensor(a) if dtype is None else cast(as_tensor(a), as_dtype(dtype))
    if where is True:
        return reduction.mean(x, axis, keepdims=keepdims)
    total = reduction.sum(_chosen(x, where, 0), axis, keepdims=keepdims)
    chosen = structure.broadcast_to(asarray(where), x.shape)
    count = reduction.sum(cast(chosen, dtypes.int64), axis, keepdims=keepdims)
    return arithmetic.divide(total, count)


def _spread(
    measure: Any, a: Any, axis: Any, dtype: DTypeLike | None, ddof: float, keepdims: bool,
    correction: float | None,
) -> Tensor:  # fmt: skip
    x = as_tensor(a) if dtype is None else cast(as_tensor(a), as_dtype(dtype))
    freedom = ddof if correction is None else correction
    found: Tensor = measure(x, axis, correction=freedom, keepdims=keepdims)
    return found


@adapts("var", np.var)
def _var(
    a: Any, axis: Any = None, dtype: DTypeLike | None = None, *, ddof: float = 0,
    keepdims: bool = False, correction: float | None = None,
) -> Tensor:  # fmt: skip
    return _spread(statistics.var, a, axis, dtype, ddof, keepdims, correction)


@adapts("std", np.std)
def _std(
    a: Any, axis: Any = None, dtype: DTypeLike | None = None, *, ddof: float = 0,
    keepdims: bool = False, correction: float | None = None,
) -> Tensor:  # fmt: skip
    return _spread(statistics.std, a, axis, dtype, ddof, keepdims, correction)


@adapts("nanvar", np.nanvar)
def _nanvar(
    a: Any, axis: Any = None, dtype: DTypeLike | None = None, *, ddof: float = 0,
    keepdims: bool = False, correction: float | None = None,
) -> Tensor:  # fmt: skip
    return _spread(statistics.nanvar, a, axis, dtype, ddof, keepdims, correction)


@adapts("nanstd", np.nanstd)
def _nanstd(
    a: Any, axis: Any = None, dtype: DTypeLike | None = None, *, ddof: float = 0,
    keepdims: bool = False, correction: float | None = None,
) -> Tensor:  # fmt: skip
    return _spread(statistics.nanstd, a, axis, dtype, ddof, keepdims, correction)


@adapts("ptp", np.ptp)
def _ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return statistics.ptp(a, axis, keepdims=keepdims)


@adapts("average", np.average)
def _average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    return statistics.average(a, axis, weights, returned, keepdims=keepdims)
