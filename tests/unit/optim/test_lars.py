"""LARS where its ratio of norms says nothing, and what its momentum gathers."""

import numpy as np

import symgrad as sg
from symgrad.optim import LARS


def test_where_a_norm_is_zero_the_rate_is_lr():
    zero, w = sg.variable(np.zeros(2), name="zero"), sg.variable(np.array([3.0, 4.0]), name="w")
    optimizer = LARS(0.5, momentum=0, weight_decay=0.1)
    g = np.array([1.0, 2.0])
    step = sg.compile([], [], optimizer.apply_gradients([(g, zero), (g * 0, w)]))
    step()
    np.testing.assert_array_equal(zero.value, [-0.5, -1])
    # Without a gradient the decay is all there is: 0.001 * |w| / (0.1 * |w|) of 0.1 * w.
    np.testing.assert_allclose(w.value, np.array([3.0, 4.0]) * (1 - 0.5 * 0.001), rtol=1e-15)


def test_without_anything_to_measure_nothing_moves():
    w = sg.variable(np.array([3.0, 4.0]), name="w")
    step = sg.compile([], [], LARS(0.5).apply_gradients([(np.zeros(2), w)]))
    step()
    np.testing.assert_array_equal(w.value, [3, 4])


def test_a_step_is_the_size_of_the_weights_whatever_the_gradient():
    w = sg.variable(np.array([3.0, 4.0]), name="w")
    g = sg.placeholder((2,), "float64")
    step = sg.compile(
        [g], [], LARS(1.0, momentum=0, trust_coefficient=0.1).apply_gradients([(g, w)])
    )
    step(np.array([0.0, 1e-9]))
    np.testing.assert_allclose(w.value, [3, 3.5], rtol=1e-15)


def test_what_was_gathered_keeps_the_rate_it_had():
    # Unlike in SGD: with a rate of 0 in the second step, half of the first is done again.
    w, lr = sg.variable(np.array([3.0, 4.0]), name="w"), sg.placeholder((), "float64")
    optimizer = LARS(lr, momentum=0.5, trust_coefficient=0.1)
    step = sg.compile([lr], [], optimizer.apply_gradients([(np.array([0.0, 2.0]), w)]))
    step(np.float64(1))
    np.testing.assert_allclose(w.value, [3, 3.5], rtol=1e-15)
    step(np.float64(0))
    np.testing.assert_allclose(w.value, [3, 3.25], rtol=1e-15)
    assert set(optimizer.state) == {"w/momentum"}
