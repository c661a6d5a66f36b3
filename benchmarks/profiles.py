"""Whether profiles tell the truth: the kernels of a step against the step, in turns on one core.

A profile reads the clock around each call of a kernel and so compiles the step once more. The sum
of its rows is compared with what a call of the step takes: a network in training, two large
products, a recurrent network whose time is spent in loops, and a loop that is kept in registers.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.report import Bar, Report, run_as_program
from benchmarks.timing import interleave, pin_to_one_core, time_calls
from symgrad.graph.types import Array

Made = tuple[sg.Step, list[Any]]


def measure(quick: bool = False) -> Report:
    """Return the time of each step, the sum of its kernels, and how far they are apart."""
    pin_to_one_core()
    report = Report("profiles", ("step", "us a step", "us of kernels", "ratio"))
    random = np.random.default_rng(0)
    for make in (_network, _products, _recurrent, _iterated):
        step, arrays = make(random)
        steps, kernels = _rounds(step, arrays, rounds=3 if quick else 15)
        ratio = median(k / s for k, s in zip(kernels, steps, strict=True))
        cells = (median(steps) * 1e6, median(kernels) * 1e6)
        report.rows.append((step.name, *(round(c, 2) for c in cells), round(ratio, 3)))
        report.bars.append(Bar(f"{step.name}: |kernels / step - 1|", abs(ratio - 1), 0.1))
    return report


def _rounds(step: sg.Step, arrays: list[Any], rounds: int) -> tuple[list[float], list[float]]:
    """Return seconds of a step, and of its kernels, measured in turns."""

    def call() -> object:
        return step(*arrays)

    once = interleave({"step": call}, rounds=3)["step"].median
    count = max(5, round(0.01 / once))
    steps, kernels = [], []
    for _ in range(rounds):
        steps.append(time_calls(call, count) / count)
        kernels.append(step.profile(*arrays, repeat=count).seconds)
    return steps, kernels


def _normal(random: np.random.Generator, *shape: int) -> Array:
    return random.standard_normal(shape).astype(np.float32)


def _network(random: np.random.Generator) -> Made:
    x, labels = sg.placeholder((32, 64)), sg.placeholder((32,), "int64")
    first, second = (sg.variable(_normal(random, *s) * 0.1) for s in ((64, 128), (128, 10)))
    loss = sg.nn.cross_entropy(sg.nn.relu(x @ first) @ second, labels)
    step = sg.compile([x, labels], loss, sg.optim.Adam(1e-3).minimize(loss), name="network")
    return step, [_normal(random, 32, 64), random.integers(0, 10, 32)]


def _products(random: np.random.Generator) -> Made:
    x = sg.placeholder((384, 384))
    return sg.compile([x], sg.tanh(x @ x) @ x, name="products"), [_normal(random, 384, 384)]


def _recurrent(random: np.random.Generator) -> Made:
    x, w = sg.placeholder((32, 16, 64)), sg.variable(_normal(random, 64, 64) * 0.1)

    def cell(h: sg.Tensor, given: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
        return sg.tanh(h @ w + given), h

    _, states = sg.scan(cell, sg.zeros((16, 64)), x)
    loss = sg.sum(sg.square(states))
    step = sg.compile([x], loss, sg.optim.SGD(0.01).minimize(loss), name="recurrent")
    return step, [_normal(random, 32, 16, 64)]


def _iterated(random: np.random.Generator) -> Made:
    v, decay, n = sg.placeholder((64,)), sg.placeholder((64,)), sg.placeholder((), "int64")
    start = (sg.constant(0, "int64"), v)
    _, last = sg.while_loop(lambda i, _: i < n, lambda i, x: (i + 1, x * decay + 0.1), start)
    step = sg.compile([v, decay, n], [last, *sg.gradients(last, [v, decay])], name="iterated")
    return step, [_normal(random, 64), random.uniform(0, 1, 64).astype("f"), np.array(10_000)]


if __name__ == "__main__":
    run_as_program(__doc__, measure)
