"""Steps of dense layers, for `benchmarks/workloads.py`: networks of them, and logistic regression.

    tiny MLP              a batch of  32:   64 ->   64 ->   10          relu, SGD
    MLP                   a batch of 128:  784 ->  512 ->  512 -> 10    relu, Adam
    wide MLP              a batch of 512: 1024 -> 4096 -> 1024          gelu by erf, AdamW
    logistic regression   8192 examples of 1024 numbers                 SGD

and the Hessian of the second one's loss times a vector, float32.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import Arrays, random_weights
from benchmarks.timing import optional
from benchmarks.workload_peers import Workload
from benchmarks.workload_tasks import HESSIAN_PRODUCT, TRAIN_ADAM, TRAIN_ADAMW, TRAIN_SGD

TINY, USUAL, WIDE = (64, 64, 10), (784, 512, 512, 10), (1024, 4096, 1024)


def _make(batch: int, widths: tuple[int, ...], quick: bool) -> tuple[Arrays, Arrays]:
    if quick:
        batch, widths = 4, tuple(min(width, 10) for width in widths)
    shapes: dict[str, tuple[int, ...]] = {}
    for i, shape in enumerate(pairwise(widths)):
        shapes |= {f"w{i}": shape, f"b{i}": shape[1:]}
    random = np.random.default_rng(1)
    x = random.normal(size=(batch, widths[0])).astype(np.float32)
    return random_weights(shapes), {"x": x, "labels": random.integers(0, 10, batch)}


def _logits(relu: Any, w: Any, x: Any) -> Any:
    layers = len(w) // 2
    for i in range(layers):
        x = x @ w[f"w{i}"] + w[f"b{i}"]
        x = relu(x) if i + 1 < layers else x
    return x


def _symgrad(w: Any, given: Any) -> Any:
    return sg.nn.cross_entropy(_logits(sg.nn.relu, w, given["x"]), given["labels"])


def _jax(w: Any, given: Any) -> Any:
    jax = optional("jax")
    scores = jax.nn.log_softmax(_logits(jax.nn.relu, w, given["x"]))
    return -jax.numpy.take_along_axis(scores, given["labels"][:, None], axis=1).mean()


def _torch(w: Any, given: Any) -> Any:
    functional = optional("torch").nn.functional
    return functional.cross_entropy(_logits(functional.relu, w, given["x"]), given["labels"])


def _tensorflow(w: Any, given: Any) -> Any:
    tf = optional("tensorflow")
    return cross_entropy(tf, _logits(tf.nn.relu, w, given["x"]), given["labels"])


def cross_entropy(tf: Any, logits: Any, labels: Any) -> Any:
    """Return the mean cross-entropy of rows of logits in TensorFlow."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return tf.reduce_mean(losses)


CLASSIFY = (_symgrad, _jax, _torch, _tensorflow)

# -------------------------------------------------------------------------------------- wide MLP


def _make_wide(quick: bool) -> tuple[Arrays, Arrays]:
    weights, given = _make(512, WIDE, quick)
    rows, width = len(given["x"]), weights["b1"].size
    y = np.random.default_rng(3).normal(size=(rows, width)).astype(np.float32)
    return weights, {"x": given["x"], "y": y}


def _wide(mean: Any, gelu: Any, w: Any, given: Any) -> Any:
    return mean((_logits(gelu, w, given["x"]) - given["y"]) ** 2)


def _wide_tensorflow(w: Any, given: Any) -> Any:
    tf = optional("tensorflow")
    return _wide(tf.reduce_mean, tf.nn.gelu, w, given)


def _wide_jax(w: Any, given: Any) -> Any:
    jax = optional("jax")
    return _wide(jax.numpy.mean, partial(jax.nn.gelu, approximate=False), w, given)


def _wide_torch(w: Any, given: Any) -> Any:
    torch = optional("torch")
    return _wide(torch.mean, torch.nn.functional.gelu, w, given)


REGRESS = (partial(_wide, sg.mean, sg.nn.gelu), _wide_jax, _wide_torch, _wide_tensorflow)

# --------------------------------------------------------------------------- logistic regression


def _make_logistic(quick: bool) -> tuple[Arrays, Arrays]:
    rows, columns = (16, 8) if quick else (8192, 1024)
    random = np.random.default_rng(1)
    x = random.normal(size=(rows, columns)).astype(np.float32)
    w = (random.normal(size=columns) * columns**-0.5).astype(np.float32)
    y = (random.random(rows) < 0.5).astype(np.float32)
    return {"w": w, "b": np.zeros((), np.float32)}, {"x": x, "y": y}


def _symgrad_logistic(w: Any, given: Any) -> Any:
    logits = given["x"] @ w["w"] + w["b"]
    return sg.nn.binary_cross_entropy_with_logits(logits, given["y"])


def _jax_logistic(w: Any, given: Any) -> Any:
    logits = given["x"] @ w["w"] + w["b"]
    return (optional("jax").nn.softplus(logits) - given["y"] * logits).mean()


def _torch_logistic(w: Any, given: Any) -> Any:
    functional = optional("torch").nn.functional
    logits = given["x"] @ w["w"] + w["b"]
    return functional.binary_cross_entropy_with_logits(logits, given["y"])


def _tensorflow_logistic(w: Any, given: Any) -> Any:
    tf = optional("tensorflow")
    logits = tf.linalg.matvec(given["x"], w["w"]) + w["b"]
    losses = tf.nn.sigmoid_cross_entropy_with_logits(given["y"], logits)
    return tf.reduce_mean(losses)


LOGISTIC = (_symgrad_logistic, _jax_logistic, _torch_logistic, _tensorflow_logistic)

DENSE = (
    Workload("tiny MLP", (3, 3), TRAIN_SGD, partial(_make, 32, TINY), CLASSIFY),
    Workload("MLP", (1, 1), TRAIN_ADAM, partial(_make, 128, USUAL), CLASSIFY),
    Workload("wide MLP", (1.1, 1.18), TRAIN_ADAMW, _make_wide, REGRESS),
    Workload("logistic regression", (1.5, 1.5), TRAIN_SGD, _make_logistic, LOGISTIC),
    Workload("MLP, Hessian times vector", (1.4, 1.4), HESSIAN_PRODUCT,
             partial(_make, 128, USUAL), CLASSIFY),
)  # fmt: skip
