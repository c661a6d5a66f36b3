"""Scatters to known places, as many of each, are sums of what is gathered, with equal bits."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

RANDOM = np.random.default_rng(7)


def scattered(updates: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    wanted = np.zeros(count, updates.dtype)
    np.add.at(wanted, places, updates)
    return wanted


def step_of(x: sg.Tensor, y: sg.Tensor) -> sg.Step:
    return sg.compile([x], sg.gradients(y, [x]))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize(("count", "times"), [(4, 4), (8, 35), (30, 5), (9, 2), (100, 1)])
def test_elements_meet_in_the_order_of_the_scatter(dtype, count, times):
    places = RANDOM.permutation(np.repeat(np.arange(count), times))
    given = sg.placeholder((count * times,), dtype)
    step = sg.compile([given], sg.zeros((count,), dtype).at[places].add(given))
    updates = (RANDOM.normal(size=count * times) * 100).astype(dtype)
    assert "scatter_add" not in step.ir("optimized")
    np.testing.assert_array_equal(step(updates), scattered(updates, places, count))


@pytest.mark.parametrize("negative", [False, True])
def test_the_gradient_of_lookups_of_a_product_is_right(negative):
    indices = RANDOM.permutation(np.repeat(np.arange(12), 6)).reshape(24, 3)
    indices = indices - 12 if negative else indices
    x = sg.placeholder((12,), "float64")
    weights = RANDOM.normal(size=3)
    rows = (sg.exp(sg.take(x, indices)) * weights).sum(1)
    again = sg.take(rows, RANDOM.permutation(np.repeat(np.arange(24), 2)))
    y = (again * again).sum()
    step = step_of(x, y)
    assert "scatter_add" not in step.ir("optimized")
    sg.testing.check_gradients(y, [x], {x: RANDOM.normal(size=12)})


def test_chains_of_any_length_are_behind_the_lookup():
    x = sg.placeholder((8,), "float64")
    y = x[np.repeat(np.arange(8), 4)]
    for _ in range(2000):
        y = sg.sin(y) * 1.0001
    step = step_of(x, sg.sum(y))
    given = np.linspace(0.1, 1.5, 8)
    assert "scatter_add" not in step.ir("optimized")
    (found,) = step(given)
    wanted, value = np.full(8, 4.0), given
    for _ in range(2000):
        value, wanted = np.sin(value) * 1.0001, wanted * np.cos(value) * 1.0001
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_what_is_added_to_negative_zeros_is_scattered():
    given, base = sg.placeholder((16,)), sg.constant(np.full(4, -0.0, "float32"))
    step = sg.compile([given], base.at[np.arange(16) % 4].add(given))
    assert np.signbit(step(np.full(16, -0.0, "float32"))).all()


def test_places_along_two_axes_are_known_too():
    pairs = np.array([(i, j) for i in range(5) for j in range(5)] * 3)
    first, second = RANDOM.permutation(pairs).T
    x = sg.placeholder((5, 5), "float64")
    factors = RANDOM.normal(size=75)
    step = step_of(x, (x[first, second] * factors).sum())
    wanted = np.zeros((5, 5))
    np.add.at(wanted, (first, second), factors)
    assert "scatter_add" not in step.ir("optimized")
    np.testing.assert_allclose(step(np.zeros((5, 5)))[0], wanted, rtol=1e-14)


def test_what_others_use_as_well_is_gathered_and_not_computed_again():
    indices = RANDOM.permutation(np.repeat(np.arange(16), 4))
    x = sg.placeholder((16,), "float64")
    given = sg.placeholder((64,), "float64")
    costly = sg.exp(given)
    total = (sg.take(x, indices) * costly).sum()
    step = sg.compile([x, given], [*sg.gradients(total, [x]), costly])
    assert step.ir("optimized").count(" exp ") == 1
    updates = RANDOM.normal(size=64)
    found, made = step(np.zeros(16), updates)
    np.testing.assert_array_equal(found, scattered(made, indices, 16))


def test_rows_that_are_longer_are_scattered():
    indices = RANDOM.permutation(np.repeat(np.arange(16), 4))
    given = sg.placeholder((64, 8), "float64")
    step = sg.compile([given], sg.zeros((16, 8), "float64").at[indices].add(given))
    assert "scatter_add" in step.ir("optimized")
