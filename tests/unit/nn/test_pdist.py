"""Distances within a set: the order of pairs, equal rows, few rows, and unknown sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import symgrad as sg

Array = np.ndarray[Any, Any]


def _rows(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape)


def _matrix(x: Array, p: float) -> Array:
    apart = np.abs(x[..., :, None, :] - x[..., None, :, :])
    return np.asarray(apart.max(-1) if math.isinf(p) else (apart**p).sum(-1) ** (1 / p))


@pytest.mark.parametrize("p", [0.5, 1, 2, 3.0, math.inf])
def test_it_is_the_upper_triangle_of_the_distances(p: float) -> None:
    x = _rows(2, 5, 3)
    found = sg.run(sg.nn.pdist(x, p))
    wanted = _matrix(x, p)[:, *np.triu_indices(5, 1)]
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_rows_have_no_pair(count: int) -> None:
    x, n = sg.placeholder((count, 3)), sg.placeholder(("n", 3))
    for operand in (x, n):
        y = sg.nn.pdist(operand)
        found, slope = sg.compile([operand], [y, *sg.gradients(y, [operand])])(
            np.ones((count, 3), np.float32)
        )
        assert found.shape == (0,)
        np.testing.assert_array_equal(slope, np.zeros((count, 3)))


def test_the_number_of_rows_may_be_unknown() -> None:
    x = sg.placeholder(("n", 2), "float64")
    step = sg.compile([x], sg.nn.pdist(x))
    for count in (2, 3, 17):
        given = _rows(count, 2)
        wanted = _matrix(given, 2)[np.triu_indices(count, 1)]
        np.testing.assert_allclose(step(given), wanted, rtol=1e-14)


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, math.inf])
def test_equal_rows_have_no_slope(p: float) -> None:
    x = sg.placeholder((3, 2))
    y = sg.nn.pdist(x, p)
    found, slope = sg.compile([x], [y, *sg.gradients(y, [x])])(np.ones((3, 2), np.float32))
    np.testing.assert_array_equal(found, [0, 0, 0])
    np.testing.assert_array_equal(slope, np.zeros((3, 2)))


def test_integers_become_floats_and_16_bits_are_rounded_once() -> None:
    assert sg.nn.pdist([[0, 0], [3, 4]]).dtype == sg.float32
    x = np.zeros((2, 401))
    x[1] = 1
    y = sg.nn.pdist(sg.astype(x, "bfloat16"), 1)
    assert y.dtype == sg.bfloat16
    assert float(sg.run(y)[0]) == 400  # 401, which sums in bfloat16 would not come near
