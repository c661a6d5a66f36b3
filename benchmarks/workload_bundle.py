"""Bundle adjustment, for `benchmarks/workloads.py`: how far points are from where cameras see them.

As in the benchmark BA of ADBench and GradBench, in the size of its first problem: 49 cameras of 11
numbers (an axis of rotation, a centre, a focal length, a principal point, radial distortion), 7,776
points, 31,843 observations with a weight each; float64. Once the gradient of half the sum of
squares of all residuals, once the product of the residuals' Jacobian, and of that one's transpose,
with a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import Arrays
from benchmarks.timing import optional
from benchmarks.workload_peers import Function, Workload, tensorflow_numpy, torch_compiled
from benchmarks.workload_tasks import GAUSS_NEWTON_PRODUCT, GRADIENT

CAMERAS, POINTS, OBSERVATIONS = 49, 7776, 31843
USUAL_CAMERA = np.array([0.0, 0, 0, 0, 0, -5, 1, 0, 0, 0, 0])


def _make(quick: bool) -> tuple[Arrays, Arrays]:
    cameras, points, count = (2, 5, 8) if quick else (CAMERAS, POINTS, OBSERVATIONS)
    random = np.random.default_rng(0)
    weights = {
        "cameras": USUAL_CAMERA + 0.1 * random.normal(size=(cameras, 11)),
        "points": random.normal(size=(points, 3)),
        "weights": random.random(count),
    }
    given = {
        "seen": random.normal(size=(count, 2)),
        "camera": random.integers(0, cameras, count),
        "point": random.integers(0, points, count),
    }
    return weights, given


def _rotated(library: Any, cross: Any, axes: Any, x: Any) -> Any:
    """Return vectors, turned about axes by as much as these are long: Rodrigues' formula."""
    angle = library.sqrt(library.sum(axes * axes, 1))[:, None]
    unit = axes / angle
    cosine, sine = library.cos(angle), library.sin(angle)
    along = library.sum(unit * x, 1)[:, None] * (1 - cosine)
    return x * cosine + cross(unit, x) * sine + unit * along


def projection_errors(
    library: Any, cross: Any, camera: Any, point: Any, weights: Any, seen: Any
) -> Any:
    """Return by how much each point is seen elsewhere than its camera projects it, weighted."""
    x = _rotated(library, cross, camera[:, :3], point - camera[:, 3:6])
    projected = x[:, :2] / x[:, 2:]
    square = library.sum(projected * projected, 1)[:, None]
    distortion = 1 + camera[:, 9:10] * square + camera[:, 10:] * square * square
    places = projected * distortion * camera[:, 6:7] + camera[:, 7:9]
    return weights[:, None] * (places - seen)


def _residuals(library: Any, cross: Any, take: Any, w: Any, given: Any) -> Any:
    camera, point = take(w["cameras"], given["camera"]), take(w["points"], given["point"])
    return projection_errors(library, cross, camera, point, w["weights"], given["seen"])


def _symgrad(w: Any, given: Any) -> Any:
    return _residuals(sg, sg.cross, lambda x, rows: sg.take(x, rows, axis=0), w, given)


def _jax(w: Any, given: Any) -> Any:
    jnp = optional("jax").numpy

    def take(x: Any, rows: Any) -> Any:
        return x.at[rows].get(mode="promise_in_bounds")

    return _residuals(jnp, jnp.cross, take, w, given)


def _torch(w: Any, given: Any) -> Any:
    torch = optional("torch")
    return _residuals(torch, torch.linalg.cross, lambda x, rows: x.index_select(0, rows), w, given)


def _tensorflow(w: Any, given: Any) -> Any:
    tf = optional("tensorflow")
    return _residuals(tensorflow_numpy(), tf.linalg.cross, tf.gather, w, given)


def _half_squares(library: Callable[[], Any], residuals: Function, w: Any, given: Any) -> Any:
    """Return half the sum of squares of all residuals, also of those of the weights."""
    total, found, of_weights = library().sum, residuals(w, given), 1 - w["weights"] * w["weights"]
    return 0.5 * total(found * found) + 0.5 * total(of_weights * of_weights)


RESIDUALS = (_symgrad, _jax, _torch, _tensorflow)
OBJECTIVES = (
    partial(_half_squares, lambda: sg, _symgrad),
    partial(_half_squares, lambda: optional("jax").numpy, _jax),
    partial(_half_squares, lambda: optional("torch"), _torch),
    partial(_half_squares, tensorflow_numpy, _tensorflow),
)
BUNDLES = (
    Workload(
        "bundle adjustment, gradient",
        (4, 4),
        GRADIENT,
        _make,
        OBJECTIVES,
        1e-8,
        partial(torch_compiled, OBJECTIVES[2]),
    ),
    Workload(
        "bundle adjustment, Jacobian products", (4, 4), GAUSS_NEWTON_PRODUCT, _make, RESIDUALS, 1e-8
    ),
)
