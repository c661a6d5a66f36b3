"""LeNet on images of 28 x 28 pixels, for `benchmarks/networks.py`.

Two convolutions of 5 x 5 with max pooling and three dense layers, a batch of 64, float32, channels
last; PyTorch has them in memory in that order too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import Arrays, Network, torch_images
from benchmarks.timing import optional

BATCH, SIZE = 64, 28
SHAPES = {
    "c1": (5, 5, 1, 6),
    "c2": (5, 5, 6, 16),
    "f1": (400, 120),
    "f2": (120, 84),
    "f3": (84, 10),
}
DENSE = ("f1", "f2", "f3")


def _make(quick: bool) -> tuple[Arrays, Arrays]:
    weights = {}
    for seed, (name, shape) in enumerate(SHAPES.items()):
        weights[name] = sg.nn.init.he_normal(shape, seed=seed)
        weights[f"{name}_bias"] = np.zeros(shape[-1], np.float32)
    random, batch = np.random.default_rng(1), 4 if quick else BATCH
    x = random.normal(size=(batch, SIZE, SIZE, 1)).astype(np.float32)
    return weights, {"x": x, "labels": random.integers(0, 10, batch)}


def _symgrad(w: Any, batch: Any) -> Any:
    x = sg.nn.relu(sg.nn.conv2d(batch["x"], w["c1"], w["c1_bias"], padding="SAME"))
    x = sg.nn.max_pool(x, 2)
    x = sg.nn.max_pool(sg.nn.relu(sg.nn.conv2d(x, w["c2"], w["c2_bias"])), 2)
    x = x.reshape((x.shape[0], 400))
    for name in DENSE:
        x = sg.nn.linear(x if name == "f1" else sg.nn.relu(x), w[name], w[f"{name}_bias"])
    return sg.nn.cross_entropy(x, batch["labels"])


def _jax(w: Any, batch: Any) -> Any:
    jax = optional("jax")

    def conv(x: Any, name: str, padding: str) -> Any:
        axes = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, w[name], (1, 1), padding, dimension_numbers=axes)
        y = jax.nn.relu(y + w[f"{name}_bias"])
        window = (1, 2, 2, 1)
        return jax.lax.reduce_window(y, -np.inf, jax.lax.max, window, window, "VALID")

    x = conv(conv(batch["x"], "c1", "SAME"), "c2", "VALID")
    x = x.reshape(x.shape[0], 400)
    for name in DENSE:
        x = (x if name == "f1" else jax.nn.relu(x)) @ w[name] + w[f"{name}_bias"]
    scores = jax.nn.log_softmax(x)
    return -jax.numpy.take_along_axis(scores, batch["labels"][:, None], axis=1).mean()


def _torch(weights: Arrays, batch: Arrays) -> tuple[list[Any], Callable[[], Any]]:
    functional = optional("torch").nn.functional
    w, images, labels = torch_images(weights, batch)

    def loss() -> Any:
        x = functional.relu(functional.conv2d(images, w["c1"], w["c1_bias"], padding=2))
        x = functional.max_pool2d(x, 2)
        x = functional.max_pool2d(functional.relu(functional.conv2d(x, w["c2"], w["c2_bias"])), 2)
        x = x.permute(0, 2, 3, 1).reshape(x.shape[0], 400)
        for name in DENSE:
            x = (x if name == "f1" else functional.relu(x)) @ w[name] + w[f"{name}_bias"]
        return functional.cross_entropy(x, labels)

    return list(w.values()), loss


LENET = Network("LeNet", _make, _symgrad, _jax, _torch)
