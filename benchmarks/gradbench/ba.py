"""Bundle adjustment of GradBench: the residuals of `benchmarks/workload_bundle.py`, their Jacobian.

One camera, one point and one observation are replicated; observation i is of point i mod m, seen by
camera i mod n. The Jacobian is in compressed sparse rows, which are all written at each call: two
rows of 15 for an observation, by its camera, its point and its weight, and then a row for each
weight.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.gradbench.problem import Given, Problem
from benchmarks.workload_bundle import USUAL_CAMERA, projection_errors

OF_CAMERA, OF_POINT = 11, 3
WIDTH = OF_CAMERA + OF_POINT + 1


def make(random: np.random.Generator, n: int, m: int, p: int) -> Given:
    """Return n equal cameras, m equal points, and p equal observations with their weights."""
    camera = USUAL_CAMERA + 0.1 * random.random(OF_CAMERA)
    return {
        "cams": np.tile(camera, (n, 1)),
        "x": np.tile(random.random(OF_POINT), (m, 1)),
        "w": np.tile(random.random(), p),
        "feat": np.tile(random.random(2), (p, 1)),
    }


def _observed(cams: Any, x: Any, w: Any) -> tuple[Any, Any]:
    """Return which camera and which point each observation is of."""
    number = sg.arange(w.shape[0], dtype="int32")
    return number % cams.shape[0], number % x.shape[0]


def objective(cams: Any, x: Any, w: Any, feat: Any) -> Any:
    """Return the weighted errors of projection, and those of the weights."""
    camera, point = _observed(cams, x, w)
    seen = sg.take(cams, camera, axis=0), sg.take(x, point, axis=0)
    return [projection_errors(sg, sg.cross, *seen, w, feat), 1 - w * w]


def _error(camera: Any, point: Any, w: Any, feat: Any) -> Any:
    """Return the error of one observation."""
    return projection_errors(sg, sg.cross, camera[None], point[None], w[None], feat[None])[0]


def _block(camera: Any, point: Any, w: Any, feat: Any) -> Any:
    """Return the derivatives of the error of one observation, in two rows."""
    parts = sg.jacobian(_error(camera, point, w, feat), [camera, point, w])
    return sg.concat([parts[0], parts[1], parts[2][:, None]], axis=1)


def jacobian(cams: Any, x: Any, w: Any, feat: Any) -> Any:
    """Return where the rows begin, the columns and the values of the Jacobian."""
    (n, _), (m, _), (p,) = cams.shape, x.shape, w.shape
    camera, point = _observed(cams, x, w)
    blocks = sg.vmap(_block)(sg.take(cams, camera, axis=0), sg.take(x, point, axis=0), w, feat)
    values = sg.concat([sg.reshape(blocks, (-1,)), -2 * w])
    count = partial(sg.arange, dtype="int32")
    of_weights = OF_CAMERA * n + OF_POINT * m + count(p)
    own = sg.concat(
        [
            OF_CAMERA * camera[:, None] + count(OF_CAMERA),
            OF_CAMERA * n + OF_POINT * point[:, None] + count(OF_POINT),
            of_weights[:, None],
        ],
        axis=1,
    )
    both = sg.broadcast_to(own[:, None, :], (p, 2, WIDTH))
    rows = sg.concat([WIDTH * count(2 * p + 1), 2 * WIDTH * p + 1 + count(p)])
    return [rows, sg.concat([sg.reshape(both, (-1,)), of_weights]), values]


BA = Problem(
    "ba",
    make,
    {"objective": objective, "jacobian": jacobian},
    ((49, 7776, 31_843), (539, 65_132, 277_273), (257, 65_132, 1_255_268)),
    (2, 3, 5),
)
