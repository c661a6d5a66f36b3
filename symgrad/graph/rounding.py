"""Correct rounding: arrays are converted with one rounding, also to the 16-bit floats.

NumPy takes integers, and ml_dtypes takes all numbers, to a 16-bit float through float32. What was
rounded to a tie there is rounded once more, and may end on the wrong side.
"""

from __future__ import annotations

import numpy as np

from symgrad.graph.dtypes import DType
from symgrad.graph.types import Array

_LOW = 11  # bits that a 64-bit integer has more than the significand of a float64


def convert_numbers(x: Array, dtype: DType) -> Array:
    """Return numbers or bools as the nearest ones of `dtype`, of which ties go to even."""
    with np.errstate(all="ignore"):
        is_direct = not dtype.is_half or x.dtype.itemsize < 4
        return (x if is_direct else round_to_odd(x)).astype(dtype.numpy)


def round_to_odd(x: Array) -> Array:
    """Return numbers as float32: those between two of them as the one with an odd last bit.

    That bit keeps what rounding on, to fewer bits, has to know (Boldo and Melquiond 2008).
    """
    wide = _as_float64(x)
    nearest = wide.astype(np.float32)
    is_exact = (nearest == wide) | np.isnan(wide)
    towards_zero = np.where(np.abs(nearest) > np.abs(wide), np.nextafter(nearest, 0), nearest)
    odd = np.asarray(towards_zero, np.float32).view(np.uint32) | np.uint32(1)
    return np.where(is_exact, nearest, odd.view(np.float32))


def _as_float64(x: Array) -> Array:
    """Return numbers as float64: 64-bit integers that do not fit also rounded to odd."""
    if x.dtype.kind not in "iu" or x.dtype.itemsize < 8:
        return x.astype(np.float64)
    cut = (x >> _LOW) << _LOW
    rest = np.where(cut == x, 0, 1 << _LOW).astype(x.dtype)
    has_room = (x < 2**53) & (x > -(2**53))
    return np.where(has_room, x, cut | rest).astype(np.float64)
