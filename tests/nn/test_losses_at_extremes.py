"""Losses at huge, infinite and ignored logits: what is finite stays so, and gradients with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from tests.support.evaluators import evaluate_loops, evaluate_reference

Array = np.ndarray[Any, Any]
INF, NAN = np.inf, np.nan


def _run(build: Callable[..., Any], *arrays: Any, dtype: str = "float32") -> list[Array]:
    """Return the value, and the gradients of its sum to float inputs, as two floors give them."""
    given = [np.asarray(a) for a in arrays]
    given = [a.astype(dtype) if a.dtype.kind == "f" else a for a in given]
    xs = [sg.placeholder(a.shape, a.dtype) for a in given]
    y = build(*xs)
    floats = [x for x in xs if x.dtype.is_float]
    grads = sg.gradients(y, floats, unconnected_gradients="zero")
    graph = Graph([y, *grads], xs)
    with np.errstate(all="ignore"):
        found = evaluate_reference(graph, given)
        for one, other in zip(found, evaluate_loops(graph, given), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cross_entropy_of_huge_logits_is_exact(dtype):
    logits = [[1e4, -1e4, 0.0], [1e4, 1e4, -1e4], [-1e4, 0.0, 1e4]]
    build = partial(sg.nn.cross_entropy, reduction="none")
    losses, grad = _run(build, logits, [0, 1, 0], dtype=dtype)
    np.testing.assert_allclose(losses, np.array([0, np.log(2), 2e4]), rtol=1e-6)
    np.testing.assert_allclose(grad, np.array([[0, 0, 0], [0.5, -0.5, 0], [-1, 0, 1]]))


def test_a_small_loss_of_large_logits_keeps_its_digits():
    losses, _ = _run(partial(sg.nn.cross_entropy, reduction="none"), [[1e4, 1e4 - 4]], [0])
    # The sum of exponentials, which is near 1, is rounded; 1e4 is rounded by more than 1e-4.
    np.testing.assert_allclose(losses, [np.log1p(np.exp(-4))], atol=1e-7)


def test_a_class_that_is_masked_takes_no_part_in_cross_entropy():
    build = partial(sg.nn.cross_entropy, reduction="none")
    losses, grad = _run(build, [[0.0, -INF, 0.0], [0.0, 1.0, -INF]], [0, 2])
    np.testing.assert_allclose(losses, [np.log(2), INF], rtol=1e-6)
    p = 1 / (1 + np.e)
    np.testing.assert_allclose(grad, [[-0.5, 0, 0.5], [p, 1 - p, -1]], rtol=1e-6)


def test_a_masked_class_of_no_probability_takes_no_part_either():
    losses, grad, to_labels = _run(
        partial(sg.nn.cross_entropy, reduction="none", weights=[1.0, 2.0, 1.0]),
        [[0.0, -INF, 0.0]], [[0.75, 0.0, 0.25]],
    )  # fmt: skip
    np.testing.assert_allclose(losses, [np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(grad, [[-0.25, 0, 0.25]], atol=1e-7)
    assert np.isfinite(to_labels[0, [0, 2]]).all()


_ROWS = [[NAN, 0.0, 1.0], [INF, INF, -INF], [0.0, 0.0, 0.0], [-INF, -INF, -INF]]


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 3.0]])
def test_an_ignored_row_has_no_gradient_whatever_is_in_it(smoothing, weights):
    build = partial(
        sg.nn.cross_entropy, ignore_index=-7, label_smoothing=smoothing, weights=weights
    )
    loss, grad = _run(build, _ROWS, [-7, -7, 1, -7])
    even = 1 if weights is None else 0.5 + 0.5 * 2 / 2
    np.testing.assert_allclose(loss, np.log(3) * (even if smoothing else 1), rtol=1e-6)
    assert (grad[[0, 1, 3]] == 0).all()
    assert np.isfinite(grad[2]).all()
    assert grad[2, 1] < 0


def test_an_ignored_row_of_nll_has_no_gradient_whatever_is_in_it():
    loss, grad = _run(partial(sg.nn.nll, ignore_index=0), _ROWS, [0, 0, 1, 0])
    assert loss == 0
    np.testing.assert_array_equal(grad, [[0, 0, 0], [0, 0, 0], [0, -1, 0], [0, 0, 0]])


@pytest.mark.parametrize("loss", [sg.nn.cross_entropy, sg.nn.nll])
@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 3.0]])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_batch_that_is_all_ignored_is_zero_and_trains_nothing(loss, weights, reduction):
    build = partial(loss, ignore_index=5, weights=weights, reduction=reduction)
    value, grad = _run(build, _ROWS, [5, 5, 5, 5])
    assert (value == 0).all()
    assert (grad == 0).all()


def test_examples_that_weigh_nothing_are_no_division_by_zero():
    loss, grad = _run(partial(sg.nn.cross_entropy, weights=[0.0, 1.0]), [[3.0, 1.0]], [0])
    assert loss == 0
    assert (grad == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_binary_cross_entropy_of_huge_logits_is_finite(dtype):
    for more in ({}, {"positive_weights": 1.0}):
        build = partial(sg.nn.binary_cross_entropy_with_logits, reduction="none", **more)
        x, y = [1e4, -1e4, 1e4, -1e4, 0.0], [1.0, 0.0, 0.0, 1.0, 1.0]
        losses, grad, _ = _run(build, x, y, dtype=dtype)
        np.testing.assert_allclose(losses, [0, 0, 1e4, 1e4, np.log(2)], rtol=1e-6)
        np.testing.assert_allclose(grad, [0, 0, 1, -1, -0.5], rtol=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_focal_of_huge_logits_is_finite(gamma):
    build = partial(sg.nn.focal, alpha=None, gamma=gamma, reduction="none")
    losses, grad, _ = _run(build, [1e4, -1e4, 1e4, -1e4], [1.0, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(losses, [0, 0, 1e4, 1e4])
    np.testing.assert_allclose(grad, [0, 0, 1, -1])


def test_probabilities_of_zero_and_one_that_are_right_cost_nothing():
    build = partial(sg.nn.binary_cross_entropy, reduction="none")
    losses, grad, _ = _run(build, [0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(losses, [0, 0, INF, INF])
    np.testing.assert_array_equal(grad[:2], [1, -1])


def test_what_has_no_probability_adds_no_divergence():
    build = partial(sg.nn.kl_div, reduction="none")
    losses, to_q, to_p = _run(build, [-INF, -1.0, -INF], [0.0, 0.0, 0.5])
    np.testing.assert_array_equal(losses, [0, 0, INF])
    np.testing.assert_array_equal(to_q, [0, 0, -0.5])
    assert np.isfinite(to_p[:2]).all()
    losses, to_q, _ = _run(partial(build, log_target=True), [-INF, -1.0], [-INF, -INF])
    assert (losses == 0).all()
    assert (to_q == 0).all()


@pytest.mark.parametrize("loss", ["l1", "smooth_l1", "huber", "hinge", "soft_margin"])
def test_a_loss_that_grows_linearly_has_a_finite_gradient_far_out(loss):
    build = partial(getattr(sg.nn, loss), reduction="none")
    losses, grad, _ = _run(build, [1e30, -1e30, 1e4], [-1.0, 1.0, -1.0])
    assert (losses > 9e3).all()
    np.testing.assert_allclose(np.abs(grad), 1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_cosine_of_a_vector_of_zeros_is_zero_with_a_finite_gradient(dtype):
    value, to_x, to_y = _run(sg.nn.cosine_similarity, [[0.0, 0.0]], [[0.0, 0.0]], dtype=dtype)
    assert value == 0
    assert (to_x == 0).all()
    assert (to_y == 0).all()


def test_vectors_that_are_equal_have_no_direction():
    build = partial(sg.nn.triplet, epsilon=0.0)
    loss, *grads = _run(build, *[[[1.0, 2.0]]] * 3)
    assert loss == 1
    assert all((g == 0).all() for g in grads)


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, INF])
def test_rows_that_are_equal_have_distance_zero_and_no_gradient(p):
    build = partial(sg.nn.pairwise_distance, p=p, epsilon=0.0)
    distance, *grads = _run(build, [[1.0, 2.0], [1.0, 5.0]], [[1.0, 2.0], [1.0, 2.0]])
    np.testing.assert_allclose(distance, [0, 3], rtol=1e-6)
    for sign, grad in zip((1, -1), grads, strict=True):
        np.testing.assert_allclose(grad, [[0, 0], [0, sign]], rtol=1e-6)


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, INF])
def test_the_distance_of_huge_rows_is_finite_and_so_is_its_gradient(p):
    a, b = [[1e4, -1e4, 2e4]], [[-1e4, 1e4, 2e4]]
    distance, *grads = _run(partial(sg.nn.pairwise_distance, p=p), a, b)
    np.testing.assert_allclose(distance, [2e4 * 2 ** (1 / p)], rtol=1e-4)
    assert all(np.isfinite(g).all() for g in grads)


def test_what_is_behind_the_end_of_a_list_of_classes_does_not_count():
    build = partial(sg.nn.multilabel_margin, reduction="none")
    x = [[1e4, 0.0, -1e4], [0.0, 0.5, NAN], [0.0, 0.5, 2.0]]
    losses, grad = _run(build, x, [[2, -1, 1], [-1, 0, 1], [0, 2, 1]])
    np.testing.assert_allclose(losses, [(2e4 + 1 + 1e4 + 1) / 3, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(grad, np.array([[1, 1, -2], [0, 0, 0], [0, 0, 0]]) / 3, rtol=1e-6)


def test_a_hinge_that_is_just_met_has_no_gradient_and_a_nan_is_no_small_loss():
    losses, grad = _run(sg.nn.multilabel_margin, [[0.0, 1.0]], [[1, -1]])
    assert losses == 0
    assert (grad == 0).all()
    losses, _ = _run(partial(sg.nn.multilabel_margin, axis=0), [[0.0], [NAN], [1.0]], [[2]])
    assert np.isnan(losses)


@pytest.mark.parametrize("target", [3, -2])
def test_a_target_that_is_no_class_stops_the_program_behind_the_end_too(target):
    x, targets = sg.placeholder((1, 3)), sg.placeholder((1, 3), "int64")
    loss = sg.nn.multilabel_margin(x, targets)
    for result in (loss, *sg.gradients(loss, [x])):
        step = sg.compile([x, targets], result)
        with pytest.raises(sg.IndexOutOfRangeError, match=f"index {target} is out of range"):
            step(np.zeros((1, 3), np.float32), np.array([[0, -1, target]]))


def test_a_margin_that_is_just_met_has_the_gradient_of_one_that_is_missed():
    _, to_x, to_y, _ = _run(sg.nn.margin_ranking, [1.0], [1.0], [1.0])
    assert (float(to_x[0]), float(to_y[0])) == (-1, 1)
    _, to_x, _ = _run(sg.nn.hinge, [1.0], [1.0])
    assert to_x == -1


def test_a_variance_of_zero_counts_as_the_least_one_and_can_grow():
    value, to_x, _, to_var = _run(partial(sg.nn.gaussian_nll, epsilon=0.25), [1.0], [0.0], [0.0])
    np.testing.assert_allclose(value, (np.log(0.25) + 4) / 2)
    np.testing.assert_allclose([to_x[0], to_var[0]], [4, (4 - 16) / 2])


@pytest.mark.parametrize(
    ("dtype", "rtol"),
    [("float16", 2e-3), ("bfloat16", 16e-3), ("float32", 1e-6), ("float64", 1e-12)],
)
def test_a_variance_far_below_the_least_one_counts_as_exactly_that(dtype, rtol):
    x, var = (sg.placeholder((4,), dtype) for _ in range(2))
    losses = sg.nn.gaussian_nll(x, 0.0, var, epsilon=1e-3, reduction="none")
    given = {
        x: np.full(4, 0.125, x.dtype.numpy),
        var: np.array([-300, -1.5, -1e-6, 0], x.dtype.numpy),
    }
    found, to_x, to_var = sg.run([losses, *sg.gradients(losses, [x, var])], given)
    np.testing.assert_allclose(found.astype("f8"), (np.log(1e-3) + 15.625) / 2, rtol=rtol)
    np.testing.assert_allclose(to_x.astype("f8"), 125, rtol=rtol)
    np.testing.assert_allclose(to_var.astype("f8"), (1e3 - 15625) / 2, rtol=rtol)


@pytest.mark.parametrize("ignore_index", [None, 1])
def test_no_mean_of_half_floats_overflows_on_the_way(ignore_index):
    logits, labels = sg.zeros((70_000, 2), "float16"), sg.zeros((70_000,), "int64")
    loss = sg.run(sg.nn.cross_entropy(logits, labels, ignore_index=ignore_index))
    np.testing.assert_allclose(loss, np.log(2), rtol=1e-3)


_OF_LARGE = [
    ("cosine_similarity", lambda x, y: sg.nn.cosine_similarity(x, y)),
    ("cosine_embedding", lambda x, y: sg.nn.cosine_embedding(x, y, [1, -1], reduction="none")),
    ("triplet", lambda x, y: sg.nn.triplet(x, y, y[::-1], reduction="none")),
    ("pairwise_distance", lambda x, y: sg.nn.pairwise_distance(x, y)),
    ("gaussian_nll", lambda x, y: sg.nn.gaussian_nll(x, y, 1000.0, reduction="none")),
]


@pytest.mark.parametrize(("name", "loss"), _OF_LARGE, ids=[row[0] for row in _OF_LARGE])
def test_in_float16_no_square_of_what_is_large_overflows(name, loss):
    given = np.array([[[500, -900, 40], [-700, 30, 800]], [[450, 1, 3], [1, 2, 990]]])
    found = []
    for dtype in ("float16", "float64"):
        x, y = (sg.placeholder((2, 3), dtype) for _ in given)
        result = loss(x, y)
        gradients = sg.gradients(sg.sum(sg.astype(result, "float32")), [x, y])
        step = sg.compile([x, y], [result, *gradients])
        found.append(step(*[array.astype(dtype) for array in given]))
    for narrow, wide in zip(*found, strict=True):
        np.testing.assert_allclose(narrow.astype("float64"), wide, rtol=4e-3, atol=1e-5)


def test_a_variance_of_minus_infinity_counts_as_the_least_one():
    value, to_x, to_t, to_var = _run(
        partial(sg.nn.gaussian_nll, epsilon=0.25), [1.0, 1.0], [0.0, -np.inf], [-np.inf, 1.0]
    )
    np.testing.assert_array_equal(value, np.inf)
    np.testing.assert_allclose(to_x, [2, np.inf])
    np.testing.assert_allclose(to_t, [-2, -np.inf])
    np.testing.assert_allclose(to_var, [0, -np.inf])
