"""A small convolutional network on images of 28 x 28 pixels, for `benchmarks/workloads.py`.

Convolutions of 3 x 3 with 32 and 64 channels, a max pooling of 2 x 2 after each, and a dense layer
for 10 classes; a batch of 64, SGD, float32. Channels are last in memory, in PyTorch too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import Arrays
from benchmarks.timing import optional
from benchmarks.workload_dense import cross_entropy
from benchmarks.workload_peers import Workload
from benchmarks.workload_tasks import TRAIN_SGD

BATCH, SIZE, CHANNELS, CLASSES = 64, 28, (32, 64), 10


def _make(quick: bool) -> tuple[Arrays, Arrays]:
    batch, (first, second) = (2, (2, 4)) if quick else (BATCH, CHANNELS)
    size = 8 if quick else SIZE
    shapes = {
        "c1": (3, 3, 1, first),
        "c2": (3, 3, first, second),
        "dense": (size // 4 * (size // 4) * second, CLASSES),
    }
    weights = {}
    for seed, (name, shape) in enumerate(shapes.items()):
        weights[name] = sg.nn.init.he_normal(shape, seed=seed)
        weights[f"{name}_bias"] = np.zeros(shape[-1], np.float32)
    random = np.random.default_rng(1)
    x = random.normal(size=(batch, size, size, 1)).astype(np.float32)
    return weights, {"x": x, "labels": random.integers(0, CLASSES, batch)}


def _symgrad(w: Any, given: Any) -> Any:
    x = given["x"]
    for name in ("c1", "c2"):
        x = sg.nn.relu(sg.nn.conv2d(x, w[name], w[f"{name}_bias"], padding="SAME"))
        x = sg.nn.max_pool(x, 2)
    logits = sg.nn.linear(x.reshape((x.shape[0], -1)), w["dense"], w["dense_bias"])
    return sg.nn.cross_entropy(logits, given["labels"])


def _jax(w: Any, given: Any) -> Any:
    jax, x = optional("jax"), given["x"]
    axes, window = ("NHWC", "HWIO", "NHWC"), (1, 2, 2, 1)
    for name in ("c1", "c2"):
        y = jax.lax.conv_general_dilated(x, w[name], (1, 1), "SAME", dimension_numbers=axes)
        y = jax.nn.relu(y + w[f"{name}_bias"])
        x = jax.lax.reduce_window(y, -np.inf, jax.lax.max, window, window, "VALID")
    scores = jax.nn.log_softmax(x.reshape(x.shape[0], -1) @ w["dense"] + w["dense_bias"])
    return -jax.numpy.take_along_axis(scores, given["labels"][:, None], axis=1).mean()


def _torch(w: Any, given: Any) -> Any:
    functional, x = optional("torch").nn.functional, given["x"].permute(0, 3, 1, 2)
    for name in ("c1", "c2"):
        x = functional.conv2d(x, w[name].permute(3, 2, 0, 1), w[f"{name}_bias"], padding=1)
        x = functional.max_pool2d(functional.relu(x), 2)
    logits = x.permute(0, 2, 3, 1).flatten(1) @ w["dense"] + w["dense_bias"]
    return functional.cross_entropy(logits, given["labels"])


def _tensorflow(w: Any, given: Any) -> Any:
    tf, x = optional("tensorflow"), given["x"]
    for name in ("c1", "c2"):
        y = tf.nn.conv2d(x, w[name], 1, "SAME") + w[f"{name}_bias"]
        x = tf.nn.max_pool2d(tf.nn.relu(y), 2, 2, "VALID")
    logits = tf.reshape(x, (x.shape[0], -1)) @ w["dense"] + w["dense_bias"]
    return cross_entropy(tf, logits, given["labels"])


FUNCTIONS = (_symgrad, _jax, _torch, _tensorflow)
CONVNET = Workload("convnet", (1.3, 1.3), TRAIN_SGD, _make, FUNCTIONS)
