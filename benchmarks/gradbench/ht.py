"""Hand tracking of GradBench: how far points are from a hand of 22 bones in some pose.

The variant with a parameter for each point's place in a triangle of the surface. The Jacobian is
that by these two, of which an error has its own, and by the 26 numbers of the pose, in rows of 28.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.gradbench.problem import Given, Problem

FINGERS, BONES_OF_FINGER, FIRST = 5, 4, 2
BONES = FIRST + FINGERS * BONES_OF_FINGER
POSE = 6 + 4 * FINGERS
PARENTS = (-1, 0, *(1 if b % BONES_OF_FINGER == FIRST else b - 1 for b in range(FIRST, BONES)))


def make(random: np.random.Generator, points: int, vertices: int) -> Given:
    """Return a pose, points with their triangles, and a hand of so many vertices."""
    weights = random.random((vertices, BONES))
    return {
        "theta": 0.1 * random.normal(size=POSE),
        "us": random.random((points, 2)) / 2,
        "points": random.normal(size=(points, 3)),
        "correspondences": random.integers(0, 2 * vertices, points),
        "triangles": random.integers(0, vertices, (2 * vertices, 3)),
        "base_relatives": _rigid(random),
        "inverse_base_absolutes": _rigid(random),
        "base_positions": np.hstack([random.normal(size=(vertices, 3)), np.ones((vertices, 1))]),
        "weights": weights / weights.sum(1, keepdims=True),
    }


def _rigid(random: np.random.Generator) -> Any:
    """Return for each bone a rotation and a translation, in homogeneous coordinates."""
    found = np.tile(np.eye(4), (BONES, 1, 1))
    found[:, :3, :3] = np.linalg.qr(random.normal(size=(BONES, 3, 3)))[0]
    found[:, :3, 3] = random.normal(size=(BONES, 3))
    return found


def _angles(theta: Any) -> list[tuple[Any, Any]]:
    """Return by which angles each bone is turned about x and about z, from those of the pose."""
    found: list[tuple[Any, Any]] = [(0.0, 0.0)] * FIRST
    for finger in range(FINGERS):
        bend, spread, *rest = (theta[6 + 4 * finger + i] for i in range(4))
        found += [(bend, spread), *((angle, 0.0) for angle in rest), (0.0, 0.0)]
    return found


def _matrix(rows: list[list[Any]]) -> Any:
    return sg.stack([sg.stack([sg.asarray(a, dtype="float64") for a in row]) for row in rows])


def _turn(about_x: Any, about_z: Any) -> Any:
    """Return the matrix that turns about x and then about z, in homogeneous coordinates."""
    cx, sx, cz, sz = sg.cos(about_x), sg.sin(about_x), sg.cos(about_z), sg.sin(about_z)
    zero, one = sg.zeros((), "float64"), sg.ones((), "float64")
    x = [[one, zero, zero, zero], [zero, cx, -sx, zero], [zero, sx, cx, zero]]
    z = [[cz, -sz, zero, zero], [sz, cz, zero, zero], [zero, zero, one, zero]]
    last = [[zero, zero, zero, one]]
    return _matrix(z + last) @ _matrix(x + last)


def _about_axis(axis: Any) -> Any:
    """Return the matrix that turns about an axis by as much as it is long."""
    angle = sg.sqrt((axis * axis).sum())
    x, y, z = (axis[i] / angle for i in range(3))
    s, c = sg.sin(angle), sg.cos(angle)
    return _matrix(
        [
            [x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
            [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
            [x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c],
        ]
    )


def _vertices(theta: Any, relatives: Any, inverses: Any, positions: Any, weights: Any) -> Any:
    """Return where the vertices of the hand are: each is moved by its bones, as it is weighted."""
    absolutes: list[Any] = []
    for bone, (about_x, about_z) in enumerate(_angles(theta)):
        moved = relatives[bone]
        if isinstance(about_x, sg.Tensor):
            moved = moved @ _turn(about_x, sg.asarray(about_z, dtype="float64"))
        absolutes.append(moved if PARENTS[bone] < 0 else absolutes[PARENTS[bone]] @ moved)
    transforms = (sg.stack(absolutes) @ inverses)[:, :3]
    placed = sg.einsum("vb,bij,vj->vi", weights, transforms, positions)
    return placed @ _about_axis(theta[:3]).T + theta[3:6]


def objective(
    theta: Any,
    us: Any,
    points: Any,
    correspondences: Any,
    triangles: Any,
    base_relatives: Any,
    inverse_base_absolutes: Any,
    base_positions: Any,
    weights: Any,
) -> Any:
    """Return by how much each point is beside its place on the surface."""
    hand = base_relatives, inverse_base_absolutes, base_positions, weights
    corners = sg.take(triangles, correspondences, axis=0)
    a, b, c = (sg.take(_vertices(theta, *hand), corners[:, i], axis=0) for i in range(3))
    u, v = us[:, :1], us[:, 1:]
    return sg.reshape(points - (u * a + v * b + (1 - u - v) * c), (-1,))


def jacobian(theta: Any, us: Any, **given: Any) -> Any:
    """Return the derivatives of each error by its two places and by the pose."""
    errors = objective(theta, us, **given)
    seeds = [sg.broadcast_to(sg.asarray(np.eye(2)[i]), us.shape) for i in range(2)]
    by_places = [sg.jvp([errors], [us], [seed])[0] for seed in seeds]
    return sg.concat([sg.stack(by_places, axis=1), sg.jacobian(errors, theta)], axis=1)


HT = Problem(
    "ht",
    make,
    {"objective": objective, "jacobian": jacobian},
    ((100, 10_000), (6400, 10_000), (100_000, 10_000)),
    (7, 5),
)
