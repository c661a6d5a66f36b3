"""Particle of GradBench: where to put a charge, so that a particle lands where it should.

Two charges push a particle, by the gradient of their potential, while it falls; where it lands is
differentiated through the loop of its fall, of a length that only the values know. The first letter
of a function is the mode of that derivative, the second that of the force.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.gradbench.descent import MODES, argmin
from benchmarks.gradbench.problem import Given, Problem

TIME = 0.1


def make(_random: np.random.Generator) -> Given:
    """Return how far down the first charge begins."""
    return {"w": np.zeros(1)}


def _landing(inner: Any, w: Any) -> Any:
    """Return the square of where the particle lands."""
    ten, zero = sg.full((1,), 10.0, "float64"), sg.zeros((1,), "float64")
    charges = (sg.concat([ten, 10 - w]), sg.concat([ten, zero]))

    def potential(x: Any) -> Any:
        return sum(1 / sg.sqrt(((x - charge) ** 2).sum()) for charge in charges)

    def fall(x: Any, v: Any) -> Any:
        force = -inner(potential, x)
        x = x + TIME * v
        return x, sg.where(x[1] > 0, v + TIME * force, v)

    start = sg.asarray(np.array([0.0, 8.0])), sg.asarray(np.array([0.75, 0.0]))
    x, v = sg.while_loop(lambda x, _: x[1] > 0, fall, start)
    return (x[0] - x[1] / v[1] * v[0]) ** 2


def _particle(outer: Any, inner: Any, w: Any) -> Any:
    landing = partial(_landing, inner)
    return argmin(landing, partial(outer, landing), w)


PARTICLE = Problem(
    "particle",
    make,
    {o + i: partial(_particle, MODES[o], MODES[i]) for o in MODES for i in MODES},
    ((),),
    (),
    is_of_modes=True,
)
