"""Cumulative sums and products, and linear recurrences, by which products are differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import ShapeError, user_source
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType, DTypeLike
from symgrad.graph.node import Grads, Node, OpDef, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import normalize_axis
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.elementwise import filled, is_float, is_number, widen_halves
from symgrad.graph.ops.prefix_scans import (
    accumulate_reference,
    fold_kernel,
    infer_along,
    infer_scan,
    scan_along,
    scan_axis,
    sliced_reference,
    stacked,
)
from symgrad.graph.ops.reduction import summable
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import accumulator_dtype, reshape
from symgrad.graph.public_ops import public
from symgrad.graph.structures import Number, PrefixScan
from symgrad.graph.types import Array, TensorType


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


@public(is_standard=True, functions=[np.cumulative_sum])
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


def _one(_dtype: DType, _exclusive: bool) -> Number:
    return 1


def _cumsum_grad(_node: Node, g: Tensor, *, axis: int, reverse: bool, exclusive: bool) -> Grads:
    return (scan_along(cumsum_op, g, axis=axis, reverse=not reverse, exclusive=exclusive),)


cumsum_op = define(
    "cumsum",
    infer=infer_scan("cumsum", is_number),
    reference=accumulate_reference(np.add, _zero),
    grad=_cumsum_grad,
    kernel=fold_kernel("add", _zero),
)


# Note [Gradient of cumprod]
# Let p be the products of what is before each element. Of y[j] = x[0] * ... * x[j] the gradient to
# x[i] is g[j] times the product of the others, which is p[i] * (x[i+1] * ... * x[j]). Summed over
# j >= i that is p[i] * (g[i] + h[i]), where h[i] is the sum over j > i of g[j] * x[j] times the
# product of what is strictly between i and j: a linear recurrence from the end. No element is
# divided by, so zeros do no harm; and both are scans that are differentiable in turn.


def _cumprod_grad(node: Node, g: Tensor, *, axis: int, reverse: bool, exclusive: bool) -> Grads:
    (x,) = node.inputs
    others = node.output
    if not exclusive:
        others = scan_along(cumprod_op, x, axis=axis, reverse=reverse, exclusive=True)
    weight = g if exclusive else multiply(g, x)
    later = linear_recurrence(x, weight, axis=axis, reverse=not reverse)
    return (multiply(others, later if exclusive else add(g, later)),)


cumprod_op = define(
    "cumprod",
    infer=infer_scan("cumprod", is_number),
    reference=accumulate_reference(np.multiply, _one),
    grad=_cumprod_grad,
    kernel=fold_kernel("mul", _one),
)


def linear_recurrence(a: Tensor, b: Tensor, *, axis: int, reverse: bool) -> Tensor:
    """First-order linear recurrence: h[0] = 0, h[i+1] = a[i] * h[i] + b[i] along `axis`.

    So h[i] is the sum over j < i of b[j] times the product of a strictly between j and i. Seen from
    i or from j that is the same, so the adjoint is the recurrence in the other direction.
    """
    return apply(linear_recurrence_op, a, b, axis=axis, reverse=reverse)


def _linear_recurrence_infer(
    a: TensorType, b: TensorType, *, axis: int, reverse: bool
) -> TensorType:
    return infer_along("linear_recurrence", (is_float, is_float), (a, b), axis)


def _linear_recurrence_reference(a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    wide_a, wide_b = widen_halves(a, b)
    start = np.zeros_like(wide_b.sum(axis))
    states = sliced_reference(lambda h, a, b: a * h + b, start, (wide_a, wide_b), axis, reverse)
    return stacked(states[:-1], b, axis, reverse)


def _linear_recurrence_grad(node: Node, g: Tensor, *, axis: int, reverse: bool) -> Grads:
    a, _ = node.inputs
    of_b = linear_recurrence(a, g, axis=axis, reverse=not reverse)
    return multiply(node.output, of_b), of_b


def _linear_recurrence_kernel(
    a: TensorType, b: TensorType, *, axis: int, reverse: bool
) -> PrefixScan:
    wide = accumulator_dtype(b.dtype)
    return PrefixScan(
        axis,
        reverse,
        exclusive=True,
        dtypes=(wide, wide),
        identity=(1, 0),
        item=lambda s, a, b: (s.cast(a, wide), s.cast(b, wide)),
        combine=lambda s, first, then: (
            s.call("mul", first[0], then[0]),
            s.call("add", s.call("mul", then[0], first[1]), then[1]),
        ),
        finish=lambda s, running, _a, _b: s.cast(running[1], b.dtype),
        # The product of a block of elements may overflow where none of the results does.
        in_order=True,
    )


linear_recurrence_op = define(
    "linear_recurrence",
    infer=_linear_recurrence_infer,
    reference=_linear_recurrence_reference,
    grad=_linear_recurrence_grad,
    kernel=_linear_recurrence_kernel,
)
