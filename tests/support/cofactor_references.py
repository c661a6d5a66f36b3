"""Cofactors of matrices that have an inverse, and what they change by, by NumPy."""

from __future__ import annotations

import numpy as np

from tests.support.case import Array


def cofactors_of(x: Array) -> Array:
    """Return the cofactors, of matrices that have an inverse."""
    inverse = np.linalg.inv(x).swapaxes(-1, -2)
    return np.asarray(np.linalg.det(x))[..., None, None] * inverse


def change_of(x: Array, y: Array) -> Array:
    """Return what the cofactors of matrices that have an inverse change by along `y`."""
    w = np.linalg.inv(x).swapaxes(-1, -2)
    inner = (w * y).sum((-2, -1))[..., None, None] * w - w @ y.swapaxes(-1, -2) @ w
    return np.asarray(np.linalg.det(x)[..., None, None] * inner)
