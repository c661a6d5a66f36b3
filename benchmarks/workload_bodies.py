"""Bodies that attract one another, for `benchmarks/workloads.py`: a gradient through their motion.

256 bodies, 50 steps of leapfrog, softened forces from all pairwise differences, float32: how far
the bodies end from where they should, differentiated by where and how fast they begin.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import Arrays
from benchmarks.timing import optional
from benchmarks.workload_peers import Workload
from benchmarks.workload_tasks import GRADIENT

BODIES, STEPS, QUICK_STEPS = 256, 50, 2
TIME, SOFTENING = 0.01, 0.1


def _make(quick: bool) -> tuple[Arrays, Arrays]:
    bodies = 6 if quick else BODIES
    random = np.random.default_rng(0)

    def drawn(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    masses = (random.uniform(0.5, 1.5, bodies) / bodies).astype(np.float32)
    start = {"places": drawn(bodies, 3), "velocities": 0.1 * drawn(bodies, 3)}
    return start, {"masses": masses, "targets": drawn(bodies, 3)}


def _accelerations(x: Any, masses: Any) -> Any:
    differences = x[None, :, :] - x[:, None, :]
    squares = (differences * differences).sum(2) + SOFTENING**2
    return (differences * (masses * squares**-1.5)[:, :, None]).sum(1)


def _leap(x: Any, v: Any, masses: Any) -> tuple[Any, Any]:
    v = v + 0.5 * TIME * _accelerations(x, masses)
    x = x + TIME * v
    return x, v + 0.5 * TIME * _accelerations(x, masses)


def _steps(x: Any) -> int:
    return STEPS if x.shape[0] == BODIES else QUICK_STEPS


def _distance(x: Any, given: Any) -> Any:
    return ((x - given["targets"]) ** 2).sum()


def _symgrad(w: Any, given: Any) -> Any:
    start = (w["places"], w["velocities"])
    x, _ = sg.fori_loop(
        0, _steps(w["places"]), lambda _, state: _leap(state[0], state[1], given["masses"]), start
    )
    return _distance(x, given)


def _jax(w: Any, given: Any) -> Any:
    start = (w["places"], w["velocities"])
    (x, _), _ = optional("jax").lax.scan(
        lambda state, _: (_leap(state[0], state[1], given["masses"]), None),
        start,
        length=_steps(w["places"]),
    )
    return _distance(x, given)


def _torch(w: Any, given: Any) -> Any:
    x, v = w["places"], w["velocities"]
    for _ in range(_steps(x)):
        x, v = _leap(x, v, given["masses"])
    return _distance(x, given)


N_BODY = Workload("n-body", (4.5, 5), GRADIENT, _make, (_symgrad, _jax, _torch))
