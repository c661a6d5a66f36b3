"""Cumulative maxima and minima, and sums that start anew, by which those are differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Grad, Grads, Node, OpDef, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.operands import as_tensor
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.comparison import (
    equal,
    greater_equal,
    isnan,
    less_equal,
    logical_not,
    logical_or,
    where,
)
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.elementwise import filled_like, is_bool, is_float, is_number, widen_halves
from symgrad.graph.ops.gathering import iota
from symgrad.graph.ops.prefix_scans import (
    Identity,
    accumulate_reference,
    fold_kernel,
    infer_along,
    infer_scan,
    scan_along,
    scan_axis,
    sliced_reference,
    stacked,
)
from symgrad.graph.ops.reduction import GREATEST, LEAST
from symgrad.graph.ops.structure import accumulator_dtype
from symgrad.graph.public_ops import public
from symgrad.graph.structures import Number, PrefixScan
from symgrad.graph.types import Array, TensorType


@public(accumulates=np.maximum)
def cummax(x: Any, axis: int = -1) -> Tensor:
    """Cumulative maximum: the greatest of the elements up to each along `axis`.

    The result has the type of `x`. From the first nan on it is nan. The gradient goes to the first
    element that holds the maximum. Raises `ShapeError` for an axis that `x` does not have and
    `DTypeError` for bools.

    >>> sg.run(sg.cummax([1.0, 3.0, 2.0, 4.0]))
    array([1., 3., 3., 4.], dtype=float32)
    """
    return scan_axis(cummax_op, as_tensor(x), axis)


@public(accumulates=np.minimum)
def cummin(x: Any, axis: int = -1) -> Tensor:
    """Cumulative minimum: the least of the elements up to each along `axis`.

    The result has the type of `x`. From the first nan on it is nan. The gradient goes to the first
    element that holds the minimum. Raises `ShapeError` for an axis that `x` does not have and
    `DTypeError` for bools.

    >>> sg.run(sg.cummin([3.0, 1.0, 2.0, 0.0]))
    array([3., 1., 1., 0.], dtype=float32)
    """
    return scan_axis(cummin_op, as_tensor(x), axis)


def _least(dtype: DType, _exclusive: bool) -> Number:
    return LEAST.get(dtype.name, LEAST["any"])


def _greatest(dtype: DType, _exclusive: bool) -> Number:
    return GREATEST.get(dtype.name, GREATEST["any"])


# Note [Gradient of cummax]
# An element is a record if it is the first, or better than all before it, which no number is than
# nan. y[j] is the last record up to j, so the gradient to a record is the sum of g from it to the
# next one, and that to any other element is 0. The sum of g from the element after i on, up to the
# next record, is a sum from the end that starts anew at each record.


def _extreme_grad(
    node: Node, g: Tensor, axis: int, reverse: bool, exclusive: bool, *, is_max: bool
) -> Grads:
    (x,) = node.inputs
    op = node.definition
    before = scan_along(op, x, axis=axis, reverse=reverse, exclusive=True)
    place = size_of(x.shape[axis]) - 1 if reverse else 0
    is_first = equal(iota(x.shape, axis), place)
    is_no_better = (less_equal if is_max else greater_equal)(x, before)
    is_record = logical_or(is_first, logical_not(logical_or(is_no_better, isnan(before))))
    zero = filled_like(g, 0)
    own = g if exclusive else where(is_record, zero, g)
    later = restarting_sum(own, is_record, axis=axis, reverse=not reverse)
    return (where(is_record, later if exclusive else add(g, later), zero),)


def _cummax_grad(node: Node, g: Tensor, *, axis: int, reverse: bool, exclusive: bool) -> Grads:
    return _extreme_grad(node, g, axis, reverse, exclusive, is_max=True)


def _cummin_grad(node: Node, g: Tensor, *, axis: int, reverse: bool, exclusive: bool) -> Grads:
    return _extreme_grad(node, g, axis, reverse, exclusive, is_max=False)


def _define_extreme(
    name: str, ufunc: np.ufunc, scalar_op: str, identity: Identity, grad: Grad
) -> OpDef:
    return define(
        name,
        infer=infer_scan(name, is_number),
        reference=accumulate_reference(ufunc, identity),
        grad=grad,
        kernel=fold_kernel(scalar_op, identity),
    )


cummax_op = _define_extreme("cummax", np.maximum, "max", _least, _cummax_grad)
cummin_op = _define_extreme("cummin", np.minimum, "min", _greatest, _cummin_grad)


def restarting_sum(x: Tensor, starts: Tensor, *, axis: int, reverse: bool) -> Tensor:
    """Segmented sum of what is before: s[0] = 0, s[i+1] = (0 if starts[i] else s[i]) + x[i].

    So s[i] is the sum of x[j] over j < i with no start strictly between j and i. Seen from i or
    from j that is the same, so the adjoint is the sum in the other direction.
    """
    return apply(restarting_sum_op, x, starts, axis=axis, reverse=reverse)


def _restarting_sum_infer(
    x: TensorType, starts: TensorType, *, axis: int, reverse: bool
) -> TensorType:
    return infer_along("restarting_sum", (is_float, is_bool), (x, starts), axis)


def _restarting_sum_reference(x: Array, starts: Array, *, axis: int, reverse: bool) -> Array:
    (wide,) = widen_halves(x)
    start = np.zeros_like(wide.sum(axis))
    states = sliced_reference(
        lambda s, x, is_start: np.where(is_start, 0, s) + x, start, (wide, starts), axis, reverse
    )
    return stacked(states[:-1], x, axis, reverse)


def _restarting_sum_grad(node: Node, g: Tensor, *, axis: int, reverse: bool) -> Grads:
    _, starts = node.inputs
    return restarting_sum(g, starts, axis=axis, reverse=not reverse), None


def _restarting_sum_kernel(
    x: TensorType, starts: TensorType, *, axis: int, reverse: bool
) -> PrefixScan:
    wide = accumulator_dtype(x.dtype)
    return PrefixScan(
        axis,
        reverse,
        exclusive=True,
        dtypes=(dtypes.bool_, wide),
        identity=(False, 0),
        item=lambda s, x, is_start: (is_start, s.cast(x, wide)),
        combine=lambda s, first, then: (
            s.call("or", first[0], then[0]),
            s.select(then[0], then[1], s.call("add", first[1], then[1])),
        ),
        finish=lambda s, running, _x, _starts: s.cast(running[1], x.dtype),
    )


restarting_sum_op = define(
    "restarting_sum",
    infer=_restarting_sum_infer,
    reference=_restarting_sum_reference,
    grad=_restarting_sum_grad,
    kernel=_restarting_sum_kernel,
    of_pairs="each",
)
