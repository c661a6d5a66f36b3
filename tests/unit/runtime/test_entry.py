"""Calling compiled steps, the fast way and the others: `symgrad.runtime.entry`."""

from __future__ import annotations

import io
import time
from typing import Any, NoReturn

import numpy as np
import pytest

from symgrad.graph import dtypes
from symgrad.runtime.entry import ArraySpec
from tests.support.copy_step import F64, Array, StepError, build_copy, values

SHAPES = [(), (3,), (2, 3), (2, 1, 3), (2, 1, 3, 2), (1, 2, 1, 3, 2)]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (0,), (2, 0, 3)], ids=str)
def test_arrays_of_every_dtype_and_rank_go_the_fast_way(dtype, shape):
    spec = ArraySpec("x", shape, dtype)
    entry = build_copy([spec], single=True)
    x = values(spec)
    y = entry.call(x)
    assert type(y) is np.ndarray
    assert y.dtype is dtype.numpy
    assert y.shape == shape
    assert y.flags.owndata
    assert y.flags.writeable
    assert y.tobytes() == x.tobytes()
    out = np.empty(shape, dtype.numpy)
    assert entry.into(x, out) is None
    assert out.tobytes() == x.tobytes()


def test_several_outputs_are_a_tuple():
    specs = [F64, ArraySpec("i", (2, 3), dtypes.int32), ArraySpec("s", (), dtypes.bool_)]
    xs = [values(spec) for spec in specs]
    ys = build_copy(specs).call(*xs)
    assert type(ys) is tuple
    for x, y in zip(xs, ys, strict=True):
        np.testing.assert_array_equal(x, y, strict=True)


def test_one_output_is_a_tuple_unless_it_is_single():
    x = values(F64)
    (y,) = build_copy([F64]).call(x)
    np.testing.assert_array_equal(x, y)


def test_no_outputs_are_none():
    failing = build_copy([F64], outputs=(), status=3)
    with pytest.raises(StepError):
        failing.call(values(F64))
    empty = build_copy([])
    assert empty.call() is None
    assert empty.into() is None
    assert empty.call(1) == ("slow", (1,))


def test_hundreds_of_inputs_are_read_in_order():
    specs = [ArraySpec(f"x{index}", (index % 3,), dtypes.float32) for index in range(300)]
    xs = [np.full(spec.shape, index, np.float32) for index, spec in enumerate(specs)]
    ys = build_copy(specs).call(*xs)
    assert [y.tolist() for y in ys] == [x.tolist() for x in xs]


class Subclass(np.ndarray[Any, Any]):
    """An array that is not exactly an `ndarray`."""


def unaligned() -> Array:
    return np.frombuffer(bytearray(65), np.uint8)[1:33].view(np.float64)


def reloaded() -> Array:
    """Return an array whose dtype is float64, and yet another object than NumPy's own."""
    twin = np.dtype(np.float64, metadata={"unit": "m"})
    return np.zeros(4, twin)


UNFIT: dict[str, Any] = {
    "list": [1.0, 2.0, 3.0, 4.0],
    "scalar": 1.0,
    "numpy scalar": np.float64(1),
    "none": None,
    "subclass": np.zeros(4).view(Subclass),
    "dtype": np.zeros(4, np.float32),
    "byte order": np.zeros(4, np.dtype(np.float64).newbyteorder()),
    "dtype twin": reloaded(),
    "shape": np.zeros(5),
    "no axes": np.zeros(()),
    "more axes": np.zeros((4, 1)),
    "stride": np.zeros(8)[::2],
    "reversed": np.zeros(4)[::-1],
    "alignment": unaligned(),
}


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT.keys())
def test_what_does_not_fit_goes_to_the_slow_path_as_it_is(unfit):
    entry = build_copy([F64, F64])
    x = values(F64)
    for args in ((unfit, x), (x, unfit)):
        mark, received = entry.call(*args)
        assert mark == "slow"
        assert all(a is b for a, b in zip(received, args, strict=True))
    if unfit is UNFIT["subclass"]:
        assert entry.into(x, x.copy(), x.copy(), unfit)[0] == "slow"


def test_fortran_order_goes_to_the_slow_path():
    entry = build_copy([ArraySpec("x", (2, 3), dtypes.float64)])
    assert entry.call(np.zeros((2, 3), order="F"))[0] == "slow"
    assert isinstance(entry.call(np.zeros((2, 3)))[0], np.ndarray)


def test_a_wrong_count_goes_to_the_slow_path():
    entry = build_copy([F64, F64])
    x = values(F64)
    for count in (0, 1, 3, 4):
        assert entry.call(*[x] * count) == ("slow", (x,) * count)
    for count in (0, 2, 3, 5):
        assert entry.into(*[x] * count) == ("slow", (x,) * count)


