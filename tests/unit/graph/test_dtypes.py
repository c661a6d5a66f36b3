"""Element types: there is one object for each."""

from __future__ import annotations

import copy

import pytest

from symgrad.graph import dtypes


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_a_copy_is_the_one_object(dtype):
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert dtypes.as_dtype(dtype.name) is dtypes.as_dtype(dtype.numpy) is dtype


def test_element_types_differ_from_each_other():
    assert len(set(dtypes.ALL)) == len(dtypes.ALL)
    assert dtypes.float16 != dtypes.bfloat16
