"""Determinant of GradBench, by expansion by minors along the first row, and its gradient.

Expanded minor by minor, the recursion meets most of them factorially often. Here, and in `det.cpp`,
it goes by rows from the last one up: there is one minor for each set of columns, so the two are of
one class of algorithm, and not of that of programs which meet a minor as often as it is called.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

import symgrad as sg
from benchmarks.gradbench.problem import Given, Problem


def make(random: np.random.Generator, ell: int) -> Given:
    """Return a matrix of ell rows."""
    return {"a": random.random((ell, ell))}


def primal(a: Any) -> Any:
    """Return the determinant."""
    ell = a.shape[0]
    minors = sg.ones((1,), "float64")
    places: dict[tuple[int, ...], int] = {(): 0}
    for size in range(1, ell + 1):
        sets = [*combinations(range(ell), size)]
        smaller = [[places[s[:j] + s[j + 1 :]] for j in range(size)] for s in sets]
        signs = (-1.0) ** np.arange(size)
        row = sg.take(a[ell - size], np.array(sets))
        minors = (signs * row * sg.take(minors, np.array(smaller))).sum(1)
        places = {s: place for place, s in enumerate(sets)}
    return minors[0]


def gradient(a: Any) -> Any:
    """Return the derivatives by the elements: the cofactors."""
    return sg.gradients(primal(a), [a])


DET = Problem("det", make, {"primal": primal, "gradient": gradient}, ((8,), (10,), (11,)), (3,))
