"""Creation from what is there: copies, other libraries' arrays, grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

X = sg.placeholder((2,), name="x")


def test_a_tensor_is_its_own_array():
    assert sg.asarray(X) is X
    assert sg.asarray(X, copy=False) is X
    copied = sg.asarray(X, copy=True)
    assert copied is not X
    assert copied.node.inputs == (X,)
    assert sg.asarray(X, dtype="float64", copy=True).dtype == "float64"


def test_a_copy_that_is_not_wanted_is_refused():
    rows: list[tuple[Any, str]] = [
        (
            lambda: sg.asarray(X, dtype="float64", copy=False),
            "f32[2] in float64 is a copy",
        ),
        (lambda: sg.asarray([1, 2], copy=False), "asarray: a constant of list is a copy"),
        (lambda: sg.asarray(np.ones(2), copy=False), "asarray: a constant of ndarray is a copy"),
        (lambda: sg.from_dlpack(np.ones(2), copy=False), "a constant of ndarray is a copy"),
    ]
    for call, text in rows:
        with pytest.raises(ValueError, match="copy=False asks for none") as caught:
            call()
        assert text in str(caught.value)


def test_numbers_and_arrays_have_their_dtypes():
    assert sg.asarray(np.ones(2)).dtype == "float64"
    assert sg.asarray(np.int8(1)).dtype == "int8"
    assert sg.asarray([True, False]).dtype == "bool"
    assert sg.asarray([1, 2.5]).dtype == "float32"
    assert sg.asarray([2**63]).dtype == "uint64"
    assert sg.asarray([]).dtype == "float32"
    assert sg.asarray(sg.placeholder(("n",)).shape[0]).dtype == "int64"
    with pytest.raises(sg.DTypeError, match="does not fit int8"):
        sg.asarray([1, 1000], dtype="int8")


def test_ints_of_which_numpy_makes_floats_keep_their_digits():
    # NumPy has no dtype for a small and a large one together, but float64.
    expected = np.array([0, 2**63 + 1], np.uint64)
    for given in ([0, 2**63 + 1], [np.int64(0), np.uint64(2**63 + 1)]):
        found = sg.compile([], sg.asarray(given, dtype="uint64"), opt_level=0)()
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(sg.DTypeError, match="does not fit uint64"):
        sg.constant([-1, 2**63], dtype="uint64")


def test_what_another_library_holds_becomes_a_constant():
    given = np.arange(6, dtype=np.int16).reshape(2, 3)
    held = sg.from_dlpack(given)
    assert held.dtype == "int16"
    given[0, 0] = 99
    np.testing.assert_array_equal(sg.run(held), [[0, 1, 2], [3, 4, 5]])
    assert sg.from_dlpack(X) is X


def test_a_constant_is_exported_as_a_copy():
    held = sg.constant([1.0, 2.0])
    taken = np.from_dlpack(held)
    np.testing.assert_array_equal(taken, np.array([1.0, 2.0], np.float32), strict=True)
    taken[0] = 9
    np.testing.assert_array_equal(sg.run(held), [1.0, 2.0])
    assert held.__dlpack_device__() == np.ones(1).__dlpack_device__()
    with pytest.raises(BufferError, match="not exported without a copy"):
        held.__dlpack__(copy=False)


def test_a_tensor_without_a_value_is_not_exported():
    for x in (X, X + 1, sg.zeros(2)):
        with pytest.raises(sg.DTypeError, match="has no value to export by DLPack"):
            np.from_dlpack(x)


def test_a_grid_takes_vectors_and_scalars():
    first, second = sg.meshgrid(sg.arange(3), 5)
    assert first.shape == second.shape == (1, 3)
    assert sg.meshgrid() == ()
    (alone,) = sg.meshgrid(X)
    assert alone.shape == (2,)
    with pytest.raises(sg.ShapeError, match=r"meshgrid: operand 1: f32\[2, 2\] is no vector"):
        sg.meshgrid(X, sg.zeros((2, 2)))
    with pytest.raises(sg.GraphError, match="meshgrid: 'yx' is neither 'xy' nor 'ij'"):
        sg.meshgrid(X, X, indexing="yx")  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [-(2**70), -3, -2, 0, 3, 4, 2**63])
def test_a_diagonal_beyond_the_matrix_is_empty(k):
    near = max(-9, min(k, 9))
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(sg.run(sg.eye(2, 3, k=k)), np.eye(2, 3, k=near))
    np.testing.assert_array_equal(sg.run(sg.tril(x, k=k)), np.tril(x, near))
    np.testing.assert_array_equal(sg.run(sg.triu(x, k=k)), np.triu(x, near))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "uint64"])
def test_spaced_integers_are_those_of_numpy(dtype):
    """Below 0 a floor is no truncation: the public suite spaces integers from 0 on."""
    low = -5 if dtype.startswith("int") else 2
    rows = [(low, 5, 11, False), (5, low, 9, True), (low, 7, 4, True), (low, low, 3, True)]
    found = sg.run([sg.linspace(a, b, n, endpoint=end, dtype=dtype) for a, b, n, end in rows])
    for (a, b, n, end), one in zip(rows, found, strict=True):
        np.testing.assert_array_equal(one, np.linspace(a, b, n, endpoint=end, dtype=dtype))


@pytest.mark.parametrize(
    ("bounds", "dtype", "lost"),
    [
        ((250, 260), "int8", 250), ((120, 135), "int8", 134), ((3, -3, -1), "uint8", -2),
        ((300,), "uint8", 299), ((0, 2**40, 2**39), "int32", 2**39),
    ],
)  # fmt: skip
def test_a_range_of_ints_that_a_dtype_does_not_hold_is_refused(bounds, dtype, lost):
    with pytest.raises(sg.DTypeError, match=rf"arange: {lost} does not fit {dtype}"):
        sg.arange(*bounds, dtype=dtype)
    assert sg.arange(5, 5, dtype=dtype).shape == (0,)


@pytest.mark.parametrize("bounds", [(300, 200), (300, 300), (-300, -300, -1)])
def test_a_range_without_elements_has_none_that_a_dtype_does_not_hold(bounds):
    assert sg.run(sg.arange(*bounds, dtype="int8")).shape == (0,)


def test_a_diagonal_may_be_that_of_a_size():
    x, given = sg.placeholder((None, 3)), np.arange(9.0, dtype="float32").reshape(3, 3) + 1
    n = x.shape[0]
    made = [sg.tril(x, k=n - 4), sg.triu(x, k=n - 2), sg.eye(n, k=n - 2)]
    low, high, ones = sg.compile([x], made)(given)
    np.testing.assert_array_equal(low, np.tril(given, -1))
    np.testing.assert_array_equal(high, np.triu(given, 1))
    np.testing.assert_array_equal(ones, np.eye(3, k=1))
