"""The full text of the errors of `sg.random` and of dropout: what, the values, the line, a hint.

`<here>` in a text stands for the line of the call that goes wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

import symgrad as sg
from tests.support.refusals import assert_refused

RNG = sg.random.Generator(0, name="refusing")


def test_a_seed_that_is_no_int():
    seed: Any = 1.5
    assert_refused(lambda: sg.random.Generator(seed), TypeError, """
        Generator: seed 1.5 is no int
          --> <here>
    """)  # fmt: skip


def test_a_seed_out_of_range():
    assert_refused(lambda: sg.random.Generator(-1), ValueError, """
        Generator: seed -1 is not from 0 to 2**64 - 1
          --> <here>
    """)  # fmt: skip


def test_a_fold_with_a_float():
    assert_refused(lambda: RNG.fold(0.5), TypeError, """
        fold: i: f32[] is no integer
          --> <here>
    """)  # fmt: skip


def test_a_fold_with_several_numbers():
    assert_refused(lambda: RNG.fold(sg.arange(3)), ValueError, """
        fold: i: i64[3] is no scalar
          --> <here>
    """)  # fmt: skip


def test_bits_of_a_float():
    assert_refused(lambda: RNG.bits((2,), "float32"), TypeError, """
        bits: dtype float32 is no unsigned integer
          --> <here>
    """)  # fmt: skip


def test_a_shape_that_is_none():
    assert_refused(lambda: RNG.bits((2, -1)), ValueError, """
        bits: size -1 is negative
          --> <here>
    """)  # fmt: skip


def test_a_draw_with_too_many_elements():
    assert_refused(lambda: RNG.bits((2**20, 2**21)), ValueError, """
        bits: [1048576, 2097152] is more than 2**40 elements
          --> <here>
    """)  # fmt: skip


def test_a_uniform_half():
    assert_refused(lambda: RNG.uniform((2,), dtype="float16"), TypeError, """
        uniform: dtype float16 is neither float32 nor float64
          --> <here>
          hint: draw float32 and use astype
    """)  # fmt: skip


@pytest.mark.parametrize("high", [2.0, float("inf"), float("nan")])
def test_uniform_limits_out_of_order(high: float) -> None:
    assert_refused(lambda: RNG.uniform((2,), 2.0, high), ValueError, f"""
        uniform: low 2.0 is not below high {high}, both finite
          --> <here>
    """)  # fmt: skip


def test_limits_that_do_not_broadcast():
    assert_refused(lambda: RNG.uniform((2,), high=sg.ones((3,))), ValueError, """
        uniform: x: f32[3] does not broadcast to [2]
          --> <here>
    """)  # fmt: skip


def test_a_negative_deviation():
    assert_refused(lambda: RNG.normal((2,), 0, -1), ValueError, """
        normal: std -1 is no deviation
          --> <here>
    """)  # fmt: skip


def test_an_empty_range_of_integers():
    assert_refused(lambda: RNG.integers(3, 3, (2,)), ValueError, """
        integers: there are 0 integers from 3 to below 3, not 1 to 2**32
          --> <here>
    """)  # fmt: skip


def test_integers_the_dtype_does_not_hold():
    assert_refused(lambda: RNG.integers(0, 257, (2,), "uint8"), ValueError, """
        integers: uint8 does not hold all from 0 to 256
          --> <here>
    """)  # fmt: skip


def test_integers_of_a_float_dtype():
    assert_refused(lambda: RNG.integers(0, 2, (2,), "float32"), TypeError, """
        integers: dtype float32 is no integer
          --> <here>
    """)  # fmt: skip


def test_integers_between_floats():
    high: Any = 2.0
    assert_refused(lambda: RNG.integers(0, high, (2,)), TypeError, """
        integers: high 2.0 is no int
          --> <here>
    """)  # fmt: skip


def test_a_chance_out_of_range():
    assert_refused(lambda: RNG.bernoulli(1.5, (2,)), ValueError, """
        bernoulli: p 1.5 is not from 0 to 1
          --> <here>
    """)  # fmt: skip


def test_chances_that_are_integers():
    assert_refused(lambda: RNG.bernoulli(sg.arange(2), (2,)), TypeError, """
        bernoulli: p: i64[2] is no float
          --> <here>
    """)  # fmt: skip


def test_a_rate_that_drops_everything():
    assert_refused(lambda: sg.nn.dropout(sg.ones((2,)), 1, RNG), ValueError, """
        dropout: rate 1 is not in [0, 1)
          --> <here>
    """)  # fmt: skip


def test_what_is_refused_takes_no_number_of_a_draw():
    ours, other = sg.random.Generator(7), sg.random.Generator(7)
    with pytest.raises(sg.GraphError):
        ours.uniform((2,), 1, 0)
    with pytest.raises(sg.DTypeError):
        ours.bits((2,), "int8")
    a, b = (sg.compile([], rng.bits((4,)))() for rng in (ours, other))
    assert a.tolist() == b.tolist()
