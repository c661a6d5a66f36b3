"""Attention at extreme scores, without keys to attend to, with dropout; weights in a nest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.dtypes import as_dtype
from tests.support.evaluators import Evaluator, evaluate_native, evaluate_reference

Array = np.ndarray[Any, Any]

attend = sg.nn.scaled_dot_product_attention
QUERIES, KEYS, WIDTH = 4, 5, 3
SHAPES = ((2, QUERIES, WIDTH), (2, KEYS, WIDTH), (2, KEYS, WIDTH))


def operands(dtype: str = "float32", size: float = 1.0) -> list[Array]:
    """Return queries and keys of that `size`, and values."""
    rng = np.random.default_rng(0)
    sizes = (size, size, 1.0)
    drawn = [s * rng.normal(size=shape) for s, shape in zip(sizes, SHAPES, strict=True)]
    return [a.astype(as_dtype(dtype).numpy) for a in drawn]


def run(
    arrays: Sequence[Array], evaluator: Evaluator = evaluate_reference, **options: Any
) -> list[Array]:
    """Return attention of `arrays`, and the gradients of the sum of its squares."""
    xs = [sg.placeholder(a.shape, str(a.dtype)) for a in arrays]
    y = attend(*xs, **options)
    dxs = sg.gradients(sg.sum(y * y), xs, unconnected_gradients="zero")
    return evaluator(sg.Graph([y, *dxs], xs), arrays)


def softmax_average(q: Array, k: Array, v: Array, seen: Any = True) -> Array:
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    scores = np.where(seen, q @ np.swapaxes(k, -1, -2) / np.sqrt(WIDTH), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights @ v / weights.sum(-1, keepdims=True))


def are_finite(arrays: Sequence[Array]) -> bool:
    return all(np.isfinite(a.astype(np.float64)).all() for a in arrays)


@pytest.mark.parametrize(
    ("dtype", "close"),
    # A score of 10,000 is rounded to float32 by 0.0005, and so its weight.
    [("float32", 2e-3), ("float64", 1e-11), ("bfloat16", 1e-2), ("float16", 4e-3)],
)
def test_scores_beyond_ten_thousand_neither_overflow_nor_lose_the_gradient(dtype, close):
    arrays = operands(dtype, size=120)
    q, k, _ = (a.astype(np.float64) for a in arrays)
    assert np.abs(q @ np.swapaxes(k, -1, -2) / np.sqrt(WIDTH)).max() > 2e4
    found, *gradients = run(arrays)
    np.testing.assert_allclose(found.astype(np.float64), softmax_average(*arrays), atol=close)
    assert are_finite(gradients)
    assert np.abs(gradients[2].astype(np.float64)).max() > 0.1


def test_added_masks_of_ten_thousand_are_stable():
    arrays = operands()
    mask = np.where(np.arange(KEYS) == 2, np.float32(1e4), np.float32(-1e4))
    found, *gradients = run(arrays, mask=mask)
    np.testing.assert_array_equal(found, np.broadcast_to(arrays[2][:, 2:3], found.shape))
    assert are_finite(gradients)


@pytest.mark.parametrize(
    "evaluator", [evaluate_reference, pytest.param(evaluate_native, marks=pytest.mark.slow)]
)
def test_a_query_that_attends_to_nothing_gives_zero_and_no_gradient(evaluator):
    q, k, v = operands()
    seen = np.random.default_rng(1).random((2, QUERIES, KEYS)) < 0.6
    seen[0, 1] = seen[1] = False
    added = np.where(seen, 0, -np.inf).astype(np.float32)
    for mask in (seen, added):
        found, *gradients = run([q, k, v], evaluator, mask=mask)
        assert not found[0, 1].any()
        assert not gradients[0][0, 1].any()
        assert not any(a[1].any() for a in (found, *gradients))
        assert are_finite(gradients)
        others = [0, 2, 3]
        wanted = softmax_average(q[0, others], k[0], v[0], seen[0, others])
        np.testing.assert_allclose(found[0, others], wanted, rtol=1e-5, atol=1e-6)


def test_the_gradient_to_a_mask_is_finite_where_it_hides_keys():
    mask = np.zeros((QUERIES, KEYS), np.float32)
    mask[:, 3] = mask[1] = -np.inf
    given, xs = sg.placeholder(mask.shape), operands()
    y = attend(*xs, mask=given)
    (slope,) = sg.gradients(sg.sum(y * y), given, unconnected_gradients="zero")
    assert slope is not None
    (found,) = evaluate_reference(sg.Graph(slope, [given]), [mask])
    assert are_finite([found])
    assert not found[:, 3].any()
    assert not found[1].any()
    assert found[0, 0]


def test_mask_and_causality_both_apply():
    q, k, v = operands()
    seen = np.random.default_rng(2).random((QUERIES, KEYS)) < 0.7
    seen[:, 0] = True
    found, *_ = run([q, k, v], mask=seen, causal=True)
    wanted = softmax_average(q, k, v, seen & np.tri(QUERIES, KEYS, dtype=bool))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_scale_may_be_a_tensor_and_has_a_gradient():
    scale, xs = sg.placeholder((), "float64"), operands("float64")
    y = attend(*xs, scale=scale)
    (dscale,) = sg.gradients(sg.sum(y), scale)
    assert dscale is not None
    graph = sg.Graph([sg.sum(y), dscale], [scale])
    places = (0.7 - 1e-6, 0.7, 0.7 + 1e-6)
    values = [evaluate_reference(graph, [np.array(at)]) for at in places]
    slope = (values[2][0] - values[0][0]) / 2e-6
    np.testing.assert_allclose(values[1][1], slope, rtol=1e-7)


@pytest.mark.parametrize("scale", [0.3, 7.0, 2, 0.0, -0.5, 1e-60, 1e30])
@pytest.mark.parametrize("causal", [False, True])
def test_a_scale_that_is_a_number_is_that_of_a_tensor(scale, causal):
    """Scores are scaled by a positive number, and queries by others; all keys may be hidden."""
    arrays, seen = operands("float64"), np.random.default_rng(3).random((2, QUERIES, KEYS)) < 0.6
    seen[0, 1] = False
    for mask in (None, seen, np.where(seen, 0.5, -np.inf)):
        found = run(arrays, mask=mask, causal=causal, scale=scale)
        tensor = sg.constant(np.float64(scale))
        wanted = run(arrays, mask=mask, causal=causal, scale=tensor)
        for mine, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)


def test_one_division_a_query():
    """Weights are summed up to 1 and more: what all values are multiplied by is one quotient."""
    x = sg.placeholder((2, 16, 8), "float32")
    graph = sg.Graph([attend(x, x, x)], [x])
    (divided,) = (n for n in graph.nodes if n.op == "divide")
    assert divided.output.shape == (2, 16, 1)


@pytest.mark.parametrize("shapes", [((2, 4, 3), (2, 0, 3), (2, 0, 5)), ((2, 0, 3), (2, 4, 3))])
def test_without_keys_there_are_zeros_and_without_queries_nothing(shapes):
    arrays = [np.ones(shape, np.float32) for shape in (*shapes, shapes[-1])[:3]]
    found, *gradients = run(arrays)
    assert found.shape == (*arrays[0].shape[:-1], arrays[2].shape[-1])
    assert not any(a.any() for a in (found, *gradients))
    assert [g.shape for g in gradients] == [a.shape for a in arrays]


def test_dropout_drops_weights_and_scales_the_others():
    count = 2000
    q, k, v = np.zeros((1, 1)), np.zeros((count, 1)), np.eye(count)
    y = attend(q, k, v, dropout=0.25, generator=sg.random.key(0))
    (found,) = evaluate_reference(sg.Graph([y], []), [])
    kept = found != 0
    np.testing.assert_allclose(found[kept] * count, 1 / 0.75, rtol=1e-12)
    # 3.3 deviations
    assert abs(kept.mean() - 0.75) < 3.3 * np.sqrt(0.25 * 0.75 / count)


def test_a_generator_drops_anew_in_each_step_that_advances_it():
    rng = sg.random.Generator(3)
    y = attend(*operands(), dropout=0.5, generator=rng)
    step = sg.compile([], y, [rng.advance()])
    assert not np.array_equal(step(), step())


def test_weights_of_heads_and_bias_may_be_of_a_nest():
    w = sg.Container(q=np.ones((2, 2), np.float32), k=np.ones((2, 2), np.float32))
    x = np.ones((3, 2), np.float32)
    found: Any = sg.nn.multi_head_attention(x, x, x, w, w, w, w, heads=1)
    assert set(found) == {"q", "k"}
    np.testing.assert_allclose(sg.run(found.q), np.full((3, 2), 4), rtol=1e-6)
