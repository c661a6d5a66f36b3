"""What steps of QR iteration leave as it was, and what their parts are, by NumPy and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from tests.support.case import Array


def three_diagonals(x: Array) -> Array:
    """Return what is on and beside the diagonal after the reduction to three diagonals, a row each.

    What is beside it has a sign that the matrix does not determine.
    """
    found = [scipy.linalg.hessenberg(matrix) for matrix in x]
    rows = [np.concatenate([np.diagonal(t), np.diagonal(t, -1)]) for t in found]
    return np.stack(rows, 1)


def squared(x: Any, n: int, sides: int) -> Any:
    """Return the sum of squares of what is on the diagonal and on one, or two, beside it."""
    on, beside = (x[a:b] ** 2 for a, b in ((0, n), (n, 2 * n - 1)))
    return on.sum(0) + (1 + sides) * beside.sum(0)


def turned(x: Array, turns: Array) -> Array:
    """Rotate neighbours of the columns of x by cosines and sines of a state."""
    found, count = np.array(x), len(x) - 1
    for k in range(count):
        cosine, sine = turns[2 * count + 1 + k], turns[3 * count + 1 + k]
        near, far = found[k].copy(), found[k + 1].copy()
        found[k], found[k + 1] = cosine * near + sine * far, cosine * far - sine * near
    return found
