"""Rows of the table of layers: losses, whose batch are predictions and targets."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import symgrad as sg
from tests.nn.layer import Layer
from tests.support.case import Input, Real, Truth, Whole

_X, _Y = Real((3, 4)), Real((3, 4), 3.0, 5.0)
_P = Real((3, 4), 0.1, 0.9)
_LABELS = Whole((3,), 0, 4)
_WEIGHTS = Real((4,), 0.5, 2.0)


def _pair(name: str, *inputs: Input, **arguments: Any) -> Layer:
    """Return the row of a loss whose operands all have the batch."""
    build: Callable[..., Any] = partial(getattr(sg.nn, name), **arguments)
    batched = tuple(place for place, given in enumerate(inputs) if len(given.shape) > 0)
    return Layer(name, build, inputs, batched)


def _signed(name: str, *inputs: Input, **arguments: Any) -> Layer:
    """Return the row of a loss whose last operand is 1 or -1."""

    def build(*operands: Any) -> Any:
        *others, truth = operands
        sign = sg.where(truth, sg.ones((), others[0].dtype), -1)
        return getattr(sg.nn, name)(*others, sign, **arguments)

    return Layer(name, build, inputs, tuple(range(len(inputs))))


def _weighted_classes(logits: Any, labels: Any, weights: Any) -> Any:
    return sg.nn.cross_entropy(logits, labels, weights=weights, label_smoothing=0.1, ignore_index=3)


def _ctc(scores: Any, labels: Any, steps: Any, lengths: Any) -> Any:
    # The batch comes first here, as the table wants it.
    log_probs = sg.nn.log_softmax(sg.permute_dims(scores, (1, 0, 2)))
    return sg.nn.ctc(log_probs, labels, steps, lengths, reduction="none")


LOSSES = (
    _pair("cross_entropy", _X, _LABELS),
    Layer("weighted_cross_entropy", _weighted_classes, (_X, _LABELS, _WEIGHTS), (0, 1)),
    Layer("cross_entropy_of_probabilities", partial(sg.nn.cross_entropy, reduction="none"),
          (_X, _P), (0, 1)),
    Layer("cross_entropy_of_pixels", partial(sg.nn.cross_entropy, axis=1, reduction="none"),
          (Real((3, 4, 2)), Whole((3, 2), 0, 4)), (0, 1)),
    _pair("nll", _X, _LABELS, ignore_index=1, reduction="sum"),
    _pair("multi_margin", _X, _LABELS, margin=7.0),
    _pair("multilabel_margin", _X, Whole((3, 4), -1, 4), reduction="none"),
    _pair("multilabel_soft_margin", _X, _P),
    _pair("binary_cross_entropy", _P, _P),
    _pair("binary_cross_entropy_with_logits", _X, _P, positive_weights=2.0),
    _pair("focal", _X, _P),
    _pair("kl_div", _X, _P, reduction="none"),
    _pair("l1", _X, _Y),
    _pair("mse", _X, _Y, reduction="sum"),
    _pair("smooth_l1", _X, _Y, beta=9.0),
    _pair("huber", _X, _Y, delta=0.5),
    _pair("poisson_nll", _X, _P, full=True),
    _pair("gaussian_nll", _X, _X, _P, full=True),
    _signed("hinge", _X, Truth((3, 4))),
    _signed("hinge_embedding", _P, Truth((3, 4))),
    _signed("soft_margin", _X, Truth((3, 4))),
    _signed("margin_ranking", _X, _X, Truth((3, 4)), margin=5.0),
    _signed("cosine_embedding", _X, _X, Truth((3,)), margin=-1.5),
    _pair("cosine_similarity", _X, _Y),
    _pair("cosine_distance", _X, _Y),
    _pair("pairwise_distance", _X, _Y),
    Layer("pairwise_distance_of_fractional_power",
          partial(sg.nn.pairwise_distance, p=1.5, keepdims=True),
          (_P, Real((3, 4), -0.9, -0.1)), (0, 1)),
    Layer("pairwise_distance_infinite", partial(sg.nn.pairwise_distance, p=math.inf), (_X, _Y),
          (0, 1)),
    _pair("triplet", _X, _X, _Y, margin=9.0),
    Layer("ctc", _ctc, (Real((3, 5, 4)), Whole((3, 2), 1, 4), Whole((3,), 4, 6), Whole((3,), 0, 3)),
          (0, 1, 2, 3), slack=4.0),
)  # fmt: skip
