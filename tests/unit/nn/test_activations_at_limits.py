"""Activations at extreme numbers: results, and gradients that stay finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg

_POINTS = np.array([-1e38, -1e4, -200.0, -1e-30, 0.0, 1e-30, 200.0, 1e4, 1e38], np.float32)
# Results at the points; None where only finiteness is asked for.
_ROWS: dict[str, tuple[Callable[[Any], Any], list[float] | None]] = {
    "mish": (sg.nn.mish, [0, 0, 0, -6e-31, 0, 6e-31, 200, 1e4, 1e38]),
    "squareplus": (sg.nn.squareplus, [0, 1e-4, 0.004999875, 1, 1, 1, 200.005, 1e4, 1e38]),
    "celu": (lambda x: sg.nn.celu(x, 0.5), [-0.5, -0.5, -0.5, -1e-30, 0, 1e-30, 200, 1e4, 1e38]),
    "softsign": (sg.nn.softsign, [-1, -0.99990001, -200 / 201, -1e-30, 0, 1e-30, 200 / 201,
                                  0.99990001, 1]),
    "relu6": (sg.nn.relu6, [0, 0, 0, 0, 0, 1e-30, 6, 6, 6]),
    "soft_shrink": (sg.nn.soft_shrink, [-1e38, -9999.5, -199.5, 0, 0, 0, 199.5, 9999.5, 1e38]),
    "tanh_shrink": (sg.nn.tanh_shrink, [-1e38, -9999, -199, 0, 0, 0, 199, 9999, 1e38]),
    "sparse_plus": (sg.nn.sparse_plus, [0, 0, 0, 0.25, 0.25, 0.25, 200, 1e4, 1e38]),
    "glu": (lambda x: sg.nn.glu(sg.stack([x, x])[:, None], 0)[0, 0], None),
    "softmin": (sg.nn.softmin, [1, 0, 0, 0, 0, 0, 0, 0, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", _ROWS)
def test_far_out_results_are_right_and_gradients_finite(name: str) -> None:
    function, wanted = _ROWS[name]
    x = sg.placeholder(_POINTS.shape)
    y = function(x)
    (dx,) = sg.gradients(y, x)
    found, slope = sg.compile([x], [y, dx])(_POINTS)
    assert np.isfinite(slope).all()
    if wanted is not None:
        np.testing.assert_allclose(found, np.array(wanted, np.float32), rtol=1e-6, atol=1e-32)


def test_the_logarithm_of_one_less_an_exponential_keeps_its_digits() -> None:
    x = sg.placeholder((5,))
    y = sg.nn.log1mexp(x)
    (dx,) = sg.gradients(y, x)
    value = np.array([1e-30, 1e-3, 0.69, 0.7, 80], np.float32)
    found, slope = sg.compile([x], [y, dx])(value)
    wide = value.astype(np.float64)
    small, large = np.minimum(wide, 1), np.maximum(wide, 0.5)
    wanted = np.where(wide < 0.7, np.log(-np.expm1(-small)), np.log1p(-np.exp(-large)))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(slope, 1 / np.expm1(wide), rtol=1e-6)


def test_a_slope_at_a_kink_is_that_of_the_piece_it_belongs_to() -> None:
    x = sg.placeholder((1,))
    rows: list[tuple[Callable[[Any], Any], float, float]] = [
        (sg.nn.relu6, 0, 0),
        (sg.nn.relu6, 6, 0),
        (sg.nn.hard_shrink, 0.5, 0),
        (sg.nn.soft_shrink, -0.5, 0),
        (sg.nn.mish, 0, 0.6),
        (sg.nn.squareplus, 0, 0.5),
        (sg.nn.celu, 0, 1),
        (sg.nn.softsign, 0, 1),
        (lambda v: sg.nn.prelu(v, 0.25), 0, 0.25),
        (lambda v: sg.nn.threshold(v, 2, 7), 2, 0),
    ]
    points = [x + at for _, at, _ in rows]
    slopes = [
        sg.gradients(function(p), p)[0] for (function, _, _), p in zip(rows, points, strict=True)
    ]
    found = sg.compile([x], slopes)(np.zeros(1, np.float32))
    np.testing.assert_allclose(np.concatenate(found), [s for _, _, s in rows], rtol=1e-6)


def test_nan_stays_nan() -> None:
    x = sg.constant([np.nan])
    names = (
        "relu6 prelu hard_shrink soft_shrink tanh_shrink sparse_plus sparse_sigmoid "
        "celu mish softsign squareplus log1mexp threshold"
    )
    more = {"prelu": (0.5,), "threshold": (0.5, 1.0)}
    ys = [getattr(sg.nn, name)(x, *more.get(name, ())) for name in names.split()]
    assert np.isnan(np.concatenate(sg.run(ys))).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_slope_of_mish_is_one_up_to_the_greatest_number(dtype: str) -> None:
    greatest = np.finfo(dtype).max
    x = sg.placeholder((4,), dtype)
    (slope,) = sg.gradients(sg.nn.mish(x), x)
    found = sg.compile([x], [slope, *sg.gradients(slope, x)])(
        np.array([greatest, greatest / 2, -greatest, 800], dtype)
    )
    np.testing.assert_array_equal(found, [[1, 1, 0, 1], [0, 0, 0, 0]])
