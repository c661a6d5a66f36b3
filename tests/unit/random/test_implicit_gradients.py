"""Implicit gradients of draws against differences of the quantile function.

A sample z of P(a, z) = u moves with a so that u stays: z(a) solves P(a, z) = u, by mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

import symgrad as sg
from tests.support.samples import gamma_distribution

KEY = sg.random.key(5)


def _moved(distribution: Callable[[Any], Callable[[Any], Any]], a: float, z: float) -> float:
    """Return the difference quotient of the z of constant probability by `a`."""
    with mp.workdps(30):
        step = mpf(a) * mpf(10) ** -8
        wanted = distribution(mpf(a))(mpf(z))

        def quantile(parameter: Any) -> Any:
            return mp.findroot(lambda x: distribution(parameter)(x) - wanted, mpf(z), tol=1e-40)

        return float((quantile(a + step) - quantile(a - step)) / (2 * step))


@pytest.mark.parametrize(
    ("dtype", "concentrations"),
    [
        ("float64", (0.4, 5.0)),
        pytest.param("float64", (1.0, 60.0), marks=pytest.mark.slow),
        pytest.param("float32", (0.4, 1.0, 5.0, 60.0), marks=pytest.mark.slow),
    ],
)
def test_gamma_samples_move_with_the_quantile(
    dtype: str, concentrations: tuple[float, ...]
) -> None:
    values = np.array(concentrations, dtype)
    a = sg.placeholder(values.shape, dtype)
    z = sg.random.gamma(KEY, values.shape, a, dtype)
    samples, slopes = sg.compile([a], [z, *sg.gradients(z, [a])], opt_level=1)(values)
    wanted = [
        _moved(gamma_distribution, *pair)
        for pair in zip(values.tolist(), samples.tolist(), strict=True)
    ]
    np.testing.assert_allclose(slopes, wanted, rtol=2e-5 if dtype == "float32" else 1e-11)


@pytest.mark.slow
def test_gradients_of_what_is_made_of_gamma_samples_are_those_of_their_formula() -> None:
    # The mean of the derivatives is the derivative of the mean: of a / (a + b), a / (a + 2.5) and
    # df / (df - 2) for the square of Student's t.
    a = sg.placeholder((), "float64")
    alpha = sg.stack([a, sg.constant(2.0, "float64"), sg.constant(0.5, "float64")])
    beta = sg.random.beta(KEY, (3000,), a, 3.0, "float64")
    share = sg.random.dirichlet(KEY, (3000,), alpha, "float64")[:, 0]
    t = sg.random.student_t(KEY, (3000,), a, "float64")
    outputs = [sg.gradients(x.mean(), [a])[0] for x in (beta, share, t * t)]
    to_beta, to_share, to_spread = sg.compile([a], outputs, opt_level=1)(np.float64(9.0))
    assert abs(to_beta - 3 / 12**2) < 0.001
    assert abs(to_share - 2.5 / 11.5**2) < 0.001
    assert abs(to_spread - (-2 / 49)) < 0.015


@pytest.mark.parametrize("with_beta", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_gradient_is_finite_where_a_sample_is_less_than_any_float(with_beta: bool) -> None:
    a = sg.placeholder((1000,))
    z = sg.random.gamma(KEY, (1000,), a)
    share = sg.random.beta(KEY, (1000,), a, a)
    values = np.full(1000, 1e-3, np.float32)
    wanted = sg.gradients(z, [a]) + (sg.gradients(share, [a]) if with_beta else [])
    samples, *slopes = sg.compile([a], [z, *wanted], opt_level=1)(values)
    assert (samples == 0).mean() > 0.8
    for slope in slopes:
        assert np.isfinite(slope).all()
    assert (slopes[0][samples > 0] > 0).all()


@pytest.mark.slow
def test_a_gradient_flows_through_a_scan_over_keys() -> None:
    a = sg.placeholder((), "float64")
    keys = sg.random.split(KEY, 3)
    total = sg.map(lambda key: sg.random.gamma(key, (2,), a, "float64"), keys).sum()
    apart = sum(sg.random.gamma(keys[i], (2,), a, "float64").sum() for i in range(3))
    together, wanted = sg.compile([a], [sg.gradients(y, [a])[0] for y in (total, apart)])(
        np.float64(2.5)
    )
    np.testing.assert_allclose(together, wanted, rtol=1e-13)
