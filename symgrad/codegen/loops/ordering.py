"""Total order of elements in the loop IR: what a sort and a search of one row mean.

They are the interpreter's, and share no code with the native ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def stable_order(row: Array, *, descending: bool) -> NDArray[np.int64]:
    """Return the positions of the elements in order: Python's sort is stable in both directions."""
    is_nan = row != row
    values = row.astype(np.float64).tolist() if row.dtype.kind not in "biu" else row.tolist()
    numbers = sorted(np.flatnonzero(~is_nan), key=lambda i: values[i], reverse=descending)
    return np.array([*numbers, *np.flatnonzero(is_nan)], np.int64)


def counts_before(
    buffer: Array, start: Any, steps: Array, values: Array, *, or_equal: bool
) -> Array:
    """Return how many of the elements from `start` on are less than a value, or equal.

    nan is greater than every number.
    """
    starts, values = np.broadcast_arrays(start, values)
    counts = np.zeros(starts.shape, np.int64)
    for place in np.ndindex(starts.shape):
        row, wanted = buffer[starts[place] + steps], values[place]
        is_less = (row < wanted) | ((wanted != wanted) & (row == row))
        is_equal = (row == wanted) | ((wanted != wanted) & (row != row))
        counts[place] = np.count_nonzero(is_less | is_equal if or_equal else is_less)
    return counts
