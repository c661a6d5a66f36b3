"""Offsets beyond 32 bits: arrays of more than 2**31 bytes and elements, read where they are far.

What is read is zeros but for some places: memory that nobody has written takes none.
"""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

_COUNT = (1 << 31) + 77
_ROWS, _COLUMNS, _WIDTH = 12, 60_000_011, 70


def _of_block(block: sg.Tensor) -> list[sg.Tensor]:
    """Return what reads a block of rows that are far apart, in each way that there is code for."""
    wide, tall = np.ones((_WIDTH, 37), "float32"), np.ones((_ROWS, 33), "float32")
    rows = np.array([0, _ROWS - 1, 3])
    return [
        *(block @ wide, block.T @ tall, sg.matmul(tall.T, block), sg.matmul(wide.T, block.T)),
        block @ block.T,
        *(block + 1, block.T, block.T * 2, block[::-1, ::-1], block[rows], block[rows, rows]),
        *(sg.sum(block, axis=0), sg.sum(block, axis=1), sg.argmax(block, axis=0)),
        *(sg.cumulative_sum(block, axis=0), sg.sort(block, axis=0)),
        *(sg.concat([block, block * 2], axis=0), sg.max(block @ wide, axis=1)),
        sg.nn.max_pool(sg.reshape(block, (1, _ROWS, _WIDTH, 1)), 2),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("first", [0, _COLUMNS - _WIDTH])
def test_rows_that_lie_far_apart(first, opt_level):
    rng = np.random.default_rng(0)
    block = rng.integers(-4, 5, (_ROWS, _WIDTH)).astype("float32")
    whole = np.zeros((_ROWS, _COLUMNS), "float32")
    whole[:, first : first + _WIDTH] = block
    x, near = sg.placeholder(whole.shape), sg.placeholder(block.shape)
    of_whole = _of_block(x[:, first : first + _WIDTH])
    found = sg.compile([x], of_whole, threads=2, opt_level=opt_level)(whole)
    wanted = sg.testing.interpret(_of_block(near), {near: block})
    for result, value in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(result, value)


@pytest.mark.slow
def test_more_elements_than_an_int32_counts():
    places = np.array([0, 63, (1 << 31) - 1, 1 << 31, (1 << 31) + 7, _COUNT - 1])
    whole = np.zeros(_COUNT, "int8")
    whole[places] = np.arange(1, 7)
    x, at = sg.placeholder((_COUNT,), "int8"), sg.placeholder((None,), "int64")
    far = x[: (1 << 31) - 10 : -1], x[3 :: (1 << 30) + 1], sg.dynamic_slice(x, (at[3],), (9,))
    results = [sg.take(x, at), sg.argmax(x), sg.count_nonzero(x), sg.sum(x, dtype="int64"), *far]
    step = sg.compile([x, at], results, threads=2)
    values, greatest, count, total, *slices = step(whole, places)
    np.testing.assert_array_equal(values, np.arange(1, 7))
    assert (greatest, count, total) == (_COUNT - 1, 6, 21)
    np.testing.assert_array_equal(slices[0], whole[: (1 << 31) - 10 : -1])
    np.testing.assert_array_equal(slices[1], whole[3 :: (1 << 30) + 1])
    np.testing.assert_array_equal(slices[2], whole[1 << 31 : (1 << 31) + 9])
    for outside in (_COUNT, 1 << 32, (1 << 32) + 63, -_COUNT - 1, -(1 << 63)):
        with pytest.raises(sg.IndexOutOfRangeError, match=str(outside)):
            step(whole, np.array([0, 0, 0, 0, outside]))


@pytest.mark.slow
def test_numbers_of_elements_beyond_int32_are_computed_with():
    index = sg.arange(_COUNT, dtype="int64")
    results = [
        sg.sum(index),
        sg.max(index * 3 - 7),
        sg.count_nonzero(index == (1 << 31) + 5),
        sg.count_nonzero(index >= (1 << 31) - 3),
        sg.count_nonzero(index + ((1 << 31) - 50) > 1 << 31),
    ]
    wanted = [_COUNT * (_COUNT - 1) // 2, 3 * (_COUNT - 1) - 7, 1, 80, _COUNT - 51]
    assert [*map(int, sg.compile([], results, threads=2)())] == wanted
