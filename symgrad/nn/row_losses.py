"""Embedding losses: how far vectors along an axis are apart, by their angle or their distance.

Their result has one element for each row, so that is what a mean is over.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, user_source
from symgrad.graph.dtypes import float64
from symgrad.graph.given_arrays import within_memory
from symgrad.graph.node import Tensor
from symgrad.graph.operands import cast, constant, promote_operands
from symgrad.graph.ops.arithmetic import abs, add, floor_divide, multiply, square, subtract
from symgrad.graph.ops.comparison import greater, where
from symgrad.graph.ops.counting import searchsorted
from symgrad.graph.ops.elementwise import broadcast_together, float_operand, float_operands
from symgrad.graph.ops.extrema import maximum, minimum
from symgrad.graph.ops.gathering import gather, iota
from symgrad.graph.ops.reduction import max as max_over
from symgrad.graph.ops.reduction import mean
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.structure import accumulator_dtype
from symgrad.graph.ops.transcendental import rsqrt
from symgrad.graph.public_ops import public
from symgrad.graph.sizes import Dim, divide
from symgrad.nn.class_losses import along_classes, class_weights
from symgrad.nn.losses import above_zero, binary_cross_entropy_with_logits
from symgrad.nn.powers import check_power, power, root
from symgrad.nn.reductions import Reduction, reduced


@public()
def cosine_similarity(x: Any, y: Any, axis: int = -1, *, epsilon: float = 1e-8) -> Tensor:
    """Compute the cosine of the angle between vectors along `axis`: their product over the lengths.

    A length below `epsilon` counts as that, so the cosine of a vector of zeros is 0. The two
    broadcast, and the result does not have `axis`. The gradient to `x` is `y / |y|` less its part
    along `x`, divided by `|x|`.

    >>> sg.run(sg.nn.cosine_similarity(sg.constant([3.0, 0.0]), [1.0, 1.0]))
    array(0.70710677, dtype=float32)
    """
    x, y = float_operands("cosine_similarity", x, y)
    return _cosine(x, y, axis, least=epsilon**2, more=0.0)


@public()
def cosine_distance(x: Any, y: Any, axis: int = -1, *, epsilon: float = 1e-8) -> Tensor:
    """Compute the cosine distance, `1 - cosine_similarity(x, y)`: 0 for one direction, at most 2.

    >>> sg.run(sg.nn.cosine_distance(sg.constant([3.0, 0.0]), [-1.0, 0.0]))
    array(2., dtype=float32)
    """
    return subtract(1, cosine_similarity(x, y, axis, epsilon=epsilon))


@public()
def cosine_embedding(
    x: Any, y: Any, t: Any, axis: int = -1, *, margin: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Compute the cosine embedding loss of pairs of vectors along `axis`.

    Where `t` is 1 it is `1 - cos`, and where `t` is -1 it is `max(0, cos - margin)`, of the cosine
    of their angle. `t` does not have `axis`. As in PyTorch, 1e-12 is added to each squared length.

    >>> sg.run(sg.nn.cosine_embedding(sg.constant([[1.0, 0.0]]), [[0.0, 1.0]], [1]))
    array(1., dtype=float32)
    """
    x, y = float_operands("cosine_embedding", x, y)
    cosine = _cosine(x, y, axis, least=0.0, more=1e-12)
    losses = where(greater(t, 0), subtract(1, cosine), above_zero(subtract(cosine, margin)))
    return reduced("cosine_embedding", losses, reduction)


def _cosine(x: Tensor, y: Tensor, axis: int, *, least: float, more: float) -> Tensor:
    """Return the cosine, with squared lengths that are `least` at least, after `more` is added."""
    # Squares of 16-bit floats overflow from 256 on.
    wide = accumulator_dtype(x.dtype)
    sides = cast(x, wide), cast(y, wide)
    least = max(least, math.ldexp(1.0, -1022 if wide is float64 else -126))  # it is not 0
    inverse = [rsqrt(maximum(add(sum_over(square(z), axis), more), least)) for z in sides]
    cosine = multiply(multiply(sum_over(multiply(*sides), axis), inverse[0]), inverse[1])
    return cast(cosine, x.dtype)


