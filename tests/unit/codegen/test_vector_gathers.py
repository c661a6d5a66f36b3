"""Elements and rows at indices that are data, gathered in vectors."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import IndexOutOfRangeError

COUNT = 67  # vectors and some that are left over


def _given(dtype: str, *shape: int) -> np.ndarray:
    return (np.random.default_rng(0).random(shape) * 100).astype(dtype)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "int32", "float32", "float64"])
def test_elements_of_any_size_are_gathered(dtype):
    table, places = _given(dtype, 40), np.arange(COUNT) * 7 % 80 - 40
    x, i = sg.placeholder((40,), dtype), sg.placeholder((COUNT,), "int64")
    step = sg.compile([x, i], sg.take(x, i), opt_level=1)
    assert "vector(" in step.ir("loops")
    np.testing.assert_array_equal(step(table, places), table[places])


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 11, 19])
def test_rows_that_several_kernels_read_are_in_registers(columns):
    table, places = _given("float64", 50, columns), np.arange(500) * 7 % 50
    x, i = sg.placeholder((50, columns), "float64"), sg.placeholder((500,), "int64")
    rows = sg.take(x, i % 50, axis=0)
    lengths = sg.sqrt((rows * rows).sum(1))
    step = sg.compile([x, i], [rows[:, 0] / lengths, rows[:, -1] * lengths], opt_level=1)
    wanted = table[places]
    norms = np.sqrt((wanted * wanted).sum(1))
    found = step(table, places)
    np.testing.assert_allclose(found[0], wanted[:, 0] / norms, rtol=1e-12)
    np.testing.assert_allclose(found[1], wanted[:, -1] * norms, rtol=1e-12)


def test_a_batch_of_tables_is_gathered_from():
    table, places = _given("float32", COUNT, 12), np.arange(COUNT) % 12
    x, i = sg.placeholder((COUNT, 12)), sg.placeholder((COUNT,), "int64")
    picked = sg.squeeze(sg.take_along_axis(x, i[:, None], axis=1), 1)
    step = sg.compile([x, i], sg.exp(picked * 0.01), opt_level=1)
    wanted = np.exp(table[np.arange(COUNT), places] * np.float32(0.01))
    np.testing.assert_allclose(step(table, places), wanted, rtol=1e-6)


def test_the_bits_do_not_depend_on_threads():
    table, places = _given("float64", 5000), np.arange(300_000) * 17 % 5000
    x, i = sg.placeholder((5000,), "float64"), sg.placeholder((300_000,), "int64")
    outputs = [sg.sin(sg.take(x, i % 5000)), sg.sum(sg.take(x, i % 5000) * 0.1)]
    found = [sg.compile([x, i], outputs, threads=n)(table, places) for n in (1, 2, 4)]
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_an_axis_without_elements_has_no_index(dtype):
    x, i = sg.placeholder((2, 0), dtype), sg.placeholder((2, COUNT), "int64")
    rows = sg.take(x, i[0], axis=1)
    programs = {
        "take": [rows],
        "gradient of take": sg.gradients(sg.sum(rows), [x]),
        "take_along_axis": [sg.sin(sg.take_along_axis(x, i, axis=1))],
        "cross_entropy": [sg.nn.cross_entropy(x, i[:, 0], reduction="none")],
    }
    for name, outputs in programs.items():
        step = sg.compile([x, i], outputs, opt_level=0)
        subject = name.removeprefix("gradient of ")
        with pytest.raises(IndexOutOfRangeError, match=f"{subject}: index 1 .* of size 0"):
            step(_given(dtype, 2, 0), np.ones((2, COUNT), np.int64))


def test_an_index_out_of_range_in_what_is_left_over_is_found():
    x, i = sg.placeholder((40,)), sg.placeholder((COUNT,), "int64")
    step = sg.compile([x, i], sg.take(x, i), opt_level=1)
    for place in (0, 15, 16, COUNT - 1):
        places = np.zeros(COUNT, np.int64)
        places[place] = -41
        with pytest.raises(sg.IndexOutOfRangeError, match="index -41 is out of range"):
            step(np.zeros(40, np.float32), places)
