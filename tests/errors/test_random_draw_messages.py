"""The full text of the errors of keys and of draws from distributions.

`<here>` in a text stands for the line of the call that goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.refusals import assert_refused

RNG = sg.random.Generator(0, name="refusing_draws")
KEY = sg.random.key(0)
FLOAT: Any = 2.0

_CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a seed of a key that is no int": (
        lambda: sg.random.key(1.5), TypeError, "key: seed 1.5 is no int"),
    "a seed of a key out of range": (
        lambda: sg.random.key(2**64), ValueError,
        "key: seed 18446744073709551616 is not from 0 to 2**64 - 1"),
    "a seed of floats": (
        lambda: sg.random.key(sg.ones(())), TypeError, "key: seed: f32[] is no integer"),
    "an int for a key": (
        lambda: sg.random.normal(3, (2,)), TypeError,
        "normal: key: 3 is no key\n  hint: sg.random.key(3) is a key"),
    "floats for a key": (
        lambda: sg.random.gamma(sg.ones(()), (2,), 1.0), TypeError,
        "gamma: key: f32[] is no key, a uint64 scalar"),
    "several keys": (
        lambda: sg.random.bits(sg.random.split(KEY), (2,)), ValueError,
        "bits: key: u64[2] is no key, a uint64 scalar\n  hint: index it, or map over it"),
    "a split of several keys": (
        lambda: sg.random.split(sg.random.split(KEY)), ValueError,
        "split: key: u64[2] is no key, a uint64 scalar\n  hint: index it, or map over it"),
    "a negative number of keys": (
        lambda: sg.random.split(KEY, -1), ValueError, "split: size -1 is negative"),
    "a key made of a float": (
        lambda: sg.random.fold_in(KEY, 0.5), TypeError, "fold_in: data: f32[] is no integer"),
    "a half": (
        lambda: RNG.gamma((2,), 1.0, "float16"), TypeError,
        "gamma: dtype float16 is neither float32 nor float64\n"
        "  hint: draw float32 and use astype"),
    "an integer dtype of floats": (
        lambda: RNG.gumbel((2,), "int32"), TypeError,
        "gumbel: dtype int32 is neither float32 nor float64"),
    "a float dtype of counts": (
        lambda: RNG.poisson((2,), 1.0, "float32"), TypeError,
        "poisson: dtype float32 is no integer"),
    "a parameter that does not broadcast": (
        lambda: RNG.beta((2,), sg.ones((3,)), 1.0), ValueError,
        "beta: a: f32[3] does not broadcast to [2]"),
    "limits that do not broadcast": (
        lambda: RNG.truncated_normal((2,), high=sg.ones((3,))), ValueError,
        "truncated_normal: high: f32[3] does not broadcast to [2]"),
    "a parameter of bools": (
        lambda: RNG.student_t((2,), sg.constant([True, False])), TypeError,
        "student_t: df: bool[2] is no number"),
    "a matrix of no int": (
        lambda: RNG.orthogonal(FLOAT), TypeError, "orthogonal: n 2.0 is no int"),
    "a matrix of a negative size": (
        lambda: sg.random.orthogonal(KEY, -2), ValueError, "orthogonal: n -2 is negative"),
    "no categories": (
        lambda: RNG.categorical(1.0), ValueError,
        "categorical: logits: f32[] has no last axis of categories"),
    "an empty axis of categories": (
        lambda: RNG.dirichlet((), np.zeros((2, 0), np.float32)), ValueError,
        "dirichlet: alpha: f32[2, 0] has no last axis of categories"),
    "a number of draws that is no int": (
        lambda: RNG.multinomial(FLOAT, [1.0]), TypeError, "multinomial: n 2.0 is no int"),
    "a negative number of draws": (
        lambda: RNG.multinomial(-2, [1.0]), ValueError, "multinomial: n -2 is negative"),
    "a scalar to permute": (
        lambda: RNG.permutation(sg.ones(())), ValueError,
        "permutation: x: f32[] has no axis to permute\n"
        "  hint: an int is a number of integers"),
    "nothing to choose from": (
        lambda: RNG.choice(0), ValueError,
        "choice: there are 0 to choose from, not 1 to 2**32"),
    "a scalar to choose from": (
        lambda: RNG.choice(sg.ones(())), ValueError,
        "choice: a: f32[] has no axis to choose from"),
    "more than there are": (
        lambda: RNG.choice(3, (2, 2), replace=False), ValueError,
        "choice: 4 of 3 are not there without replacement"),
    "chances of others": (
        lambda: RNG.choice(3, p=[0.5, 0.5]), ValueError,
        "choice: p: f32[2] does not have one chance for each of 3"),
    "too many elements": (
        lambda: sg.random.gamma(KEY, (2**20, 2**21), 1.0), ValueError,
        "gamma: [1048576, 2097152] is more than 2**40 elements"),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
def test_a_draw_is_refused_with_its_name(name: str) -> None:
    call, error, text = _CASES[name]
    first, *rest = text.split("\n")
    message = "\n".join([first, "  --> <here>", *rest])
    assert_refused(call, error, message)
