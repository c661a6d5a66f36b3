"""Grids of points: identity maps, what is outside, slopes at pixels, layouts, unknown sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import symgrad as sg

Array = np.ndarray[Any, Any]

_ROW = np.array([3.0, 5.0, 4.0, 8.0])
_METHODS: Any = ("nearest", "linear", "cubic")
_PADDINGS: Any = ("zeros", "border", "reflection")


def _sampled(points: Any, **arguments: Any) -> Array:
    """Return `_ROW` at points, whose pixels are at 0, 1, 2, 3."""
    grid = np.asarray(points, np.float64).reshape(1, -1, 1) * (2 / 3) - 1
    y = sg.nn.grid_sample(_ROW.reshape(1, 4, 1), grid, align_corners=True, **arguments)
    return np.asarray(sg.run(y)).ravel()


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("method", _METHODS)
@pytest.mark.parametrize("size", [(4, 5), (1, 6), (5,), (3, 4, 2)])
def test_the_identity_gives_the_image(size: Any, method: Any, align_corners: bool) -> None:
    method = "linear" if len(size) > 2 and method == "cubic" else method
    x = np.random.default_rng(0).normal(size=(2, *size, 3))
    theta = np.broadcast_to(np.eye(len(size), len(size) + 1), (2, len(size), len(size) + 1))
    grid = sg.nn.affine_grid(theta.copy(), size, align_corners=align_corners)
    y = sg.nn.grid_sample(x, grid, method=method, padding="border", align_corners=align_corners)
    np.testing.assert_allclose(sg.run(y), x, rtol=0, atol=1e-13)


def test_points_go_from_x_along_the_last_axis_to_the_first() -> None:
    theta = np.array([[[1.0, 0, 0, 0.5], [0, 10, 0, 0], [0, 0, 100, 0]]])
    grid = sg.run(sg.nn.affine_grid(theta, (2, 1, 4)))
    assert grid.shape == (1, 2, 1, 4, 3)
    np.testing.assert_allclose(grid[0, 0, 0, :, 0], [-0.25, 0.25, 0.75, 1.25])
    np.testing.assert_array_equal(grid[..., 1], 0)
    np.testing.assert_allclose(grid[0, :, 0, 0, 2], [-50, 50])
    corners = sg.run(sg.nn.affine_grid(theta, (2, 1, 4), align_corners=True))
    np.testing.assert_allclose(corners[0, 0, 0, :, 0], [-0.5, 0.5 - 1 / 3, 0.5 + 1 / 3, 1.5])
    np.testing.assert_array_equal(corners[..., 1], 0)


@pytest.mark.parametrize(("padding", "wanted"), [
    ("zeros", [1.5, 0, 4, 0]),
    ("border", [3, 3, 8, 8]),
    ("reflection", [4, 4.5, 6, 5]),
])  # fmt: skip
def test_what_is_outside_is_zero_or_the_border_or_mirrored(padding: Any, wanted: Any) -> None:
    np.testing.assert_allclose(_sampled([-0.5, -1.5, 3.5, 7.0], padding=padding), wanted, 1e-12)


@pytest.mark.parametrize("method", _METHODS)
@pytest.mark.parametrize("padding", _PADDINGS)
def test_a_point_that_is_far_away_or_no_number_reads_within_the_image(
    padding: Any, method: Any
) -> None:
    x, grid = sg.placeholder((1, 4, 1)), sg.placeholder((1, 5, 1))
    y = sg.nn.grid_sample(x, grid, method=method, padding=padding)
    step = sg.compile([x, grid], [y, *sg.gradients(y, [x])])
    points = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], np.float32).reshape(1, 5, 1)
    found, slope = step(_ROW.reshape(1, 4, 1).astype("float32"), points)
    if padding == "zeros":
        np.testing.assert_array_equal(found.ravel(), np.zeros(5))
        np.testing.assert_array_equal(slope.ravel(), np.zeros(4))
    elif method == "nearest":
        assert set(found.ravel()) <= set(_ROW)


def test_what_is_not_read_may_be_infinite() -> None:
    x = np.full((1, 4, 1), np.inf)
    grid = np.full((1, 1, 1), 3.0)
    np.testing.assert_array_equal(sg.run(sg.nn.grid_sample(x, grid)), [[[0.0]]])


def test_the_nearest_of_two_is_the_even_one_and_keeps_its_dtype() -> None:
    np.testing.assert_array_equal(_sampled([0.5, 1.5, 2.5], method="nearest"), [3, 4, 4])
    labels = np.array([[[7], [9]]], np.int16)
    y = sg.nn.grid_sample(labels, np.array([[[0.9], [-0.9], [4.0]]]), method="nearest")
    assert y.dtype == sg.int16
    np.testing.assert_array_equal(sg.run(y).ravel(), [9, 7, 0])
    assert sg.nn.grid_sample(labels, [[[0.5]]]).dtype == sg.float32


def test_the_slope_at_a_pixel_is_that_to_its_right_and_none_at_a_border() -> None:
    grid = sg.placeholder((1, 3, 1), "float64")
    x = sg.constant(_ROW.reshape(1, 4, 1))
    y = sg.nn.grid_sample(x, grid, padding="border", align_corners=True)
    (g,) = sg.gradients(y, [grid])
    found = sg.compile([grid], g)(np.array([-1.0, 2 / 3 - 1, 1.5]).reshape(1, 3, 1))
    np.testing.assert_allclose(found.ravel(), [0, (4 - 5) * 1.5, 0], rtol=1e-12)


@pytest.mark.parametrize("method", _METHODS)
def test_both_layouts_give_the_same(method: Any) -> None:
    rng = np.random.default_rng(1)
    x, grid = rng.normal(size=(2, 5, 4, 3)), rng.uniform(-1.5, 1.5, (2, 3, 6, 2))
    last = sg.run(sg.nn.grid_sample(x, grid, method=method))
    first = sg.run(sg.nn.grid_sample(np.moveaxis(x, -1, 1), grid, method=method, layout="NCHW"))
    np.testing.assert_array_equal(np.moveaxis(first, 1, -1), last)


def test_sizes_may_be_known_only_when_called() -> None:
    x, theta = sg.placeholder(("n", "height", "width", 2)), sg.placeholder(("n", 2, 3))
    grid = sg.nn.affine_grid(theta, x.shape[1:3])
    ys = [sg.nn.grid_sample(x, grid, padding=padding) for padding in _PADDINGS]
    total = sum(ys[1:], ys[0])
    step = sg.compile([x, theta], [total, *sg.gradients(total, [x, theta])])
    rng = np.random.default_rng(2)
    for shape in ((2, 3, 4, 2), (1, 1, 5, 2)):
        image, map_ = rng.normal(size=shape), rng.normal(size=(shape[0], 2, 3))
        given = image.astype("float32"), map_.astype("float32")
        known = sg.nn.affine_grid(given[1], shape[1:3])
        wanted = sum(sg.run(sg.nn.grid_sample(given[0], known, padding=p)) for p in _PADDINGS)
        found, *slopes = step(*given)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        assert [g.shape for g in slopes] == [image.shape, map_.shape]


def test_16_bits_are_rounded_once() -> None:
    x = sg.astype(np.array([[[256.0], [258.0]]]), "bfloat16")
    y = sg.nn.grid_sample(x, sg.zeros((1, 1, 1), "bfloat16"))
    assert y.dtype == sg.bfloat16
    assert float(sg.run(y)[0, 0, 0]) == 256  # 257, which is between two
    theta = sg.astype(np.array([[[1.0, 256.0]]]), "bfloat16")
    assert sg.nn.affine_grid(theta, 2).dtype == sg.bfloat16


def test_a_linear_sample_is_one_kernel_and_takes_no_memory() -> None:
    x, grid = sg.placeholder((2, 16, 16, 8)), sg.placeholder((2, 12, 12, 2))
    step = sg.compile([x, grid], sg.nn.grid_sample(x, grid))
    assert len(step.kernels) == 1
    assert step.memory.arena_bytes == 0


def test_the_angle_of_a_rotation_has_a_gradient() -> None:
    angle = sg.placeholder((), "float64")
    c, s = sg.cos(angle), sg.sin(angle)
    rows = [sg.stack([c, -s, sg.zeros_like(c)]), sg.stack([s, c, sg.zeros_like(c)])]
    grid = sg.nn.affine_grid(sg.stack(rows)[None], (5, 5))
    x = np.random.default_rng(3).normal(size=(1, 5, 5, 1))
    loss = sg.sum(sg.square(sg.nn.grid_sample(x, grid)))
    step = sg.compile([angle], [loss, *sg.gradients(loss, [angle])])
    near = [float(step(0.3 + h)[0]) for h in (1e-6, -1e-6)]
    assert math.isclose(step(0.3)[1], (near[0] - near[1]) / 2e-6, rel_tol=1e-6)
