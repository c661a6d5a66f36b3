"""Memory alignment: arrays that begin where a cache line and a vector do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from symgrad.graph.huge_pages import aligned_bytes

_Array = npt.NDArray[Any]
ALIGNMENT = 64  # bytes; a cache line and the widest vector register


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Array:
    """Return an uninitialised C-ordered array that starts at a multiple of `ALIGNMENT`."""
    return _aligned(np.empty, shape, dtype)


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Array:
    """Return a C-ordered array of zeros that starts at a multiple of `ALIGNMENT`."""
    return _aligned(np.zeros, shape, dtype)


def _aligned(make: Callable[..., _Array], shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Array:
    size = math.prod(shape) * dtype.itemsize
    return aligned_bytes(make, size, ALIGNMENT).view(dtype).reshape(shape)


def aligned_copy(array: _Array) -> _Array:
    """Return a copy of `array` that starts at a multiple of `ALIGNMENT`."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
