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
from benchmarks.workload_peers import Workload, tensorflow_numpy, torch_compiled
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


def strict_triangle(d: int) -> tuple[Any, Any]:
    """Return where each element of a strict lower triangle is, column by column, and a mask."""
    columns, rows = np.triu_indices(d, 1)
    places = np.zeros((d, d), np.int64)
    places[rows, columns] = np.arange(len(rows))
    return places, np.tril(np.ones((d, d)), -1)


def log_likelihood(
    library: Any, logsumexp: Any, lower: Any, alphas: Any, means: Any, q: Any, below: Any, x: Any
) -> Any:
    """Return the log-likelihood with the prior; of factors exp(q) is the diagonal."""
    (points, d), k = x.shape, means.shape[0]
    diagonals, sums = library.exp(q), library.sum(q, 1)
    centered = x[:, None, :] - means
    scaled = library.einsum("kij,nkj->nki", lower(below), centered) + diagonals * centered
    inner = alphas + sums - 0.5 * library.sum(scaled * scaled, 2)
    squares = library.sum(diagonals * diagonals) + library.sum(below * below)
    prior = 0.5 * GAMMA * GAMMA * squares - DEGREES * library.sum(sums)
    constant = -points * d * 0.5 * math.log(2 * math.pi) + k * _wishart_constant(d)
    likelihood = library.sum(logsumexp(inner, 1)) - points * logsumexp(alphas, 0)
    return constant + likelihood - prior


def _wishart_constant(d: int) -> float:
    degrees = d + DEGREES + 1
    gammas = sum(math.lgamma((degrees + 1 - i) / 2) for i in range(1, d + 1))
    log_gamma = d * (d - 1) / 4 * math.log(math.pi) + gammas
    return degrees * d * math.log(GAMMA / math.sqrt(2)) - log_gamma


def symgrad_lower(below: Any) -> Any:
    """Return strict lower triangles of what stands in them, column by column."""
    places, mask = strict_triangle(_dimensions(below))
    return sg.take(below, places, axis=1) * mask


def jax_lower(below: Any) -> Any:
    """Return strict lower triangles of what stands in them, column by column."""
    places, mask = strict_triangle(_dimensions(below))
    return below[:, places] * mask


def _torch_lower(below: Any) -> Any:
    torch = optional("torch")
    places, mask = strict_triangle(_dimensions(below))
    chosen = below.index_select(1, torch.from_numpy(places.ravel()))
    return chosen.reshape(-1, *places.shape) * torch.from_numpy(mask)


def _dimensions(below: Any) -> int:
    """Return of how many rows a strict triangle has so many elements."""
    return (1 + math.isqrt(1 + 8 * int(below.shape[1]))) // 2


def _likelihood(library: Any, logsumexp: Any, lower: Any, w: Any, given: Any) -> Any:
    d, factors = w["means"].shape[1], w["factors"]
    parts = w["alphas"], w["means"], factors[:, :d], factors[:, d:]
    return log_likelihood(library, logsumexp, lower, *parts, given["x"])


def _symgrad(w: Any, given: Any) -> Any:
    return _likelihood(sg, sg.nn.logsumexp, symgrad_lower, w, given)


def _jax(w: Any, given: Any) -> Any:
    jax = optional("jax")
    return _likelihood(jax.numpy, jax.nn.logsumexp, jax_lower, w, given)


def _torch(w: Any, given: Any) -> Any:
    torch = optional("torch")
    return _likelihood(torch, torch.logsumexp, _torch_lower, w, given)


def _tensorflow_lower(below: Any) -> Any:
    places, mask = strict_triangle(_dimensions(below))
    return optional("tensorflow").gather(below, places, axis=1) * mask


def _tensorflow(w: Any, given: Any) -> Any:
    logsumexp = optional("tensorflow").reduce_logsumexp
    return _likelihood(tensorflow_numpy(), logsumexp, _tensorflow_lower, w, given)


FUNCTIONS = (_symgrad, _jax, _torch, _tensorflow)
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
