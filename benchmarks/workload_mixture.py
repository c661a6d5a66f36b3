"""The log-likelihood of a mixture of Gaussians and its gradient, for `benchmarks/workloads.py`.

As in the benchmark GMM of ADBench and GradBench: 25 components in 10 dimensions, the inverse of
each covariance as a triangular factor whose diagonal is stored as logarithms, and a Wishart prior;
1,000 and 10,000 points, float64.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import Arrays
from benchmarks.timing import optional
from benchmarks.workload_peers import Workload, torch_compiled
from benchmarks.workload_tasks import GRADIENT

DIMENSIONS, COMPONENTS = 10, 25
GAMMA, DEGREES = 1.0, 0  # of the Wishart prior


def _make(points: int, quick: bool) -> tuple[Arrays, Arrays]:
    points, d, k = (4, 3, 2) if quick else (points, DIMENSIONS, COMPONENTS)
    random = np.random.default_rng(0)
    weights = {
        "alphas": random.normal(size=k),
        "means": random.random((k, d)),
        "factors": random.normal(size=(k, d * (d + 1) // 2)),
    }
    return weights, {"x": random.random((points, d))}


def _triangle(d: int) -> tuple[Any, Any]:
    """Return where in the factors each element of a strict lower triangle is, column by column."""
    columns, rows = np.triu_indices(d, 1)
    places = np.zeros((d, d), np.int64)
    places[rows, columns] = d + np.arange(len(rows))
    return places, np.tril(np.ones((d, d)), -1)


def _likelihood(library: Any, logsumexp: Any, take: Any, w: Any, given: Any) -> Any:
    """Return the log-likelihood without its constant terms, and with the prior."""
    alphas, means, factors, x = w["alphas"], w["means"], w["factors"], given["x"]
    (points, d), k = x.shape, means.shape[0]
    lower, logarithms = take(factors, *_triangle(d)), factors[:, :d]
    diagonals, sums = library.exp(logarithms), logarithms.sum(1)
    centered = x[:, None, :] - means
    scaled = library.einsum("kij,nkj->nki", lower, centered) + diagonals * centered
    inner = alphas + sums - 0.5 * (scaled * scaled).sum(2)
    squares = (diagonals * diagonals).sum() + (factors[:, d:] * factors[:, d:]).sum()
    prior = 0.5 * GAMMA * GAMMA * squares - DEGREES * sums.sum()
    constant = -points * d * 0.5 * math.log(2 * math.pi) + k * d * math.log(GAMMA)
    return constant + logsumexp(inner, 1).sum() - points * logsumexp(alphas, 0) - prior


def _symgrad(w: Any, given: Any) -> Any:
    def take(factors: Any, places: Any, mask: Any) -> Any:
        return sg.take(factors, places, axis=1) * mask

    return _likelihood(sg, sg.nn.logsumexp, take, w, given)


def _jax(w: Any, given: Any) -> Any:
    jax = optional("jax")

    def take(factors: Any, places: Any, mask: Any) -> Any:
        return factors[:, places] * mask

    return _likelihood(jax.numpy, jax.nn.logsumexp, take, w, given)


def _torch(w: Any, given: Any) -> Any:
    torch = optional("torch")

    def take(factors: Any, places: Any, mask: Any) -> Any:
        chosen = factors.index_select(1, torch.from_numpy(places.ravel()))
        return chosen.reshape(-1, *places.shape) * torch.from_numpy(mask)

    return _likelihood(torch, torch.logsumexp, take, w, given)


FUNCTIONS = (_symgrad, _jax, _torch)
MIXTURES = tuple(
    Workload(
        f"Gaussian mixture, {points:,} points",
        (2.5, 2.8),
        GRADIENT,
        partial(_make, points),
        FUNCTIONS,
        1e-8,
        partial(torch_compiled, _torch),
    )
    for points in (1000, 10_000)
)
