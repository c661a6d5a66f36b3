"""Rows of the table for losses, and for the ops by which they read what a label names."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph.dtypes import float32, float64
from symgrad.graph.ops.picking import checked_index, pick
from tests.support.case import Case, Real, Whole

_X = Real((4, 3))
_Y = Real((4, 3), 3.0, 5.0)  # away from where the two meet
_P = Real((4, 3), 0.1, 0.9)
_DTYPES = (float32, float64)
_LABELS = Whole((4,), 0, 3)


def _log_softmax(x: Any) -> Any:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def _cross_entropy(x: Any, labels: Any, weights: Any) -> Any:
    scores = _log_softmax(x)
    is_counted = labels != 1
    own = np.where(is_counted, weights[labels], 0)
    hard = -own * scores[np.arange(4), labels]
    even = -(weights * scores).mean(-1) * is_counted
    return (0.75 * hard + 0.25 * even).sum() / own.sum()


def _triplet(anchor: Any, positive: Any, negative: Any) -> Any:
    near, far = (np.sqrt(((anchor - z + 1e-6) ** 2).sum(-1)) for z in (positive, negative))
    return np.maximum(near - far + 9, 0).mean()


def _cosine(x: Any, y: Any) -> Any:
    return (x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1))


def _focal(x: Any, y: Any) -> Any:
    p = 1 / (1 + np.exp(-x))
    hits = (y * np.log(p) + (1 - y) * np.log(1 - p)) * (y * 0.25 + (1 - y) * 0.75)
    return -hits * (p * (1 - y) + (1 - p) * y) ** 1.5


def _gaussian(x: Any, t: Any, var: Any) -> Any:
    return ((np.log(var) + (x - t) ** 2 / var) / 2).mean()


def _ctc_of_one_label(x: Any) -> Any:
    """Return the loss of the text "1" in three steps, by all of its paths."""
    paths = [(0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 1, 1), (1, 1, 0), (1, 1, 1)]
    scores = _log_softmax(x)
    return -np.log(sum(np.exp(sum(scores[t, 0, s] for t, s in enumerate(p))) for p in paths))


def _row(name: str, *row: Any, slack: float = 1.0, symbolic: bool = True) -> Case:
    """Return the row of a composition, whose ops have rows in every dtype of their own."""
    build, expected, inputs = row
    return Case(name, None, build, expected, inputs, _DTYPES, slack=slack, symbolic=symbolic)


LOSS_CASES: tuple[Case, ...] = (
    Case("pick", "pick", pick, lambda x, i: np.take_along_axis(x, i[..., None], -1)[..., 0],
         (Real((2, 4, 3)), Whole((2, 4), 0, 3)),
         also=(((3,), ()), ((0, 3), (0,)), ((1, 3), (1,)))),
    Case("checked_index", "checked_index", lambda i: checked_index(i, 5), lambda i: i,
         (Whole((4,), 0, 5),), order=0, also=(((),), ((0,),))),
    _row("weighted_cross_entropy",
         lambda x, labels, weights: sg.nn.cross_entropy(
             x, labels, weights=weights, label_smoothing=0.25, ignore_index=1),
         _cross_entropy, (_X, _LABELS, Real((3,), 0.5, 2.0)), slack=16),
    _row("nll", partial(sg.nn.nll, reduction="none"),
         lambda x, labels: -x[np.arange(4), labels], (_X, _LABELS)),
    _row("focal", partial(sg.nn.focal, gamma=1.5, reduction="none"), _focal, (_X, _P),
         slack=16),
    _row("binary_cross_entropy_of_probabilities", sg.nn.binary_cross_entropy,
         lambda p, y: -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean(), (_P, _P), slack=16),
    _row("kl_div", partial(sg.nn.kl_div, reduction="none"),
         lambda q, p: p * (np.log(p) - q), (_X, _P), slack=8),
    _row("poisson_nll", sg.nn.poisson_nll, lambda x, t: (np.exp(x) - t * x).mean(), (_X, _P),
         slack=8),
    _row("gaussian_nll", sg.nn.gaussian_nll, _gaussian, (_X, _X, Real((4, 3), 0.5, 2.0)),
         slack=32),
    _row("cosine_similarity", sg.nn.cosine_similarity, _cosine, (_X, _Y), slack=8),
    _row("triplet", partial(sg.nn.triplet, margin=9.0), _triplet, (_X, _X, _Y), slack=16),
    _row("ctc",
         lambda x: sg.nn.ctc(sg.nn.log_softmax(x), [[1]], [3], [1], reduction="none"),
         lambda x: np.reshape(_ctc_of_one_label(x), (1,)), (Real((3, 1, 3)),), symbolic=False,
         slack=16),
)  # fmt: skip
