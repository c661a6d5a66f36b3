"""Cumulative sums, and what users call for cumulative sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ShapeError, user_source
from symgrad.graph.dtypes import DType, DTypeLike
from symgrad.graph.node import Grads, Node, OpDef, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import normalize_axis
from symgrad.graph.ops.elementwise import filled, is_number
from symgrad.graph.ops.prefix_scans import (
    accumulate_reference,
    fold_kernel,
    infer_scan,
    scan_along,
    scan_axis,
)
from symgrad.graph.ops.reduction import summable
from symgrad.graph.ops.running_products import cumprod_op
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import reshape
from symgrad.graph.public_ops import public
from symgrad.graph.structures import Number


@public(functions=[np.cumsum], accumulates=np.add)
def cumsum(x: Any, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Cumulative sum, NumPy's `cumsum`: the sum of the elements up to each along `axis`.

    For `axis` None the elements are taken in row-major order and the result has one axis.
    Otherwise the result has the shape of `x`. Small integers and bools are summed in 64 bits unless
    `dtype` says otherwise; 16-bit floats in float32, rounded at each element. The gradient is the
    cumulative sum from the end. Raises `ShapeError` for an axis that `x` does not have.

    >>> sg.run(sg.cumsum([1, 2, 3]))
    array([1, 3, 6])
    """
    return _flat_or_along(cumsum_op, summable(x, dtype), axis)


@public(functions=[np.cumprod], accumulates=np.multiply)
def cumprod(x: Any, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Cumulative product, NumPy's `cumprod`: the product of the elements up to each along `axis`.

    Axis, dtypes and errors are those of `cumsum`. The gradient divides by no element, so it is
    right for any number of zeros, to any order: see Note [Gradient of cumprod].

    >>> sg.run(sg.cumprod([1, 2, 3, 4]))
    array([ 1,  2,  6, 24])
    """
    return _flat_or_along(cumprod_op, summable(x, dtype), axis)


@public(is_standard=True, functions=[np.cumulative_sum], known_as=["running_sum"])
def cumulative_sum(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Cumulative sum of the Array API: the sum of the elements up to each along `axis`.

    `axis` may be left out for one dimension only. With `include_initial` the result begins with 0
    and is one longer along `axis`. Dtypes and the gradient are those of `cumsum`. Raises
    `ShapeError` for a missing axis or one that `x` does not have.

    >>> sg.run(sg.cumulative_sum([1.0, 2.0, 3.0], include_initial=True))
    array([0., 1., 3., 6.], dtype=float32)
    """
    scanned = _standard(cumsum_op, "cumulative_sum", summable(x, dtype), axis)
    return _with_initial(scanned, axis, 0) if include_initial else scanned


@public(is_standard=True, functions=[np.cumulative_prod])
def cumulative_prod(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Cumulative product of the Array API: the product of the elements up to each along `axis`.

    `axis` may be left out for one dimension only. With `include_initial` the result begins with 1
    and is one longer along `axis`. Dtypes and the gradient are those of `cumprod`. Raises
    `ShapeError` for a missing axis or one that `x` does not have.

    >>> sg.run(sg.cumulative_prod([1.0, 2.0, 3.0]))
    array([1., 2., 6.], dtype=float32)
    """
    scanned = _standard(cumprod_op, "cumulative_prod", summable(x, dtype), axis)
    return _with_initial(scanned, axis, 1) if include_initial else scanned


def _flat_or_along(op: OpDef, x: Tensor, axis: int | None) -> Tensor:
    """Scan along an axis, or all elements in row-major order; a scalar is one element."""
    if x.ndim == 0 or axis is None:
        x = x if x.ndim == 1 else reshape(x, (-1,))
    return scan_axis(op, x, 0 if axis is None else axis)


def _standard(op: OpDef, name: str, x: Tensor, axis: int | None) -> Tensor:
    if axis is None and x.ndim > 1:
        raise ShapeError(
            name,
            f"axis: None will do for one dimension only, x: {x.type} has {x.ndim}",
            source=user_source(),
        )
    if x.ndim and axis is not None:
        axis = normalize_axis(name, axis, x.ndim)
    return _flat_or_along(op, x, axis)


def _with_initial(scanned: Tensor, axis: int | None, initial: int) -> Tensor:
    along = normalize_axis("cumulative", axis or 0, scanned.ndim)
    shape = (*scanned.shape[:along], 1, *scanned.shape[along + 1 :])
    return concat([filled(shape, initial, scanned.dtype), scanned], axis=along)


def _zero(dtype: DType, exclusive: bool) -> Number:
    # The identity of a sum of floats is -0.0, but a sum of nothing is 0.
    return -0.0 if dtype.is_float and not exclusive else 0


def _cumsum_grad(_node: Node, g: Tensor, *, axis: int, reverse: bool, exclusive: bool) -> Grads:
    return (scan_along(cumsum_op, g, axis=axis, reverse=not reverse, exclusive=exclusive),)


cumsum_op = define(
    "cumsum",
    infer=infer_scan("cumsum", is_number),
    reference=accumulate_reference(np.add, _zero),
    grad=_cumsum_grad,
    kernel=fold_kernel("add", _zero),
    of_pairs="each",
)
