"""Rows of the table for the ops that samplers are made of: reproducible functions, samples of bits.

What is expected is NumPy's own functions; that the bits are the same everywhere is tested in
`tests/unit/random/test_portable.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.node import Tensor
from symgrad.graph.ops.portable import (
    exponential_of_bits,
    log1p_rest,
    portable_exp,
    portable_log,
    turn_cos,
    turn_sin,
)
from tests.support.case import Array, Case, Real

_ALSO = (((),), ((0, 3),), ((1,),), ((2, 1, 3),))


def _row(
    op: str,
    build: Callable[..., Tensor],
    expected: Callable[..., Any],
    low: float,
    high: float,
    *,
    name: str | None = None,
    slack: float = 1.0,
) -> Case:
    inputs = (Real((3, 4), low, high),)
    return Case(name or op, op, build, expected, inputs, also=_ALSO, slack=slack)


def _exponential_of(words: Array) -> Array:
    """Return the samples by their definition, from the words as exact fractions of integers."""
    is_upper = words >= np.uint64(1) << np.uint64(63)
    t = ((words & np.uint64(2**63 - 1)).astype(np.float64) + 0.5) * 2.0**-64
    return np.where(is_upper, -np.log(t), -np.log1p(-t))


RANDOM = (
    _row("portable_log", portable_log, np.log, 0.1, 9.0),
    _row(
        "portable_log", lambda x: portable_log(x, -4, 1), np.log, 0.1, 2.0,
        name="portable_log_of_a_range",
    ),
    _row(
        "log1p_rest", log1p_rest,
        lambda x: np.log1p(x) - x + x**2 / 2 - x**3 / 3, -0.6, 3.0, slack=4.0,
    ),
    _row("portable_exp", portable_exp, np.exp, -6.0, -0.1),
    _row("turn_cos", turn_cos, lambda x: np.cos(2 * np.pi * x), -2.0, 2.0, slack=2.0),
    _row("turn_sin", turn_sin, lambda x: np.sin(2 * np.pi * x), -2.0, 2.0, slack=2.0),
    *(
        Case(
            f"exponential_of_bits_{dtype}", "exponential_of_bits",
            lambda words, dtype=dtype: exponential_of_bits(words, dtype), _exponential_of,
            (Real((3, 4), 0, 2.0**64 - 2.0**40),), dtypes=(dtypes.uint64,), order=0, also=_ALSO,
        )
        for dtype in (dtypes.float32, dtypes.float64)
    ),
)  # fmt: skip
