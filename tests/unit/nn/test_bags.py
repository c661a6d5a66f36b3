"""Bags of embeddings: empty ones, padding, nan, weights, and what is only known when called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

Array = np.ndarray[Any, Any]

_TABLE = np.array([[1.0, 8.0], [3.0, 4.0], [5.0, 2.0]], np.float32)
_REDUCTIONS: Any = ("mean", "sum", "max")
_OF: dict[str, Any] = {"mean": np.mean, "sum": np.sum, "max": np.max}


def _bag(rows: list[int], reduction: str) -> Array:
    return np.asarray(_OF[reduction](_TABLE[rows], axis=0)) if rows else np.zeros(2, np.float32)


@pytest.mark.parametrize("reduction", _REDUCTIONS)
def test_a_bag_may_be_empty_wherever_it_is(reduction: Any) -> None:
    wanted = [_bag(rows, reduction) for rows in ([], [2, 0], [], [1], [])]
    found = sg.nn.embedding_bag([2, 0, 1], _TABLE, [0, 0, 2, 2, 3], reduction=reduction)
    np.testing.assert_array_equal(sg.run(found), wanted)
    nothing: Any = np.zeros((2, 0), np.int64)
    for empty in (sg.nn.embedding_bag(nothing, _TABLE, reduction=reduction),
                  sg.nn.embedding_bag([], _TABLE, [0, 0], reduction=reduction)):  # fmt: skip
        np.testing.assert_array_equal(sg.run(empty), np.zeros((2, 2), np.float32))


@pytest.mark.parametrize("reduction", _REDUCTIONS)
@pytest.mark.parametrize("padding", [1, -2])
def test_what_is_padding_is_in_no_bag(reduction: Any, padding: int) -> None:
    indices = [[1, 0], [1, 1], [2, -2]]
    wanted = [_bag(rows, reduction) for rows in ([0], [], [2])]
    table = np.where(np.arange(3)[:, None] == 1, np.nan, _TABLE)
    of_rows = sg.nn.embedding_bag(indices, table, reduction=reduction, padding_index=padding)
    np.testing.assert_array_equal(sg.run(of_rows), wanted)
    flat = sg.nn.embedding_bag(
        np.ravel(indices), table, [0, 2, 4], reduction=reduction, padding_index=padding
    )
    np.testing.assert_array_equal(sg.run(flat), wanted)


@pytest.mark.parametrize("reduction", _REDUCTIONS)
def test_bags_may_have_any_axes_and_a_vector_is_one_bag(reduction: Any) -> None:
    indices = np.array([[[0, 1], [2, 2], [1, 0]]])
    found = sg.run(sg.nn.embedding_bag(indices, _TABLE, reduction=reduction))
    assert found.shape == (1, 3, 2)
    for place, rows in enumerate(indices[0]):
        np.testing.assert_array_equal(found[0, place], _bag(rows.tolist(), reduction))
        alone = sg.run(sg.nn.embedding_bag(rows, _TABLE, reduction=reduction))
        np.testing.assert_array_equal(found[0, place], alone)


@pytest.mark.parametrize("offsets", [None, [0, 3]])
def test_the_first_of_equal_maxima_has_the_gradient(offsets: Any) -> None:
    table = sg.placeholder((4, 1))
    indices = [[3, 1, 2], [0, 0, 0]] if offsets is None else [3, 1, 2, 0, 0, 0]
    y = sg.nn.embedding_bag(indices, table, offsets, reduction="max")
    (g,) = sg.gradients(y, [table])
    found = sg.compile([table], g)(np.ones((4, 1), np.float32))
    np.testing.assert_array_equal(found.ravel(), [1, 0, 0, 1])


@pytest.mark.parametrize("offsets", [None, [0, 2]])
def test_a_nan_is_the_maximum(offsets: Any) -> None:
    table = np.array([[1.0], [np.nan], [2.0]], np.float32)
    indices = [[0, 1], [0, 2]] if offsets is None else [0, 1, 0, 2]
    y = sg.nn.embedding_bag(indices, table, offsets, reduction="max")
    np.testing.assert_array_equal(sg.run(y).ravel(), [np.nan, 2])


def test_weights_promote_and_integers_become_floats() -> None:
    table = np.array([[1, 2], [3, 4]], np.int32)
    assert sg.nn.embedding_bag([[0, 1]], table).dtype == sg.float32
    weights = np.array([[2.0, -1.0]])
    y = sg.nn.embedding_bag([[0, 1]], table.astype("float32"), reduction="sum", weights=weights)
    assert y.dtype == sg.float64
    np.testing.assert_array_equal(sg.run(y), [[-1, 0]])


def test_sums_of_16_bits_are_rounded_once() -> None:
    table = sg.astype(np.array([[256.0], [1.0]]), "bfloat16")
    for y in (sg.nn.embedding_bag([[0, *[1] * 4]], table, reduction="sum"),
              sg.nn.embedding_bag([0, *[1] * 4], table, [0], reduction="sum")):  # fmt: skip
        assert y.dtype == sg.bfloat16
        assert float(sg.run(y)[0, 0]) == 260


def test_indices_offsets_and_sizes_may_be_known_only_when_called() -> None:
    indices, offsets = sg.placeholder(("n",), "int64"), sg.placeholder(("bags",), "int32")
    table = sg.placeholder(("rows", 2))
    y = sg.nn.embedding_bag(indices, table, offsets)
    step = sg.compile([indices, table, offsets], [y, *sg.gradients(y, [table])])
    found, slope = step(np.array([2, 0, 1]), _TABLE, np.array([0, 2], np.int32))
    np.testing.assert_array_equal(found, [_bag([2, 0], "mean"), _bag([1], "mean")])
    np.testing.assert_array_equal(slope, [[0.5, 0.5], [1, 1], [0.5, 0.5]])
    # Before the first offset is no bag.
    found, _ = step(np.array([2, 1]), _TABLE, np.array([1], np.int32))
    np.testing.assert_array_equal(found, [_bag([1], "mean")])
    with pytest.raises(sg.IndexOutOfRangeError):
        step(np.array([3]), _TABLE, np.array([0], np.int32))


@pytest.mark.parametrize("padding", [None, 2])
def test_bags_of_a_length_that_only_a_call_tells_may_be_empty(padding: Any) -> None:
    indices = sg.placeholder((2, "length"), "int64")
    ys = [
        sg.nn.embedding_bag(indices, _TABLE, reduction=reduction, padding_index=padding)
        for reduction in _REDUCTIONS
    ]
    step = sg.compile([indices], ys)
    for found in step(np.zeros((2, 0), np.int64)):
        np.testing.assert_array_equal(found, np.zeros((2, 2)))
    for found, reduction in zip(step(np.array([[0], [1]])), _REDUCTIONS, strict=True):
        np.testing.assert_array_equal(found, [_bag([0], reduction), _bag([1], reduction)])


@pytest.mark.parametrize("offsets", [None, [0, 2, 4, 6]])
def test_an_optimizer_moves_single_rows(offsets: Any) -> None:
    table = sg.variable(np.ones((1000, 16), np.float32))
    indices = sg.placeholder((4, 2) if offsets is None else (8,), "int64")
    loss = sg.sum(sg.square(sg.nn.embedding_bag(indices, table, offsets)))
    step = sg.compile([indices], loss, sg.optim.SGD(0.1).minimize(loss))
    assert step.memory.arena_bytes < 1000 * 16 * 4 / 10


def test_a_sum_of_a_bag_keeps_no_rows_in_memory() -> None:
    indices, table = sg.placeholder((64, 50), "int64"), sg.placeholder((1000, 16))
    step = sg.compile([indices, table], sg.nn.embedding_bag(indices, table))
    assert step.memory.arena_bytes == 0
