"""Networks over sequences in four libraries, for `benchmarks/workloads.py`, float32.

    LSTM           64 steps of 64 numbers -> LSTM of 256 -> 32 classes, a batch of 32    Adam
    transformer    4 blocks of 128 with 4 heads over 128 characters, a batch of 8        AdamW

As in `benchmarks/networks.py`, whose losses these are but for PyTorch's LSTM, which is written with
its function instead of its module, and for TensorFlow.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.network_gpt import GPT, gpt_blocks, gpt_in_torch, make_gpt
from benchmarks.network_lstm import LSTM
from benchmarks.timing import optional
from benchmarks.workload_dense import cross_entropy
from benchmarks.workload_peers import Workload
from benchmarks.workload_tasks import TRAIN_ADAM, TRAIN_ADAMW

LAYERS, WIDTH = 4, 128


def _torch_lstm(w: Any, given: Any) -> Any:
    torch = optional("torch")
    start = w["w"].new_zeros(1, given["x"].shape[1], w["u"].shape[0])
    flat = [w["w"].T, w["u"].T, w["b"], w["d"]]
    # Biases, one layer, no dropout, training, one direction, time first.
    hidden, *_ = torch.lstm(given["x"], (start, start), flat, True, 1, 0.0, True, False, False)
    logits, labels = hidden @ w["write"], given["labels"]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def _tensorflow_lstm(w: Any, given: Any) -> Any:
    tf = optional("tensorflow")
    steps, batch, _ = given["x"].shape
    zeros = tf.zeros((batch, w["u"].shape[0]))
    rows = given["x"] @ w["w"] + w["b"]

    def cell(t: Any, h: Any, c: Any, kept: Any) -> Any:
        i, f, g, o = tf.split(rows[t] + h @ w["u"] + w["d"], 4, axis=1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
        return t + 1, h, c, kept.write(t, h)

    kept = tf.TensorArray(tf.float32, steps, element_shape=zeros.shape)
    start = (tf.constant(0), zeros, zeros, kept)
    *_, kept = tf.while_loop(lambda t, *_: t < steps, cell, start, maximum_iterations=steps)
    return cross_entropy(tf, kept.stack() @ w["write"], given["labels"])


def _tensorflow_gpt(w: Any, given: Any) -> Any:
    tf, text = optional("tensorflow"), given["text"]

    def norm(x: Any, w: Any, name: str) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        scale, bias = w[f"{name}_scale"], w[f"{name}_bias"]
        return tf.nn.batch_normalization(x, mean, variance, bias, scale, 1e-5)

    def attend(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (tf.transpose(t, (0, 2, 1, 3)) for t in (q, k, v))
        time, width = q.shape[2], q.shape[3]
        scores = tf.matmul(q, k, transpose_b=True) * width**-0.5
        mask = tf.linalg.band_part(tf.ones((time, time), tf.bool), -1, 0)
        weights = tf.nn.softmax(tf.where(mask, scores, scores.dtype.min))
        return tf.transpose(weights @ v, (0, 2, 1, 3))

    x = tf.gather(w["characters"], text[:, :-1]) + w["places"]
    gelu = partial(tf.nn.gelu, approximate=True)
    logits = gpt_blocks(w, x, norm, attend, gelu, tf.reshape)
    return cross_entropy(tf, logits, text[:, 1:])


SEQUENCES = (
    Workload(
        "LSTM",
        (1.35, 1.35),
        TRAIN_ADAM,
        LSTM.make,
        (LSTM.symgrad, LSTM.jax, _torch_lstm, _tensorflow_lstm),
    ),
    Workload(
        "transformer",
        (1.45, 1.6),
        TRAIN_ADAMW,
        partial(make_gpt, LAYERS, WIDTH),
        (GPT.symgrad, GPT.jax, gpt_in_torch, _tensorflow_gpt),
    ),
)
