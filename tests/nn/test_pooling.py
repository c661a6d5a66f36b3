"""Pooling: ties, nan, padding, long windows, threads, and what is in memory meanwhile."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.graph.graph import Graph
from symgrad.graph.ops.unfolding import fold_axes
from tests.support.evaluators import evaluate_reference
from tests.support.floors import compile_for, run_native

LAYOUTS = ("NHWC", "NCHW")


def image(shape: tuple[int, ...], layout: str) -> sg.Tensor:
    n, height, width, c = shape
    return sg.placeholder(shape if layout == "NHWC" else (n, c, height, width))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_first_of_equals_has_the_gradient(layout):
    x = image((1, 4, 5, 1), layout)
    y = sg.nn.max_pool(x, 3, strides=(1, 2), layout=layout)
    (g,) = sg.gradients([y], [x])
    found = sg.compile([x], g)(np.zeros(x.shape, "float32")).reshape(4, 5)
    np.testing.assert_array_equal(found, [[1, 0, 1, 0, 0], [1, 0, 1, 0, 0], [0] * 5, [0] * 5])


def test_a_nan_is_the_maximum_and_the_first_one_has_the_gradient():
    x = sg.placeholder((1, 6, 1))
    y = sg.nn.max_pool(x, 3)
    (g,) = sg.gradients([y], [x])
    given = np.array([9.0, np.nan, np.nan, -np.inf, -np.inf, -np.inf], "float32")
    values, slopes = sg.compile([x], [y, g])(given.reshape(1, 6, 1))
    np.testing.assert_array_equal(values.ravel(), [np.nan, -np.inf])
    np.testing.assert_array_equal(slopes.ravel(), [0, 1, 0, 1, 0, 0])


def test_padding_is_never_the_maximum():
    x = sg.placeholder((1, 2, 1))
    y = sg.nn.max_pool(x, 2, strides=1, padding=[(1, 1)])
    (g,) = sg.gradients([y], [x])
    values, slopes = sg.compile([x], [y, g])(np.full((1, 2, 1), -np.inf, "float32"))
    np.testing.assert_array_equal(values.ravel(), [-np.inf] * 3)
    assert np.isfinite(slopes).all()


def test_padding_of_integers_is_less_than_all_of_them():
    x = sg.placeholder((1, 2, 1), "int8")
    y = sg.nn.max_pool(x, 2, padding="SAME", strides=1)
    found = sg.compile([x], y)(np.full((1, 2, 1), -128, "int8"))
    np.testing.assert_array_equal(found.ravel(), [-128, -128])


def test_what_counts_of_padding_is_zeros():
    x = sg.constant(np.full((1, 3, 1), 6.0, "float32"))
    own, all_ = (
        sg.nn.avg_pool(x, 2, strides=2, padding=[(1, 0)], count_padding=counts)
        for counts in (False, True)
    )
    np.testing.assert_array_equal(sg.run(own).ravel(), [6, 6])
    np.testing.assert_array_equal(sg.run(all_).ravel(), [3, 6])


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, math.inf])
def test_the_root_of_no_power_has_no_slope(p):
    x = sg.placeholder((1, 6, 1))
    y = sg.nn.lp_pool(x, p, 2)
    (g,) = sg.gradients([y], [x])
    given = np.array([0.0, 0.0, 0.0, 3.0, 1e4, 0.0], "float32").reshape(1, 6, 1)
    values, slopes = sg.compile([x], [y, g])(given)
    np.testing.assert_allclose(values.ravel(), [0, 3, 1e4], rtol=1e-6)
    other = 1 if p == 1 else 0
    np.testing.assert_allclose(slopes.ravel(), [0, 0, other, 1, 1, other], rtol=2e-6)


def test_powers_that_cancel_are_zero_and_negative_ones_have_no_root():
    x = sg.constant(np.array([1.0, -1.0, 1.0, -2.0], "float32").reshape(1, 4, 1))
    for p, wanted in ((1, [0, -1]), (2, [2**0.5, 5**0.5]), (3, [0, np.nan]), (math.inf, [1, 2])):
        found = sg.run(sg.nn.lp_pool(x, p, 2)).ravel()
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_padding_adds_no_power():
    x = sg.constant(np.full((1, 3, 1), 2.0, "float32"))
    y = sg.nn.lp_pool(x, 2, 2, padding=[(1, 0)])
    np.testing.assert_allclose(sg.run(y).ravel(), [2, 8**0.5], rtol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pooling_is_one_kernel_and_takes_no_memory(layout):
    x = image((2, 16, 16, 8), layout)
    for pool in (sg.nn.max_pool, sg.nn.avg_pool):
        step = sg.compile([x], pool(sg.nn.relu(x), 3, strides=2, layout=layout))
        assert len(step.kernels) == 1
        assert step.memory.arena_bytes == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_make_no_array_of_windows(layout):
    x = image((2, 17, 17, 8), layout)
    windows = 2 * 8 * 8 * 8 * 9 * 4  # bytes
    for pool in (sg.nn.max_pool, sg.nn.avg_pool):
        y = pool(x, 3, strides=2, layout=layout)
        (g,) = sg.gradients([sg.square(y)], [x])
        step = sg.compile([x], g)
        assert step.memory.arena_bytes < windows / 3


# Beside channels, and along the axis that has the windows: short ones, which are written out, and
# one that is too long for that.
_FOLDS = {
    "channels": ((2, 7, 5, 3), 1),
    "rows": ((2, 3, 9, 3), 2),
    "long_rows": ((2, 3, 6, 20), 2),
}


@pytest.mark.parametrize("name", _FOLDS)
def test_threads_add_windows_in_one_order(name):
    shape, axis = _FOLDS[name]
    y = sg.placeholder(shape)
    size = (shape[axis] - 1) * 2 + shape[-1]
    graph = Graph([fold_axes(y, (axis,), (size,), (2,), (1,))], [y])
    given = [np.random.default_rng(0).normal(size=shape).astype("float32")]
    (alone,) = run_native(compile_for(graph, opt_level=0), given).outputs
    threads = Threads(3, least_cycles=0)
    (shared,) = run_native(compile_for(graph, threads=threads, opt_level=0), given).outputs
    np.testing.assert_array_equal(alone, shared)
    np.testing.assert_allclose(alone, evaluate_reference(graph, given)[0], rtol=1e-5, atol=1e-5)


def test_an_image_may_have_other_windows_for_each_axis_and_no_batch():
    x = sg.placeholder((0, 5, 6, 7, 2))
    y = sg.nn.max_pool(x, (1, 2, 3), strides=(2, 1, 3), dilation=(1, 2, 1))
    assert y.shape == (0, 3, 4, 2, 2)
    assert sg.compile([x], y)(np.zeros(x.shape, "float32")).shape == y.shape


def test_sizes_of_space_may_be_unknown():
    x = sg.placeholder((1, "n", 1))
    ys = [
        sg.nn.max_pool(x, 3, strides=2, padding="SAME"),
        sg.nn.avg_pool(x, 3, strides=2, padding="SAME"),
        sg.nn.lp_pool(x, 2, 3, strides=2, padding="SAME"),
        sg.nn.adaptive_avg_pool(x, 2),
        sg.nn.adaptive_max_pool(x, 2),
    ]
    for n in (5, 6):
        given = np.arange(n, dtype="float32").reshape(1, n, 1)
        known = [
            sg.nn.max_pool(given, 3, strides=2, padding="SAME"),
            sg.nn.avg_pool(given, 3, strides=2, padding="SAME"),
            sg.nn.lp_pool(given, 2, 3, strides=2, padding="SAME"),
            sg.nn.adaptive_avg_pool(given, 2),
            sg.nn.adaptive_max_pool(given, 2),
        ]
        expected = evaluate_reference(Graph(known, []), [])
        found = evaluate_reference(Graph(ys, [x]), [given])
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
