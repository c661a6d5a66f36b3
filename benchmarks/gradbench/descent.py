"""Gradient descent of GradBench, which `particle` and `saddle` minimize by, and modes of gradients.

A step is doubled after ten that were taken one after another, and halved where it leads up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import symgrad as sg

TOLERANCE, FIRST_STEP, STEPS_IN_A_ROW = 1e-5, 1e-5, 10

# Of a vector to a scalar.
Objective = Callable[[Any], Any]


def reverse_gradient(f: Objective, x: Any) -> Any:
    """Return the gradient of f at x, by one pass back."""
    x = sg.identity(x)  # what f captures may be the tensor x as well, and is not meant
    return sg.gradients(f(x), [x])[0]


def forward_gradient(f: Objective, x: Any) -> Any:
    """Return the gradient of f at x, by a tangent along each axis."""
    x = sg.identity(x)
    y, axes = f(x), np.eye(x.shape[0])
    return sg.stack([sg.jvp([y], [x], [sg.asarray(axis)])[0] for axis in axes])


# By the letter that names of functions have for them.
MODES = {"r": reverse_gradient, "f": forward_gradient}


def argmin(f: Objective, gradient: Objective, start: Any) -> Any:
    """Return where f is least, going down from `start`."""

    def goes_on(_x: Any, _fx: Any, g: Any, _step: Any, _taken: Any, is_still: Any) -> Any:
        return sg.logical_and(_norm(g) > TOLERANCE, sg.logical_not(is_still))

    def advance(x: Any, fx: Any, g: Any, step: Any, taken: Any, _: Any) -> Any:
        is_doubled = taken == STEPS_IN_A_ROW
        step, taken = sg.where(is_doubled, 2 * step, step), sg.where(is_doubled, 0, taken)
        to = x - step * g
        f_to, is_still = f(to), _norm(x - to) <= TOLERANCE
        is_down = sg.logical_and(f_to < fx, sg.logical_not(is_still))
        return sg.cond(
            is_down,
            lambda: (to, f_to, gradient(to), step, taken + 1, is_still),
            lambda: (x, fx, g, step / 2, sg.zeros_like(taken), is_still),
        )

    first = sg.asarray(FIRST_STEP, dtype="float64"), sg.asarray(0, dtype="int64")
    state = (start, f(start), gradient(start), *first, sg.asarray(False))
    return sg.while_loop(goes_on, advance, state)[0]


def argmax(f: Objective, gradient: Objective, start: Any) -> Any:
    """Return where f is greatest, going up from `start`."""
    return argmin(lambda x: -f(x), lambda x: -gradient(x), start)


def _norm(x: Any) -> Any:
    return sg.sqrt((x * x).sum())
