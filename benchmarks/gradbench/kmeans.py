"""k-means of GradBench: squared distances from nearest centroids, and a step of Newton's method.

The Hessian by the centroids is diagonal, so its product with a vector of ones is its diagonal, and
a step is the gradient divided by that, element by element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.gradbench.problem import Given, Problem
from benchmarks.timing import optional


def make(random: np.random.Generator, n: int, k: int, d: int) -> Given:
    """Return n points in d dimensions, of which the last k are the centroids, too."""
    points = random.random((n, d))
    return {"points": points, "centroids": points[-k:].copy()}


def cost(points: Any, centroids: Any) -> Any:
    """Return the sum of squared distances of points from the centroids that are nearest to them."""
    products = points @ centroids.T
    squares = (points * points).sum(1)[:, None] + (centroids * centroids).sum(1) - 2 * products
    return squares.min(1).sum()


def step(points: Any, centroids: Any) -> Any:
    """Return the gradient by the centroids, divided by the diagonal of the Hessian."""
    (gradient,) = sg.gradients(cost(points, centroids), [centroids])
    (diagonal,) = sg.gradients(gradient.sum(), [centroids])
    return gradient / diagonal


def _jax_step(points: Any, centroids: Any) -> Any:
    jax = optional("jax")
    gradient = jax.grad(cost, argnums=1)
    ones = jax.numpy.ones_like(centroids)
    found, diagonal = jax.jvp(lambda c: gradient(points, c), (centroids,), (ones,))
    return found / diagonal


KMEANS = Problem(
    "kmeans",
    make,
    {"cost": cost, "dir": step},
    ((1000, 10, 8), (10_000, 100, 16), (10_000, 1000, 16)),
    (6, 2, 3),
    {"cost": cost, "dir": _jax_step},
)
