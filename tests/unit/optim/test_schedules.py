"""Schedules: their values step by step, and what they do to an optimizer."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, GraphError
from symgrad.graph.types import Array
from symgrad.optim import schedules

WRONG: Any = (1.5, "low")  # of types that no schedule takes there


def rates(schedule: Any, steps: int) -> Array:
    step = sg.placeholder((), "int64")
    rate = sg.compile([step], schedule(step))
    return np.array([rate(i) for i in range(steps)])


def test_constant():
    np.testing.assert_array_equal(rates(schedules.constant(0.1), 3), [0.1, 0.1, 0.1])


def test_piecewise_takes_the_next_rate_at_its_boundary():
    found = rates(schedules.piecewise([2, 3], [0.3, 0.2, 0.1]), 5)
    np.testing.assert_array_equal(found, [0.3, 0.3, 0.2, 0.1, 0.1])


def test_exponential():
    np.testing.assert_allclose(
        rates(schedules.exponential(8.0, 2, 0.25), 5), [8, 4, 2, 1, 0.5], rtol=1e-15
    )
    np.testing.assert_allclose(
        rates(schedules.exponential(8.0, 2, 0.25, staircase=True), 5), [8, 8, 2, 2, 0.5], rtol=1e-15
    )


def test_linear_and_polynomial_stay_at_the_end():
    np.testing.assert_allclose(rates(schedules.linear(1.0, 3.0, 4), 7), [1, 1.5, 2, 2.5, 3, 3, 3])
    np.testing.assert_allclose(
        rates(schedules.polynomial(4.0, 0.0, 4, power=2), 6), [4, 2.25, 1, 0.25, 0, 0]
    )


def test_cosine_stays_at_the_end():
    half = np.sqrt(0.5)
    np.testing.assert_allclose(
        rates(schedules.cosine(3.0, 4, end=1.0), 6), [3, 2 + half, 2, 2 - half, 1, 1]
    )


def test_restarts_begin_exactly_where_falls_of_growing_length_end():
    # Falls of 5, 15, 45, ... steps; the logarithm alone is off by one at some of the beginnings.
    found = rates(schedules.cosine_restarts(1.0, 5, growth=3), 700)
    begins = [0, 5, 20, 65, 200, 605]
    assert np.flatnonzero(found > 1 - 1e-12).tolist() == begins
    for begin, end in pairwise(begins):
        assert (np.diff(found[begin:end]) < 0).all()


def test_warmup_rises_to_where_the_rest_begins():
    found = rates(schedules.warmup(4, schedules.linear(8.0, 0.0, 4), start=4.0), 10)
    np.testing.assert_allclose(found, [4, 5, 6, 7, 8, 6, 4, 2, 0, 0])
    np.testing.assert_allclose(rates(schedules.warmup(2, 0.5), 4), [0, 0.25, 0.5, 0.5])


def test_pieces_of_a_sequence_count_from_their_own_boundary():
    pieces = [
        schedules.linear(0.0, 4.0, 4),
        schedules.exponential(1.0, 1, 0.5),
        schedules.constant(9.0),
    ]
    found = rates(schedules.sequence(pieces, [2, 5]), 7)
    np.testing.assert_allclose(found, [0, 1, 1, 0.5, 0.25, 9, 9])


def test_the_first_update_has_the_rate_of_step_0():
    w = sg.variable(np.float64(0), name="w")
    optimizer = sg.optim.SGD(schedules.piecewise([1, 2], [1.0, 10.0, 100.0]))
    step = sg.compile([], [], optimizer.apply_gradients([(np.float64(1), w)]))
    moved = []
    for _ in range(3):
        step()
        moved.append(float(w.value))
    assert moved == [-1, -11, -111]
    assert {name: v.value for name, v in optimizer.state.items()} == {"step": 3}


def test_a_schedule_shares_the_count_of_the_optimizer():
    w = sg.variable(np.float64(0), name="w")
    optimizer = sg.optim.Adam(schedules.piecewise([1], [1.0, 0.5]), epsilon=0)
    step = sg.compile([], [], optimizer.apply_gradients([(np.float64(1), w)]))
    step()
    step()
    np.testing.assert_allclose(w.value, -1.5)
    assert set(optimizer.state) == {"step", "w/m", "w/v"}


def test_a_schedule_goes_on_where_the_count_is_set_to():
    w = sg.variable(np.float64(0), name="w")
    optimizer = sg.optim.SGD(schedules.linear(0.0, 2.0**40, 2**40))
    step = sg.compile([], [], optimizer.apply_gradients([(np.float64(1), w)]))
    optimizer.state["step"].value = 2**33 + 1  # an int32 or a float32 count could not say this
    step()
    assert w.value == -(2**33 + 1)


def test_any_function_of_the_count_is_a_schedule():
    w = sg.variable(np.float32(0), name="w")
    optimizer = sg.optim.SGD(lambda step: 1 / sg.sqrt(1 + sg.astype(step, "float32")))
    step = sg.compile([], [], optimizer.apply_gradients([(np.float32(1), w)]))
    step()
    step()
    np.testing.assert_allclose(w.value, -1 - np.sqrt(0.5), rtol=1e-6)


def test_rates_may_be_placeholders_without_compiling_again():
    w, top = sg.variable(np.float64(0), name="w"), sg.placeholder((), "float32", name="top")
    optimizer = sg.optim.SGD(schedules.warmup(2, schedules.linear(top, 0.0, 2)))
    step = sg.compile([top], [], optimizer.apply_gradients([(np.float64(1), w)]))
    executable = step.executable
    for value in (9.0, 4.0, 3.0, 2.0):
        step(np.float32(value))
    assert w.value == -(0 + 2 + 3 + 1)
    assert step.executable is executable


def test_schedules_are_computed_in_float64():
    w = sg.variable(np.float32(0), name="w")
    optimizer = sg.optim.SGD(schedules.exponential(1.0, 1, 0.999))
    step = sg.compile([], [], optimizer.apply_gradients([(np.float32(1), w)]))
    optimizer.state["step"].value = 10_000
    step()
    # In float32 the power would be wrong by 10,000 roundings of 0.999, that is 2e-4.
    np.testing.assert_allclose(w.value, -(0.999**10_000), rtol=1e-7)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: schedules.constant(-1), GraphError, "constant: rate is -1, it must not be neg"),
        (lambda: schedules.cosine(0.1, 0), GraphError, "cosine: steps is 0, it must be positive"),
        (lambda: schedules.cosine(0.1, WRONG[0]), DTypeError, "cosine: steps is 1.5, not an int"),
        (lambda: schedules.linear(0.1, WRONG[1], 3), DTypeError, "linear: end is 'low', neither"),
        (lambda: schedules.exponential(1, 2, 0), GraphError, "exponential: factor is 0, it must"),
        (lambda: schedules.polynomial(1, 0, 2, -1), GraphError, "polynomial: power is -1"),
        (lambda: schedules.cosine_restarts(1, 2, growth=0), GraphError, "restarts: growth is 0"),
        (
            lambda: schedules.piecewise([3], [1.0]),
            GraphError,
            "piecewise: 1 pieces were given and 1 boundaries, not one less",
        ),
        (
            lambda: schedules.piecewise([3, 3], [1.0, 2.0, 3.0]),
            GraphError,
            r"piecewise: boundaries \[3, 3\] do not grow",
        ),
        (
            lambda: schedules.sequence([schedules.constant(1), WRONG[0]], [3]),
            DTypeError,
            r"sequence: schedules\[1\] is 1.5, not a schedule",
        ),
        (lambda: schedules.warmup(-1, 0.1), GraphError, "warmup: steps is -1"),
    ],
)
def test_numbers_that_make_no_schedule_are_refused(make, error, message):
    with pytest.raises(error, match=rf"schedules\.(cosine_)?{message}(.|\n)*test_schedules.py"):
        make()
