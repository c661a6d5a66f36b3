"""Determinant of GradBench, by expansion by minors along the first row, and its gradient.

The expansion is written as the recursion that it is. A program has equal nodes once, so of the
minors, of which the recursion meets some factorially often, there is one for each set of columns.
That is another class of algorithm than that of the programs it is compared with, whose recursion
meets each as often as it is called; `det.cpp` is written with the minors of a row kept as well.
"""

from __future__ import annotations

from functools import cache
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
    elements = [[a[row, column] for column in range(ell)] for row in range(ell)]

    @cache
    def minor(columns: tuple[int, ...]) -> Any:
        row = ell - len(columns)
        if len(columns) == 1:
            return elements[row][columns[0]]
        terms = [
            elements[row][column] * minor(columns[:place] + columns[place + 1 :])
            for place, column in enumerate(columns)
        ]
        return sum(terms[2::2], terms[0]) - sum(terms[3::2], terms[1])

    return minor(tuple(range(ell)))


def gradient(a: Any) -> Any:
    """Return the derivatives by the elements: the cofactors."""
    return sg.gradients(primal(a), [a])


DET = Problem("det", make, {"primal": primal, "gradient": gradient}, ((5,), (8,), (11,)), (3,))
