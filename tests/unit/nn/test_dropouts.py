"""Dropout of channels and for SELU, choices by keys, relaxed choices: what they keep."""

from __future__ import annotations

from typing import Any

import numpy as np

import symgrad as sg


def test_channels_are_dropped_as_a_whole() -> None:
    last, first = np.ones((50, 3, 2, 8), np.float32), np.ones((50, 8, 3, 2), np.float32)
    ys = sg.run(
        [
            sg.nn.dropout2d(last, 0.25, sg.random.Generator(0)),
            sg.nn.dropout2d(first, 0.25, sg.random.Generator(0), layout="NCHW"),
            sg.nn.dropout1d(last[:, 0], 0.25, sg.random.key(1)),
            sg.nn.dropout3d(last[:, None], 0.25, sg.random.key(1)),
        ]
    )
    np.testing.assert_array_equal(ys[0], np.moveaxis(ys[1], 1, -1))
    np.testing.assert_array_equal(ys[2][:, 0], ys[3][:, 0, 0, 0])
    for y in (ys[0], ys[2], ys[3]):
        rows = y.reshape(50, -1, 8)
        np.testing.assert_array_equal(rows, np.broadcast_to(rows[:, :1], rows.shape))
        assert set(np.unique(y)) == {0, np.float32(1 / 0.75)}
        # 400 channels: 3.3 deviations.
        assert abs((rows[:, 0] != 0).mean() - 0.75) < 3.3 * np.sqrt(0.25 * 0.75 / 400)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    y = sg.run(sg.nn.alpha_dropout(x, 0.3, sg.random.key(0))).astype(np.float64)
    # 4 deviations of the mean, and of the variance of what is about normal.
    assert abs(y.mean() - x.mean()) < 4 / np.sqrt(100_000)
    assert abs(y.var() - x.var()) < 4 * np.sqrt(2 / 100_000)
    z = sg.run(sg.nn.feature_alpha_dropout(np.zeros((1000, 3, 2)), 0.3, sg.random.key(0)))
    assert len(np.unique(z)) == 2
    np.testing.assert_array_equal(z, np.broadcast_to(z[:, :1], z.shape))


def test_a_rate_of_zero_changes_nothing() -> None:
    x, key = sg.placeholder((2, 3, 4)), sg.random.key(0)
    assert sg.nn.dropout1d(x, 0, key) is x
    assert sg.nn.alpha_dropout(x, 0, key) is x


def test_under_vmap_each_key_drops_its_own() -> None:
    keys = sg.random.split(sg.random.key(0), 4)
    y = sg.vmap(lambda key: sg.nn.dropout(sg.ones((64,)), 0.5, key))(keys)
    rows = sg.run(y)
    assert len({row.tobytes() for row in rows}) == 4


def test_the_greatest_of_gumbel_softmax_is_drawn_by_the_softmax() -> None:
    p = np.array([0.2, 0.5, 0.3])
    logits = np.broadcast_to(np.log(p), (20_000, 3))
    soft, hard = sg.run(
        [sg.nn.gumbel_softmax(logits, sg.random.key(5), hard=hard) for hard in (False, True)]
    )
    np.testing.assert_array_equal(soft.argmax(1), hard.argmax(1))
    assert set(np.unique(hard)) == {0, 1}
    np.testing.assert_allclose(soft.sum(1), 1, rtol=1e-12)
    # 3.3 deviations of each.
    assert (np.abs(hard.mean(0) - p) < 3.3 * np.sqrt(p * (1 - p) / 20_000)).all()


def test_the_gradient_of_a_hard_choice_is_that_of_the_soft_one() -> None:
    x = sg.placeholder((5, 3), "float64")

    def slope(hard: bool) -> Any:
        y = sg.nn.gumbel_softmax(x, sg.random.key(5), temperature=0.7, hard=hard)
        weights = np.arange(15.0).reshape(5, 3)
        return sg.gradients(sg.sum(y * weights), x)[0]

    value = np.random.default_rng(0).normal(size=(5, 3))
    soft, hard = sg.compile([x], [slope(False), slope(True)])(value)
    np.testing.assert_allclose(hard, soft, rtol=1e-12)
    assert np.abs(soft).max() > 0.1


def test_slopes_of_rrelu_are_between_its_limits() -> None:
    y = sg.run(sg.nn.rrelu(-np.ones(1000), sg.random.key(0), lower=0.1, upper=0.3))
    assert y.min() >= -0.3
    assert y.max() <= -0.1
    assert abs(y.mean() + 0.2) < 3.3 * 0.2 / np.sqrt(12 * 1000)
