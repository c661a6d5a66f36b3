"""Cumulative products, and linear recurrences, by which they are differentiated.

What users call is in `cumulative.py`.
"""

from __future__ import annotations

import numpy as np

from symgrad.graph.build import apply
from symgrad.graph.dtypes import DType
from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.elementwise import is_inexact, is_number, widen_halves
from symgrad.graph.ops.prefix_scans import (
    accumulate_reference,
    fold_kernel,
    infer_along,
    infer_scan,
    scan_along,
    sliced_reference,
    stacked,
)
from symgrad.graph.ops.structure import accumulator_dtype
from symgrad.graph.structures import Number, PrefixScan
from symgrad.graph.types import Array, TensorType


def _one(_dtype: DType, _exclusive: bool) -> Number:
    return 1


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
    of_pairs="rule",
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
    return infer_along("linear_recurrence", (is_inexact, is_inexact), (a, b), axis)


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
    of_pairs="rule",
)
