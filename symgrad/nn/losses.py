"""Elementwise losses: the error of each prediction, and its mean, its sum or all of it.

Those of examples with a class are in `class_losses`, those of rows in `row_losses`.
"""

from __future__ import annotations

import math
from typing import Any

from symgrad.errors import GraphError, user_source
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast
from symgrad.graph.ops.arithmetic import (
    abs,
    add,
    divide,
    isfinite,
    isinf,
    multiply,
    negative,
    square,
    subtract,
)
from symgrad.graph.ops.comparison import equal, greater, less, logical_and, where
from symgrad.graph.ops.conversion import stop_gradient
from symgrad.graph.ops.elementwise import filled_like, float_operand, float_operands
from symgrad.graph.ops.extrema import clip
from symgrad.graph.ops.transcendental import exp, log, log1p, pow, sigmoid
from symgrad.graph.public_ops import public
from symgrad.nn.activations import softplus
from symgrad.nn.reductions import Reduction, reduced


@public(known_as=["mse_loss", "mean_squared_error", "MSELoss"])
def mse(predictions: Any, targets: Any, *, reduction: Reduction = "mean") -> Tensor:
    """Compute the squared difference, its mean unless `reduction` says otherwise.

    >>> sg.run(sg.nn.mse([1.0, 4.0], [0.0, 1.0]))
    array(5., dtype=float32)
    """
    return reduced("mse", square(subtract(float_operand(predictions), targets)), reduction)


@public(known_as=["mean_absolute_error", "L1Loss"])
def l1(predictions: Any, targets: Any, *, reduction: Reduction = "mean") -> Tensor:
    """Compute the absolute difference; its gradient at 0 is 0.

    The two broadcast; the mean is over all elements. Integers become float32.

    >>> sg.run(sg.nn.l1(sg.constant([1.0, 4.0]), [3.0, 4.0]))
    array(1., dtype=float32)
    """
    return reduced("l1", abs(subtract(float_operand(predictions), targets)), reduction)


@public(known_as=["huber_loss"])
def huber(
    predictions: Any, targets: Any, delta: float = 1.0, *, reduction: Reduction = "mean"
) -> Tensor:
    """Compute half the squared difference up to `delta`, and from there on linearly.

    Huber, "Robust estimation of a location parameter" (1964).

    >>> sg.run(sg.nn.huber([0.5, 3.0], [0.0, 0.0], reduction="none"))
    array([0.125, 2.5  ], dtype=float32)
    """
    difference = subtract(float_operand(predictions), targets)
    return reduced("huber", _huber(difference, delta), reduction)


def _huber(difference: Tensor, delta: float) -> Tensor:
    # = d**2 / 2 for |d| <= delta, else delta * (|d| - delta / 2)
    near = clip(difference, -delta, delta)
    return multiply(near, subtract(difference, multiply(near, 0.5)))


@public()
def smooth_l1(x: Any, t: Any, beta: float = 1.0, *, reduction: Reduction = "mean") -> Tensor:
    """Compute the smooth L1 loss: `huber` with `delta=beta`, divided by `beta`.

    That is `d**2 / (2 * beta)` where `|d| < beta` and `|d| - beta / 2` elsewhere, and `l1` for a
    `beta` of 0. The slope is never above 1. Raises `GraphError` for a negative `beta`.

    R. Girshick, "Fast R-CNN", 2015.

    >>> sg.run(sg.nn.smooth_l1(sg.constant([0.5, 3.0]), [0.0, 0.0], reduction="none"))
    array([0.125, 2.5  ], dtype=float32)
    """
    if beta < 0:
        raise GraphError("smooth_l1", f"beta {beta} is negative", source=user_source())
    difference = subtract(float_operand(x), t)
    losses = divide(_huber(difference, beta), beta) if beta else abs(difference)
    return reduced("smooth_l1", losses, reduction)


