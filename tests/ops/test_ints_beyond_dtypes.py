"""Python ints that the dtype of a tensor has not: comparisons and limits, beside NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError

_COMPARISONS = (
    *(operator.lt, operator.le, operator.eq, operator.ne, operator.ge, operator.gt),
)  # fmt: skip
_DTYPES = ("uint8", "int8", "uint16", "int32", "uint32", "int64", "uint64")


@pytest.mark.parametrize("dtype", _DTYPES)
def test_comparisons_with_ints_beyond_the_dtype_are_those_of_the_numbers(dtype: str) -> None:
    limits = np.iinfo(dtype)
    values = np.array([limits.min, 0, 3, limits.max], dtype)
    numbers = (-1, limits.min - 1, limits.max + 1, 300, -(2**70), 2**70)
    x = sg.placeholder(values.shape, dtype)
    pairs = [(compare, n) for compare in _COMPARISONS for n in numbers]
    found = sg.compile([x], [[f(x, n), f(n, x)] for f, n in pairs], opt_level=0)(values)
    for (compare, n), (left, right) in zip(pairs, found, strict=True):
        assert left.tolist() == [compare(v, n) for v in values.tolist()], (compare, n)
        assert right.tolist() == [compare(n, v) for v in values.tolist()], (compare, n)


def test_functions_compare_arrays_lists_and_unknown_sizes_alike() -> None:
    assert sg.run(sg.less(np.array([3], "uint8"), -1)).tolist() == [False]
    assert sg.run(sg.equal([3], 2**40)).tolist() == [False]
    assert sg.run(sg.greater(2**40, [True])).tolist() == [True]
    x = sg.placeholder((None, 2), "uint8")
    step = sg.compile([x], x > -1)
    for rows in (0, 3):
        np.testing.assert_array_equal(step(np.zeros((rows, 2), "uint8")), np.ones((rows, 2), bool))


def test_the_branch_of_such_a_comparison_has_its_gradient() -> None:
    x, n = sg.placeholder((3,)), sg.placeholder((3,), "uint8")
    y = sg.sum(sg.where(n > -1, x * x, x))
    step = sg.compile([x, n], sg.gradients(y, [x])[0])
    assert step(np.array([1, 2, 3], "float32"), np.array([0, 1, 255], "uint8")).tolist() == [
        2,
        4,
        6,
    ]


@pytest.mark.parametrize("limits", [(-1, 300), (None, 256), (-5, None), (1, 300), (-1, 4)])
def test_limits_that_no_element_reaches_limit_nothing(limits: tuple[Any, Any]) -> None:
    values = np.array([0, 3, 255], "uint8")
    np.testing.assert_array_equal(sg.run(sg.clip(values, *limits)), np.clip(values, *limits))


def test_what_the_result_would_have_to_hold_is_still_refused() -> None:
    x = sg.placeholder((2,), "uint8")
    calls: tuple[Callable[[], Any], ...] = (
        *(lambda: x + 300, lambda: sg.maximum(x, -1), lambda: sg.clip(x, 300, None)),
    )
    for call in calls:
        with pytest.raises(DTypeError, match="does not fit uint8"):
            call()


def test_an_integer_has_no_negative_power_that_is_known() -> None:
    x = sg.placeholder((2,), "int32")
    for exponent in (-1, np.int32(-2), np.array([1, -1], "int32")):
        with pytest.raises(DTypeError, match="is of integers, which have no power"):
            x**exponent
    assert (x**2).dtype == sg.int32
    assert sg.run(x**-1.0, {x: np.array([2, 4], "int32")}).tolist() == [0.5, 0.25]
    # Which sign an exponent has that a program computes, only its run tells.
    y = sg.placeholder((2,), "int32")
    assert sg.run(
        x**y, {x: np.array([2, -1], "int32"), y: np.array([-1, -3], "int32")}
    ).tolist() == [0, -1]


def test_angles_of_complex_numbers_are_refused() -> None:
    for f in (sg.deg2rad, sg.rad2deg):
        with pytest.raises(DTypeError, match="is complex, real numbers are needed"):
            f(sg.placeholder((2,), "complex64"))


def test_float_power_of_integers_is_a_float() -> None:
    x = sg.placeholder((3,), "int32")
    step = sg.compile([x], np.float_power(x, -1))
    np.testing.assert_array_equal(
        step(np.array([1, 2, 4], "int32")), np.array([1, 0.5, 0.25], "float32")
    )


@pytest.mark.parametrize("exponent", [-1, -2, -3])
def test_a_negative_power_that_folding_finds_is_that_of_a_program(exponent: int) -> None:
    x = sg.placeholder((3,), "int32")
    for y in (sg.constant(exponent), sg.asarray([1, 1, 1]) * exponent):
        found = sg.compile([x], x**y)(np.array([1, 2, -1], "int32"))
        assert found.tolist() == [1, 0, (-1) ** -exponent]
