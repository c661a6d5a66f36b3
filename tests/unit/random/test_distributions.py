"""Samples against their distributions: moments, Kolmogorov and Smirnov, limits, gradients.

Seeds are fixed, so a test passes always or never. Its bounds are passed by 999 of 1000 seeds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.dtypes import as_dtype
from symgrad.graph.graph import Graph
from symgrad.random.distributions import below, unit_normal, unit_uniform
from tests.support.case import Array
from tests.support.evaluators import evaluate_reference
from tests.support.floors import run_everywhere

COUNT = 100_000
FLOATS = pytest.mark.parametrize("dtype", ["float32", "float64"])


def sample(tensor: Any) -> Any:
    return sg.compile([], tensor)()


def kolmogorov_smirnov(samples: Array, distribution: Any) -> float:
    """Return the largest distance of the empirical distribution, times the root of the count."""
    ordered = np.sort(samples.astype(np.float64))
    exact = distribution(ordered)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    distance = max(np.max(exact - steps[:-1]), np.max(steps[1:] - exact))
    return float(distance * math.sqrt(len(ordered)))


_KS_BOUND = 1.95  # one sample in 1000 is further away
_DEVIATIONS = 3.3  # and so with a mean and this many standard deviations of it


def assert_moments(samples: Array, mean: float, variance: float, fourth: float) -> None:
    """Check mean and variance; `fourth` is the fourth central moment of the distribution."""
    centred = samples.astype(np.float64) - mean
    assert abs(centred.mean()) < _DEVIATIONS * math.sqrt(variance / samples.size)
    spread = math.sqrt((fourth - variance**2) / samples.size)
    assert abs((centred**2).mean() - variance) < _DEVIATIONS * spread


@FLOATS
@pytest.mark.parametrize("seed", [0, 1])
def test_uniform_samples_are_uniform(seed: int, dtype: str) -> None:
    x = sample(sg.random.Generator(seed).uniform((COUNT,), dtype=dtype))
    assert x.dtype == dtype
    assert x.min() >= 0
    assert x.max() < 1
    assert_moments(x, 0.5, 1 / 12, 1 / 80)
    assert kolmogorov_smirnov(x, lambda v: v) < _KS_BOUND


@FLOATS
@pytest.mark.parametrize("seed", [0, 1])
def test_normal_samples_are_normal(seed: int, dtype: str) -> None:
    x = sample(sg.random.Generator(seed).normal((COUNT,), 2.0, 3.0, dtype))
    assert x.dtype == dtype
    assert_moments(x, 2.0, 9.0, 3 * 81.0)
    distribution = np.vectorize(lambda v: 0.5 * math.erfc((2.0 - v) / (3.0 * math.sqrt(2))))
    assert kolmogorov_smirnov(x, distribution) < _KS_BOUND


def test_neighbours_and_draws_are_not_correlated() -> None:
    rng = sg.random.Generator(3)
    a, b, c = sample([each.normal((COUNT,)) for each in (rng, rng, rng.fold(1))])
    for x, y in ((a, b), (a, c), (a[1:], a[:-1]), (a[4:], a[:-4])):
        assert abs(np.mean(x * y)) < _DEVIATIONS / math.sqrt(COUNT)


@pytest.mark.parametrize(("low", "high", "dtype"), [(-3, 7, "int8"), (0, 13, "uint64")])
def test_integers_are_equally_likely(low: int, high: int, dtype: str) -> None:
    x = sample(sg.random.Generator(0).integers(low, high, (COUNT,), dtype))
    counts = np.bincount(x.astype(np.int64) - low, minlength=high - low)
    assert x.dtype == dtype
    assert len(counts) == high - low
    wanted = COUNT / (high - low)
    chi_squared = np.sum((counts - wanted) ** 2 / wanted)
    freedom = high - low - 1
    # Wilson and Hilferty's normal approximation of the distribution of chi squared.
    third = (chi_squared / freedom) ** (1 / 3)
    assert abs(third - (1 - 2 / (9 * freedom))) < _DEVIATIONS * math.sqrt(2 / (9 * freedom))


def test_bernoulli_samples_have_their_chance_each() -> None:
    p = sg.constant(np.array([0.0, 0.1, 0.75, 1.0], np.float32))
    x = sample(sg.random.Generator(0).bernoulli(p, (COUNT, 4)))
    rates = x.mean(axis=0)
    assert rates[0] == 0
    assert rates[3] == 1
    for rate, chance in ((rates[1], 0.1), (rates[2], 0.75)):
        assert abs(rate - chance) < _DEVIATIONS * math.sqrt(chance * (1 - chance) / COUNT)


# ------------------------------------------------------------------- limits, with bits by hand

_EDGES = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 2**40, 2**64 - 1]


def of_words(function: Any, *columns: list[int]) -> Array:
    words = [sg.placeholder((len(column),), "uint64") for column in columns]
    arrays = [np.array(column, np.uint64) for column in columns]
    graph = Graph(function(*words), words)
    different = run_everywhere(graph, arrays)
    assert different is None, str(different)
    (found,) = evaluate_reference(graph, arrays)
    return found


@pytest.mark.parametrize(("dtype", "bits"), [("float32", 24), ("float64", 53)])
def test_a_uniform_number_is_the_upper_bits_as_a_fraction(dtype: str, bits: int) -> None:
    found = of_words(lambda words: unit_uniform(words, as_dtype(dtype)), _EDGES)
    wanted = [math.ldexp(word >> (64 - bits), -bits) for word in _EDGES]
    assert found.tolist() == wanted
    assert max(wanted) == 1 - 2.0**-bits


@FLOATS
def test_a_normal_number_is_finite_whatever_the_bits(dtype: str) -> None:
    pairs = [(a, b) for a in _EDGES for b in _EDGES]
    columns = [a for a, _ in pairs], [b for _, b in pairs]
    found = of_words(lambda a, b: unit_normal(a, b, as_dtype(dtype)), *columns)
    bound = 5.77 if dtype == "float32" else 8.58
    assert np.isfinite(found).all()
    assert bound - 0.01 < np.abs(found).max() < bound


@pytest.mark.parametrize("span", [1, 2, 10, 2**32 - 1, 2**32])
def test_an_integer_is_the_floor_of_the_exact_product(span: int) -> None:
    found = of_words(lambda words: below(words, span), _EDGES)
    assert found.tolist() == [word * span >> 64 for word in _EDGES]


@pytest.mark.parametrize(("dtype", "low", "high"), [
    ("int8", -128, 128), ("int64", 2**63 - 5, 2**63), ("uint64", 2**64 - 5, 2**64),
    ("int32", -(2**31), 2**31), ("int16", 7, 8),
])  # fmt: skip
def test_the_limits_of_a_dtype_are_reached_and_kept(dtype: str, low: int, high: int) -> None:
    x = sample(sg.random.Generator(0).integers(low, high, (20_000,), dtype))
    assert low <= int(x.min()) <= low + (high - low) // 100
    assert high - 1 - (high - low) // 100 <= int(x.max()) < high


# ------------------------------------------------------------------------------ parameters


def test_gradients_flow_to_parameters_and_not_to_bits() -> None:
    mean = sg.variable(np.zeros(3, np.float32))
    std = sg.variable(np.ones((4, 1), np.float32))
    rng = sg.random.Generator(0)
    noise, moved = rng.normal((4, 3)), sg.random.Generator(0).normal((4, 3), mean, std)
    weights = np.arange(12, dtype=np.float32).reshape(4, 3)
    d_mean, d_std, z = sg.compile([], [*sg.gradients(moved * weights, [mean, std]), noise])()
    np.testing.assert_allclose(d_mean, weights.sum(axis=0))
    np.testing.assert_allclose(d_std[:, 0], (z * weights).sum(axis=1), rtol=1e-5)
    assert sg.gradients(moved, list(rng.state.values())) == [None, None]


def test_limits_may_be_tensors() -> None:
    high = sg.constant(np.array([1.0, 10.0, 100.0], np.float32))
    x = sample(sg.random.Generator(0).uniform((1000, 3), -high, high))
    assert (np.abs(x) <= [1, 10, 100]).all()
    assert (np.abs(x).max(axis=0) > [0.9, 9, 90]).all()
