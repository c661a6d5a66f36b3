"""Dropout: which elements stay, their scale, the gradient, and what it costs."""

from __future__ import annotations

import numpy as np

import symgrad as sg


def test_dropout_scales_what_it_keeps() -> None:
    x = np.random.default_rng(0).uniform(1, 2, (200, 300)).astype(np.float32)
    y = sg.compile([], sg.nn.dropout(x, 0.25, sg.random.Generator(0)))()
    kept = y != 0
    np.testing.assert_array_equal(y[kept], (x * np.float32(1 / 0.75))[kept])
    # 60,000 elements: 3.3 deviations.
    assert abs(kept.mean() - 0.75) < 3.3 * np.sqrt(0.25 * 0.75 / kept.size)


def test_the_gradient_is_that_of_what_was_kept() -> None:
    x = sg.placeholder((50, 40))
    rng = sg.random.Generator(1)
    y = sg.nn.dropout(x, 0.5, rng)
    (dx,) = sg.gradients(y, x, grad_ys=3 * sg.ones_like(y))
    step = sg.compile([x], [y, dx], [rng.advance()])
    value = np.ones((50, 40), np.float32)
    first, gradient = step(value)
    np.testing.assert_array_equal(gradient, 3 * first)
    second, gradient = step(value)
    np.testing.assert_array_equal(gradient, 3 * second)
    assert not np.array_equal(first, second)


def test_what_is_dropped_gives_zero_even_where_it_is_not_finite() -> None:
    x = sg.placeholder((1000,))
    y = sg.nn.dropout(x, 0.5, sg.random.Generator(1))
    (dx,) = sg.gradients(y, x)
    value = np.full(1000, np.inf, np.float32)
    found, gradient = sg.compile([x], [y, dx])(value)
    assert set(found) == {0, np.inf}
    assert set(gradient) == {0, 2}


def test_a_rate_of_zero_keeps_all_and_draws_nothing() -> None:
    x = sg.placeholder((3,))
    rng = sg.random.Generator(1)
    assert sg.nn.dropout(x, 0, rng) is x
    np.testing.assert_array_equal(
        sg.compile([], rng.bits((4,)))(), sg.compile([], sg.random.Generator(1).bits((4,)))()
    )


def test_the_bits_of_dropout_are_never_in_memory() -> None:
    x = sg.placeholder((64, 100))
    step = sg.compile([x], sg.nn.dropout(sg.tanh(x), 0.1, sg.random.Generator(1)))
    assert len(step.kernels) == 1
    assert step.memory.arena_bytes == 0


def test_in_a_loop_the_gradient_sees_the_choices_of_each_iteration() -> None:
    w = sg.variable(np.ones(200, np.float32), name="w")
    rng = sg.random.Generator(3)
    count = sg.placeholder((), "int64")
    _, h = sg.while_loop(
        lambda i, h: i < count,
        lambda i, h: (i + 1, sg.nn.dropout(h * w, 0.5, rng.fold(i))),
        (sg.constant(0, "int64"), sg.ones((200,))),
    )
    (dw,) = sg.gradients(h, w)
    found, gradient = sg.compile([count], [h, dw])(3)
    # h = w**3 * 2**3 where all three iterations have kept it, so dw = 3 * h.
    np.testing.assert_array_equal(gradient, 3 * found)
    assert set(found) == {0, 8}
    # Of choices that were the same in each iteration half would be left, and not an eighth.
    assert 10 < np.count_nonzero(found) < 45


def test_what_is_recomputed_for_a_gradient_is_the_same_draw() -> None:
    x = sg.placeholder((100,))
    rng = sg.random.Generator(3)
    y = sg.recompute_grad(lambda x: sg.nn.dropout(x * x, 0.5, rng))(x)
    (dx,) = sg.gradients(y, x)
    found, gradient = sg.compile([x], [y, dx])(np.ones(100, np.float32))
    np.testing.assert_array_equal(gradient, 2 * found)
    assert set(found) == {0, 2}
