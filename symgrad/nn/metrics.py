"""Metrics of predictions: accuracy, confusion matrix and the area under the ROC curve.

They count, and so have no gradient. Predictions come first, labels second.
"""

from __future__ import annotations

from typing import Any

from symgrad.errors import DTypeError, ShapeError, user_source
from symgrad.graph import dtypes
from symgrad.graph.given_arrays import require_size
from symgrad.graph.node import Tensor
from symgrad.graph.operands import as_tensor, cast, normalize_axis
from symgrad.graph.ops.arithmetic import add, divide, multiply, subtract
from symgrad.graph.ops.comparison import equal, not_equal
from symgrad.graph.ops.conversion import size_of
from symgrad.graph.ops.counting import searchsorted
from symgrad.graph.ops.elementwise import broadcast_together, filled, float_operand
from symgrad.graph.ops.gathering import scatter_rows
from symgrad.graph.ops.indexing import as_int64
from symgrad.graph.ops.ordering import sort, top_k
from symgrad.graph.ops.picking import checked_index
from symgrad.graph.ops.reduction import any as any_of
from symgrad.graph.ops.reduction import argmax, mean
from symgrad.graph.ops.reduction import sum as sum_over
from symgrad.graph.ops.structure import expand_dims, reshape
from symgrad.graph.public_ops import public
from symgrad.nn.operand_shapes import shaped


@public()
def accuracy(scores: Any, labels: Any, axis: int = -1) -> Tensor:
    """Compute the accuracy: the share of examples whose label has the greatest score.

    `scores` have the classes along `axis`, and the integer `labels` do not have it. Of equal scores
    the first counts. The result is a float32 scalar, nan for no example at all. Raises `ShapeError`
    if the shapes do not fit, and `DTypeError` for labels that are no integers.

    >>> sg.run(sg.nn.accuracy(sg.constant([[0.1, 0.9], [0.8, 0.2]]), [1, 1]))
    array(0.5, dtype=float32)
    """
    scores = as_tensor(scores)
    axis = normalize_axis("accuracy", axis, scores.ndim)
    classes = _classes("accuracy", labels, scores)
    chosen, wanted = broadcast_together(
        "accuracy", chosen=argmax(scores, axis=axis), labels=classes
    )
    return mean(equal(chosen, wanted))


@public(known_as=["in_top_k"])
def top_k_accuracy(scores: Any, labels: Any, k: int, axis: int = -1) -> Tensor:
    """Compute the top-k accuracy: the share of examples whose label is among the `k` best scores.

    As `accuracy`, which this is for `k=1`. Of equal scores the first ones are the best, as in
    `sg.top_k`, where nan comes last. Raises `ShapeError` for more than there are classes.

    >>> sg.run(sg.nn.top_k_accuracy(sg.constant([[0.1, 0.5, 0.4]]), [2], k=2))
    array(1., dtype=float32)
    """
    scores = as_tensor(scores)
    axis = normalize_axis("top_k_accuracy", axis, scores.ndim)
    classes = _classes("top_k_accuracy", labels, scores)
    _, best = top_k(scores, k, axis=axis)
    return mean(any_of(equal(best, expand_dims(classes, axis=axis)), axis=axis))


@public()
def confusion_matrix(predictions: Any, labels: Any, classes: int) -> Tensor:
    """Count the confusion matrix: in row i and column j, examples of class i predicted as j.

    Both are integers of one shape, from 0 to `classes - 1`; the result is int64 (classes, classes).
    Raises `DTypeError` for what is no integer, `ShapeError` for shapes that differ, and
    `IndexOutOfRangeError` for what is no class when the program runs.

    >>> sg.run(sg.nn.confusion_matrix([0, 1, 1], [0, 1, 0], 2))
    array([[1, 1],
           [0, 1]])
    """
    found, wanted = (
        _integers("confusion_matrix", name, given)
        for name, given in (("predictions", predictions), ("labels", labels))
    )
    found = shaped("confusion_matrix", "predictions", found, "labels", wanted.shape)
    size = require_size("confusion_matrix", "classes", classes)
    places = [checked_index(reshape(given, (-1,)), size) for given in (wanted, found)]
    ones = filled(places[0].shape, 1, dtypes.int64)
    return scatter_rows(filled((size, size), 0, dtypes.int64), ones, places, 0)


@public()
def auc(scores: Any, labels: Any) -> Tensor:
    """Compute the AUC: the area under the receiver operating characteristic.

    It is the chance that an example whose label is true has a higher score than one whose label is
    not, of which ties count one half: the Mann-Whitney statistic, divided by the number of pairs.
    Scores are floats of any shape, of which nan is above all numbers, and labels of the same shape
    are bools, or numbers that are 0 where they are false. The result is a scalar, float64 for
    float64 and else float32, and nan if all labels are alike. It is counted in integers, so its
    only rounding is that of the last division.

    J. Hanley, B. McNeil, "The meaning and use of the area under a receiver operating characteristic
    curve", 1982.

    >>> sg.run(sg.nn.auc(sg.constant([0.1, 0.4, 0.4, 0.8]), [0, 0, 1, 1]))
    array(0.875, dtype=float32)
    """
    given, truth = float_operand(scores), as_tensor(labels)
    truth = shaped("auc", "labels", truth, "scores", given.shape)
    flat = reshape(given, (-1,))
    is_true = truth if truth.dtype.is_bool else not_equal(truth, 0)
    counted = cast(reshape(is_true, (-1,)), dtypes.int64)
    ordered = sort(flat)
    # Twice the rank, which for ties is the mean of theirs.
    below = searchsorted(ordered, flat, side="left")
    ranks = add(add(below, searchsorted(ordered, flat, side="right")), 1)
    positive = sum_over(counted)
    negative = subtract(size_of(flat.shape[0]), positive)
    wins = subtract(sum_over(multiply(ranks, counted)), multiply(positive, add(positive, 1)))
    pairs = multiply(multiply(positive, negative), 2)
    share = divide(cast(wins, dtypes.float64), cast(pairs, dtypes.float64))
    return cast(share, dtypes.float64 if given.dtype == dtypes.float64 else dtypes.float32)


def _integers(op: str, name: str, given: Any) -> Tensor:
    tensor = as_tensor(given)
    if not tensor.dtype.is_integer:
        raise DTypeError(op, f"{name}: {tensor.type} are no integers", source=user_source())
    return as_int64(tensor)


def _classes(op: str, labels: Any, scores: Tensor) -> Tensor:
    """Return labels as int64, which have one axis less than `scores`."""
    classes = _integers(op, "labels", labels)
    if classes.ndim != scores.ndim - 1:
        problem = f"labels: {classes.type} need one axis fewer than scores: {scores.type}"
        raise ShapeError(op, problem, source=user_source())
    return classes