@public(known_as=["bce", "BCELoss"])
def binary_cross_entropy(
    p: Any, y: Any, *, weights: Any = None, reduction: Reduction = "mean"
) -> Tensor:
    """Compute `-y * log(p) - (1 - y) * log(1 - p)` for probabilities `p`, where 0 * log(0) is 0.

    So it is 0 where `p` is 0 or 1 and right, and infinite where it is wrong, nan beyond. Where `p`
    comes from a sigmoid, `binary_cross_entropy_with_logits` of what is behind that is finite and
    more accurate. `weights` broadcast with the rest and multiply the loss of each element; the mean
    is over all elements. The gradient to `p` is `(p - y) / (p * (1 - p))`, and its limit 1 or -1
    where `p` is 0 or 1 and right.

    >>> sg.run(sg.nn.binary_cross_entropy(sg.constant([0.0, 0.5]), [0.0, 1.0]))
    array(0.3465736, dtype=float32)
    """
    p, y = float_operands("binary_cross_entropy", p, y)
    no = subtract(1, y)
    of_yes = multiply(y, log(where(logical_and(equal(y, 0), equal(p, 0)), 1, p)))
    of_no = multiply(no, log1p(negative(where(logical_and(equal(no, 0), equal(p, 1)), 0, p))))
    losses = negative(add(of_yes, of_no))
    return reduced("binary_cross_entropy", _times(losses, weights), reduction)


