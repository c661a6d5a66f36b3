"""The variance of a norm about a constant: derivatives of all orders are those of a variance."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from symgrad.nn.deviations import moments_over

N = 6


def test_first_and_second_derivatives_of_a_variance():
    x = sg.placeholder((N,), "float64")
    variance = sg.sum(moments_over(x, (0,)).variance)
    (gradient,) = sg.gradients(variance, [x])
    v = sg.placeholder((N,), "float64")
    (product,) = sg.gradients(sg.sum(gradient * v), [x])
    random = np.random.default_rng(0)
    at, direction = random.normal(1000, 1, N), random.normal(size=N)
    values = sg.compile([x, v], [variance, gradient, product])(at, direction)
    np.testing.assert_allclose(values[0], at.var(), rtol=1e-12)
    np.testing.assert_allclose(values[1], 2 / N * (at - at.mean()), rtol=1e-9)
    expected = 2 / N * (direction - direction.mean())
    np.testing.assert_allclose(values[2], expected, rtol=1e-12)


def test_the_gradient_of_a_norm_waits_for_one_sum_after_the_variance():
    x, g = sg.placeholder((2048, 128)), sg.placeholder((2048, 128))
    y = sg.nn.layer_norm(x)
    step = sg.compile([x, g], [y, *sg.gradients(y, [x], grad_ys=g)], target="x86-64-v4")
    reasons = [reason for kernel in step.kernels for reason in kernel.reasons]
    assert any("does 4 stages of" in reason for reason in reasons)
