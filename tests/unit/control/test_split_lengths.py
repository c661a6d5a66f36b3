"""Lengths of the pieces of `TensorArray.split`, in whatever form they are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

VALUE = np.arange(6, dtype=np.float32)


def pieces(lengths: Any, value: Any = VALUE) -> Any:
    return sg.run(sg.TensorArray(3, (2,)).split(value, lengths).stack())


@pytest.mark.parametrize(
    "lengths",
    [
        [2, 2, 2],
        (2, np.int64(2), 2),
        np.array([2, 2, 2], np.uint8),
        np.full((3,), 2),
        sg.constant([2, 2, 2]),
        sg.constant([1, 1, 1]) + 1,
        sg.full((3,), 2, "int64"),
        [sg.constant(2), 2, sg.constant(1, "int64") + 1],
    ],
)
def test_r14_3_lengths_that_are_known_are_taken_in_any_form(lengths):
    np.testing.assert_array_equal(pieces(lengths), VALUE.reshape(3, 2))


def test_r14_3_lengths_from_around_are_known_in_a_body():
    lengths = sg.constant([2, 2, 2])
    split = lambda i, a: a.split(sg.constant(VALUE), lengths)  # noqa: E731 - what a user writes
    filled = sg.fori_loop(0, 2, split, sg.TensorArray(3, (2,)))
    np.testing.assert_array_equal(sg.run(filled.stack()), VALUE.reshape(3, 2))


def test_r14_3_lengths_may_be_sizes_that_only_the_run_tells():
    x = sg.placeholder(("n", 3))
    n = x.shape[0]
    split = sg.TensorArray(2, (n, 3)).split(sg.concat([x, 2 * x]), [n, n])
    given = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(sg.run(split.read(1), {x: given}), 2 * given)


def test_r14_3_lengths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"lengths are \[2, 3, 1\], and slots hold 2 each"):
        pieces(sg.constant([2, 3, 1]))
    with pytest.raises(ValueError, match="only the run could tell"):
        pieces(sg.placeholder((3,), "int32"))
    with pytest.raises(TypeError, match=r"length 2\.5 is not an integer"):
        pieces([2.5, 2, 2])
    for lengths in (2, sg.constant(2), sg.constant([[2, 2, 2]])):
        with pytest.raises(ValueError, match="are not of 1 axes"):
            pieces(lengths)
