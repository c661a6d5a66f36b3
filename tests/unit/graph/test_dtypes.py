"""Element types: there is one object for each."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from symgrad.errors import DTypeError
from symgrad.graph import dtypes


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_a_copy_is_the_one_object(dtype):
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert dtypes.as_dtype(dtype.name) is dtypes.as_dtype(dtype.numpy) is dtype


def test_element_types_differ_from_each_other():
    assert len(set(dtypes.ALL)) == len(dtypes.ALL)
    assert dtypes.float16 != dtypes.bfloat16


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_a_dtype_equals_its_name_and_numpys_dtype(dtype):
    assert dtype == dtype.name == dtype
    assert dtype == dtype.numpy
    assert dtype == dtype.numpy.type
    others = [other for other in dtypes.ALL if other is not dtype]
    assert all(dtype != other and dtype != other.name for other in others)
    assert all(dtype != other.numpy for other in others)


def test_a_dtype_equals_nothing_else():
    nothing: object = None
    for other in (nothing, 1, "f4", "no dtype", object(), [1], int, np.dtype(">f4")):
        assert dtypes.float32 != other
        assert not dtypes.float64 == other  # noqa: SIM201 - `==` is what is tested


def test_numpy_takes_a_dtype_for_its_own():
    assert np.dtype(dtypes.float64) == np.float64
    assert np.zeros(3, dtypes.bfloat16).dtype == dtypes.bfloat16
    assert np.ones(2).astype(dtypes.int8).dtype == np.int8


def test_none_is_a_default_where_there_is_one():
    nothing: Any = None
    assert dtypes.dtype_or(nothing, dtypes.int8) is dtypes.int8
    assert dtypes.dtype_or("float64", dtypes.int8) is dtypes.float64
    with pytest.raises(DTypeError, match="None is none of bool, int8"):
        dtypes.as_dtype(nothing)
