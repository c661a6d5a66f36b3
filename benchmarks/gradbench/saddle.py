"""Saddle point of GradBench: where |x|^2 - |y|^2 is least by x of what is greatest by y.

The descent by x differentiates through the ascent by y. The first letter of a function is the mode
of the outer derivative, the second that of the inner one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.gradbench.descent import MODES, argmax, argmin
from benchmarks.gradbench.problem import Given, Problem


def make(_random: np.random.Generator) -> Given:
    """Return where both begin."""
    return {"start": np.ones(2)}


def _saddle(outer: Any, inner: Any, start: Any) -> Any:
    def f(x: Any, y: Any) -> Any:
        return (x * x).sum() - (y * y).sum()

    def greatest_from(x: Any) -> Any:
        def along(y: Any) -> Any:
            return f(x, y)

        return argmax(along, lambda y: inner(along, y), start)

    def greatest(x: Any) -> Any:
        return f(x, greatest_from(x))

    x = argmin(greatest, lambda x: outer(greatest, x), start)
    return sg.concat([x, greatest_from(x)])


SADDLE = Problem(
    "saddle",
    make,
    {o + i: partial(_saddle, MODES[o], MODES[i]) for o in MODES for i in MODES},
    ((),),
    (),
    is_of_modes=True,
)
