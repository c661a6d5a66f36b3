"""Loss functions: the error of each example, and its mean, its sum or all of it."""

from __future__ import annotations

from typing import Any, Literal

from symgrad.errors import DTypeError, GraphError, ShapeError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, normalize_axis
from symgrad.graph.ops.arithmetic import clip, multiply, negative, square, subtract
from symgrad.graph.ops.elementwise import float_operand
from symgrad.graph.ops.indexing import take_along_axis
from symgrad.graph.ops.reduction import mean
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.structure import expand_dims, squeeze
from symgrad.graph.public_ops import public
from symgrad.nn.activations import log_softmax, softplus

Reduction = Literal["mean", "sum", "none"]


def _reduced(op: str, losses: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "none":
        return losses
    if reduction not in ("mean", "sum"):
        raise GraphError(
            op, f"reduction {reduction!r} is none of mean, sum, none", source=user_source()
        )
    return mean(losses) if reduction == "mean" else sum_over(losses)


@public()
def cross_entropy(
    logits: Any, labels: Any, axis: int = -1, *, reduction: Reduction = "mean"
) -> Tensor:
    """Compute `-log(softmax(logits))` at the true class, for each example along the other axes.

    Integer `labels` name the class and have no axis for it; float ones are its probabilities.
    """
    logits, labels = float_operand(logits), as_tensor(labels)
    axis = normalize_axis("cross_entropy", axis, logits.ndim)
    scores = log_softmax(logits, axis)
    if labels.dtype.is_float:
        losses = negative(sum_over(multiply(labels, scores), axis))
    elif labels.dtype.is_integer:
        losses = negative(_score_of_class(scores, labels, axis))
    else:
        raise DTypeError(
            "cross_entropy",
            f"labels: {labels.type} are neither classes nor probabilities",
            source=user_source(),
        )
    return _reduced("cross_entropy", losses, reduction)


def _score_of_class(scores: Tensor, labels: Tensor, axis: int) -> Tensor:
    if labels.ndim != scores.ndim - 1:
        raise ShapeError(
            "cross_entropy",
            f"integer labels: {labels.type} need one axis fewer than logits: {scores.type}",
            source=user_source(),
        )
    places = expand_dims(labels, axis=axis)
    return squeeze(take_along_axis(scores, places, axis=axis), axis)


@public()
def binary_cross_entropy_with_logits(
    logits: Any, labels: Any, *, reduction: Reduction = "mean"
) -> Tensor:
    """Compute `-y * log(p) - (1 - y) * log(1 - p)` for `p = sigmoid(logits)`, without overflow."""
    logits = float_operand(logits)
    # = log(1 + e**x) - x * y
    losses = subtract(softplus(logits), multiply(logits, labels))
    return _reduced("binary_cross_entropy_with_logits", losses, reduction)


@public()
def mse(predictions: Any, targets: Any, *, reduction: Reduction = "mean") -> Tensor:
    """Compute the squared difference."""
    return _reduced("mse", square(subtract(float_operand(predictions), targets)), reduction)


@public()
def huber(
    predictions: Any, targets: Any, delta: float = 1.0, *, reduction: Reduction = "mean"
) -> Tensor:
    """Compute half the squared difference up to `delta`, and from there on linearly."""
    difference = subtract(float_operand(predictions), targets)
    # = d**2 / 2 for |d| <= delta, else delta * (|d| - delta / 2)
    near = clip(difference, -delta, delta)
    losses = multiply(near, subtract(difference, multiply(near, 0.5)))
    return _reduced("huber", losses, reduction)
