"""CTC: paths that are counted one by one, texts that are too long, and lengths out of range."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from tests.support.evaluators import evaluate_reference

Array = np.ndarray[Any, Any]
_CLASSES = 3


def _run(scores: Array, labels: Any, steps: Any, lengths: Any, **arguments: Any) -> list[Array]:
    xs = [
        sg.placeholder(np.shape(a), np.asarray(a).dtype) for a in (scores, labels, steps, lengths)
    ]
    y = sg.nn.ctc(*xs, **arguments)
    (grad,) = sg.gradients(y, xs[:1])
    assert grad is not None
    graph = Graph([y, grad], xs)
    return evaluate_reference(graph, [np.asarray(a) for a in (scores, labels, steps, lengths)])


def _text(path: tuple[int, ...], blank: int) -> list[int]:
    return [c for c, _ in itertools.groupby(path) if c != blank]


def _likelihood(scores: Array, text: list[int], blank: int) -> float:
    """Return the probability of all paths of `text`, of scores (time, classes)."""
    paths = itertools.product(range(_CLASSES), repeat=len(scores))
    return sum(
        float(np.exp(sum(scores[t, c] for t, c in enumerate(path))))
        for path in paths
        if _text(path, blank) == text
    )


@pytest.mark.parametrize("blank", [0, 2])
def test_the_loss_counts_every_path_of_the_text(blank):
    rng = np.random.default_rng(0)
    scores = np.log(rng.dirichlet(np.ones(_CLASSES), (5, 6)))
    own, other = (c for c in range(_CLASSES) if c != blank)
    labels = np.array([[own, own], [own, other], [own, 9], [9, -1], [other, other], [own, own]])
    lengths, steps = np.array([2, 2, 1, 0, 2, 2]), np.array([5, 4, 5, 3, 3, 2])
    losses, _ = _run(scores, labels, steps, lengths, blank=blank, reduction="none")
    wanted = [
        _likelihood(scores[:n, b], list(labels[b, :length]), blank)
        for b, (n, length) in enumerate(zip(steps, lengths, strict=True))
    ]
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(losses, -np.log(wanted), rtol=1e-12)
    assert np.isinf(losses[-1])


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_a_text_that_is_too_long_has_no_gradient(zero_infinity):
    scores = np.log(np.full((3, 2, _CLASSES), 1 / 3))
    arguments = {"zero_infinity": zero_infinity, "reduction": "none"}
    losses, grad = _run(scores, [[1, 1], [1, 2]], [2, 3], [2, 2], **arguments)
    assert losses[0] == (0 if zero_infinity else np.inf)
    assert (grad[:, 0] == 0).all()
    assert np.isfinite(grad).all()
    np.testing.assert_allclose(grad[:, 1].sum(-1), -1)  # of each step, all paths are somewhere


def test_an_impossible_class_leaves_the_gradient_finite():
    scores = np.zeros((4, 1, _CLASSES))
    scores[:, :, 2] = -np.inf
    losses, grad = _run(scores, [[1, 2]], [4], [2])
    assert np.isinf(losses)
    assert (grad == 0).all()
    _, grad = _run(scores, [[1]], [4], [1])
    assert np.isfinite(grad).all()
    assert (grad[:, :, 2] == 0).all()


def test_a_long_text_does_not_underflow():
    time = 500
    scores = np.full((time, 1, _CLASSES), -np.log(_CLASSES), np.float32)
    labels = np.tile([1, 2], 50)[None]
    log_probs = sg.placeholder(scores.shape)
    loss = sg.nn.ctc(log_probs, labels, [time], [100], reduction="sum")
    losses, grad = sg.compile([log_probs], [loss, *sg.gradients(loss, [log_probs])])(scores)
    assert np.isfinite(losses)
    assert np.isfinite(grad).all()
    np.testing.assert_allclose(grad.sum(-1), -1, rtol=1e-3)


def test_time_of_no_step_has_the_empty_text_alone():
    scores = np.zeros((2, 2, _CLASSES))
    losses, grad = _run(scores, [[1], [1]], [0, 0], [0, 1], reduction="none")
    np.testing.assert_array_equal(losses, [0, np.inf])
    assert (grad == 0).all()


@pytest.mark.parametrize(
    ("labels", "steps", "lengths"),
    [
        ([[3]], [4], [1]),
        ([[-1]], [4], [1]),
        ([[1]], [5], [1]),
        ([[1]], [4], [2]),
        ([[1]], [-1], [0]),
    ],
    ids=["a label", "a negative label", "a time", "a length", "a negative time"],
)
def test_what_is_out_of_range_is_refused(labels, steps, lengths):
    with pytest.raises(sg.IndexOutOfRangeError, match="checked_index: index"):
        _run(np.zeros((4, 1, _CLASSES)), labels, steps, lengths)
