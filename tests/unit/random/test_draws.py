"""Draws against exact distributions, at extreme parameters, and the same bits everywhere.

Seeds are fixed, so a test passes always or never. Its bounds are passed by 999 of 1000 seeds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.random import rejection
from tests.support.draw_programs import DRAWS
from tests.support.floors import TARGETS, compile_for, run_native, run_reference
from tests.support.samples import (
    DEVIATIONS,
    KS_BOUND,
    beta_distribution,
    deviations_of_counts,
    distance_at_some,
    gamma_distribution,
    sample,
    student_distribution,
    truncated_distribution,
)

# Below the size at which a draw goes on with the elements that are left alone; the slow tests are
# above it.
COUNT = 4000
MANY = 100_000
WITH_COUNTS = pytest.mark.parametrize(
    ("dtype", "count"),
    [
        ("float32", COUNT),
        pytest.param("float64", COUNT, marks=pytest.mark.slow),
        pytest.param("float32", MANY, marks=pytest.mark.slow),
        pytest.param("float64", MANY, marks=pytest.mark.slow),
    ],
)
FLOATS = pytest.mark.parametrize("dtype", ["float32", "float64"])
KEY = sg.random.key(2)


@pytest.fixture
def in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have draws of COUNT rows go on with all elements; those of MANY rows leave some behind.

    Both are compiled otherwise, which takes twice the time.
    """
    monkeypatch.setattr(rejection, "_MANY", MANY // 2)


# ----------------------------------------------------------------------- without parameters

_PLAIN: dict[str, tuple[Callable[[Any], Any], float, float]] = {  # function, mean, variance
    "normal": (mp.ncdf, 0, 1),
    "exponential": (lambda x: -mp.expm1(-x), 1, 1),
    "gumbel": (lambda x: mp.exp(-mp.exp(-x)), float(mp.euler), math.pi**2 / 6),
    "laplace": (lambda x: mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2, 0, 2),
    "cauchy": (lambda x: mp.atan(x) / mp.pi + 0.5, math.nan, math.nan),
}


@FLOATS
def test_draws_without_parameters_have_their_distributions(dtype: str) -> None:
    drawn = sample({name: getattr(sg.random, name)(KEY, (COUNT,), dtype=dtype) for name in _PLAIN})
    for name, (distribution, mean, variance) in _PLAIN.items():
        x = drawn[name]
        assert x.dtype == dtype
        assert distance_at_some(x, distribution) < KS_BOUND, name
        if not math.isnan(mean):
            error = abs(x.mean(dtype=np.float64) - mean)
            assert error < DEVIATIONS * math.sqrt(variance / COUNT), name
            assert abs(x.var(dtype=np.float64) / variance - 1) < 0.15, name


# -------------------------------------------------------------------------------- continuous


@WITH_COUNTS
@pytest.mark.usefixtures("in_one_piece")
def test_gamma_samples_are_exact_for_tiny_and_huge_concentrations(dtype: str, count: int) -> None:
    concentrations = [1e-3, 0.1, 0.9, 1.0, 2.5, 40.0, 1e4, 1e6]
    x = sample(sg.random.gamma(KEY, (count, 8), np.array(concentrations), dtype))
    assert x.dtype == dtype
    for a, column in zip(concentrations, x.T, strict=True):
        assert distance_at_some(column, gamma_distribution(a), 10) < KS_BOUND, a
        mean = column.mean(dtype=np.float64)
        assert abs(mean - a) < DEVIATIONS * math.sqrt(a / count), a


@pytest.mark.parametrize("rows", [4, pytest.param(45, marks=pytest.mark.slow)])
def test_a_number_and_a_tensor_of_it_give_the_same_gamma_samples(rows: int) -> None:
    one = sg.random.gamma(KEY, (rows, 100), 1.5)
    many = sg.random.gamma(KEY, (rows, 100), np.full((rows, 100), 1.5, np.float32))
    np.testing.assert_array_equal(*sample([one, many]))


def test_the_first_elements_of_a_long_draw_are_those_of_a_short_one() -> None:
    # The long one goes on with the elements that are left alone, the short one does not.
    (few,) = run_reference(Graph(sg.random.gamma(KEY, (2000,), 0.7), []), []).outputs
    many = sample(sg.random.gamma(KEY, (9000,), 0.7), opt_level=0)
    np.testing.assert_array_equal(few, many[:2000])


@WITH_COUNTS
@pytest.mark.usefixtures("in_one_piece")
def test_beta_samples_are_exact_where_gamma_samples_underflow_too(dtype: str, count: int) -> None:
    a, b = np.array([0.5, 2.0, 300.0, 1e-3]), np.array([0.5, 3.0, 2.0, 2e-3])
    x = sample(sg.random.beta(KEY, (count, 4), a, b, dtype))
    assert x.dtype == dtype
    assert ((x >= 0) & (x <= 1)).all()
    for i in range(3):
        assert distance_at_some(x[:, i], beta_distribution(a[i], b[i]), 8) < KS_BOUND, i
    # All but one in 500 are 0 or 1 here, as often as their gamma samples are the greater.
    assert abs((x[:, 3] > 0.5).mean() - 1 / 3) < DEVIATIONS * math.sqrt(2 / 9 / count)


@pytest.mark.usefixtures("in_one_piece")
def test_dirichlet_samples_add_up_to_one_and_are_beta_each() -> None:
    alpha = np.array([[0.2, 1.0, 3.0, 0.8, 2.0], [1e-3, 1e-3, 1e-3, 1e-3, 1e-3]])
    x = sample(sg.random.dirichlet(KEY, (COUNT, 2), alpha, "float64"))
    assert x.shape == (COUNT, 2, 5)
    np.testing.assert_allclose(x.sum(axis=-1), 1.0, rtol=1e-14)
    for i, a in enumerate(alpha[0]):
        rest = float(alpha[0].sum() - a)
        assert distance_at_some(x[:, 0, i], beta_distribution(a, rest), 5) < KS_BOUND, i
    assert np.abs(x[:, 1].mean(axis=0) - 0.2).max() < 4 * math.sqrt(0.16 / COUNT)


@WITH_COUNTS
@pytest.mark.usefixtures("in_one_piece")
def test_student_samples_are_exact(dtype: str, count: int) -> None:
    freedom = [0.3, 1.0, 5.0, 200.0]
    x = sample(sg.random.student_t(KEY, (count, 4), np.array(freedom), dtype))
    for df, column in zip(freedom, x.T, strict=True):
        assert distance_at_some(column, student_distribution(df), 8) < KS_BOUND, df


_LIMITS = [(-2.0, 2.0), (0.0, math.inf), (-math.inf, -5.0), (3.0, 3.25), (-1.0, 0.5),
           (-8.0, -7.5), (0.125, 4.0), (-0.125, 9.0), (20.0, math.inf)]  # fmt: skip


@WITH_COUNTS
@pytest.mark.usefixtures("in_one_piece")
def test_truncated_normal_samples_are_exact_far_out_in_a_tail_too(dtype: str, count: int) -> None:
    low, high = (np.array(limits) for limits in zip(*_LIMITS, strict=True))
    x = sample(sg.random.truncated_normal(KEY, (count, len(_LIMITS)), low, high, dtype))
    assert ((x >= low) & (x <= high)).all()
    for limits, column in zip(_LIMITS, x.T, strict=True):
        # float32 has but few numbers in a short interval far from 0.
        assert distance_at_some(column, truncated_distribution(*limits), 20) < KS_BOUND, limits


# ----------------------------------------------------------------------------------- discrete


@pytest.mark.parametrize(
    ("rates", "count"),
    [
        ((0.5, 9.99, 50.0), COUNT),
        *(
            pytest.param(rates, count, marks=pytest.mark.slow)
            for rates in [(1e-5, 3.0), (10.0, 12.0), (100.0, 1000.0, 1e6)]
            for count in (COUNT, MANY)
        ),
    ],
)
@pytest.mark.usefixtures("in_one_piece")
def test_poisson_samples_are_exact(rates: tuple[float, ...], count: int) -> None:
    x = sample(sg.random.poisson(KEY, (count, len(rates)), np.array(rates)))
    assert x.dtype == np.int32
    for rate, column in zip(rates, x.T, strict=True):
        assert abs(column.mean() - rate) < DEVIATIONS * math.sqrt(rate / count)
        spread = math.sqrt(rate)
        marks = np.unique(np.floor(rate + spread * np.linspace(-1.5, 1.5, 9)).clip(0))
        upto = [0.0, *(_poisson_distribution(rate, int(k)) for k in marks), 1.0]
        counts = np.histogram(column, [-1, *(marks + 0.5), np.inf])[0].tolist()
        chances = [b - a for a, b in itertools.pairwise(upto)]
        kept = [i for i, chance in enumerate(chances) if chance * count >= 5]
        if len(kept) < len(chances):
            counts, chances = [count - counts[-1], counts[-1]], [1 - chances[-1], chances[-1]]
        assert rate < 1e-3 or deviations_of_counts(counts, chances) < DEVIATIONS, rate


def _poisson_distribution(rate: float, k: int) -> float:
    return 1.0 - float(gamma_distribution(k + 1)(mpmath.mpf(rate)))


def test_categories_have_the_chances_of_softmax() -> None:
    chances = np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 0.97, 0.02, 0.01]])
    with np.errstate(divide="ignore"):
        logits = np.log(chances) + 3.0
    x = sample(sg.random.categorical(KEY, logits, (COUNT,)))
    assert x.shape == (COUNT, 2)
    assert x.dtype == np.int32
    first, second = (np.bincount(column, minlength=4) for column in x.T)
    assert deviations_of_counts(list(first), list(chances[0])) < DEVIATIONS
    assert second[0] == 0
    assert deviations_of_counts(list(second[1:]), list(chances[1, 1:])) < DEVIATIONS


