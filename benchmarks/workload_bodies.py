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


def _accelerations(total: Any, x: Any, masses: Any) -> Any:
    differences = x[None, :, :] - x[:, None, :]
    squares = total(differences * differences, 2) + SOFTENING**2
    return total(differences * (masses * squares**-1.5)[:, :, None], 1)


def _leap(total: Any, x: Any, v: Any, masses: Any) -> tuple[Any, Any]:
    v = v + 0.5 * TIME * _accelerations(total, x, masses)
    x = x + TIME * v
    return x, v + 0.5 * TIME * _accelerations(total, x, masses)


def _steps(x: Any) -> int:
    return STEPS if x.shape[0] == BODIES else QUICK_STEPS


def _distance(total: Any, x: Any, given: Any) -> Any:
    return total((x - given["targets"]) ** 2)


def _symgrad(w: Any, given: Any) -> Any:
    start = (w["places"], w["velocities"])
    x, _ = sg.fori_loop(
        0,
        _steps(start[0]),
        lambda _, state: _leap(sg.sum, state[0], state[1], given["masses"]),
        start,
    )
    return _distance(sg.sum, x, given)


def _jax(w: Any, given: Any) -> Any:
    jax = optional("jax")
    total, start = jax.numpy.sum, (w["places"], w["velocities"])
    (x, _), _ = jax.lax.scan(
        lambda state, _: (_leap(total, state[0], state[1], given["masses"]), None),
        start,
        length=_steps(start[0]),
    )
    return _distance(total, x, given)


def _torch(w: Any, given: Any) -> Any:
    total, x, v = optional("torch").sum, w["places"], w["velocities"]
    for _ in range(_steps(x)):
        x, v = _leap(total, x, v, given["masses"])
    return _distance(total, x, given)


def _tensorflow(w: Any, given: Any) -> Any:
    tf = optional("tensorflow")
    total, steps = tf.reduce_sum, _steps(w["places"])
    _, x, _ = tf.while_loop(
        lambda i, *_: i < steps,
        lambda i, x, v: (i + 1, *_leap(total, x, v, given["masses"])),
        (0, tf.identity(w["places"]), tf.identity(w["velocities"])),
        maximum_iterations=steps,
    )
    return _distance(total, x, given)


N_BODY = Workload("n-body", (4.5, 5), GRADIENT, _make, (_symgrad, _jax, _torch, _tensorflow))
