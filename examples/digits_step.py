"""Steps to look at with `python -m symgrad`: that of digits.py, and two variants of it.

`docs/reading.md` reads what they are compiled to. They are compiled for a fixed level of x86-64,
so their text is the same on every machine; they run where the CPU has AVX2.
"""

from typing import Any

import numpy as np

import symgrad as sg
from examples.digits import BATCH, SEED, make_parameters, network

TARGET = "x86-64-v3"
ROWS = 8  # of pixels in a scan
HIDDEN = 64

Program = tuple[sg.Step, list[Any]]  # a step, and arrays to call it with


def training() -> Program:
    """Return the step that digits.py trains with."""
    x, y, loss, _ = _loss()
    return _compiled(x, y, loss, sg.optim.Adam(lr=0.001).minimize(loss))


def clipped() -> Program:
    """Return the same step with gradients that are clipped by the length of all of them."""
    x, y, loss, variables = _loss()
    gradients = sg.optim.clip_by_global_norm(sg.gradients(loss, variables), 1.0)
    updates = sg.optim.Adam(lr=0.001).apply_gradients(zip(gradients, variables, strict=True))
    return _compiled(x, y, loss, updates)


def recurrent() -> Program:
    """Return the step of a network that reads a scan row by row."""
    rng = np.random.default_rng(SEED)
    shapes = {"read": (ROWS, HIDDEN), "carry": (HIDDEN, HIDDEN), "decide": (HIDDEN, 10)}
    read, carry, decide = (
        sg.variable(rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32), name=name)
        for name, shape in shapes.items()
    )
    x, y = _inputs()
    rows = sg.permute_dims(sg.reshape(x, (BATCH, ROWS, ROWS)), (1, 0, 2))
    start = sg.zeros((BATCH, HIDDEN))
    last, _ = sg.scan(lambda h, row: (sg.tanh(row @ read + h @ carry), None), start, rows)
    loss = sg.nn.cross_entropy(last @ decide, y)
    return _compiled(x, y, loss, sg.optim.Adam(lr=0.001).minimize(loss))


def _inputs() -> tuple[sg.Tensor, sg.Tensor]:
    return sg.placeholder((BATCH, 64), name="x"), sg.placeholder((BATCH,), "int64", name="y")


def _loss() -> tuple[sg.Tensor, sg.Tensor, sg.Tensor, list[sg.Variable]]:
    x, y = _inputs()
    parameters = make_parameters(np.random.default_rng(SEED))
    loss = sg.nn.cross_entropy(network(x, parameters), y)
    return x, y, loss, [variable for layer in parameters for variable in layer]


def _compiled(x: sg.Tensor, y: sg.Tensor, loss: sg.Tensor, updates: list[sg.Update]) -> Program:
    step = sg.compile([x, y], loss, updates=updates, name="train", target=TARGET)
    rng = np.random.default_rng(SEED)
    scans = rng.random((BATCH, 64), np.float32)
    return step, [scans, rng.integers(0, 10, BATCH)]