def test_counts_of_categories_add_up_and_have_their_moments() -> None:
    p = np.array([0.2, 0.3, 0.5])
    x = sample(sg.random.multinomial(KEY, 40, np.tile(p, (2000, 1)), "int64"))
    assert x.dtype == np.int64
    assert (x.sum(axis=1) == 40).all()
    spread = np.sqrt(40 * p * (1 - p) / 2000)
    assert (np.abs(x.mean(axis=0) - 40 * p) < DEVIATIONS * spread).all()
    covariance = np.cov(x.T)
    np.testing.assert_allclose(covariance, 40 * (np.diag(p) - np.outer(p, p)), atol=0.8)


# --------------------------------------------------------------------------------- matrices


@pytest.mark.parametrize(
    ("n", "count"), [(3, 2000), *(pytest.param(n, 20_000, marks=pytest.mark.slow) for n in (2, 6))]
)
def test_orthogonal_matrices_are_spread_by_the_haar_measure(n: int, count: int) -> None:
    q = sample(sg.random.orthogonal(KEY, n, (count,), "float64"))
    assert q.shape == (count, n, n)
    np.testing.assert_allclose(q @ q.swapaxes(1, 2), np.eye(n) + np.zeros_like(q), atol=4e-15)
    sign = np.linalg.det(q).round().astype(int)
    assert set(sign.tolist()) == {-1, 1}
    assert abs(sign.mean()) < DEVIATIONS / math.sqrt(count)
    # Moments of the Haar measure: of elements, of their squares, and of the trace and its square
    # (P. Diaconis, M. Shahshahani, "On the eigenvalues of random matrices", 1994).
    spread = DEVIATIONS / math.sqrt(count)
    assert np.abs(q.mean(axis=0)).max() < 1.5 * spread
    assert np.abs((q**2).mean(axis=0) - 1 / n).max() < 1.5 * spread
    assert np.abs((q**4).mean(axis=0) - 3 / (n * (n + 2))).max() < 1.5 * spread
    trace = q.trace(axis1=1, axis2=2)
    assert abs(trace.mean()) < spread
    assert abs((trace**2).mean() - 1) < 2 * spread
    # An element of each row and column is spread as one of a normal vector scaled to 1, and so is
    # what another rotation makes of the matrices.
    turned = q @ np.linalg.qr(np.arange(1.0, n * n + 1).reshape(n, n) ** 0.5)[0]
    for x in (q[:, 0, 0], q[:, n - 1, n - 1], turned[:, n - 1, 0]):
        half = beta_distribution(0.5, (n - 1) / 2)
        assert distance_at_some(x**2, half, 20) < KS_BOUND
        assert abs(np.sign(x).mean()) < spread