@public(known_as=["triplet_margin_loss", "triplet_margin"])
def triplet(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    *,
    axis: int = -1,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the triplet loss: `max(0, margin + |anchor - positive| - |anchor - negative|)`.

    Distances are Euclidean, of vectors along `axis`; as in PyTorch, `epsilon` is added to each
    difference. With `swap` the negative is compared with what is nearer to it, anchor or positive.
    Vectors that are equal have a gradient of 0 if `epsilon` is 0.

    F. Schroff, D. Kalenichenko, J. Philbin, "FaceNet: a unified embedding for face recognition and
    clustering", 2015.

    >>> sg.run(sg.nn.triplet(sg.constant([0.0, 0.0]), [3.0, 4.0], [0.0, 5.0], epsilon=0))
    array(1., dtype=float32)
    """
    far = _distance("triplet", anchor, negative, axis, epsilon)
    if swap:
        far = minimum(far, _distance("triplet", positive, negative, axis, epsilon))
    near = _distance("triplet", anchor, positive, axis, epsilon)
    return reduced("triplet", above_zero(add(subtract(near, far), margin)), reduction)


def _distance(op: str, x: Any, y: Any, axis: int, epsilon: float) -> Tensor:
    x, y = float_operands(op, x, y)
    apart = _apart(x, y, epsilon)
    return cast(root(sum_over(square(apart), axis), 2), x.dtype.real)


def _apart(x: Tensor, y: Tensor, epsilon: float) -> Tensor:
    """Return the differences, of complex numbers their magnitudes, where powers do not overflow."""
    wide = accumulator_dtype(x.dtype)  # squares of 16-bit floats overflow from 256 on
    apart = add(subtract(cast(x, wide), cast(y, wide)), epsilon)
    return abs(apart) if apart.dtype.is_complex else apart


@public()
def pairwise_distance(
    x: Any, y: Any, p: float = 2.0, *, epsilon: float = 1e-6, keepdims: bool = False
) -> Tensor:
    """Pairwise distance: the Lp norm of `x - y + epsilon` along the last axis, for pairs of rows.

    The norm is `sum(abs(d)**p) ** (1 / p)` for a positive `p`, 2 for Euclidean, 1 for Manhattan,
    and the greatest `abs(d)` for infinity, Chebyshev. The two broadcast; the result has the other
    axes, and with `keepdims` the last one of size 1. Its dtype is what the two promote to, integers
    become float32, and a 16-bit float is rounded once. Powers must not overflow. Distances of
    complex numbers are those of magnitudes, and real.

    The gradient to `x` is `sign(d) * (abs(d) / distance) ** (p - 1)`, that to `y` is minus this.
    Rows that are equal have a gradient of 0 if `epsilon` is 0, as in PyTorch, and so has an element
    that is 0. For infinity equals share it.

    Raises `ShapeError` for shapes that do not broadcast and for scalars, `GraphError` for a `p`
    that is not positive, `DTypeError` for one that is no number. The formula is PyTorch's.

    >>> sg.run(sg.nn.pairwise_distance(sg.constant([[3.0, 4.0]]), [[0.0, 0.0]], epsilon=0.0))
    array([5.], dtype=float32)
    """
    op = "pairwise_distance"
    exponent = check_power(op, p)
    x, y = (float_operand(side) for side in promote_operands(op, x, y))
    x, y = broadcast_together(op, x=x, y=y)
    if x.ndim == 0:
        problem = f"x: {x.type} and y: {y.type} have no axis for the norm"
        raise ShapeError(op, problem, source=user_source())
    apart = _apart(x, y, epsilon)
    if math.isinf(exponent):
        return cast(max_over(abs(apart), -1, keepdims=keepdims), x.dtype.real)
    powers = power(apart if exponent == 2 else abs(apart), exponent)
    return cast(root(sum_over(powers, -1, keepdims=keepdims), exponent), x.dtype.real)


@public()
def pdist(x: Any, p: float = 2.0) -> Tensor:
    """Distances within a set: the Lp norm of the difference of each pair of the rows of `x`.

    `x` is (*batch, n, features), the result (*batch, n * (n - 1) / 2): the distances from row 0 to
    rows 1, 2, ..., then those from row 1 to rows 2, 3, ..., the upper triangle of their matrix.
    Norm, dtype and gradient are those of `pairwise_distance` without its epsilon, so of rows that
    are equal the gradient is 0. Of fewer than two rows there is no pair.

    >>> sg.run(sg.nn.pdist([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    array([5.       , 1.       , 4.2426405], dtype=float32)

    Raises `ShapeError` for what has no rows, `GraphError` for a `p` that is not positive,
    `DTypeError` for one that is no number.
    """
    x = float_operand(x)
    check_power("pdist", p)
    if x.ndim < 2:
        problem = f"x: {x.type} has no axes for rows and for features"
        raise ShapeError("pdist", problem, source=user_source())
    axis = x.ndim - 2
    first, second = (gather(x, [place], axis) for place in _pairs(x.shape[axis]))
    return pairwise_distance(first, second, p, epsilon=0.0)


def _pairs(count: Dim) -> tuple[Tensor, Tensor]:
    """Return the first and the second of each pair of `count` rows, in the order of the first."""
    if isinstance(count, int):
        with within_memory("pdist", f"a pair of each two of {count} rows"):
            first, second = np.triu_indices(count, 1)
        return constant(first), constant(second)
    # Before the pairs of row i are those of i rows, of which row r is the first of n - 1 - r.
    row, pair = iota((count,), 0), iota((divide(count * (count - 1), 2),), 0)
    before = subtract(multiply(row, count - 1), floor_divide(multiply(row, subtract(row, 1)), 2))
    found = subtract(searchsorted(before, pair, side="right"), 1)
    return found, add(subtract(pair, gather(before, [found], 0)), add(found, 1))


@public()
def multilabel_soft_margin(
    x: Any, t: Any, axis: int = -1, *, weights: Any = None, reduction: Reduction = "mean"
) -> Tensor:
    """Compute the mean over the classes along `axis` of the binary cross-entropy of each.

    `x` are logits and `t` is 1 for each class that an example belongs to, of which there may be
    any number, and 0 for the others. The vector `weights` multiplies what each class contributes.

    >>> sg.run(sg.nn.multilabel_soft_margin(sg.constant([[0.0, 0.0]]), [[1, 1]]))
    array(0.6931472, dtype=float32)
    """
    losses = binary_cross_entropy_with_logits(x, t, reduction="none")
    of_class = class_weights("multilabel_soft_margin", weights, losses, axis)
    if of_class is not None:
        losses = multiply(losses, along_classes(of_class, axis, losses.ndim))
    return reduced("multilabel_soft_margin", mean(losses, axis), reduction)
