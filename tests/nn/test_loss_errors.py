"""What losses refuse, with the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.refusals import assert_refused

X = sg.placeholder((3, 4), name="x")
L, B = sg.placeholder((3,), "int64"), sg.placeholder((3,), "bool")
TEXTS = sg.placeholder((3, 1), "int64")
BAD: Any = "max"  # no reduction

_ROWS = [
    (lambda: sg.nn.nll(X, X), sg.DTypeError, "nll: labels: f32[3, 4] are no classes"),
    (lambda: sg.nn.nll(X, sg.zeros((3, 4), "int32")), sg.ShapeError,
     "nll: integer labels: i32[3, 4] need one axis fewer than log_p: f32[3, 4]"),
    (lambda: sg.nn.cross_entropy(X, B), sg.DTypeError,
     "cross_entropy: labels: bool[3] are neither classes nor probabilities"),
    (lambda: sg.nn.cross_entropy(X, X, ignore_index=1), sg.DTypeError,
     "cross_entropy: labels: f32[3, 4] are probabilities, of which ignore_index tells none"),
    (lambda: sg.nn.cross_entropy(X, L, weights=[1.0, 2.0]), sg.ShapeError,
     "cross_entropy: weights: f32[2] are not one for each of 4 classes"),
    (lambda: sg.nn.multilabel_soft_margin(X, X, weights=2.0), sg.ShapeError,
     "multilabel_soft_margin: weights: f32[] are not one for each of 4 classes"),
    (lambda: sg.nn.cross_entropy(X, L, label_smoothing=1.5), sg.GraphError,
     "cross_entropy: label_smoothing 1.5 is not in [0, 1]"),
    (lambda: sg.nn.multi_margin(X, L, p=3), sg.GraphError, "multi_margin: p 3 is neither 1 nor 2"),
    (lambda: sg.nn.multilabel_margin(X, X), sg.DTypeError,
     "multilabel_margin: targets: f32[3, 4] are no classes"),
    (lambda: sg.nn.multilabel_margin(X, L), sg.ShapeError,
     "multilabel_margin: targets: i64[3] have not the axes of x: f32[3, 4]"),
    (lambda: sg.nn.multilabel_margin(X, sg.zeros((3, 0), "int64")), sg.ShapeError,
     "multilabel_margin: targets: i64[3, 0] have no room for a class in axis 1"),
    (lambda: sg.nn.multilabel_margin(X, sg.zeros((2, 4), "int64")), sg.ShapeError,
     "multilabel_margin: sizes differ: 2 in axis 0 of targets: i64[2, 4], "
     "3 in axis 0 of lists of x: i64[3, 4]"),
    (lambda: sg.nn.multilabel_margin(X, TEXTS, reduction=BAD), sg.GraphError,
     "multilabel_margin: reduction 'max' is none of mean, sum, none"),
    (lambda: sg.nn.pairwise_distance(X, X, -1), sg.GraphError,
     "pairwise_distance: p is -1, it must be positive"),
    (lambda: sg.nn.pairwise_distance(X, X, BAD), sg.DTypeError,
     "pairwise_distance: p is 'max', not a number"),
    (lambda: sg.nn.pairwise_distance(X, sg.ones(3)), sg.ShapeError,
     "pairwise_distance: shapes do not broadcast: 4 in axis -1 of x: f32[3, 4], "
     "3 in axis -1 of y: f32[3]"),
    (lambda: sg.nn.pairwise_distance(1.0, 2.0), sg.ShapeError,
     "pairwise_distance: x: f32[] and y: f32[] have no axis for the norm"),
    (lambda: sg.nn.smooth_l1(X, X, -1.0), sg.GraphError, "smooth_l1: beta -1.0 is negative"),
    (lambda: sg.nn.focal(X, X, gamma=-1.0), sg.GraphError, "focal: gamma -1.0 is negative"),
    (lambda: sg.nn.kl_div(X, X, reduction=BAD), sg.GraphError,
     "kl_div: reduction 'max' is none of mean, sum, none"),
    (lambda: sg.nn.ctc(X, L, L, L), sg.ShapeError,
     "ctc: log_probs: f32[3, 4] do not have the axes of time, batch and classes"),
    (lambda: sg.nn.ctc(sg.zeros((5, 3, 4)), L, L, L), sg.ShapeError,
     "ctc: labels: i64[3] do not have the axes of batch and length"),
    (lambda: sg.nn.ctc(sg.zeros((5, 3, 4)), X, L, L), sg.DTypeError,
     "ctc: labels: f32[3, 4] are no integers"),
    (lambda: sg.nn.ctc(sg.zeros((5, 2, 4)), TEXTS, L, L), sg.ShapeError,
     "ctc: sizes differ: 3 in axis 0 of labels: i64[3, 1], "
     "2 in axis 0 of the batch of log_probs: i64[2, 1]"),
    (lambda: sg.nn.ctc(sg.zeros((5, 3, 4)), TEXTS, L, L, blank=4), sg.GraphError,
     "ctc: blank 4 is none of 4 classes"),
    (lambda: sg.nn.accuracy(X, X), sg.DTypeError, "accuracy: labels: f32[3, 4] are no integers"),
    (lambda: sg.nn.accuracy(L, L), sg.ShapeError,
     "accuracy: labels: i64[3] need one axis fewer than scores: i64[3]"),
    (lambda: sg.nn.confusion_matrix(L, sg.constant(1), 3), sg.ShapeError,
     "confusion_matrix: ranks differ: 1 of predictions: i64[3], 0 of labels: i64[]"),
    (lambda: sg.nn.auc(X, L), sg.ShapeError,
     "auc: ranks differ: 1 of labels: i64[3], 2 of scores: i64[3, 4]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), _ROWS, ids=[row[2] for row in _ROWS])
def test_a_bad_operand_of_a_loss_is_refused(call, error, text):
    assert_refused(call, error, f"{text}\n  --> <here>")


@pytest.mark.parametrize("label", [4, -1, -5])
@pytest.mark.parametrize("loss", [sg.nn.cross_entropy, sg.nn.nll, sg.nn.multi_margin])
@pytest.mark.parametrize("wants", ["value", "gradient"])
def test_a_label_of_no_class_stops_the_program(label, loss, wants):
    x, y = sg.placeholder((3, 4)), sg.placeholder((3,), "int64")
    value = loss(x, y)
    result = value if wants == "value" else sg.gradients(value, [x])[0]
    step = sg.compile([x, y], result)
    message = f"index {label} is out of range for .* of size.* 4"
    with pytest.raises(sg.IndexOutOfRangeError, match=message) as caught:
        step(np.zeros((3, 4), np.float32), np.array([0, label, 1]))
    assert caught.value.source is not None
    assert caught.value.source.file == __file__
    assert np.isfinite(step(np.zeros((3, 4), np.float32), np.array([0, 3, 1]))).all()


def test_an_ignored_label_may_be_any_number():
    x, y = sg.placeholder((3, 4)), sg.placeholder((3,), "int64")
    loss = sg.nn.cross_entropy(x, y, ignore_index=-100)
    step = sg.compile([x, y], [loss, *sg.gradients(loss, [x])])
    value, _ = step(np.zeros((3, 4), np.float32), np.array([0, -100, 1]))
    np.testing.assert_allclose(value, np.log(4), rtol=1e-6)
    with pytest.raises(sg.IndexOutOfRangeError, match="index -1 is out of range"):
        step(np.zeros((3, 4), np.float32), np.array([0, -100, -1]))
