"""Operands of golden configurations: numbers that need not be written down to be the same again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def operand(shape: Sequence[int], number: int, levels: int = 0) -> np.ndarray[Any, Any]:
    """Return numbers between -1 and 1, or of so many levels from 0 on, of which many are equal."""
    places = np.arange(int(np.prod(shape)), dtype=np.int64)
    drawn = ((places * 7919 + 104729 * (number + 1)) * 31 % 1009 / 504.5 - 1).reshape(shape)
    return np.asarray(np.floor(np.maximum(drawn, 0) * levels) if levels else drawn)
