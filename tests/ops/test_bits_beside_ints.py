"""Bitwise ops take an int in the dtype of the other operand, however large, as NumPy does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg

_OPS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (sg.bitwise_and, np.bitwise_and),
    (sg.bitwise_or, np.bitwise_or),
    (sg.bitwise_xor, np.bitwise_xor),
]


@pytest.mark.parametrize(("ours", "numpys"), _OPS)
@pytest.mark.parametrize("dtype", ["uint32", "int64", "uint64"])
@pytest.mark.parametrize("mask", [1 << 31, (1 << 32) - 1])
def test_an_int_beyond_int32_beside_a_wider_dtype(
    ours: Callable[..., Any], numpys: Callable[..., Any], dtype: str, mask: int
) -> None:
    values = np.array([0, 5, 1 << 31, 3_000_000_000], dtype)
    x = sg.placeholder((4,), dtype)
    step = sg.compile([x], [ours(x, mask), ours(mask, x)])
    for result in step(values):
        assert result.dtype == values.dtype
        np.testing.assert_array_equal(result, numpys(values, mask))


def test_an_int_that_does_not_fit_is_refused() -> None:
    with pytest.raises(sg.DTypeError, match="bitwise_or: 4294967296 does not fit uint32"):
        sg.bitwise_or(sg.placeholder((), "uint32"), 1 << 32)
