"""Alias check: arrays that are written one after the other share no memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.errors import GraphError, user_source
from symgrad.graph.types import Array


def require_apart(
    name: str, labels: Sequence[str], arrays: Sequence[Array], *, hint: str | None = None
) -> None:
    """Raise `GraphError` if two of the arrays share memory: what one is given would be lost.

    Columns of one matrix lie between one another and share nothing.
    """
    bounds = [np.lib.array_utils.byte_bounds(array) for array in arrays]
    order = sorted((i for i, array in enumerate(arrays) if array.size), key=lambda i: bounds[i])
    for place, first in enumerate(order):
        for second in order[place + 1 :]:
            if bounds[second][0] >= bounds[first][1]:
                break
            if np.shares_memory(arrays[first], arrays[second]):
                lower, upper = sorted((first, second))
                raise GraphError(
                    name,
                    f"{labels[lower]} and {labels[upper]} share memory",
                    hint=hint,
                    source=user_source(),
                )
