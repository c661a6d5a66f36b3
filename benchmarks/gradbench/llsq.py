"""Least squares of GradBench: a polynomial against the sign of t, at n places from -1 to 1.

    y = 1/2 sum_i (sign(t_i) - sum_j x_j t_i^j)^2        t_i = -1 + 2 i / (n - 1)

The power of t is a running product, as in the programs that it is compared with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.gradbench.problem import Given, Problem


def make(random: np.random.Generator, m: int, n: int) -> Given:
    """Return m coefficients, for n places."""
    return {"x": random.random(m), "n": n}


def primal(x: Any, n: int) -> Any:
    """Return half the sum of squared errors."""
    t = -1 + sg.arange(n, dtype="float64") * (2 / (n - 1))

    def add_term(j: Any, state: Any) -> Any:
        total, power = state
        return total + x[j] * power, power * t

    start = (sg.zeros_like(t), sg.ones_like(t))
    total, _ = sg.fori_loop(0, x.shape[0], add_term, start)
    return 0.5 * ((sg.sign(t) - total) ** 2).sum()


def gradient(x: Any, n: int) -> Any:
    """Return the derivatives by the coefficients."""
    return sg.gradients(primal(x, n), [x])


LLSQ = Problem(
    "llsq",
    make,
    {"primal": primal, "gradient": gradient},
    ((128, 256), (128, 4096), (128, 16392)),
    (4, 6),
)
