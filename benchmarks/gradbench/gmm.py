"""Mixture of Gaussians of GradBench: the log-likelihood of `benchmarks/workload_mixture.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.gradbench.problem import Given, Problem
from benchmarks.timing import optional
from benchmarks.workload_mixture import jax_lower, log_likelihood, symgrad_lower


def make(random: np.random.Generator, d: int, k: int, n: int) -> Given:
    """Return n points in d dimensions, and the parameters of k components."""
    return {
        "x": random.normal(size=(n, d)),
        "alpha": random.normal(size=k),
        "mu": random.random((k, d)),
        "q": random.normal(size=(k, d)),
        "l": random.normal(size=(k, d * (d - 1) // 2)),
    }


def objective(x: Any, alpha: Any, mu: Any, q: Any, l: Any) -> Any:  # noqa: E741 - its name there
    """Return the log-likelihood."""
    return log_likelihood(sg, sg.nn.logsumexp, symgrad_lower, alpha, mu, q, l, x)


def jacobian(x: Any, alpha: Any, mu: Any, q: Any, l: Any) -> Any:  # noqa: E741 - its name there
    """Return the derivatives by all parameters."""
    return sg.gradients(objective(x, alpha, mu, q, l), [alpha, mu, q, l])


def _jax(x: Any, alpha: Any, mu: Any, q: Any, l: Any) -> Any:  # noqa: E741 - its name there
    jax = optional("jax")
    return log_likelihood(jax.numpy, jax.nn.logsumexp, jax_lower, alpha, mu, q, l, x)


def _jax_jacobian(**given: Any) -> Any:
    jax = optional("jax")
    return [*jax.grad(lambda w: _jax(given["x"], **w))({n: given[n] for n in PARAMETERS}).values()]


PARAMETERS = ("alpha", "mu", "q", "l")
GMM = Problem(
    "gmm",
    make,
    {"objective": objective, "jacobian": jacobian},
    ((10, 25, 1000), (32, 50, 1000), (64, 100, 1000)),
    (3, 2, 4),
    {"objective": _jax, "jacobian": _jax_jacobian},
)
