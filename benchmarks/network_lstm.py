"""An LSTM over sequences of vectors, for `benchmarks/networks.py`.

64 steps of 64 numbers -> LSTM of 256 -> 32 classes at each step, a batch of 32, float32
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.network_peers import Arrays, Network, random_weights
from benchmarks.timing import optional

TIME, BATCH, INPUTS, UNITS, CLASSES = 64, 32, 64, 256, 32


def _make(quick: bool) -> tuple[Arrays, Arrays]:
    time, units = (4, 16) if quick else (TIME, UNITS)
    shapes = {
        "w": (INPUTS, 4 * units),
        "u": (units, 4 * units),
        "b": (4 * units,),
        "d": (4 * units,),
        "write": (units, CLASSES),
    }
    random = np.random.default_rng(1)
    x = random.normal(size=(time, BATCH, INPUTS)).astype(np.float32)
    return random_weights(shapes), {"x": x, "labels": random.integers(0, CLASSES, (time, BATCH))}


def _symgrad(w: Any, batch: Any) -> Any:
    zeros = sg.zeros((BATCH, w["u"].shape[0]))
    hidden, _ = sg.nn.lstm(batch["x"], (zeros, zeros), (w["w"], w["u"], w["b"], w["d"]))
    return sg.nn.cross_entropy(hidden @ w["write"], batch["labels"])


def _jax(w: Any, batch: Any) -> Any:
    jax = optional("jax")
    jnp = jax.numpy

    def cell(state: Any, row: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(row + h @ w["u"] + w["d"], 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((BATCH, w["u"].shape[0]), jnp.float32)
    _, hidden = jax.lax.scan(cell, (zeros, zeros), batch["x"] @ w["w"] + w["b"])
    scores = jax.nn.log_softmax(hidden @ w["write"])
    return -jnp.take_along_axis(scores, batch["labels"][..., None], axis=2).mean()


def _torch(weights: Arrays, batch: Arrays) -> tuple[list[Any], Callable[[], Any]]:
    torch = optional("torch")
    lstm = torch.nn.LSTM(INPUTS, weights["u"].shape[0])
    write = torch.nn.Linear(weights["u"].shape[0], CLASSES, bias=False)
    given = {"weight_ih_l0": "w", "weight_hh_l0": "u", "bias_ih_l0": "b", "bias_hh_l0": "d"}
    for own, name in given.items():
        getattr(lstm, own).data = torch.tensor(weights[name].T.copy())
    write.weight.data = torch.tensor(weights["write"].T.copy())
    x, labels = torch.tensor(batch["x"]), torch.tensor(batch["labels"]).flatten()
    loss_of = torch.nn.functional.cross_entropy
    parameters = [*lstm.parameters(), *write.parameters()]
    return parameters, lambda: loss_of(write(lstm(x)[0]).flatten(0, 1), labels)


LSTM = Network("LSTM", _make, _symgrad, _jax, _torch)