def test_keywords_are_refused_by_python():
    with pytest.raises(TypeError, match=r"copy\(\) takes no keyword arguments"):
        build_copy([F64]).call(x=values(F64))


def test_strides_of_axes_of_one_element_do_not_matter():
    entry = build_copy([ArraySpec("x", (1, 4), dtypes.float64)], single=True)
    x = np.lib.stride_tricks.as_strided(np.arange(4.0), (1, 4), (999, 8))
    np.testing.assert_array_equal(entry.call(x), np.arange(4.0)[None])


def test_the_slow_path_may_convert_and_call_again():
    def convert(*args: Any) -> Any:
        return entry.call(*(np.require(arg, np.float64, ["C", "A", "E"]) for arg in args))

    entry = build_copy([F64], single=True, slow_path=convert)
    fits = {name: value for name, value in UNFIT.items() if np.shape(value) == (4,)}
    assert len(fits) == 8
    for unfit in fits.values():
        np.testing.assert_array_equal(entry.call(unfit), np.asarray(unfit, np.float64))


def test_an_exception_in_the_slow_path_is_raised():
    def refuse(*args: object) -> NoReturn:
        raise ValueError(f"{len(args)} arguments")

    entry = build_copy([F64], slow_path=refuse)
    with pytest.raises(ValueError, match="2 arguments"):
        entry.call(1, 2)
    with pytest.raises(ValueError, match="1 arguments"):
        entry.into(1)


def test_into_may_have_a_slow_path_of_its_own():
    entry = build_copy([F64], into_slow_path=lambda *args: ("into", args))
    assert entry.call(1) == ("slow", (1,))
    assert entry.into(1) == ("into", (1,))


@pytest.mark.parametrize("status", [1, 7, -1, 2**31 - 1])
def test_a_failed_step_raises_with_its_status_and_arguments(status):
    entry = build_copy([F64, F64], status=status)
    xs = values(F64), values(F64)
    with pytest.raises(StepError) as raised:
        entry.call(*xs)
    found, args = raised.value.args
    assert found == status
    assert all(a is b for a, b in zip(args, xs, strict=True))
    outs = np.zeros(4), np.zeros(4)
    with pytest.raises(StepError) as raised:
        entry.into(*xs, *outs)
    assert raised.value.args[1][3] is outs[1]


def test_into_needs_outputs_it_can_write():
    entry = build_copy([F64])
    x, out = values(F64), np.zeros(4)
    out.flags.writeable = False
    assert entry.into(x, out)[0] == "slow"
    x.flags.writeable = False
    assert entry.into(x, np.zeros(4)) is None


def test_into_needs_outputs_that_overlap_nothing():
    entry = build_copy([F64, F64])
    row = np.zeros(32)
    a, b, c, d = (row[start : start + 4] for start in (0, 4, 8, 12))
    assert entry.into(a, b, c, d) is None
    assert entry.into(a, a, c, d) is None
    for outs in ((a, c), (c, b), (c, c), (c, row[11:15]), (row[1:5], d), (d, row[9:13])):
        assert entry.into(a, b, *outs)[0] == "slow"


def test_an_output_without_elements_overlaps_nothing():
    entry = build_copy([F64, ArraySpec("e", (0,), dtypes.float64)])
    row = np.zeros(8)
    assert entry.into(row[:4], row[2:2], row[4:], row[1:1]) is None


def test_an_array_that_was_saved_and_loaded_goes_the_fast_way():
    entry = build_copy([F64], single=True)
    file = io.BytesIO()
    np.save(file, values(F64))
    file.seek(0)
    np.testing.assert_array_equal(entry.call(np.load(file)), values(F64))


def test_a_call_costs_less_than_a_microsecond():
    call, x = build_copy([F64], single=True).call, values(F64)
    times = []
    for _ in range(50):
        start = time.perf_counter_ns()
        for _ in range(500):
            call(x)
        times.append((time.perf_counter_ns() - start) / 500)
    assert min(times) < 1000


def test_a_list_of_outputs_is_made_by_native_code():
    entry = build_copy([F64, F64], as_list=True)
    x, y = values(F64), -values(F64)
    found = entry.call(x, y)
    assert type(found) is list
    np.testing.assert_array_equal(found, [x, y])
    assert build_copy([], as_list=True, outputs=()).call() is None


def test_single_with_other_than_one_output_is_a_broken_invariant():
    with pytest.raises(AssertionError, match="copy has 2 outputs, not a single one"):
        build_copy([F64, F64], single=True)
