"""Brackets after a tensor choose what they choose of a NumPy array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.ops.gathering import gather_op
from symgrad.graph.ops.slicing import slice_op
from tests.support.evaluators import evaluate_reference
from tests.support.together import together

ARRAY = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)


def _index(key: Any, array: Any = ARRAY, shape: Any = None) -> Any:
    x = sg.placeholder(array.shape if shape is None else shape)
    (found,) = evaluate_reference(Graph(x[key], [x]), [array])
    return found


_KEYS: list[Any] = [
    0,
    -1,
    np.int64(1),
    (),
    ...,
    None,
    slice(None),
    (1, 2, 3, 4),
    (..., -1),
    (0, ..., 1),
    (None, 0, None, ..., None),
    slice(1, None, -1),
    (slice(None), slice(5, 0, -2)),
    (slice(None), slice(None), slice(-3, -1), slice(None, None, 2)),
    (slice(7, 9),),
    [1, 0, 1],
    np.array([[0, 1], [1, 1]]),
    (slice(None), [0, 2]),
    ([0, 1], [2, 0]),
    ([[0], [1]], [2, 0]),
    (slice(None), [0, 2], [1, 3]),
    ([0, 1], slice(None), [1, 3]),
    (0, slice(None), [1, 3]),
    (0, [1, 2]),
    (slice(None), 0, [1, 3]),
    (slice(None), 0, slice(None), [1, 3]),
    ([0, 1], None, [1, 2]),
    (slice(None), None, [1, 2]),
    (slice(1), [0, 1], ..., [0, 1]),
    ([0], ..., 1, slice(1, 3)),
    (np.array(1), slice(None), 2),
    True,
    np.False_,
    np.array(True),
    (0, True),
    (..., False, slice(1, 3)),
    (True, [0, 1], True),
    ([[0], [1]], slice(None), np.True_, None),
    (slice(None), True, np.array([True, False, True])),
    np.array([True, False]),
    (slice(None), np.array([True, False, True])),
    (np.array([True, True]), np.array([False, True, True])[:2].nonzero()[0].repeat(2)),
    np.ones((2, 3), bool),
    (..., np.array([True, False, True, False, True])),
    [],
]  # fmt: skip


@pytest.mark.parametrize("key", _KEYS, ids=repr)
def test_a_key_chooses_what_it_does_in_numpy(key):
    np.testing.assert_array_equal(_index(key), ARRAY[key], strict=True)


@pytest.mark.parametrize("key", [k for k in _KEYS if "True" not in repr(k)], ids=repr)
def test_a_key_chooses_the_same_where_no_size_is_known(key):
    found = _index(key, shape=("a", "b", "c", "d"))
    np.testing.assert_array_equal(found, ARRAY[key], strict=True)


def _random_item(rng: np.random.Generator, size: int) -> Any:
    def bound() -> int | None:
        return None if rng.random() < 0.3 else int(rng.integers(-size - 2, size + 3))

    kind = rng.integers(0, 6)
    if kind <= 2:
        return slice(bound(), bound(), int(rng.choice([1, 1, 2, -1, -2, 3, -3])))
    if kind == 3:
        return int(rng.integers(-size, size))
    return rng.integers(-size, size, [(2,), (3, 1)][kind - 4])


def _random_key(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    taken = int(rng.integers(0, len(shape) + 1))
    key = [_random_item(rng, n) for n in shape[:taken]]
    if rng.random() < 0.3:
        last = int(rng.integers(0, len(shape) - taken + 1))
        key += [..., *(_random_item(rng, n) for n in shape[len(shape) - last :])]
    for _ in range(rng.integers(0, 3)):
        key.insert(int(rng.integers(0, len(key) + 1)), None)
    return tuple(key)


@together("seed", range(300), at_once=100)
def test_random_keys_choose_what_they_do_in_numpy(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
    array = rng.standard_normal(shape).astype(np.float32)
    key = _random_key(rng, shape)
    known = [f"n{axis}" if rng.random() < 0.4 else n for axis, n in enumerate(shape)]
    np.testing.assert_array_equal(_index(key, array, known), array[key], strict=True)


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        (slice(1, None), "max(n-1, 0)"),
        (slice(None, -1), "max(n-1, 0)"),
        (slice(-2, None), "min(2, n)"),
        (slice(None, 3), "min(3, n)"),
        (slice(None, None, -1), "n"),
        (slice(None, None, 2), "floordiv(n+1, 2)"),
        (slice(None), "n"),
    ],
)
def test_a_slice_of_an_unknown_size_has_a_size_that_follows_from_it(key, shape):
    x = sg.placeholder(("n",))
    assert str(x[key].shape[0]) == shape


_BOUNDS = (None, *range(-4, 5))


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, -3])
def test_slices_of_an_unknown_size_are_those_of_every_size(step):
    x = sg.placeholder(("n",))
    keys = [slice(start, stop, step) for start in _BOUNDS for stop in _BOUNDS]
    graph = Graph([x[key] for key in keys], [x])
    for size in range(4):
        array = np.arange(size, dtype=np.float32)
        for key, found in zip(keys, evaluate_reference(graph, [array]), strict=True):
            np.testing.assert_array_equal(found, array[key], str(key), strict=True)


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_neighbours_of_an_axis_of_unknown_size_are_subtracted(size):
    x = sg.placeholder(("n",))
    array = np.square(np.arange(size, dtype=np.float32))
    (found,) = evaluate_reference(Graph(x[1:] - x[:-1], [x]), [array])
    np.testing.assert_array_equal(found, array[1:] - array[:-1])


def test_a_size_may_bound_a_slice():
    x, y = sg.placeholder(("n", "m")), sg.placeholder(("m",))
    taken = y[: x.shape[0]]
    arrays = [np.zeros((2, 5), np.float32), np.arange(5, dtype=np.float32)]
    (found,) = evaluate_reference(Graph([taken], [x, y]), arrays)
    assert found.tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_an_index_may_be_a_tensor_of_any_integer_dtype(dtype):
    x, i = sg.placeholder((3, 2)), sg.placeholder((2,), dtype)
    arrays = [np.arange(6, dtype=np.float32).reshape(3, 2), np.array([2, 0], dtype)]
    (found,) = evaluate_reference(Graph(x[i], [x, i]), arrays)
    assert found.tolist() == [[4, 5], [0, 1]]


def test_a_scalar_tensor_takes_an_axis_away():
    x, i = sg.placeholder((3, 2)), sg.placeholder((), "int32")
    arrays = [np.arange(6, dtype=np.float32).reshape(3, 2), np.array(-1, np.int32)]
    found = evaluate_reference(Graph([x[i], x[:, i], x.take(i, 0)], [x, i]), arrays)
    assert [f.tolist() for f in found] == [[4, 5], [1, 3, 5], [4, 5]]


def test_slices_make_one_node_and_no_gather():
    x = sg.placeholder((4, 5))
    nodes = [node.definition for node in Graph(x[1:, ::2][0], [x]).nodes]
    assert nodes.count(slice_op) == 2
    assert gather_op not in nodes
    assert x[:, :] is x


START = sg.placeholder((), "int32", name="start")


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        ((0, 0, 0), sg.ShapeError, "getitem: 3 indices for x: f32[3, 4]"),
        ((..., ...), sg.ShapeError, "getitem: more than one ..."),
        (3, sg.IndexOutOfRangeError, "getitem: index 3 is outside of axis 0 of size 3"),
        ((0, -5), sg.IndexOutOfRangeError, "getitem: index -5 is outside of axis 1 of size 4"),
        ((slice(None), [4]), sg.IndexOutOfRangeError, "index 4 is outside of axis 1 of size 4"),
        (1.5, sg.DTypeError, "getitem: 1.5 is no index"),
        ([0.5], sg.DTypeError, "is no integer index"),
        (slice(0, 3, 0), sg.ShapeError, "getitem: 0 is no step of a slice"),
        (slice("a"), sg.DTypeError, "getitem: 'a' does not bound a slice"),
        (slice(START), sg.DTypeError, "the length of a slice from 0 to i32[] would depend on data"),
        (slice(START, None), sg.DTypeError, "the length of a slice from i32[] on would depend on"),
        (slice(START, START * 2), sg.DTypeError, "a slice from i32[] to i32[] would depend on"),
        (slice(START, START + 2, -1), sg.ShapeError, "-1 is no step of a slice from a tensor"),
        (slice(0, sg.placeholder(())), sg.DTypeError, "f32[] does not bound a slice: it is no"),
        (np.ones((3, 3), bool), sg.ShapeError, "a mask of shape (3, 3) does not fit axis 0"),
        (([0, 1], [0, 1, 2]), sg.ShapeError, "getitem: shapes do not broadcast"),
    ],
)  # fmt: skip
def test_what_is_no_index_is_refused(key, error, text):
    x = sg.placeholder((3, 4))
    with pytest.raises(error) as caught:
        x[key]
    assert text in str(caught.value)
    assert caught.value.source is not None


def test_a_boolean_tensor_is_refused_with_a_way_out():
    x = sg.placeholder((3, 4))
    with pytest.raises(sg.DTypeError, match="the shape of the result would depend on data") as e:
        x[x > 0]
    assert e.value.hint == "use sg.where, or multiply by the mask"
