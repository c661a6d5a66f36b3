"""What NumPy would lose without a word: masks, and integers beyond a dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import symgrad as sg
from tests.support.refusals import assert_refused

HALF_MASKED = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False], dtype=np.float32)
X = sg.placeholder((3,), name="x")
STEP = sg.compile([X], X * 2, name="twice")
W = sg.variable(np.zeros(3, np.float32), name="w")
SMALL = sg.variable(np.zeros(1, np.int8), name="small")
HUGE: Any = 10**400

MASKED: dict[str, Callable[[], Any]] = {
    "constant: ": lambda: sg.constant(HALF_MASKED),
    "asarray: ": lambda: sg.asarray(HALF_MASKED),
    "add: ": lambda: X + HALF_MASKED,
    "twice: input 0 (x): ": lambda: STEP(HALF_MASKED),
    "variable: ": lambda: sg.variable(HALF_MASKED),
    "inplace_update: ": lambda: sg.inplace_update(W, HALF_MASKED),
}
PAIRS = sg.placeholder((2, 3), name="pairs")
PAIR_STEP = sg.compile([PAIRS], PAIRS * 2, name="pair")
LISTS: list[Callable[[], Any]] = [
    lambda: sg.constant([HALF_MASKED, HALF_MASKED]),
    lambda: sg.asarray([[1.0, 2.0, 3.0], HALF_MASKED]),
    lambda: sg.add(PAIRS, [HALF_MASKED, np.zeros(3)]),
    lambda: PAIR_STEP([HALF_MASKED, HALF_MASKED]),
    lambda: sg.variable(([HALF_MASKED],)),
    lambda: sg.constant([1.0, np.ma.masked]),
]


@pytest.mark.parametrize("subject", MASKED)
def test_elements_under_a_mask_are_no_numbers(subject: str) -> None:
    assert_refused(MASKED[subject], TypeError, f"""
        {subject}1 of 3 elements are masked, and tensors have no mask
          --> <here>
          hint: say what stands for them: .filled(0)
    """)  # fmt: skip


@pytest.mark.parametrize("call", LISTS)
@pytest.mark.filterwarnings("ignore:Warning. converting a masked element")
def test_elements_under_a_mask_in_a_list_are_no_numbers(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="elements are masked, and tensors have no mask"):
        call()


def test_an_array_of_which_nothing_is_masked_is_one() -> None:
    whole = np.ma.masked_array([1.0, 2.0, 3.0], dtype=np.float32)
    np.testing.assert_array_equal(STEP(whole), [2, 4, 6])
    np.testing.assert_array_equal(sg.run(sg.constant([whole, whole])), [[1, 2, 3], [1, 2, 3]])


@pytest.mark.parametrize("value", [[300], np.array([300]), np.array([-129], np.int16)])
def test_an_integer_that_a_variable_does_not_hold_is_no_other_one(value: Any) -> None:
    number = int(value[0])
    with pytest.raises(TypeError, match=f"variable small: {number} does not fit int8"):
        SMALL.value = value
    with pytest.raises(TypeError, match=f"the value: {number} does not fit int8"):
        sg.inplace_update(SMALL, value)
    SMALL.value = np.array([-128], np.int64)
    assert SMALL.value.tolist() == [-128]


def test_a_ragged_list_is_no_value() -> None:
    ragged: Any = [[1.0], [2.0, 3.0]]
    with pytest.raises(ValueError, match=r"variable w: .*inhomogeneous"):
        W.value = ragged


@pytest.mark.parametrize(
    "call", [lambda: X + HUGE, lambda: sg.constant(HUGE, "float32"), lambda: STEP([HUGE] * 3)]
)
def test_an_int_beyond_all_floats_is_refused_in_one_line(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"1000.*\.\.\. does not fit float32") as caught:
        call()
    assert len(str(caught.value)) < 250


def test_a_sparse_matrix_is_told_how_to_be_multiplied():
    with pytest.raises(sg.DTypeError) as found:
        sg.constant(scipy.sparse.eye_array(2))
    assert found.value.hint == (
        "multiply by a sparse matrix with sg.take and sg.segment_sum of its .data"
    )