@public(
    known_as=[
        "bce_with_logits",
        "BCEWithLogitsLoss",
        "sigmoid_cross_entropy",
        "weighted_cross_entropy_with_logits",
    ]
)
def binary_cross_entropy_with_logits(
    logits: Any,
    labels: Any,
    *,
    weights: Any = None,
    positive_weights: Any = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute `-y * log(p) - (1 - y) * log(1 - p)` for `p = sigmoid(logits)`, without overflow.

    `positive_weights` multiply the first term alone, `weights` the loss of each element; both
    broadcast with the rest, and the mean is over all elements. The gradient to the logits is
    `sigmoid(logits) - labels`, finite also where a logit is infinite. Both have all digits where
    they are small, of labels 0 and 1.

    >>> sg.run(sg.nn.binary_cross_entropy_with_logits([0.0, 100.0], [1.0, 1.0], reduction="none"))
    array([0.6931472, 0.       ], dtype=float32)
    """
    logits = float_operand(logits)
    losses = _binary_losses(logits, labels, positive_weights)
    return reduced("binary_cross_entropy_with_logits", _times(losses, weights), reduction)


def _binary_losses(x: Tensor, y: Any, positive_weights: Any = None) -> Tensor:
    """Return `w * y * log(1 + e**-x) + (1 - y) * log(1 + e**x)` for w = `positive_weights` or 1."""
    # Either logarithm is log(1 + e**-|x|), and one of them is |x| more. That is multiplied by 0
    # where the label is right: then what is left is no difference.
    positive = greater(x, 0)
    rest = log1p(exp(where(positive, negative(x), x)))
    if positive_weights is None:
        return add(multiply(x, subtract(where(positive, filled_like(x, 1), 0), y)), rest)
    of_yes = cast(as_tensor(positive_weights), x.dtype)
    far = where(positive, subtract(1, y), negative(multiply(of_yes, y)))
    share = add(multiply(subtract(of_yes, 1), y), 1)
    return add(multiply(x, far), multiply(share, rest))


@public()
def focal(
    logits: Any,
    targets: Any,
    alpha: float | None = 0.25,
    gamma: float = 2.0,
    *,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the focal loss: `binary_cross_entropy_with_logits`, where what is right counts less.

    With `p = sigmoid(logits)`, and `q` the probability that is given to the truth, the loss of an
    element is multiplied by `(1 - q)**gamma`, and by `alpha` if its target is 1, by
    `1 - alpha` if it is 0; `alpha=None` leaves that out. A target between 0 and 1 has shares of
    both. Finite for logits of any finite size, and so is the gradient. Raises `GraphError` for a
    negative `gamma`.

    T. Lin and others, "Focal loss for dense object detection", 2017.

    >>> sg.run(sg.nn.focal(sg.constant([0.0]), [1.0], alpha=None))
    array(0.1732868, dtype=float32)
    """
    if gamma < 0:
        raise GraphError("focal", f"gamma {gamma} is negative", source=user_source())
    x, y = float_operands("focal", logits, targets)
    no = subtract(1, y)
    losses = _binary_losses(x, y)
    if gamma:
        missed = add(multiply(sigmoid(x), no), multiply(sigmoid(negative(x)), y))
        # Nothing is missed where a sigmoid underflows. The slope of the power may be infinite
        # there, so it must not be taken; the loss is 0 with or without it.
        is_none = equal(missed, 0)
        losses = multiply(losses, where(is_none, 0, pow(where(is_none, 1, missed), gamma)))
    if alpha is not None:
        losses = multiply(losses, add(multiply(y, alpha), multiply(no, 1 - alpha)))
    return reduced("focal", losses, reduction)


@public(known_as=["kl_divergence", "KLDivLoss"])
def kl_div(
    log_q: Any, p: Any, *, log_target: bool = False, reduction: Reduction = "mean"
) -> Tensor:
    """Compute the Kullback-Leibler divergence, element by element: `p * (log(p) - log_q)`.

    `log_q` is the logarithm of what is predicted, `p` the truth, or with `log_target` its logarithm
    too. Where `p` is 0 it is 0. The mean is over all elements; the divergence of distributions
    along an axis is `sum` over it with `reduction="none"`. The gradient to `log_q` is `-p`.

    >>> sg.run(sg.nn.kl_div(sg.log(sg.constant([0.5, 0.5])), [1.0, 0.0], reduction="sum"))
    array(0.6931472, dtype=float32)
    """
    log_q, p = float_operands("kl_div", log_q, p)
    if log_target:
        is_none = equal(p, -math.inf)
        p, log_p = exp(p), where(is_none, 0, p)
    else:
        is_none = equal(p, 0)
        log_p = log(where(is_none, 1, p))
    log_q = where(logical_and(is_none, isinf(log_q)), 0, log_q)
    return reduced("kl_div", multiply(p, subtract(log_p, log_q)), reduction)


@public()
def poisson_nll(
    x: Any,
    t: Any,
    log_input: bool = True,
    *,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the negative log-likelihood of counts `t` under Poisson distributions.

    `x` is the logarithm of the rates, and the loss `exp(x) - t * x`; without `log_input` it is the
    rates, and the loss `x - t * log(x + epsilon)`. What depends on `t` alone is left out, or with
    `full` is added by Stirling's formula where `t > 1`, as in PyTorch. The mean is over all
    elements. The gradient to `x` is `exp(x) - t`, or `1 - t / (x + epsilon)`.

    >>> sg.run(sg.nn.poisson_nll(sg.constant([0.0]), [3.0]))
    array(1., dtype=float32)
    """
    x, t = float_operands("poisson_nll", x, t)
    if log_input:
        losses = subtract(exp(x), multiply(t, x))
    else:
        losses = subtract(x, multiply(t, log(add(x, epsilon))))
    if full:
        is_large = greater(t, 1)
        count = where(is_large, t, 1)
        log_count = log(count)
        # = log(t!), but for what is of the order of 1 / t
        of_counts = add(subtract(multiply(count, log_count), count), multiply(log_count, 0.5))
        of_counts = add(of_counts, 0.5 * math.log(2 * math.pi))
        losses = add(losses, where(is_large, of_counts, 0))
    return reduced("poisson_nll", losses, reduction)


@public()
def gaussian_nll(
    x: Any,
    t: Any,
    var: Any,
    *,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the negative log-likelihood of `t` under normal distributions of mean `x`.

    It is `(log(var) + (x - t)**2 / var) / 2`, and with `full` the constant `log(2 * pi) / 2` more.
    All three broadcast; the mean is over all elements. A variance below `epsilon` counts as
    `epsilon`, and its gradient is the one there, so that it can grow again, as in PyTorch.

    >>> sg.run(sg.nn.gaussian_nll(sg.constant([1.0]), [3.0], [1.0]))
    array(2., dtype=float32)
    """
    x, t = float_operands("gaussian_nll", x, t)
    given = float_operand(var)
    # What is 0 and has the gradient 1, but of -inf, which does not grow.
    near = where(isfinite(given), given, 0)
    least = add(subtract(near, stop_gradient(near)), epsilon)
    variance = where(less(given, epsilon), least, given)
    apart = subtract(x, t)
    squares = multiply(apart, divide(apart, variance))  # the square alone may overflow
    losses = multiply(add(log(variance), squares), 0.5)
    if full:
        losses = add(losses, 0.5 * math.log(2 * math.pi))
    return reduced("gaussian_nll", losses, reduction)


@public()
def hinge(x: Any, t: Any, *, reduction: Reduction = "mean") -> Tensor:
    """Compute the hinge loss: `max(0, 1 - t * x)` of scores `x` and targets `t` that are 1 or -1.

    The mean is over all elements. The gradient to `x` is `-t` where the margin is missed, also by
    0, and 0 elsewhere.

    >>> sg.run(sg.nn.hinge(sg.constant([0.5, -2.0]), [1.0, -1.0], reduction="none"))
    array([0.5, 0. ], dtype=float32)
    """
    return reduced("hinge", above_zero(subtract(1, multiply(float_operand(x), t))), reduction)


@public()
def hinge_embedding(
    x: Any, t: Any, *, margin: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Compute the hinge loss of distances: `x` where `t` is 1, `max(0, margin - x)` where it is -1.

    >>> sg.run(sg.nn.hinge_embedding(sg.constant([0.5, 0.25]), [1, -1], reduction="none"))
    array([0.5 , 0.75], dtype=float32)
    """
    distances = float_operand(x)
    apart = above_zero(subtract(margin, distances))
    return reduced("hinge_embedding", where(greater(t, 0), distances, apart), reduction)


@public()
def soft_margin(x: Any, t: Any, *, reduction: Reduction = "mean") -> Tensor:
    """Compute the logistic loss, `log(1 + exp(-t * x))`, of targets that are 1 or -1.

    It does not overflow. The mean is over all elements.

    >>> sg.run(sg.nn.soft_margin(sg.constant([0.0]), [1.0]))
    array(0.6931472, dtype=float32)
    """
    return reduced("soft_margin", softplus(negative(multiply(float_operand(x), t))), reduction)


@public()
def margin_ranking(
    x: Any, y: Any, t: Any, *, margin: float = 0.0, reduction: Reduction = "mean"
) -> Tensor:
    """Compute the ranking loss: `max(0, margin - t * (x - y))`.

    `t` is 1 where `x` should be ranked higher, by `margin` at least, and -1 where `y` should. All
    three broadcast; the mean is over all elements. Where the margin is just met the gradients are
    those of a margin that is missed, as in PyTorch.

    >>> sg.run(sg.nn.margin_ranking(sg.constant([1.0, 1.0]), [2.0, 0.0], 1, reduction="none"))
    array([1., 0.], dtype=float32)
    """
    ahead = multiply(subtract(float_operand(x), y), t)
    return reduced("margin_ranking", above_zero(subtract(margin, ahead)), reduction)


def above_zero(x: Tensor) -> Tensor:
    """Return `max(0, x)`, whose gradient at 0 is 1: a margin that is just met is one missed."""
    return where(less(x, 0), 0, x)


def _times(losses: Tensor, weights: Any) -> Tensor:
    if weights is None:
        return losses
    return multiply(losses, cast(as_tensor(weights), losses.dtype))