def test_numbers_of_numpy_are_as_good_as_ints() -> None:
    big: Any = np.int64(3)  # what a type checker refuses
    pairs = [
        (sg.random.integers(KEY, -big, big, (9,)), sg.random.integers(KEY, -3, 3, (9,))),
        (sg.random.multinomial(KEY, big, [0.5, 0.5]), sg.random.multinomial(KEY, 3, [0.5, 0.5])),
        (sg.random.orthogonal(KEY, big), sg.random.orthogonal(KEY, 3)),
    ]
    found = sample([x for pair in pairs for x in pair])
    for one, other in zip(found[::2], found[1::2], strict=True):
        np.testing.assert_array_equal(one, other)


def test_orthogonal_matrices_of_few_rows_are_the_limits() -> None:
    none, one = sample([sg.random.orthogonal(KEY, n, (40,)) for n in (0, 1)])
    assert none.shape == (40, 0, 0)
    assert set(one.ravel().tolist()) == {-1.0, 1.0}


# --------------------------------------------------------------- parameters out of their range


@pytest.mark.parametrize(
    "names",
    [
        ("gamma", "limits"),
        pytest.param(
            ("beta", "dirichlet", "student_t", "poisson", "number"), marks=pytest.mark.slow
        ),
    ],
    ids=["some", "others"],
)
def test_parameters_out_of_range_give_nan_or_minus_one(names: Sequence[str]) -> None:
    bad = np.array([-1.0, np.nan, np.inf, -0.5], np.float32)
    drawn = {
        "gamma": sg.random.gamma(KEY, (4,), bad),
        "beta": sg.random.beta(KEY, (4,), bad, 1.0),
        "dirichlet": sg.random.dirichlet(KEY, (), bad),
        "student_t": sg.random.student_t(KEY, (4,), bad),
        "limits": sg.random.truncated_normal(KEY, (3,), [1.0, 2.0, np.nan], [1.0, 1.0, 5.0]),
        "poisson": sg.random.poisson(KEY, (4,), bad),
        "number": sg.random.poisson(KEY, (4,), -2.0),
    }  # fmt: skip
    for name, values in sample({name: drawn[name] for name in names}).items():
        refused = values == -1 if name in ("poisson", "number") else np.isnan(values)
        assert refused.all(), name


