"""Optimizers and schedules against what PyTorch and optax do; see tests/golden_trajectories.

How far weights may be from those of the peer is relative to the size of the motion, the largest
distance a weight has moved, since that is all the optimizer has computed. In float64 both round a
few times 1e-16 a step, and a hundred steps add up to far less than 1e-12. In float32 a step rounds
weights, gradients and slots by up to 6e-8 of their size, and weights are up to eight times as large
as the motion: a hundred such roundings in random directions add up to ten of 5e-7 of the motion.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.types import Array
from symgrad.optim.optimizer import Optimizer
from symgrad.runtime.step import Step

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden_trajectories" / "trajectories.json").read_text()
)
PROBLEM = {name: np.array(values) for name, values in GOLDEN["problem"].items()}
BOUNDS = {"float64": 1e-12, "float32": 5e-6}


def label(case: dict[str, Any]) -> str:
    arguments = "-".join(f"{name}={value}" for name, value in case["arguments"].items())
    return f"{case.get('optimizer', case.get('schedule'))}-{arguments}"


def training(optimizer: Optimizer, dtype: str) -> tuple[Step, list[sg.Variable]]:
    weights = [sg.variable(PROBLEM[name].astype(dtype), name=name) for name in ("w", "b")]
    x, y = sg.placeholder((8, 5), dtype), sg.placeholder((8, 3), dtype)
    loss = sg.nn.mse(sg.tanh(x @ weights[0] + weights[1]), y)
    return sg.compile([x, y], loss, optimizer.minimize(loss)), weights


def flat(weights: list[sg.Variable]) -> Array:
    return np.concatenate([w.value.ravel() for w in weights]).astype(np.float64)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", GOLDEN["optimizers"], ids=label)
def test_a_hundred_steps_follow_the_peer(case, dtype):
    optimizer = getattr(sg.optim, case["optimizer"])(**case["arguments"])
    step, weights = training(optimizer, dtype)
    start = np.concatenate([PROBLEM["w"].ravel(), PROBLEM["b"]])
    wanted = dict(zip(GOLDEN["kept"], map(np.array, case["weights"]), strict=True))
    motion = max(np.abs(w - start).max() for w in wanted.values())
    assert motion > 0.3, "the case would say nothing"

    for i in range(1, max(wanted) + 1):
        batch = (i - 1) % len(PROBLEM["x"])
        step(PROBLEM["x"][batch].astype(dtype), PROBLEM["y"][batch].astype(dtype))
        if i in wanted:
            error = np.abs(flat(weights) - wanted[i]).max() / motion
            assert error < BOUNDS[dtype], f"{error} of the motion after step {i}"


def test_every_optimizer_has_a_golden_trajectory():
    names = {
        name for name in sg.optim.__all__
        if isinstance(getattr(sg.optim, name), type)
        and issubclass(getattr(sg.optim, name), Optimizer)
    }  # fmt: skip
    assert names - {"Optimizer", "Accumulate"} == {c["optimizer"] for c in GOLDEN["optimizers"]}


@pytest.mark.parametrize("optimizer", GOLDEN["defaults"])
def test_defaults_are_those_of_pytorch(optimizer):
    ours = inspect.signature(getattr(sg.optim, optimizer)).parameters
    for name, default in GOLDEN["defaults"][optimizer].items():
        # A rate of one's own is asked for where PyTorch has 0.001 for all problems.
        if (optimizer, name) != ("SGD", "lr"):
            assert ours[name].default == default, name


@pytest.mark.parametrize("case", GOLDEN["schedules"], ids=label)
def test_schedules_follow_the_peer(case):
    step = sg.placeholder((), "int64")
    schedule = getattr(sg.optim.schedules, case["schedule"])(**case["arguments"])
    rate = sg.compile([step], schedule(step))
    found = [rate(i) for i in GOLDEN["schedule_steps"]]
    np.testing.assert_allclose(found, case["rates"], rtol=1e-12)
