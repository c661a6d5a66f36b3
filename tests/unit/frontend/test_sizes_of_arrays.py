"""Sizes, axes and rates that NumPy hands on as arrays of no axes; what there is of nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, ShapeError

_X = np.arange(12, dtype="float32").reshape(1, 3, 4)

_CALLS: tuple[Callable[[Any], Any], ...] = (
    lambda n: sg.zeros(n),
    lambda n: sg.ones((n, 2)),
    lambda n: sg.full((2, n), 7),
    lambda n: sg.eye(n),
    lambda n: sg.linspace(0, 1, n),
    lambda n: sg.reshape(_X, (n, 6)),
    lambda n: sg.reshape(sg.zeros(2), n),
    lambda n: sg.broadcast_to(sg.zeros(2), (3, n)),
    lambda n: sg.broadcast_to(1.0, n),
    lambda n: sg.tile([1.0], n),
    lambda n: sg.tile([1.0], (n, n)),
    lambda n: sg.sum(_X, axis=n),
    lambda n: sg.max(_X, axis=(0, n)),
    lambda n: sg.nn.softmax(_X, axis=n),
    lambda n: sg.expand_dims(_X, axis=n),
    lambda n: sg.moveaxis(_X, n, 0),
    lambda n: sg.split(_X, n, axis=2),
    lambda n: sg.array_split(_X, n, axis=1),
    lambda n: sg.one_hot([0, 1], n),
    lambda n: sg.bincount([0, 1, 1], length=n),
    lambda n: sg.segment_sum([1.0, 2.0], [0, 0], n),
    lambda n: sg.top_k([3.0, 1.0, 2.0], n),
    lambda n: sg.histogram([3.0, 1.0, 2.0], n),
    lambda n: sg.linalg.matrix_power([[1.0, 2.0], [0.0, 1.0]], n),
    lambda n: sg.nn.max_pool(_X, n),
    lambda n: sg.random.Generator(0).normal((n, 2)),
)


_TWO: Any = np.array(2)


def _leaves(found: Any) -> list[Any]:
    return [leaf for part in found for leaf in (part if isinstance(part, list | tuple) else [part])]


def test_an_integer_of_no_axes_is_taken_for_a_size_or_an_axis() -> None:
    plain = sg.run([f(2) for f in _CALLS])
    given = sg.run([f(_TWO) for f in _CALLS])
    for a, b in zip(_leaves(plain), _leaves(given), strict=True):
        np.testing.assert_array_equal(a, b)
    assert sg.placeholder((_TWO, 3)).shape == sg.placeholder((2, 3)).shape
    assert np.reshape(sg.constant(_X), np.array(12), order="F").shape == (12,)


@pytest.mark.parametrize("size", [np.array(2.0), np.array(True)])
def test_other_arrays_of_no_axes_are_no_sizes(size: Any) -> None:
    with pytest.raises(DTypeError, match="is no size"):
        sg.zeros((size, 2))
    with pytest.raises(DTypeError, match="must be an int"):
        sg.sum(_X, axis=size)


def test_the_histogram_of_nothing_has_the_edges_of_numpy() -> None:
    counts, edges = sg.run(list(sg.histogram(np.zeros((0, 3), "float32"), 4)))
    wanted, its_edges = np.histogram(np.zeros((0, 3), "float32"), 4)
    np.testing.assert_array_equal(counts, wanted)
    np.testing.assert_array_equal(edges, its_edges)


def test_the_logarithm_of_a_sum_of_nothing_is_that_of_0() -> None:
    for shape in ((0, 3), (None, 3)):
        x = sg.placeholder(shape)
        whole, columns = sg.special.logsumexp(x), sg.special.logsumexp(x, axis=0)
        outputs = [whole, columns, sg.nn.softmax(x, axis=0), sg.gradients(columns, [x])[0]]
        found = sg.compile([x], outputs, opt_level=0)(np.zeros((0, 3), "float32"))
        assert found[0] == -np.inf
        assert found[1].tolist() == [-np.inf] * 3
        assert found[2].shape == found[3].shape == (0, 3)


def test_a_depth_that_is_no_size_is_refused() -> None:
    with pytest.raises(ShapeError, match="depth -3 is negative"):
        sg.one_hot([1], -3)
    for depth in (True, 2.5, "3", None):
        with pytest.raises(DTypeError, match="one_hot: depth must be an int"):
            sg.one_hot([1], depth)  # type: ignore[arg-type]


def test_a_rate_may_be_an_array_of_no_axes() -> None:
    w = sg.variable(np.ones(2, "float32"))
    rate: Any = np.array(0.5)
    sg.compile([], [], updates=sg.optim.SGD(rate).minimize(sg.sum(w)))()
    assert w.value.tolist() == [0.5, 0.5]
    for rate in (np.array([0.5]), np.array(True), np.array(1j)):
        with pytest.raises(DTypeError, match="neither a number nor a tensor"):
            sg.optim.SGD(rate)
