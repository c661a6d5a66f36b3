"""Arrays of other libraries are taken as NumPy's are, dtype and all."""

from __future__ import annotations

from array import array
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import symgrad as sg
from symgrad.graph import dtypes

Array = np.ndarray[Any, Any]


class Foreign:
    """An array as PyTorch has them: NumPy reads it, it is hashed as an object, and may change."""

    def __init__(self, held: Array, refusal: str = "") -> None:
        self.held, self.refusal = held, refusal

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.refusal:
            raise RuntimeError(self.refusal)
        return np.array(self.held, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        raise RuntimeError("Unsupported dtype in DLTensor.")


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_its_dtype_is_kept(dtype):
    given = np.array([[1, 0], [3, 4]]).astype(dtype.numpy)
    foreign = Foreign(given)
    made = [
        sg.constant(foreign),
        sg.variable(foreign),
        sg.asarray(foreign),
        sg.from_dlpack(foreign),
    ]
    assert [t.dtype for t in made] == [dtype] * 4
    for found in sg.run([sg.identity(t) for t in made]):
        np.testing.assert_array_equal(found, given)
    assert sg.function(lambda x: x.T)(foreign).dtype == dtype.numpy
    assert sg.compile([], sg.where(foreign == foreign, foreign, foreign))().dtype == dtype.numpy


@pytest.mark.parametrize("made", [lambda a: array("d", a), lambda a: np.array(a).data])
def test_a_buffer_of_python_keeps_its_dtype(made):
    assert sg.constant(made([0.1, 0.2])).dtype is sg.float64
    assert sg.run(sg.asarray(made([0.1, 0.2]))).tolist() == [0.1, 0.2]


def test_a_wide_one_makes_float64_with_a_warning():
    x, foreign = sg.placeholder((2,)), Foreign(np.array([0.1, 0.2]))
    with pytest.warns(sg.PromotionWarning, match=r"an array of shape \[2\] makes float64"):
        assert (x + foreign).dtype is sg.float64
    assert (x + Foreign(np.arange(2, dtype=np.int64))).dtype is sg.float32
    assert (sg.placeholder((2,), "int8") + Foreign(np.arange(2))).dtype is sg.int64


def test_a_function_computes_with_what_it_has_at_the_call():
    double = sg.function(lambda x: 2 * x)
    foreign = Foreign(np.ones(3))
    assert double(foreign).tolist() == [2, 2, 2]
    foreign.held *= 10
    assert double(foreign).tolist() == [20, 20, 20]
    foreign.held = np.ones((1, 2), np.float32)
    assert double(foreign).dtype == np.float32


def test_functions_of_arrays_take_it() -> None:
    x, seed = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    foreign, along = Foreign(x), Foreign(seed)

    def cubes(x: Any) -> Any:
        return x**3

    np.testing.assert_allclose(sg.grad(lambda x: sg.sum(cubes(x)))(foreign), 3 * x**2)
    np.testing.assert_allclose(sg.vmap(cubes)(foreign), x**3)
    np.testing.assert_allclose(sg.jvp(cubes, [foreign], [along])[1], 3 * x**2 * seed)
    np.testing.assert_allclose(sg.vjp(cubes, foreign)[1](along)[0], 3 * x**2 * seed)
    t = sg.placeholder((2,), "float64")
    (slope,) = sg.gradients(cubes(t), [t], grad_ys=along)
    np.testing.assert_allclose(sg.run(slope, {t: foreign}), 3 * x**2 * seed)


@pytest.mark.parametrize(
    "item",
    [np.array([0, 2]), np.array([1], np.uint8), np.array([True, False, True]), np.array(1)],
    ids=repr,
)
def test_it_is_an_index(item):
    x = np.arange(12.0).reshape(3, 4)
    wanted = x.copy()
    wanted[item] = 7
    found = sg.run([sg.constant(x)[Foreign(item)], sg.constant(x).at[Foreign(item)].set(7.0)])
    np.testing.assert_array_equal(found[0], x[item])
    np.testing.assert_array_equal(found[1], wanted)


def test_a_truth_of_no_axes_is_a_mask():
    x = np.arange(3.0)
    for truth in (np.array(True), np.array(False)):
        np.testing.assert_array_equal(sg.run(sg.constant(x)[Foreign(truth)]), x[truth])


def test_what_the_library_refuses_is_said():
    refused, x = Foreign(np.ones(2), "it is on a device"), sg.placeholder((2,))
    for call in (
        lambda: sg.constant(refused),
        lambda: x + refused,
        lambda: x[refused],
        lambda: sg.compile([x], x)(refused),
        lambda: sg.function(lambda x: x)(refused),
        lambda: sg.from_dlpack(refused),
    ):
        text = "Foreign hands no array over: it is on a device"
        with pytest.raises(sg.DTypeError, match=text) as caught:
            call()
        assert caught.value.hint is None


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ">i2", ">f8"])
def test_dlpack_is_not_needed_for_arrays_of_numpy(dtype):
    given = np.arange(3).astype(dtype)
    np.testing.assert_array_equal(sg.run(sg.from_dlpack(given)), given)


IN_LISTS: list[tuple[Any, str]] = [
    ([np.zeros(2), np.ones(2)], "float64"),
    ((np.arange(3), np.arange(3)), "int64"),
    ([[np.array([1, 2], "int8")], [np.array([3, 4], "int8")]], "int8"),
    ([np.array(2.0), np.array(3.0)], "float64"),
    ([np.zeros(2, "float32"), np.zeros(2)], "float64"),
    ([np.zeros(2, "float16"), [1.5, 2]], "float16"),
    ([np.array([1, 2], "int8"), [1.5, 2]], "float32"),
    ([np.zeros(1, "float32"), [1j]], "complex64"),
    ([array("d", [1.0]), array("d", [2.0])], "float64"),
    ([1.5, 2], "float32"),
    ([[True], [2]], "int32"),
    ([], "float32"),
]


@pytest.mark.parametrize(("value", "dtype"), IN_LISTS)
def test_arrays_in_lists_keep_their_dtype(value, dtype):
    for found in (sg.constant(value), sg.variable(value)):
        assert found.dtype.name == dtype
    np.testing.assert_array_equal(sg.run(sg.constant(value)), np.asarray(value))


def test_arrays_in_lists_keep_their_dtype_as_operands():
    assert sg.asarray([np.array([1], "int8")]).dtype.name == "int8"
    assert sg.asarray([[1]]).dtype.name == "int64"
    x = sg.placeholder((2,))
    with pytest.warns(sg.PromotionWarning, match="makes float64"):
        assert (x * [np.ones(2)]).dtype.name == "float64"
    assert (x * [1.0, 2.0]).dtype.name == "float32"


def test_arrays_in_lists_that_have_no_dtype_in_common_are_refused():
    with pytest.raises(sg.DTypeError, match="uint64 and int64 have no common dtype"):
        sg.constant([np.array([1], "uint64"), np.array([-1], "int64")])