@pytest.mark.parametrize("are_numbers", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_limits_of_parameters_are_reached(are_numbers: bool) -> None:
    if are_numbers:
        zero, huge, none, large = sample([
            sg.random.gamma(KEY, (3,), 0.0), sg.random.gamma(KEY, (3,), 1e30),
            sg.random.poisson(KEY, (3,), 0), sg.random.poisson(KEY, (3,), 1e12),
        ])  # fmt: skip
    else:
        gamma, poisson = sample([
            sg.random.gamma(KEY, (2, 3), [[0.0], [1e30]]),
            sg.random.poisson(KEY, (2, 3), [[0.0], [1e12]]),
        ])  # fmt: skip
        (zero, huge), (none, large) = gamma, poisson
    assert (zero == 0).all()
    np.testing.assert_allclose(huge, 1e30, rtol=1e-6)
    assert (none == 0).all()
    assert (large == 2**31 - 1).all()


# -------------------------------------------------------------------------- the same everywhere

# What these add to others is time.
_SLOW = (
    "beta", "student_t", "gamma float64", "many gamma", "gumbel", "normal float64",
    "orthogonal float64",
)  # fmt: skip


@pytest.mark.parametrize(
    ("draw", "targets"),
    [
        pytest.param(
            draw,
            # By default this machine and the levels below it in turns.
            (TARGETS[turn % len(TARGETS)],),
            id=name,
            marks=[pytest.mark.slow] if name in _SLOW else [],
        )
        for turn, (name, draw) in enumerate(DRAWS.items())
    ],
)
def test_targets_give_the_bits_of_the_reference(
    draw: Callable[[Any], Any], targets: Sequence[str]
) -> None:
    graph = Graph(draw(sg.random.key(2**40 + 3)), [])
    (wanted,) = run_reference(graph, []).outputs
    for target in targets:
        (found,) = run_native(compile_for(graph, target), []).outputs
        np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [pytest.param(draw, id=name) for name, draw in DRAWS.items()])
def test_every_target_gives_the_bits_of_the_reference(draw: Callable[[Any], Any]) -> None:
    test_targets_give_the_bits_of_the_reference(draw, TARGETS)


@pytest.mark.slow
def test_threads_do_not_change_a_bit() -> None:
    # More elements than one thread takes, and so many that those left are gone on with alone.
    gamma = sg.random.gamma(KEY, (40, 501), 0.6)
    one = sample(gamma, threads=1)
    for threads in (2, 4):
        np.testing.assert_array_equal(sample(gamma, threads=threads), one)
