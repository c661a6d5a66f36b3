"""Norms: what their numbers are far from 0, running statistics, and how many kernels they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg

Array = np.ndarray[Any, Any]


def _exact(x: Array, epsilon: float = 1e-5) -> Array:
    wide = x.astype(np.float64)
    deviation = wide - wide.mean(-1, keepdims=True)
    found = deviation / np.sqrt(np.square(deviation).mean(-1, keepdims=True) + epsilon)
    return np.asarray(found)


def test_a_row_far_from_zero_is_as_exact_as_one_that_is_near() -> None:
    rng = np.random.default_rng(0)
    x = sg.placeholder((4, 768))
    step = sg.compile([x], [sg.nn.layer_norm(x), sg.nn.group_norm(x, 1, layout="NCHW")])
    rows = rng.standard_normal((4, 768)) + np.array([[0], [1e4], [-3e5], [1e-3]])
    value = rows.astype(np.float32)
    value[3] *= 1e-4
    for found in step(value):
        # 8 units in the last place of 1: the elements are up to 3.6.
        assert np.abs(found - _exact(value)).max() < 1e-6


@pytest.mark.parametrize("level", [0.0, 0.1, 12345.678, -3e30, 1e-40])
def test_of_a_row_of_equal_elements_only_the_bias_is_left(level: float) -> None:
    value = np.full((2, 77), level, np.float32)
    x = sg.placeholder((2, 77))
    bias = np.arange(77, dtype=np.float32)
    y = sg.nn.layer_norm(x, np.full(77, 3, np.float32), bias)
    z, _ = sg.nn.batch_norm(x, None, None, training=True, axis=0)
    dx, dz = (sg.gradients(sg.sum(sg.sin(t)), x)[0] for t in (y, z))
    found = sg.compile([x], [y, z, dx, dz])(value)
    np.testing.assert_array_equal(found[0], np.stack([bias, bias]))
    np.testing.assert_array_equal(found[1], np.zeros((2, 77)))
    assert np.isfinite(found[2]).all()
    assert np.isfinite(found[3]).all()


def test_an_outlier_at_the_first_place_costs_the_others_nothing_of_their_row() -> None:
    value = np.random.default_rng(1).standard_normal((1, 100)).astype(np.float32)
    value[0, 0] = 1e10
    found = sg.run(sg.nn.layer_norm(value))
    assert np.abs(found - _exact(value)).max() < 3e-6


def test_statistics_of_bfloat16_are_float32() -> None:
    x = sg.placeholder((2, 4096), "bfloat16")
    value = (np.random.default_rng(2).standard_normal((2, 4096)) + 8).astype(x.dtype.numpy)
    found = sg.compile([x], sg.nn.layer_norm(x))(value).astype(np.float64)
    # What is left is the rounding of the result.
    assert np.abs(found / _exact(value) - 1).max() < 2**-8
    running = [sg.variable(v) for v in (np.zeros(2, np.float32), np.ones(2, np.float32))]
    y, updates = sg.nn.batch_norm(x, *running, training=True, momentum=0.0, axis=0)
    sg.compile([x], y, updates)(value)
    assert y.dtype.name == "bfloat16"
    wide = value.astype(np.float64)
    np.testing.assert_allclose(running[0].value, wide.mean(1), rtol=1e-6)
    np.testing.assert_allclose(running[1].value, wide.var(1, ddof=1), rtol=1e-6)


def test_a_step_of_training_moves_running_statistics() -> None:
    x = sg.placeholder((None, 3))
    mean, variance = sg.variable(np.zeros(3, np.float32)), sg.variable(np.ones(3, np.float32))
    y, updates = sg.nn.batch_norm(x, mean, variance, training=True, momentum=0.75)
    assert [update.variable for update in updates] == [mean, variance]
    train = sg.compile([x], y, updates)
    z, none = sg.nn.batch_norm(x, mean, variance, training=False)
    assert none == []
    predict = sg.compile([x], z)
    wanted = np.zeros(3), np.ones(3)
    for size in (5, 9, 2):
        value = np.random.default_rng(size).normal(1, 2, (size, 3)).astype(np.float32)
        train(value)
        batch = value.astype(np.float64)
        wanted = (
            0.75 * wanted[0] + 0.25 * batch.mean(0),
            0.75 * wanted[1] + 0.25 * batch.var(0, ddof=1),
        )
        np.testing.assert_allclose(mean.value, wanted[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(variance.value, wanted[1], rtol=1e-5)
        np.testing.assert_allclose(
            predict(value), (batch - wanted[0]) / np.sqrt(wanted[1] + 1e-5), rtol=1e-4, atol=1e-5
        )


def test_a_batch_of_one_of_unknown_size_keeps_its_variance_of_zero() -> None:
    x = sg.placeholder((None, 2))
    variance = sg.variable(np.ones(2, np.float32))
    mean = sg.variable(np.zeros(2, np.float32))
    y, updates = sg.nn.batch_norm(x, mean, variance, training=True)
    found = sg.compile([x], y, updates)(np.array([[3, 4]], np.float32))
    np.testing.assert_array_equal(found, [[0, 0]])
    np.testing.assert_allclose(variance.value, [0.9, 0.9], rtol=1e-6)


def test_running_statistics_that_are_no_variables_are_the_carry_of_a_loop() -> None:
    batches = np.random.default_rng(3).normal(2, 3, (6, 8, 2))

    def body(carry: Any, batch: Any) -> Any:
        y, ((_, mean), (_, variance)) = sg.nn.batch_norm(batch, *carry, training=True)
        return (mean, variance), y

    carry, _ = sg.scan(body, (np.zeros(2), np.ones(2)), batches)
    mean, variance = sg.run(list(carry))
    share = 0.1 * 0.9 ** np.arange(5, -1, -1)[:, None]
    np.testing.assert_allclose(mean, (share * batches.mean(1)).sum(0), rtol=1e-12)
    left = 0.9**6 + (share * batches.var(1, ddof=1)).sum(0)
    np.testing.assert_allclose(variance, left, rtol=1e-12)


def test_the_result_has_the_dtype_of_the_operand_whatever_that_of_the_weights() -> None:
    weights = np.ones(4)
    for dtype in ("float32", "bfloat16", "float16", "float64"):
        x = sg.placeholder((3, 4), dtype)
        assert sg.nn.layer_norm(x, weights, weights).dtype == x.dtype
        assert sg.nn.rms_norm(x, weights).dtype == x.dtype
        assert sg.nn.batch_norm(x, weights, weights, training=False)[0].dtype == x.dtype
    assert sg.nn.layer_norm(sg.placeholder((3, 4), "int32")).dtype.name == "float32"


def test_a_norm_of_no_elements_is_empty() -> None:
    for shape in ((0, 4), (3, 0)):
        x = sg.zeros(shape)
        for y in (
            sg.nn.layer_norm(x),
            sg.nn.rms_norm(x),
            sg.nn.local_response_norm(x, 3),
            sg.nn.normalize(x),
        ):
            assert sg.run(y).shape == shape
    assert sg.run(sg.nn.group_norm(sg.zeros((2, 0, 4)), 2)).shape == (2, 0, 4)


def test_a_local_response_norm_of_huge_numbers_is_finite_and_so_is_its_gradient() -> None:
    x = sg.placeholder((1, 2, 3))
    y = sg.nn.local_response_norm(x, 2)
    (dx,) = sg.gradients(y, x)
    value = np.array([[[1e4, -1e4, 1e4], [0, 0, 1e4]]], np.float32)
    found, slope = sg.compile([x], [y, dx])(value)
    wide = value.astype(np.float64)
    before = np.concatenate([np.zeros((1, 2, 1)), wide[..., :-1]], -1)
    want = wide / (1 + 1e-4 * (np.square(wide) + np.square(before)) / 2) ** 0.75
    np.testing.assert_allclose(found, want, rtol=1e-6)
    assert np.isfinite(slope).all()


def test_a_local_response_norm_takes_any_number_of_channels() -> None:
    x = sg.placeholder((None, None))
    step = sg.compile([x], sg.nn.local_response_norm(x, 5, alpha=5.0, beta=1.0))
    for channels in (1, 4):
        found = step(np.ones((2, channels), np.float32))
        near = [min(c + 3, channels) - max(c - 2, 0) for c in range(channels)]
        np.testing.assert_allclose(found, [[1 / (1 + n) for n in near]] * 2, rtol=1e-6)


def test_rows_that_are_almost_zero_are_divided_by_epsilon() -> None:
    x = sg.placeholder((4, 2))
    y = sg.nn.normalize(x, epsilon=1e-3)
    (dx,) = sg.gradients(y, x)
    value = np.array([[0, 0], [3e-4, 4e-4], [3, 4], [3e18, 4e18]], np.float32)
    found, slope = sg.compile([x], [y, dx])(value)
    np.testing.assert_allclose(
        found, np.array([[0, 0], [0.3, 0.4], [0.6, 0.8], [0.6, 0.8]]), rtol=1e-6
    )
    np.testing.assert_allclose(slope[:2], np.full((2, 2), 1e3), rtol=1e-6)
    assert np.isfinite(slope).all()


def test_a_layer_norm_is_three_kernels() -> None:
    x, scale = sg.placeholder((64, 256)), sg.variable(np.ones(256, np.float32))
    step = sg.compile([x], sg.nn.layer_norm(x, scale, scale))
    assert len(step.kernels) == 3
    assert len(sg.compile([x], sg.nn.rms_norm(x, scale)).kernels) == 2
