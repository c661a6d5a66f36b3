"""How often a while_loop runs at most, found from its condition, and so how far arrays grow in it.

The numbers in names are entries of the list of TensorFlow's behaviours.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import symgrad as sg
from tests.support.control_programs import check_derivatives

POINT = np.array([0.5, -1.0, 2.0])
RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "!=": operator.ne,
}


def growing(*shape: int) -> sg.TensorArray:
    return sg.TensorArray(0, shape, "float64", dynamic_size=True)


def slots(cond: Callable[..., Any], body: Callable[..., Any], *start: Any, **options: Any) -> Any:
    """Return how many slots one more counter fills, in a loop on `start`."""
    last = sg.while_loop(
        lambda _k, _a, *xs: cond(*xs),
        lambda k, a, *xs: (k + 1, a.write(k, 1.0), *body(*xs)),
        (sg.constant(0), growing(), *start),
        **options,
    )
    return last[1].size


def trips_of(relation: str, start: int, step: int, bound: int) -> int | None:
    """Return how often the loop runs, None if that is more than 40 times."""
    trips = 0
    while RELATIONS[relation](start + trips * step, bound):
        trips += 1
        if trips > 40:
            return None
    return trips


@pytest.mark.parametrize("count", [40, pytest.param(None, marks=pytest.mark.slow)])
def test_r14_5_a_counter_beside_a_bound_says_how_often_a_loop_runs(count):
    @settings(max_examples=count or settings().max_examples)
    @given(
        st.sampled_from(sorted(RELATIONS)),
        st.integers(-20, 20),
        st.integers(-7, 7),
        st.integers(-20, 20),
        st.sampled_from(["int8", "int32", "int64"]),
        st.booleans(),
    )
    def check(relation, start, step, bound, dtype, is_mirrored):
        trips = trips_of(relation, start, step, bound)
        limit = sg.constant(bound)
        test = lambda i: RELATIONS[relation](i, limit)  # noqa: E731 - what a user writes
        if is_mirrored:
            mirrored = {"<": sg.greater, "<=": sg.greater_equal, ">": sg.less, ">=": sg.less_equal}
            test = lambda i: mirrored.get(relation, sg.not_equal)(limit, i)  # noqa: E731
        body = lambda i: (i + step,)  # noqa: E731
        if trips is None:
            with pytest.raises(ValueError, match="only the run could tell"):
                slots(test, body, sg.constant(start, dtype))
        else:
            assert slots(test, body, sg.constant(start, dtype)) == trips

    check()


def test_r14_5_an_array_grows_in_a_while_loop_of_known_length():
    x = sg.placeholder((3,), "float64")
    _, filled = sg.while_loop(
        lambda i, _a: i < 3, lambda i, a: (i + 1, a.write(i, x * x)), (0, growing(3))
    )
    assert filled.size == 3
    np.testing.assert_array_equal(sg.run(filled.stack(), {x: POINT}), [POINT**2] * 3)
    check_derivatives(filled.stack(), x, {x: POINT})


def test_r14_5_the_least_of_several_bounds_is_taken():
    flag = sg.placeholder((), "bool")
    step = lambda i: (i + 1,)  # noqa: E731
    assert slots(lambda i: i < 3, step, 0, maximum_iterations=5) == 3
    assert slots(lambda i: i < 9, step, 0, maximum_iterations=5) == 5
    assert slots(lambda _i: flag, step, 0, maximum_iterations=sg.constant(4)) == 4
    assert slots(lambda i: (i < 7) & flag & (sg.constant(6) > i), step, 0) == 6
    assert slots(lambda i: i < 3, step, 0, checkpoint=2) == 3


def test_r14_5_a_bound_may_be_a_variable_that_no_iteration_changes():
    assert slots(lambda i, n: i < n, lambda i, n: (i + 1, n), 0, 5) == 5


def test_r14_5_a_loop_in_a_loop_grows_to_what_the_counter_around_allows():
    def rows(i: sg.Tensor, kept: Any) -> Any:
        start = (sg.constant(0, "int64"), kept)
        write = lambda j, a: (j + 1, a.write(i + j, 1.0))  # noqa: E731
        return sg.while_loop(lambda j, _a: j <= i, write, start)[1]

    filled = sg.fori_loop(0, 3, rows, growing())
    assert filled.size == 5
    np.testing.assert_array_equal(sg.run(filled.stack()), [1, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("test", "step"),
    [
        (lambda i, _n: i < 110, lambda i: i + sg.constant(100, "int8")),  # passes 127
        (lambda i, _n: i < 100, lambda i: i * 2),
        (lambda i, _n: i < 100, lambda i: i - 1),
        (lambda i, _n: (i < 100) | (i > 110), lambda i: i + 1),
        (lambda i, n: i < n, lambda i: i + 1),
        (lambda i, _n: i == 1, lambda i: i + 1),
    ],
)
def test_r14_5_what_is_no_counter_beside_a_bound_is_refused(test, step):
    n = sg.placeholder((), "int8")
    start = sg.constant(1, "int8")
    with pytest.raises(ValueError, match="only the run could tell"):
        slots(lambda i: test(i, n), lambda i: (step(i),), start)
    with pytest.raises(ValueError, match="only the run could tell"):
        slots(lambda i, m: i < m, lambda i, m: (i + 1, m + 1), start, start)
