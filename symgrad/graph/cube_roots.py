"""Cube roots in NumPy, which are as exact on all machines: what folds constants and interprets."""

from __future__ import annotations

import numpy as np

from symgrad.graph.types import Array


def exact_cbrt(x: Array) -> Array:
    """Return the cube root of float64, within an ulp.

    NumPy's is the C library's where a processor has no AVX-512, and that one is up to four off.
    """
    is_small = np.abs(x) < 2.0**-900  # whose cubes would lose bits
    with np.errstate(all="ignore"):
        scaled = np.where(is_small, x * 2.0**180, x)
        root = np.asarray(np.cbrt(scaled))
        step = (root * root * root - scaled) / (3 * root * root)  # of Newton's method
    root = np.where(np.isfinite(step) & (step != 0), root - step, root)
    return np.where(is_small, root * 2.0**-60, root)
