"""What a user hands to a step: what is converted, what is refused, and the sizes it tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import symgrad as sg
from symgrad.runtime.arguments import check_outputs, convert, label, resolve_sizes

F32 = np.float32


def converted(argument: Any, shape: Sequence[Any] = (2,), dtype: str = "float32") -> np.ndarray:
    (array,) = convert("f", [sg.placeholder(shape, dtype, name="x")], [argument])
    assert array.dtype == sg.placeholder((), dtype).dtype.numpy
    assert array.flags.c_contiguous
    assert array.flags.aligned
    return array


# --------------------------------------------------------------------------------- conversion


def test_an_array_that_fits_is_passed_as_it_is():
    array = np.array([1, 2], F32)
    assert converted(array) is array


@pytest.mark.parametrize(
    ("argument", "dtype"),
    [
        (np.array([1, 2], np.float16), "float32"),
        (np.array([1, 2], np.int16), "float32"),
        (np.array([1, 2], np.int32), "float64"),
        (np.array([1, 2], ml_dtypes.bfloat16), "float32"),
        (np.array([1, 2], np.uint8), "int16"),
        (np.array([True, False]), "int8"),
        (np.array([1, 2], ">f4"), "float32"),
        ([1.5, 2.5], "float64"),
        ([1, 2], "int64"),
        ((True, False), "bool"),
        (np.ma.masked_array([1, 2], dtype=F32), "float32"),
    ],
)
def test_what_casts_safely_is_converted(argument, dtype):
    found = converted(argument, dtype=dtype)
    np.testing.assert_array_equal(found.astype(np.float64), np.asarray(argument, np.float64))


@pytest.mark.parametrize(
    "argument",
    [
        np.arange(4, dtype=F32)[::2],
        np.arange(4, dtype=F32)[::-1][:2],
        np.broadcast_to(F32(3), (2,)),
        np.frombuffer(b"\0" + np.array([1, 2], F32).tobytes(), np.uint8)[1:].view(F32),
    ],
    ids=["every other", "backwards", "repeated", "misaligned"],
)
def test_an_array_of_another_layout_is_copied(argument):
    np.testing.assert_array_equal(converted(argument), argument)


def test_an_array_in_another_order_is_copied():
    array = np.asfortranarray(np.arange(6, dtype=F32).reshape(2, 3))
    np.testing.assert_array_equal(converted(array, (2, 3)), array)


def test_a_subclass_is_seen_as_an_array():
    class Mine(np.ndarray):
        pass

    array = np.array([1, 2], F32).view(Mine)
    assert type(converted(array)) is np.ndarray


@pytest.mark.parametrize(
    ("argument", "dtype"),
    [
        (np.array([1, 2], np.float64), "float16"),
        (np.array([1, 2], np.int64), "float32"),
        (np.array([1, 2], np.int64), "int32"),
        (np.array([1, 2], np.int8), "uint8"),
        (np.array([1, 2], F32), "int32"),
        (np.array([1, 2], F32), "bool"),
        (np.array([1j, 2]), "float64"),
        (["a", "b"], "float32"),
        ([None, 1], "float32"),
        ([np.int64(1), 2], "float32"),
        ([1.5, 2.5], "int32"),
        ([1, 300], "uint8"),
    ],
)
def test_what_does_not_cast_safely_is_refused(argument, dtype):
    with pytest.raises(TypeError, match=rf"f: input 0 \(x\): \w+ was given, {dtype} is needed"):
        converted(argument, dtype=dtype)


@pytest.mark.parametrize(
    ("argument", "dtype"),
    [(1, "float32"), (1.5, "float16"), (True, "float32"), (3, "uint8"), (-1, "int8"), (2, "int64")],
)
def test_a_python_number_takes_the_dtype_of_its_input(argument, dtype):
    assert converted(argument, (), dtype).item() == argument


@pytest.mark.parametrize(
    ("argument", "dtype"), [(1.5, "int32"), (300, "uint8"), (-1, "uint16"), (1, "bool")]
)
def test_a_python_number_that_does_not_fit_is_refused(argument, dtype):
    with pytest.raises(TypeError, match="is needed"):
        converted(argument, (), dtype)


def test_a_ragged_list_is_refused():
    with pytest.raises(ValueError, match=r"f: input 0 \(x\): .*inhomogeneous"):
        converted([[1.0], [1.0, 2.0]])


def test_the_number_of_inputs_is_checked():
    inputs = [sg.placeholder((), name="a"), sg.placeholder(())]
    with pytest.raises(
        ValueError, match=r"3 inputs were given, 2 are needed: input 0 \(a\), input 1"
    ):
        convert("f", inputs, [1, 2, 3])
    with pytest.raises(ValueError, match=r"1 inputs were given, 0 are needed: none"):
        convert("f", [], [1])


def test_an_input_without_a_name_is_called_by_its_position():
    assert label(sg.placeholder((), name="a"), 0) == "input 0 (a)"
    assert label(sg.placeholder(()), 1) == "input 1"


# --------------------------------------------------------------------------------------- sizes


def sizes(*pairs: tuple[Sequence[Any], tuple[int, ...]]) -> dict[str, int]:
    inputs = [sg.placeholder(shape, name=f"x{i}") for i, (shape, _) in enumerate(pairs)]
    return resolve_sizes("f", inputs, [np.zeros(given, F32) for _, given in pairs])


def test_sizes_are_those_of_the_arrays():
    assert sizes((("n", 3), (5, 3)), (("m", "n"), (0, 5))) == {"n": 5, "m": 0}


def test_known_sizes_give_no_unknowns():
    assert sizes(((2, 3), (2, 3))) == {}


def test_a_known_size_that_differs_is_refused():
    with pytest.raises(ValueError, match=r"input 0 \(x0\): shape \[2, 4\] was given, \[2, 3\] is"):
        sizes(((2, 3), (2, 4)))


def test_a_name_with_two_sizes_is_refused():
    with pytest.raises(
        ValueError,
        match=r"sizes of n differ: 5 in axis 0 of input 0 \(x0\), 6 in axis 1 of input 1 \(x1\)",
    ):
        sizes((("n", 3), (5, 3)), ((2, "n"), (2, 6)))
    with pytest.raises(ValueError, match=r"sizes of n differ: 2 in axis 0 .* 3 in axis 1"):
        sizes((("n", "n"), (2, 3)))


def test_a_size_made_of_others_follows_from_them():
    n = sg.placeholder(("n",)).shape[0]
    inputs = [sg.placeholder((2 * n + 1,)), sg.placeholder(("n",))]
    assert resolve_sizes("f", inputs, [np.zeros(7, F32), np.zeros(3, F32)]) == {"n": 3}
    with pytest.raises(ValueError, match=r"shape \[8\] was given, \[2\*n\+1\] is needed"):
        resolve_sizes("f", inputs, [np.zeros(8, F32), np.zeros(3, F32)])


# ----------------------------------------------------------------------------------------- out


def test_out_is_checked_in_number_kind_dtype_shape_and_leave_to_write():
    outputs = [sg.placeholder((2,)), sg.placeholder((), "int64")]
    good = [np.empty(2, F32), np.empty((), np.int64)]
    check_outputs("f", outputs, good)
    frozen = np.empty(2, F32)
    frozen.setflags(write=False)
    for bad, error, text in (
        (good[:1], ValueError, "1 arrays were given as out, there are 2 outputs"),
        ([[1, 2], good[1]], TypeError, "out 0: a list was given, an array is needed"),
        ([good[0], np.empty((), np.int32)], TypeError, "out 1: int32 was given, int64 is needed"),
        ([np.empty(3, F32), good[1]], ValueError, r"out 0: shape \[3\] was given, \[2\] is needed"),
        ([frozen, good[1]], ValueError, "out 0: the array is read-only"),
    ):
        with pytest.raises(error, match=text):
            check_outputs("f", outputs, bad)


@pytest.mark.parametrize("dtype", ["int16", "float16", "float32", "int64", "complex64"])
def test_out_may_lie_in_memory_as_an_array_of_numpy_may(dtype):
    x, given = sg.placeholder((3, 2), dtype), np.arange(6).reshape(3, 2).astype(dtype)
    step = sg.compile([x], sg.negative(x))
    swapped = np.dtype(dtype).newbyteorder()
    bytes_ = np.zeros(given.nbytes + 1, np.uint8)
    for out in (
        np.zeros((3, 2), swapped),
        np.zeros((6, 4), swapped)[::-2, ::2],
        np.zeros((2, 3), dtype).T,
        bytes_[1:].view(dtype).reshape(3, 2),
    ):
        assert step(given, out=out) is out
        np.testing.assert_array_equal(out, -given)


def test_out_that_shares_memory_with_another_is_refused():
    x, given = sg.placeholder((2, 3)), np.arange(6, dtype=F32).reshape(2, 3)
    step = sg.compile([x], [x + 1, x * 2, x[:0]])
    memory, apart, empty = np.zeros((3, 3), F32), np.zeros((2, 3), F32), np.zeros((0, 3), F32)
    for out in ([apart, apart, empty], [memory[:2], memory[1:], empty]):
        with pytest.raises(sg.GraphError, match="out 0 and out 1 share memory"):
            step(given, out=out)
    assert not memory.any()
    assert not apart.any()
    step(given, out=[memory[:2], apart, memory[:0]])
    np.testing.assert_array_equal(memory[:2], given + 1)


def test_columns_of_one_matrix_are_apart():
    x = sg.placeholder((4,))
    memory = np.zeros((4, 2), F32)
    given = np.arange(4, dtype=F32)
    sg.compile([x], [x + 1, x * 2])(given, out=[memory[:, 0], memory[:, 1]])
    np.testing.assert_array_equal(memory, np.stack([given + 1, given * 2], 1))
