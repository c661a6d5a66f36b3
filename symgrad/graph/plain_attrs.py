"""Attributes of ops with the numbers that Python has, whichever a user gives."""

from __future__ import annotations

from types import NoneType
from typing import Any

import numpy as np

from symgrad.graph.dtypes import DType
from symgrad.graph.node import Attrs

# Every node comes by here: what its attributes are nearly always is found at once.
_PLAIN = {bool, int, float, str, DType, NoneType}


def plain_attrs(attrs: Attrs) -> Attrs:
    """Return attributes of an op whose numbers are Python's, at any depth of tuples.

    NumPy's, as `x.max() + 1` is one, are equal to them and have the same hash: in the type of a
    result one would stand for the equal types of all programs, and an `int` it is not.
    """
    for value in attrs.values():
        if type(value) not in _PLAIN and _holds_numpy(value):
            return {key: _plain(value) for key, value in attrs.items()}
    return attrs


def _holds_numpy(value: object) -> bool:
    if type(value) is tuple:
        return not _PLAIN.issuperset(map(type, value)) and any(map(_holds_numpy, value))
    return isinstance(value, np.generic | np.ndarray)


def _plain(value: Any) -> Any:
    if type(value) is tuple:
        return tuple([_plain(element) for element in value])
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.shape):
        return value.item()
    return value
