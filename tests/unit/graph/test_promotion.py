"""Which dtype operands meet in."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.dtypes import promote

_INTEGERS = [d for d in dtypes.ALL if d.is_integer]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(_INTEGERS, _INTEGERS)), ids=str)
def test_integers_promote_as_in_numpy_and_never_to_a_float(a, b):
    expected = np.promote_types(a.numpy, b.numpy)
    if expected.kind == "f":
        with pytest.raises(sg.DTypeError, match="have no common dtype"):
            promote("add", a, b)
    else:
        assert promote("add", a, b).numpy == expected


@pytest.mark.parametrize(("a", "b"), list(itertools.product(dtypes.FLOATS, _INTEGERS)), ids=str)
def test_an_integer_with_a_float_takes_the_dtype_of_the_float(a, b):
    assert promote("add", a, b) == promote("add", b, a) == a


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("float16", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("bfloat16", "float32", "float32"),
        ("float16", "bfloat16", "float32"),
        ("bool", "int8", "int8"),
        ("bool", "float16", "float16"),
        ("uint64", "float32", "float32"),
    ],
)
def test_dtypes_promote_to(a, b, expected):
    x, y = sg.placeholder((2,), a), sg.placeholder((2,), b)
    assert (x * y).dtype.name == expected
    assert (y * x).dtype.name == expected


@pytest.mark.parametrize(
    ("dtype", "scalar", "expected"),
    [
        ("float16", 2, "float16"),
        ("float16", 2.5, "float16"),
        ("float32", np.float64(2.5), "float32"),
        ("float64", 2.5, "float64"),
        ("int8", 2, "int8"),
        ("uint8", 200, "uint8"),
        ("int8", 2.5, "float32"),
        ("int64", 2.5, "float32"),
        ("int8", True, "int8"),
        ("bool", 2, "int32"),
        ("bool", 2.5, "float32"),
        ("float32", np.int64(3), "float32"),
        ("int32", np.int64(3), "int64"),
        ("float32", np.array([1.0]), "float64"),
    ],
)
def test_a_python_scalar_is_weak_and_an_array_is_not(dtype, scalar, expected):
    x = sg.placeholder((2,), dtype)
    assert (x + scalar if dtype != "bool" else x * scalar).dtype.name == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.5, "float32"),
        (3, "int32"),
        (True, "bool"),
        ([1, 2], "int32"),
        ([1.0, 2], "float32"),
        (np.float64(1.5), "float64"),
        (np.arange(3), "int64"),
        (np.zeros(2, np.float16), "float16"),
    ],
)
def test_a_constant_has_the_dtype(value, expected):
    assert sg.constant(value).dtype.name == expected


def test_a_scalar_that_does_not_fit_is_refused():
    with pytest.raises(sg.DTypeError, match="300 does not fit uint8"):
        sg.placeholder((2,), "uint8") + 300


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda i: i / 2, "float32"),
        (lambda i: i / i, "float32"),
        (lambda i: i // 2, "int64"),
        (sg.sqrt, "float32"),
        (sg.mean, "float32"),
        (sg.floor, "int64"),
        (lambda i: i.argmax(), "int64"),
        (lambda i: i > 0, "bool"),
        (lambda i: sg.sum(i > 0), "int64"),
        (lambda i: sg.sum(i.astype("uint8")), "uint64"),
        (lambda i: sg.sum(i.astype("int8"), dtype="int16"), "int16"),
        (lambda i: sg.prod(i.astype("int8")), "int64"),
        (lambda i: sg.any(i), "bool"),
        (lambda i: sg.where(i > 0, i, 0.5), "float32"),
        (lambda i: sg.concat([i, sg.ones((1,))]), "float32"),
        (lambda i: sg.nn.softmax(i), "float32"),
        (lambda i: sg.one_hot(i, 3), "float32"),
        (lambda i: sg.arange(3), "int64"),
        (lambda i: sg.arange(3.0), "float32"),
        (lambda i: sg.zeros(3), "float32"),
        (lambda i: sg.full((2,), 3), "int64"),
        (lambda i: sg.asarray(3), "int64"),
        (lambda i: sg.asarray([1, 2]), "int64"),
        (lambda i: sg.constant(3), "int32"),
    ],
)
def test_the_result_of_an_integer_operand_has_the_dtype(build, expected):
    assert build(sg.placeholder((3,), "int64")).dtype.name == expected


def test_a_number_beside_wide_integers_may_be_as_wide_in_a_shift():
    x = sg.constant([2**40], "uint64")
    found = sg.run([x >> 2**31, 2**33 >> sg.constant([3, 4], "int64"), x >> 2])
    assert [values.tolist() for values in found] == [[0], [2**30, 2**29], [2**38]]
