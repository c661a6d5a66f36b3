"""Approximate equality of arrays, with tolerances that follow from what their dtype can hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import optree

from symgrad.errors import GraphError, user_source
from symgrad.graph.dtypes import as_dtype, bfloat16, float16, float32, float64
from symgrad.graph.types import Array

# A few roundings of a result of moderate size: relative, absolute.
_TOLERANCES = {
    float64: (1e-10, 1e-12),
    float32: (1e-5, 1e-6),
    float16: (2e-3, 1e-3),
    bfloat16: (2e-2, 1e-2),
}


def assert_allclose(
    actual: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None
) -> None:
    """Raise AssertionError unless two arrays, or nests of them, are equal up to rounding.

    Tolerances not given are those of the coarser dtype of each pair; integers and bools must be
    equal. nan equals nan. Shapes must be equal but for an expected scalar.

    >>> sg.testing.assert_allclose({"w": np.float32([0.1])}, {"w": np.float64([0.1])})
    """
    leaves, structure = optree.tree_flatten(actual)
    try:
        others = structure.flatten_up_to(expected)
    except ValueError as error:
        problem = f"the nests differ: {error}"
        raise GraphError("assert_allclose", problem, source=user_source()) from error
    for found, wanted in zip(leaves, others, strict=True):
        _assert_close(np.asarray(found), np.asarray(wanted), rtol, atol)


def _assert_close(actual: Array, expected: Array, rtol: float | None, atol: float | None) -> None:
    assert expected.ndim == 0 or actual.shape == expected.shape, (
        f"shape {actual.shape} is not {expected.shape}"
    )
    known = [_TOLERANCES.get(as_dtype(a.dtype), (0.0, 0.0)) for a in (actual, expected)]
    relative, absolute = max(known)
    np.testing.assert_allclose(
        _comparable(actual),
        _comparable(expected),
        rtol=relative if rtol is None else float(rtol),
        atol=absolute if atol is None else float(atol),
    )


def _comparable(array: Array) -> Array:
    # NumPy's comparison does not know bfloat16; float32 holds every value of the 16-bit floats.
    return array.astype(np.float32) if as_dtype(array.dtype).is_half else array
