"""LSTM of GradBench: how well layers of cells of 14 units each predict the next of a sequence.

All products are elementwise. The 2 in the normalization is there for history's sake.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.gradbench.problem import Given, Problem

UNITS = 14


def make(random: np.random.Generator, layers: int, length: int) -> Given:
    """Return parameters, a state to begin with, and a sequence of rows of zeros and ones."""
    return {
        "main_params": random.random((2 * layers, 4 * UNITS)),
        "extra_params": random.random((3, UNITS)),
        "state": random.random((2 * layers, UNITS)),
        "sequence": random.integers(0, 2, (length, UNITS)).astype(float),
    }


def _cell(weights: Any, biases: Any, x: Any, hidden: Any, cell: Any) -> tuple[Any, Any]:
    """Return the hidden and the cell state of a layer after x."""
    (w0, w1, w2, w3), (b0, b1, b2, b3) = sg.split(weights, 4), sg.split(biases, 4)
    forget = sg.sigmoid(x * w0 + b0)
    ingate = sg.sigmoid(hidden * w1 + b1)
    outgate = sg.sigmoid(x * w2 + b2)
    change = sg.tanh(hidden * w3 + b3)
    cell = cell * forget + ingate * change
    return outgate * sg.tanh(cell), cell


def objective(main_params: Any, extra_params: Any, state: Any, sequence: Any) -> Any:
    """Return the mean of the negative log-likelihood."""
    layers = main_params.shape[0] // 2

    def advance(states: Any, rows: Any) -> Any:
        row, wanted = rows
        x, after = row * extra_params[0], []
        for layer, (hidden, cell) in enumerate(states):
            x, cell = _cell(main_params[2 * layer], main_params[2 * layer + 1], x, hidden, cell)
            after.append((x, cell))
        predicted = x * extra_params[1] + extra_params[2]
        normal = predicted - sg.log(2 + sg.exp(predicted).sum())
        return after, (wanted * normal).sum()

    start = [(state[2 * layer], state[2 * layer + 1]) for layer in range(layers)]
    _, likelihoods = sg.scan(advance, start, (sequence[:-1], sequence[1:]))
    return -likelihoods.sum() / (UNITS * (sequence.shape[0] - 1))


def jacobian(main_params: Any, extra_params: Any, state: Any, sequence: Any) -> Any:
    """Return the derivatives by both sets of parameters, as one row."""
    loss = objective(main_params, extra_params, state, sequence)
    found = sg.gradients(loss, [main_params, extra_params])
    return sg.concat([sg.reshape(g, (-1,)) for g in found])


LSTM = Problem(
    "lstm",
    make,
    {"objective": objective, "jacobian": jacobian},
    ((2, 1024), (4, 4096), (6, 8192)),
    (2, 4),
)
