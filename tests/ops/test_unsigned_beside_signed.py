"""Comparisons of uint64 with signed integers, of which no dtype holds both: as in NumPy 2."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import symgrad as sg

_UNSIGNED = np.array([0, 3, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
_SIGNED = np.array([-(2**63), -128, -1, 0, 3, 2**53, 2**53 + 1, 2**63 - 1], np.int64)
_COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_numbers_are_compared_and_not_bits(dtype):
    signed = _SIGNED[np.abs(_SIGNED.astype(float)) <= np.iinfo(dtype).max].astype(dtype)
    x = sg.placeholder((6, 1), "uint64", name="x")
    y = sg.placeholder(signed.shape, dtype, name="y")
    found = [pair for c in _COMPARISONS for pair in (c(x, y), c(y, x))]
    expected = [
        pair
        for compare in _COMPARISONS
        for pair in (compare(_UNSIGNED[:, None], signed), compare(signed, _UNSIGNED[:, None]))
    ]
    for got, wanted in zip(
        sg.compile([x, y], found)(_UNSIGNED[:, None], signed), expected, strict=True
    ):
        np.testing.assert_array_equal(got, wanted)


def test_a_numpy_scalar_and_an_array_are_compared_so():
    x = sg.constant(_UNSIGNED)
    assert sg.run(x > np.int64(-1)).all()
    assert not sg.run(sg.array_equal(x, _UNSIGNED.astype(np.int64)))


def test_what_has_a_result_of_a_common_dtype_is_refused():
    with pytest.raises(sg.DTypeError, match="uint64 and int64 have no common dtype"):
        sg.maximum(sg.constant(_UNSIGNED[:3]), sg.constant(_SIGNED[:3]))
