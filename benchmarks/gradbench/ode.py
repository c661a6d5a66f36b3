"""Differential equation of GradBench: a chain of n products, by s steps of Runge and Kutta's rule.

    y_0' = x_0        y_i' = x_i y_{i-1}        y(0) = 0, from 0 to 2

The gradient is that of the last component. After s steps only the first 4 s components are not 0,
so it is one of zeros in the sizes of the benchmark; small ones are what shows whether it is right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.gradbench.problem import Given, Problem

END = 2.0


def make(random: np.random.Generator, n: int, s: int) -> Given:
    """Return n factors, for s steps."""
    return {"x": random.random(n), "s": s}


def primal(x: Any, s: int) -> Any:
    """Return the components at the end."""
    h = END / s

    def slope(y: Any) -> Any:
        return x * sg.concat([sg.ones((1,), "float64"), y[:-1]])

    def advance(_: Any, y: Any) -> Any:
        k1 = slope(y)
        k2 = slope(y + (h / 2) * k1)
        k3 = slope(y + (h / 2) * k2)
        k4 = slope(y + h * k3)
        return y + (h / 6) * (k1 + 2 * k2 + 2 * k3 + k4)

    return sg.fori_loop(0, s, advance, sg.zeros_like(x))


def gradient(x: Any, s: int) -> Any:
    """Return the derivatives of the last component by the factors."""
    return sg.gradients(primal(x, s)[-1], [x])


ODE = Problem(
    "ode",
    make,
    {"primal": primal, "gradient": gradient},
    ((1000, 100), (10_000, 100), (100_000, 100)),
    (5, 2),
)
