"""Initialisers: moments, limits, fans of either layout, seeds, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from tests.support.refusals import assert_refused

init = sg.nn.init
BAD: Any = "CHWN"
_VARIANCES: dict[str, Callable[[int, int], float]] = {
    "glorot": lambda i, o: 2 / (i + o),
    "he": lambda i, _o: 2 / i,
    "lecun": lambda i, _o: 1 / i,
}
_SCALED = [(family, kind) for family in _VARIANCES for kind in ("uniform", "normal")]
_SHAPES = {  # with the layout, fan-in and fan-out
    (200, 300): ("NHWC", 200, 300),
    (20, 30, 10): ("NHWC", 600, 200),
    (3, 5, 40, 50): ("NHWC", 600, 750),
    (50, 40, 3, 5): ("NCHW", 600, 750),
}


@pytest.mark.parametrize(("family", "kind"), _SCALED)
def test_the_variance_follows_from_the_fans(family, kind):
    for shape, (layout, fan_in, fan_out) in _SHAPES.items():
        drawn = getattr(init, f"{family}_{kind}")(shape, "float64", seed=3, layout=layout)
        variance = _VARIANCES[family](fan_in, fan_out)
        assert drawn.shape == shape
        # Six deviations of what the mean and the variance of so many numbers are.
        assert abs(drawn.mean()) < 6 * math.sqrt(variance / drawn.size)
        assert abs(drawn.var() / variance - 1) < 6 * math.sqrt(2 / drawn.size)
        if kind == "uniform":
            limit = math.sqrt(3 * variance)
            assert 0.99 * limit < np.abs(drawn).max() <= limit


def test_a_matrix_is_inputs_by_outputs_in_either_layout():
    for layout in ("NHWC", "NCHW"):
        assert 0.9 < init.he_normal((4, 50_000), seed=0, layout=layout).var() * 2 < 1.1


@pytest.mark.parametrize(
    ("shape", "layout"),
    [((5, 3), "NHWC"), ((3, 5), "NCHW"), ((2, 2, 3, 7), "NHWC"), ((7, 3, 2, 2), "NCHW"),
     ((20, 3, 2, 2), "NCHW"), ((2, 4, 30), "NHWC")],
)  # fmt: skip
def test_orthogonal_has_orthogonal_rows_or_columns(shape, layout):
    drawn = init.orthogonal(shape, "float64", seed=5, layout=layout, gain=2.0)
    assert drawn.shape == shape
    is_first = layout == "NCHW" and len(shape) > 2
    matrix = drawn.reshape(shape[0], -1).T if is_first else drawn.reshape(-1, shape[-1])
    small = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    np.testing.assert_allclose(small @ small.T, 4 * np.eye(len(small)), atol=1e-12)


def test_orthogonal_prefers_no_sign():
    traces = [np.diag(init.orthogonal((2, 2), "float64", seed=s)) for s in range(400)]
    assert abs(np.mean(traces)) < 6 * math.sqrt(0.5 / 800)


def test_truncated_normal_is_cut_at_two_deviations():
    drawn = init.truncated_normal((50_000,), "float64", seed=0, std=0.5)
    assert 0.99 < np.abs(drawn).max() <= 1
    density = math.exp(-2) / math.sqrt(2 * math.pi)  # at 2
    inside = math.erf(math.sqrt(2))
    deviation = 0.5 * math.sqrt(1 - 4 * density / inside)
    assert abs(drawn.std() / deviation - 1) < 0.02
    assert abs(drawn.mean()) < 6 * deviation / math.sqrt(drawn.size)


@pytest.mark.parametrize("name", ["glorot_uniform", "he_normal", "orthogonal", "truncated_normal"])
def test_numbers_depend_on_the_seed_alone(name):
    first, again = (getattr(init, name)((4, 3), seed=1) for _ in range(2))
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, getattr(init, name)((4, 3), seed=2))
    half = getattr(init, name)((4, 3), "bfloat16", seed=1)
    np.testing.assert_array_equal(half, first.astype(half.dtype))
    assert sg.variable(half).dtype == sg.bfloat16
    assert getattr(init, name)((0, 3), seed=1).shape == (0, 3)


def test_what_is_no_kernel_is_refused():
    assert_refused(
        lambda: init.he_normal((3,), seed=0),
        sg.ShapeError,
        """
        he_normal: shape (3,) has no axes of inputs and outputs
          --> <here>
        """,
    )
    assert_refused(
        lambda: init.lecun_uniform((3, -1), seed=0),
        sg.ShapeError,
        """
        lecun_uniform: -1 is no size
          --> <here>
        """,
    )
    assert_refused(
        lambda: init.truncated_normal((3,), "int32", seed=0),
        sg.DTypeError,
        """
        truncated_normal: int32 is no float dtype
          --> <here>
        """,
    )
    assert_refused(
        lambda: init.orthogonal((3, 3), seed=0, layout=BAD),
        sg.GraphError,
        """
        orthogonal: layout 'CHWN' is neither 'NHWC' nor 'NCHW'
          --> <here>
        """,
    )
