"""Array interchange: arrays of other libraries (JAX, PyTorch, pandas), read as NumPy's.

They are arrays wherever NumPy's are, and keep their dtype as these do, also in lists: a nest of
numbers, which has none, is another thing. What NumPy makes of a value at all says `given_arrays`.
"""

from __future__ import annotations

from array import array
from itertools import chain
from typing import Any

import numpy as np

from symgrad.graph.given_arrays import PLAIN_NUMBERS, given_array
from symgrad.graph.node import Tensor


def has_own_dtype(value: Any) -> bool:
    """Return whether a value is an array, NumPy's or another library's; a tensor is none."""
    return isinstance(value, np.ndarray | np.generic) or is_foreign_array(value)


def is_foreign_array(value: Any) -> bool:
    """Return whether a value is an array of another library, or a buffer of Python's."""
    if isinstance(value, np.ndarray | np.generic | Tensor):
        return False
    kind = type(value)
    is_told = hasattr(kind, "__array__") or hasattr(kind, "__array_interface__")
    return is_told or isinstance(value, memoryview | array)


def arrays_within(value: Any) -> list[Any]:
    """Return the arrays that a list or a tuple holds, at any depth; of numbers it holds none.

    Of a list that NumPy takes, which is none of those that hold themselves.
    """
    found: list[Any] = []
    level = value if isinstance(value, list | tuple) else ()
    # Lists of numbers can be long, and are asked no more than what their classes are.
    while not (kinds := {*map(type, level)}) <= PLAIN_NUMBERS:
        if not kinds <= {list, tuple}:
            found += [x for x in level if isinstance(x, np.ndarray) or is_foreign_array(x)]
        level = [*chain.from_iterable(x for x in level if isinstance(x, list | tuple))]
    return found


def as_numpy(subject: str, value: Any) -> Any:
    """Return an array of another library as one of NumPy's, and any other value as it is.

    Raises `DTypeError` where the library refuses, as for what is on a device.
    """
    return given_array(subject, value) if is_foreign_array(value) else value
