"""Metrics: what they count, ties, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from tests.support.evaluators import evaluate_reference

Array = np.ndarray[Any, Any]


def _run(build: Any, *arrays: Any, symbolic: bool = False) -> Array:
    given = [np.asarray(a) for a in arrays]
    shapes = [[f"n{n}" for n in a.shape] if symbolic else a.shape for a in given]
    xs = [sg.placeholder(s, a.dtype) for s, a in zip(shapes, given, strict=True)]
    (found,) = evaluate_reference(Graph(build(*xs), xs), given)
    return found


def _pairs(scores: Array, labels: Array) -> float:
    """Return the share of pairs in the right order, of which a tie is half of one."""
    true, false = scores[labels == 1][:, None], scores[labels == 0]
    return float(((true > false) + 0.5 * (true == false)).mean())


@pytest.mark.parametrize("symbolic", [False, True])
def test_auc_is_the_share_of_pairs_in_order_with_ties_as_halves(symbolic):
    rng = np.random.default_rng(0)
    for levels in (2, 5, 1000):
        scores, labels = rng.integers(0, levels, 60) / 8, rng.integers(0, 2, 60)
        found = _run(sg.nn.auc, scores, labels, symbolic=symbolic)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, _pairs(scores, labels), rtol=1e-15)


def test_auc_of_one_kind_of_labels_is_nan_and_of_equal_scores_a_half():
    for labels in ([1, 1], [0, 0]):
        assert np.isnan(_run(sg.nn.auc, [0.5, 0.7], labels))
    assert (
        _run(sg.nn.auc, np.zeros(5, np.float32), np.array([True, False, True, False, False])) == 0.5
    )
    assert _run(sg.nn.auc, [[-np.inf, np.inf], [0.0, 1.0]], [[0, 1], [0, 0]]) == 1


def test_accuracy_counts_the_greatest_scores_of_which_ties_go_to_the_first():
    scores = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0], [3.0, 0.0, 9.0]])
    assert _run(sg.nn.accuracy, scores, [0, 1, 1]) == np.float32(2 / 3)
    assert _run(sg.nn.accuracy, scores, [1, 1, 2]) == np.float32(2 / 3)
    assert _run(lambda x, y: sg.nn.accuracy(x, y, axis=0), scores, [2, 1, 2]) == 1


@pytest.mark.parametrize("symbolic", [False, True])
def test_top_k_accuracy_agrees_with_sorting(symbolic):
    rng = np.random.default_rng(1)
    scores, labels = rng.integers(0, 4, (50, 6)) / 2, rng.integers(0, 6, 50)
    order = np.argsort(-scores, axis=1, kind="stable")
    for k in (1, 3, 6):
        wanted = (order[:, :k] == labels[:, None]).any(1).mean()
        found = _run(lambda x, y, k=k: sg.nn.top_k_accuracy(x, y, k), scores, labels)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    if symbolic:
        found = _run(lambda x, y: sg.nn.top_k_accuracy(x, y, 2), scores, labels, symbolic=True)
        np.testing.assert_allclose(found, (order[:, :2] == labels[:, None]).any(1).mean())


def test_a_confusion_matrix_has_labels_in_rows_and_predictions_in_columns():
    found = _run(lambda x, y: sg.nn.confusion_matrix(x, y, 3), [[0, 1], [1, 2]], [[0, 1], [0, 1]])
    np.testing.assert_array_equal(found, [[1, 1, 0], [0, 1, 1], [0, 0, 0]])
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    ("predictions", "labels"), [([3], [0]), ([0], [3]), ([-1], [0]), ([0], [-1])]
)
def test_what_is_no_class_is_refused_by_a_confusion_matrix(predictions, labels):
    with pytest.raises(
        sg.IndexOutOfRangeError, match=r"index -?[13] is outside of axis 0 of size 3"
    ):
        _run(lambda x, y: sg.nn.confusion_matrix(x, y, 3), predictions, labels)


def test_metrics_are_in_a_module_of_their_own_too():
    assert sg.nn.metrics.auc(sg.constant([0.0]), [1]).dtype == sg.float32
