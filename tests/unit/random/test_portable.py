"""Reproducible functions: within the bounds they state, and the same bits on every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.ops.portable import (
    exponential_of_bits,
    log1p_rest,
    portable_exp,
    portable_log,
    turn_cos,
    turn_sin,
)
from tests.support.floors import TARGETS, compile_for, run_native, run_reference

_RNG = np.random.default_rng(0)
_NEAR = np.exp(_RNG.uniform(-12, 0, 100))

# The op, what it means, points, and the bound: units in the last place of the result, or of 1.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any, float, bool]] = {
    "log": (
        portable_log, mpmath.log, np.r_[_NEAR, 1 / _NEAR, 1 + _NEAR, 1 - _NEAR / 2], 3, True,
    ),
    "exp": (portable_exp, mpmath.exp, -np.r_[_NEAR, _NEAR * 80], 2, True),
    "cos": (turn_cos, lambda x: mpmath.cospi(2 * x), np.r_[_NEAR * 4, -_NEAR], 2, False),
    "sin": (turn_sin, lambda x: mpmath.sinpi(2 * x), np.r_[_NEAR * 4, -_NEAR], 2, False),
    "small sin": (turn_sin, lambda x: mpmath.sinpi(2 * x), _NEAR / 8, 3, True),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_a_function_is_within_its_bound_and_the_same_on_every_target(name: str, dtype: Any) -> None:
    function, meaning, points, bound, is_relative = _FUNCTIONS[name]
    x = points.astype(dtype)
    given = sg.placeholder(x.shape, dtype.__name__)
    graph = Graph(function(given), [given])
    (found,) = run_reference(graph, [x]).outputs
    with mpmath.workdps(40):
        for value, at in zip(found, x, strict=True):
            exact = meaning(mpmath.mpf(float(at)))
            unit = np.spacing(np.abs(dtype(exact)) if is_relative else dtype(0.5))
            assert abs(mpmath.mpf(float(value)) - exact) <= bound * float(unit), at
    for target in TARGETS:
        (bits,) = run_native(compile_for(graph, target), [x]).outputs
        np.testing.assert_array_equal(bits, found)


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 1e-4), (np.float64, 1e-12)])
def test_the_rest_of_a_logarithm_is_accurate_near_zero_and_weighed_far_from_it(
    dtype: Any, bound: float
) -> None:
    x = np.r_[_NEAR, -_NEAR * 0.9, _NEAR * 4].astype(dtype)
    given = sg.placeholder(x.shape, dtype.__name__)
    (found,) = run_reference(Graph(log1p_rest(given), [given]), [x]).outputs
    with mpmath.workdps(60):
        for value, at in zip(found, x, strict=True):
            t = mpmath.mpf(float(at))
            exact = mpmath.log1p(t) - t + t**2 / 2 - t**3 / 3
            # Of an exponent below 40 this is what an error in it can be.
            assert abs(float(value) - exact) <= bound * min(1, abs(exact) * 64)


def test_samples_of_bits_are_positive_finite_and_fine_at_both_ends() -> None:
    words = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    given = sg.placeholder(words.shape, "uint64")
    for dtype, least, greatest in (("float32", 2.0**-41, 28.42), ("float64", 2.0**-65, 45.06)):
        graph = Graph(exponential_of_bits(given, getattr(sg, dtype)), [given])
        (found,) = run_reference(graph, [words]).outputs
        np.testing.assert_allclose(found, [least, np.log(2), greatest, np.log(2)], rtol=1e-3)
