"""A table of optimizers with settings that use all of each, and a program to run them in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import symgrad as sg
from symgrad.graph.types import Array
from symgrad.optim.rule import Rule
from symgrad.runtime.step import Step

RULES: dict[str, Callable[[], Rule]] = {
    "SGD": lambda: sg.optim.SGD(0.1),
    "SGD with everything": lambda: sg.optim.SGD(0.1, 0.9, nesterov=True, weight_decay=0.1),
    "Adam": lambda: sg.optim.Adam(0.1, weight_decay=0.1),
    "AdamW": lambda: sg.optim.AdamW(0.1, weight_decay=0.1),
    "RMSProp": lambda: sg.optim.RMSProp(0.1),
    "RMSProp with everything": lambda: sg.optim.RMSProp(
        0.1, momentum=0.9, centered=True, weight_decay=0.1
    ),
    "Adagrad": lambda: sg.optim.Adagrad(0.1, weight_decay=0.1),
    "Adadelta": lambda: sg.optim.Adadelta(weight_decay=0.1),
    "Lion": lambda: sg.optim.Lion(0.1, weight_decay=0.1),
    "LARS": lambda: sg.optim.LARS(1.0, weight_decay=0.1),
    "LAMB": lambda: sg.optim.LAMB(0.1, weight_decay=0.1, max_trust_ratio=10),
}
SHAPE = (19, 37)  # no multiple of a vector


def start(seed: int = 0, dtype: str = "float32") -> Array:
    return np.random.default_rng(seed).normal(size=SHAPE).astype(dtype)


def update_step(optimizer: sg.optim.Optimizer, dtype: str = "float32") -> tuple[Step, sg.Variable]:
    """Return a step that takes a gradient and moves a variable `w` by it, and the variable."""
    w = sg.variable(start(dtype=dtype), name="w")
    g = sg.placeholder(SHAPE, dtype, name="g")
    return sg.compile([g], [], optimizer.apply_gradients([(g, w)]), opt_level=0), w
