"""Cumulative log-sum-exp, and weighted sums of exponentials, by which it is differentiated.

Both carry a pair (m, s) that stands for s * exp(m), where m is the greatest exponent so far: the
online form of a stable log-sum-exp (Milakov and Gimelshein, "Online normalizer calculation for
softmax", arXiv:1805.02867). Combining two pairs takes one exponential, of a difference below 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.graph.node import Grads, Node, Tensor
from symgrad.graph.opdef import define
from symgrad.graph.ops.arithmetic import multiply, negative
from symgrad.graph.ops.comparison import equal, where
from symgrad.graph.ops.elementwise import filled_like, float_operand, is_float, widen_halves
from symgrad.graph.ops.prefix_scans import (
    accumulate_reference,
    infer_scan,
    scan_along,
    scan_axis,
    sliced_reference,
    stacked,
)
from symgrad.graph.ops.structure import accumulator_dtype
from symgrad.graph.public_ops import public
from symgrad.graph.scalars import Scalars
from symgrad.graph.structures import Accumulators, PrefixScan, ScalarExpr
from symgrad.graph.types import Array, TensorType


@public(accumulates=np.logaddexp)
def logcumsumexp(x: Any, axis: int = -1) -> Tensor:
    """Cumulative log-sum-exp: the logarithm of the cumulative sum of exp(x) along `axis`.

    The result has the shape of `x`; integers become float32. Nothing overflows: no exponential of
    anything above 0 is taken. It is -inf as long as `x` is, and nan from the first nan on. The
    gradient to x[i] is the sum of g[j] * exp(x[i] - y[j]) over j >= i, and 0 where x is -inf.
    Raises `ShapeError` for an axis that `x` does not have.

    >>> sg.run(sg.logcumsumexp([1000.0, 1000.0]))
    array([1000.    , 1000.6931], dtype=float32)
    """
    return scan_axis(logcumsumexp_op, float_operand(x), axis)


def _combine(s: Scalars[ScalarExpr], first: Accumulators, then: Accumulators) -> Accumulators:
    """Add two pairs; of two equal exponents, also infinite ones, the difference is 0."""
    (m, a), (n, b) = first, then
    dtype = s.dtype_of(m)
    apart = s.call("neg", s.call("abs", s.call("sub", m, n)))
    small = s.call("exp", s.select(s.call("eq", m, n), s.const(0, dtype), apart))
    is_first = s.call("ge", m, n)
    kept_a = s.select(is_first, a, s.call("mul", a, small))
    kept_b = s.select(is_first, s.call("mul", b, small), b)
    return s.call("max", m, n), s.call("add", kept_a, kept_b)


def _logcumsumexp_grad(
    node: Node, g: Tensor, *, axis: int, reverse: bool, exclusive: bool
) -> Grads:
    (x,) = node.inputs
    y = node.output
    # Where y is -inf all of x so far is, and its weight is 0 whatever stands for y.
    finite = where(equal(y, filled_like(y, -np.inf)), filled_like(y, 0), y)
    return (_transposed(g, negative(finite), x, axis, reverse, exclusive),)


def _transposed(
    w: Tensor, x: Tensor, z: Tensor, axis: int, reverse: bool, exclusive: bool
) -> Tensor:
    """Return the weighted sum in the other direction."""
    op = exponential_sum_op
    return scan_along(op, w, x, z, axis=axis, reverse=not reverse, exclusive=exclusive)


def _minus_infinity(*_: object) -> float:
    return -np.inf


def _logcumsumexp_kernel(x: TensorType, *, axis: int, reverse: bool, exclusive: bool) -> PrefixScan:
    wide = accumulator_dtype(x.dtype)
    return PrefixScan(
        axis,
        reverse,
        exclusive,
        dtypes=(wide, wide),
        identity=(-np.inf, 0),
        item=lambda s, x: (s.cast(x, wide), s.const(1, wide)),
        combine=_combine,
        finish=lambda s, running, _x: s.cast(
            s.call("add", running[0], s.call("log", running[1])), x.dtype
        ),
    )


logcumsumexp_op = define(
    "logcumsumexp",
    infer=infer_scan("logcumsumexp", is_float),
    reference=accumulate_reference(np.logaddexp, _minus_infinity),
    grad=_logcumsumexp_grad,
    kernel=_logcumsumexp_kernel,
)


# ------------------------------------------------- weighted sums, of w[j] * exp(x[j] + z[i])


def _exponential_sum_reference(
    w: Array, x: Array, z: Array, *, axis: int, reverse: bool, exclusive: bool
) -> Array:
    wide_w, wide_x, wide_z = widen_halves(w, x, z)
    nothing = wide_w.sum(axis)
    start = np.full_like(nothing, -np.inf), np.zeros_like(nothing)

    def step(state: tuple[Array, Array], w: Array, x: Array) -> tuple[Array, Array]:
        m = np.maximum(state[0], x)
        offset = np.where(np.isinf(m), 0, m)
        return m, state[1] * np.exp(state[0] - offset) + w * np.exp(x - offset)

    states = sliced_reference(step, start, (wide_w, wide_x), axis, reverse)
    taken = states[:-1] if exclusive else states[1:]
    exponents = stacked([m for m, _ in taken], wide_w, axis, reverse)
    sums = stacked([s for _, s in taken], wide_w, axis, reverse)
    return np.asarray(sums * np.exp(np.where(np.isinf(exponents), 0, exponents) + wide_z), w.dtype)


def _exponential_sum_grad(
    node: Node, g: Tensor, *, axis: int, reverse: bool, exclusive: bool
) -> Grads:
    w, x, z = node.inputs
    of_w = _transposed(g, z, x, axis, reverse, exclusive)
    return of_w, multiply(w, of_w), multiply(g, node.output)


def _exponential_sum_kernel(
    w: TensorType, x: TensorType, z: TensorType, *, axis: int, reverse: bool, exclusive: bool
) -> PrefixScan:
    wide = accumulator_dtype(w.dtype)

    def finish(s: Scalars[ScalarExpr], running: Accumulators, *elements: ScalarExpr) -> ScalarExpr:
        exponent, total = running
        offset = s.cast(elements[2], wide)
        value = s.call("mul", total, s.call("exp", s.call("add", exponent, offset)))
        return s.cast(value, w.dtype)

    return PrefixScan(
        axis,
        reverse,
        exclusive,
        dtypes=(wide, wide),
        identity=(-np.inf, 0),
        item=lambda s, w, x, _z: (s.cast(x, wide), s.cast(w, wide)),
        combine=_combine,
        finish=finish,
    )


# The sum over the elements j up to i, in the order of the scan, of w[j] * exp(x[j] + z[i]). Seen
# from i or from j that is the same, so the adjoint is the sum in the other direction.
exponential_sum_op = define(
    "exponential_sum",
    infer=infer_scan("exponential_sum", is_float, is_float, is_float),
    reference=_exponential_sum_reference,
    grad=_exponential_sum_grad,
    kernel=_exponential_sum_kernel,
)
