"""Statistics of samples: Kolmogorov and Smirnov's at some of them, chi squared, draws to test.

Exact distribution functions are mpmath's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
from mpmath import mp

import symgrad as sg
from tests.support.case import Array

KS_BOUND = 1.95  # one sample in 1000 is further away
DEVIATIONS = 3.3  # and so with this many standard deviations


def sample(tensor: Any, **options: Any) -> Any:
    """Return the values of a tensor, or of several."""
    return sg.compile([], tensor, **{"opt_level": 1, **options})()


def distance_at_some(samples: Array, distribution: Callable[[Any], Any], points: int = 40) -> float:
    """Return the greatest distance from `distribution` at some samples, times the root of n.

    No more than Kolmogorov and Smirnov's statistic. Samples that are 0 are what is less than any
    float: the distribution is not asked there.
    """
    assert not np.isnan(samples).any()
    ordered = np.sort(samples.astype(np.float64))
    count = len(ordered)
    places = np.linspace(0, count - 1, points + 2).astype(int)[1:-1]
    found = 0.0
    for value in np.unique(ordered[places]):
        if value == 0:
            continue
        exact = float(distribution(mpmath.mpf(float(value))))
        below, upto = (np.searchsorted(ordered, value, side) for side in ("left", "right"))
        found = max(found, exact - upto / count, below / count - exact)
    return found * math.sqrt(count)


def deviations_of_counts(counts: Sequence[int], chances: Sequence[float]) -> float:
    """Return how many deviations chi squared is above its mean, by Wilson and Hilferty."""
    total, freedom = sum(counts), len(counts) - 1
    expected = [total * chance for chance in chances]
    pairs = zip(counts, expected, strict=True)
    chi_squared = sum((found - wanted) ** 2 / wanted for found, wanted in pairs)
    variance = 2 / (9 * freedom)
    return float(((chi_squared / freedom) ** (1 / 3) - (1 - variance)) / math.sqrt(variance))


def gamma_distribution(a: float) -> Callable[[Any], Any]:
    """Return P(a, x); of a large `a`, by integrating the density."""
    if a < 1000:
        return lambda x: mp.gammainc(a, 0, x, regularized=True)

    def distribution(x: Any) -> Any:
        spread = mp.sqrt(a)
        edges = [a - 12 * spread, *(a + k * spread for k in range(-5, 6) if a + k * spread < x), x]
        log_of_gamma = mp.loggamma(a)
        return mp.quad(lambda t: mp.exp((a - 1) * mp.log(t) - t - log_of_gamma), edges)

    return distribution


def beta_distribution(a: float, b: float) -> Callable[[Any], Any]:
    """Return I_x(a, b)."""
    return lambda x: mp.betainc(a, b, 0, x, regularized=True)


def student_distribution(df: float) -> Callable[[Any], Any]:
    """Return the distribution function of Student's t."""

    def distribution(x: Any) -> Any:
        half = mp.betainc(df / 2, 0.5, 0, df / (df + x * x), regularized=True) / 2
        return half if x < 0 else 1 - half

    return distribution


def truncated_distribution(low: float, high: float) -> Callable[[Any], Any]:
    """Return the distribution function of the normal distribution between two limits."""

    def mass(a: Any, b: Any) -> Any:
        sign = -1 if a + b > 0 else 1  # in the lower tail, where nothing cancels
        return abs(mp.ncdf(sign * mpmath.mpf(b)) - mp.ncdf(sign * mpmath.mpf(a)))

    whole = mass(low, high)
    return lambda x: mass(low, x) / whole
