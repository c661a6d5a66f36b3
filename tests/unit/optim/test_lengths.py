"""Norms far out and at 0: of what clipping divides by, and their gradients."""

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.optim import clip_by_global_norm, clip_by_norm, global_norm


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_gradient_of_a_norm_of_zeros_is_0(dtype):
    x, y = sg.placeholder((3,), dtype, name="x"), sg.placeholder((2,), dtype, name="y")
    slopes = sg.gradients(global_norm([x, y]), [x, y])
    clipped = [*clip_by_global_norm([x, y], 1.0), *clip_by_norm([x, y], 1.0)]
    slopes += sg.gradients([c * c + c for c in clipped if c is not None], [x, y])
    found = sg.compile([x, y], slopes)(np.zeros(3, dtype), np.zeros(2, dtype))
    for slope, wanted in zip(found, [0, 0, 2, 2], strict=True):
        np.testing.assert_array_equal(slope, np.full_like(slope, wanted))


def test_updates_of_zeros_have_gradients():
    """Each function of the norm, or of the root, of what is 0."""
    w, g, v = (sg.placeholder((3,), name=name) for name in "wgv")
    moved = [
        sg.lars_update(w, g, 0.1, decay_lambda=0.1, stop_gradients=False),
        sg.lamb_update(w, g, 0.1, v, v, 1, stop_gradients=False)[0],
        sg.adam_update(w, g, 0.1, v, v, 1, stop_gradients=False)[0],
        sg.adam_step(g, v, v, 1)[0],
    ]
    slopes = [sg.gradients(y, [w, g, v], unconnected_gradients="zero") for y in moved]
    zeros, ones = np.zeros(3, "float32"), np.ones(3, "float32")
    step = sg.compile([w, g, v], slopes)
    for given in (zeros, ones):
        assert all(np.isfinite(s).all() for row in step(given, zeros, zeros) for s in row)


@pytest.mark.parametrize("size", [1e155, 1e200, 1e308, 1e-170, 1e-310, 1e150, 1e-150, 1.0])
def test_norms_of_float64_neither_overflow_nor_vanish(size):
    grads = [np.array([0.6 * size, 0.0]), np.full((1, 1), -0.8 * size)]
    x, y = sg.placeholder((2,), "float64"), sg.placeholder((1, 1), "float64")
    slopes = sg.gradients(global_norm([x, y]), [x, y])
    curvature = sg.gradients(slopes[0], [x])
    results = [global_norm([x, y]), *slopes, *clip_by_global_norm([x, y], size / 4), *curvature]
    norm, *found, curved = sg.compile([x, y], results)(*grads)
    np.testing.assert_allclose(norm, size, rtol=1e-12)
    wanted: list[Any] = [[0.6, 0], [[-0.8]], [0.15 * size, 0], [[-0.2 * size]]]
    for result, value in zip(found, wanted, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-12)
    # Of the second, 1 over its length is beyond float64.
    assert np.isfinite(curved).all() == (size > 1e-310)


def test_gradients_are_clipped_though_their_norm_is_beyond_float64():
    (clipped,) = sg.run(clip_by_global_norm([np.full(4, 1.7e308)], 2.0))
    np.testing.assert_allclose(clipped, 1.0)


def test_one_small_float64_beside_large_float32_is_clipped_with_it():
    wide, narrow = sg.run(clip_by_global_norm([np.full(2, 1e-300), np.full(1, 1e38, "f")], 1.0))
    np.testing.assert_allclose(narrow, 1.0, rtol=1e-6)
    np.testing.assert_allclose(wide, 0, atol=1e-320)


@pytest.mark.parametrize(
    ("dtype", "size", "most"),
    [("float32", 1e38, 1e-6), ("float32", 1e30, 1e-30), ("float64", 1e308, 1e-6)],
)
def test_a_factor_below_all_normal_numbers_has_its_digits(dtype, size, most):
    (clipped,) = sg.run(clip_by_global_norm([np.full(4, size, dtype)], most))
    np.testing.assert_allclose(clipped, most / 2, rtol=4 * np.finfo(dtype).eps)


def test_no_elements_have_no_length():
    norm, clipped = sg.run([global_norm([np.zeros(0)]), clip_by_norm([np.zeros((0, 3))], 1.0)[0]])
    assert norm == 0
    assert clipped.shape == (0, 3)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_graph_of_clipping_grows_with_the_number_of_gradients(dtype):
    def nodes(count: int) -> int:
        xs = [sg.placeholder((3,), dtype) for _ in range(count)]
        clipped = [g for g in clip_by_global_norm(xs, 1.0) if g is not None]
        return len(Graph(clipped, xs).nodes)

    assert nodes(60) - nodes(40) == nodes(40) - nodes(20)
