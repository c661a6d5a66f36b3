"""Fractional max pooling: where its windows are, its draws, ties and nan."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import symgrad as sg

Array = np.ndarray[Any, Any]


def _begins(length: int, window: int, count: int, u: float) -> list[int]:
    if count == 1:
        return [length - window]
    step = (length - window) / (count - 1)
    first = [int((i + u) * step) - int(u * step) for i in range(count - 1)]
    return [*first, length - window]


def _pooled(x: Array, windows: Any, sizes: Any, samples: Array) -> Array:
    """Return the maxima of windows of `x`, which is channels last, one by one."""
    y = np.empty((len(x), *sizes, x.shape[-1]))
    for n, c in itertools.product(range(len(x)), range(x.shape[-1])):
        begins = [
            _begins(length, k, m, u)
            for length, k, m, u in zip(x.shape[1:-1], windows, sizes, samples[n, c], strict=True)
        ]
        for place in itertools.product(*map(range, sizes)):
            corner = [b[i] for b, i in zip(begins, place, strict=True)]
            inside = tuple(slice(b, b + k) for b, k in zip(corner, windows, strict=True))
            y[n][place][c] = x[n][inside][..., c].max()
    return y


@pytest.mark.parametrize(("lengths", "windows", "sizes"), [
    ((9,), (3,), (4,)),
    ((7, 10), (2, 3), (6, 4)),
    ((5, 4), (5, 1), (1, 4)),
    ((5, 4, 6), (2, 2, 3), (3, 3, 1)),
])  # fmt: skip
def test_windows_begin_where_the_formula_says(lengths: Any, windows: Any, sizes: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, *lengths, 3))
    samples = rng.uniform(size=(2, 3, len(lengths)))
    wanted = _pooled(x, windows, sizes, samples)
    found = sg.nn.fractional_max_pool(x, windows, sizes, samples=samples)
    np.testing.assert_array_equal(sg.run(found), wanted)
    first = sg.nn.fractional_max_pool(
        np.moveaxis(x, -1, 1), windows, sizes, samples=samples, layout="NCHW"
    )
    np.testing.assert_array_equal(sg.run(first), np.moveaxis(wanted, -1, 1))


def test_draws_are_those_of_the_key_and_new_in_each_step_of_a_generator() -> None:
    x = np.random.default_rng(1).normal(size=(4, 40, 8)).astype(np.float32)
    key = sg.random.key(3)
    samples = sg.random.uniform(key, (4, 8, 1))
    drawn, given = (
        sg.run(sg.nn.fractional_max_pool(x, 2, 17, key)),
        sg.run(sg.nn.fractional_max_pool(x, 2, 17, samples=samples)),
    )
    np.testing.assert_array_equal(drawn, given)
    generator = sg.random.Generator(0)
    step = sg.compile([], sg.nn.fractional_max_pool(x, 2, 17, generator), [generator.advance()])
    first, second = step(), step()
    assert not np.array_equal(first, second)
    assert first.shape == (4, 17, 8)


@pytest.mark.parametrize("sample", [0.0, float(np.nextafter(1, 0)), 1.0, 5.0])
def test_a_sample_at_a_limit_or_beyond_stays_within_the_axis(sample: float) -> None:
    x = np.arange(101.0).reshape(1, 101, 1)
    y = sg.run(sg.nn.fractional_max_pool(x, 3, 40, samples=[[[sample]]])).ravel()
    assert y[-1] == 100
    assert (np.diff(y) >= 0).all()
    assert y[0] >= 2


def test_the_first_of_equals_and_of_nan_has_the_gradient() -> None:
    x = sg.placeholder((1, 6, 1))
    y = sg.nn.fractional_max_pool(x, 3, 2, samples=[[[0.0]]])
    step = sg.compile([x], [y, *sg.gradients(y, [x])])
    for values, maxima, slopes in (
        ([1, 2, 2, 0, 0, 0], [2, 0], [0, 1, 0, 1, 0, 0]),
        ([9, np.nan, np.nan, 1, 3, 3], [np.nan, 3], [0, 1, 0, 0, 1, 0]),
    ):
        found, slope = step(np.array(values, np.float32).reshape(1, 6, 1))
        np.testing.assert_array_equal(found.ravel(), maxima)
        np.testing.assert_array_equal(slope.ravel(), slopes)


def test_a_gradient_makes_no_array_of_windows() -> None:
    x = sg.placeholder((2, 33, 33, 8))
    y = sg.nn.fractional_max_pool(x, 3, 20, sg.random.key(0))
    step = sg.compile([x], sg.gradients(sg.sum(sg.square(y)), [x])[0])
    windows = 2 * 20 * 20 * 8 * 9 * 4  # bytes
    assert step.memory.arena_bytes < windows / 3


def test_integers_keep_their_dtype() -> None:
    x = np.array([[[3], [-1], [7]]], np.int16)
    y = sg.nn.fractional_max_pool(x, 2, 2, sg.random.key(0))
    assert y.dtype == sg.int16
    np.testing.assert_array_equal(sg.run(y).ravel(), [3, 7])
