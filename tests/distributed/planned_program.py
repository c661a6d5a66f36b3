"""A step that averages gradients, for `python -m symgrad plan` on several ranks."""

from __future__ import annotations

import numpy as np

import symgrad as sg

_WIDTH = 64


def training_step(shard_state: bool = False) -> tuple[sg.Step, list[np.ndarray]]:
    """Return a step of two layers, of which each rank has a batch."""
    comm = sg.distributed.world()
    x = sg.placeholder((8, _WIDTH), name="x")
    w, v = (sg.variable(np.ones((_WIDTH, _WIDTH), "float32"), name=name) for name in "wv")
    loss = sg.mean(sg.tanh(x @ w) @ v)
    adam = sg.optim.Adam(0.1)
    updates = adam.minimize(loss, data_parallel=comm, shard_state=shard_state)
    return sg.compile([x], loss, updates, opt_level=0), [np.ones((8, _WIDTH), "float32")]


def sharded_step() -> tuple[sg.Step, list[np.ndarray]]:
    """Return the step with slots of which each rank has a part."""
    return training_step(shard_state=True)
