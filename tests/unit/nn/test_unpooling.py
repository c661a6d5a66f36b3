"""Maxima with their places, and what is put back there: ties, nan, padding, places that meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.evaluators import EVALUATORS

Array = np.ndarray[Any, Any]


def _row(*values: float) -> Array:
    return np.array(values, np.float32).reshape(1, -1, 1)


def _found(x: Array, *arguments: Any, **more: Any) -> tuple[list[float], list[int]]:
    y, indices = sg.run(list(sg.nn.max_pool_with_indices(x, *arguments, **more)))
    return y.ravel().tolist(), indices.ravel().tolist()


def test_the_first_of_equals_and_of_nan_is_where_a_maximum_is() -> None:
    assert _found(_row(1, 2, 2, 2), 2, strides=1)[1] == [1, 1, 2]
    assert _found(_row(np.nan, 1, np.nan, np.nan), 4)[1] == [0]
    assert _found(_row(5, 1, np.nan, np.nan), 2)[1] == [0, 2]


def test_padding_is_never_where_a_maximum_is() -> None:
    least = [-np.inf, -np.inf]
    assert _found(_row(*least), 2, strides=1, padding=[(1, 1)]) == ([-np.inf] * 3, [0, 0, 1])
    bytes_ = np.full((1, 2, 1), -128, np.int8)
    assert _found(bytes_, 2, strides=1, padding="SAME") == ([-128, -128], [0, 1])


def test_positions_are_of_one_image_and_one_channel() -> None:
    x = np.random.default_rng(0).normal(size=(2, 4, 6, 3)).astype(np.float32)
    y, indices = sg.run(list(sg.nn.max_pool_with_indices(x, (2, 3))))
    assert indices.dtype == np.int64
    flat = x.reshape(2, 24, 1, 1, 3)
    taken = np.take_along_axis(flat.reshape(2, 24, 3), indices.reshape(2, 4, 3), axis=1)
    np.testing.assert_array_equal(taken.reshape(y.shape), y)
    np.testing.assert_array_equal(sg.run(sg.nn.max_pool(x, (2, 3))), y)
    first = sg.nn.max_pool_with_indices(np.moveaxis(x, -1, 1), (2, 3), layout="NCHW")
    np.testing.assert_array_equal(np.moveaxis(sg.run(first[1]), 1, -1), indices)


def test_no_array_of_windows_is_made() -> None:
    x = sg.placeholder((2, 17, 17, 8))
    step = sg.compile([x], sg.nn.max_pool_with_indices(x, 3, strides=2))
    assert len(step.kernels) == 2
    assert step.memory.arena_bytes == 0


@pytest.mark.parametrize("evaluator", ["reference", "native"])
def test_of_values_that_meet_the_last_stays_and_has_the_gradient(evaluator: str) -> None:
    x, indices = sg.placeholder((1, 4, 1)), sg.placeholder((1, 4, 1), "int32")
    y = sg.nn.max_unpool(x, indices, 3)
    seed = sg.constant(_row(10, 20, 30))
    (g,) = sg.gradients([y], [x], grad_ys=[seed])
    assert g is not None
    graph = sg.Graph([y, g], [x, indices])
    places = np.array([2, 0, 2, -1], np.int32).reshape(1, 4, 1)
    found, slope = EVALUATORS[evaluator](graph, [_row(1, 2, 3, 4), places])
    np.testing.assert_array_equal(found.ravel(), [2, 0, 4])
    np.testing.assert_array_equal(slope.ravel(), [0, 10, 0, 30])


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("size", [(6,), (4, 6), (2, 4, 2)])
def test_pooling_what_was_unpooled_gives_the_maxima(size: Any, layout: Any) -> None:
    shape = (2, *size, 3) if layout == "NHWC" else (2, 3, *size)
    x = np.random.default_rng(1).uniform(1, 2, shape)
    y, indices = sg.nn.max_pool_with_indices(x, 2, layout=layout)
    back = sg.nn.max_unpool(y, indices, size, layout=layout)
    assert back.shape == x.shape
    again, placed = sg.run([sg.nn.max_pool(back, 2, layout=layout), back])
    np.testing.assert_array_equal(again, sg.run(y))
    np.testing.assert_array_equal(placed[placed != 0], x[placed != 0])
    assert np.count_nonzero(placed) == again.size


def test_sizes_may_be_known_only_when_called() -> None:
    x = sg.placeholder(("n", "length", 2))
    y, indices = sg.nn.max_pool_with_indices(x, 2)
    back = sg.nn.max_unpool(y, indices, x.shape[1])
    step = sg.compile([x], [back, *sg.gradients(sg.sum(back), [x])])
    for length in (4, 7):
        given = np.random.default_rng(2).uniform(1, 2, (3, length, 2)).astype(np.float32)
        found, slope = step(given)
        np.testing.assert_array_equal(found, np.where(slope == 1, given, 0))
        assert slope.sum() == 3 * (length // 2) * 2


def test_an_index_outside_of_the_result_is_found_when_the_program_runs() -> None:
    x, indices = sg.placeholder((2, 1, 1)), sg.placeholder((2, 1, 1), "int64")
    step = sg.compile([x, indices], sg.nn.max_unpool(x, indices, 3))
    with pytest.raises(sg.IndexOutOfRangeError, match="3 is out of range"):
        step(np.ones((2, 1, 1), np.float32), np.array([3, 0]).reshape(2, 1, 1))
