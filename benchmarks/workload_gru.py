"""A GRU over as many steps as its batch needs, for `benchmarks/workloads.py`.

    at most 64 steps of 64 numbers -> GRU of 64 -> 10 classes, a batch of 32, SGD, float32

The longest of the lengths of the batch, which a step is given, says how many: 48. In symgrad that
is a while loop with a bound; JAX, whose while loops have no gradient in reverse, scans up to the
bound and does nothing in what is left over; PyTorch is given the rows that there are; TensorFlow
has the same loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import Arrays, random_weights
from benchmarks.timing import optional
from benchmarks.workload_dense import cross_entropy
from benchmarks.workload_peers import Workload
from benchmarks.workload_tasks import TRAIN_SGD

BOUND, LONGEST, BATCH, INPUTS, UNITS, CLASSES = 64, 48, 32, 64, 64, 10


def _make(quick: bool) -> tuple[Arrays, Arrays]:
    bound, longest, units = (4, 3, 4) if quick else (BOUND, LONGEST, UNITS)
    shapes = {
        "w": (INPUTS, 3 * units),
        "u": (units, 3 * units),
        "b": (3 * units,),
        "d": (3 * units,),
        "write": (units, CLASSES),
    }
    random = np.random.default_rng(1)
    lengths = random.integers(1, longest, BATCH)
    lengths[0] = longest
    x = random.normal(size=(bound, BATCH, INPUTS)).astype(np.float32)
    labels = random.integers(0, CLASSES, BATCH)
    return random_weights(shapes), {"x": x, "lengths": lengths, "labels": labels}


def _symgrad(w: Any, given: Any) -> Any:
    x, longest = given["x"], sg.max(given["lengths"])

    def cell(i: Any, h: Any) -> Any:
        return i + 1, sg.nn.gru_cell(x[i], h, w["w"], w["u"], w["b"], w["d"])

    start = sg.constant(0, "int64"), sg.zeros((BATCH, w["u"].shape[0]))
    _, h = sg.while_loop(lambda i, _: i < longest, cell, start, maximum_iterations=x.shape[0])
    return sg.nn.cross_entropy(h @ w["write"], given["labels"])


def _jax(w: Any, given: Any) -> Any:
    jax = optional("jax")
    jnp, longest = jax.numpy, given["lengths"].max()

    def cell(h: Any, row: Any) -> Any:
        left, right = jnp.split(row @ w["w"] + w["b"], 3, 1), jnp.split(h @ w["u"] + w["d"], 3, 1)
        r, z = (jax.nn.sigmoid(left[k] + right[k]) for k in range(2))
        return (1 - z) * jnp.tanh(left[2] + r * right[2]) + z * h

    def step(h: Any, entry: Any) -> Any:
        i, row = entry
        return jax.lax.cond(i < longest, cell, lambda h, _: h, h, row), None

    start = jnp.zeros((BATCH, w["u"].shape[0]), jnp.float32)
    h, _ = jax.lax.scan(step, start, (jnp.arange(len(given["x"])), given["x"]))
    scores = jax.nn.log_softmax(h @ w["write"])
    return -jnp.take_along_axis(scores, given["labels"][:, None], axis=1).mean()


def _torch(w: Any, given: Any) -> Any:
    torch = optional("torch")
    rows = given["x"][: int(given["lengths"].max())]
    start = rows.new_zeros(1, BATCH, w["u"].shape[0])
    flat = [w["w"].T, w["u"].T, w["b"], w["d"]]
    # Biases, one layer, no dropout, training, one direction, time first.
    _, h = torch.gru(rows, start, flat, True, 1, 0.0, True, False, False)
    return torch.nn.functional.cross_entropy(h[0] @ w["write"], given["labels"])


def _tensorflow(w: Any, given: Any) -> Any:
    tf, x = optional("tensorflow"), given["x"]
    longest = tf.cast(tf.reduce_max(given["lengths"]), tf.int32)

    def cell(i: Any, h: Any) -> Any:
        left, right = tf.split(x[i] @ w["w"] + w["b"], 3, 1), tf.split(h @ w["u"] + w["d"], 3, 1)
        r, z = (tf.sigmoid(left[k] + right[k]) for k in range(2))
        return i + 1, (1 - z) * tf.tanh(left[2] + r * right[2]) + z * h

    start = tf.constant(0), tf.zeros((BATCH, w["u"].shape[0]))
    _, h = tf.while_loop(lambda i, _: i < longest, cell, start, maximum_iterations=x.shape[0])
    return cross_entropy(tf, h @ w["write"], given["labels"])


FUNCTIONS = (_symgrad, _jax, _torch, _tensorflow)
GRU = Workload("GRU of unknown length", (1.6, 2.2), TRAIN_SGD, _make, FUNCTIONS)
