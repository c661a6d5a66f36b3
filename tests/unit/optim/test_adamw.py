"""AdamW: a decay beside the averages, in proportion to the rate."""

import numpy as np

import symgrad as sg
from symgrad.optim import Adam, AdamW


def test_without_gradient_only_the_decay_moves():
    w, lr = sg.variable(np.array([8.0]), name="w"), sg.placeholder((), "float32")
    optimizer = AdamW(lr, weight_decay=0.5)
    step = sg.compile([lr], [], optimizer.apply_gradients([(np.zeros(1), w)]))
    step(np.float32(0.25))
    assert w.value == 7
    assert not optimizer.state["w/m"].value.any()
    step(np.float32(1))
    assert w.value == 3.5


def test_without_decay_it_is_adam():
    g = np.array([1.0, -3.0])
    values = []
    for make in (Adam, AdamW):
        w = sg.variable(np.ones(2), name="w")
        step = sg.compile([], [], make(0.1, epsilon=1e-6, weight_decay=0).apply_gradients([(g, w)]))
        step()
        step()
        values.append(w.value)
    np.testing.assert_array_equal(values[0], values[1])


def test_adams_own_decay_enters_the_averages():
    w = sg.variable(np.array([8.0]), name="w")
    optimizer = Adam(0.25, weight_decay=0.5, epsilon=0)
    step = sg.compile([], [], optimizer.apply_gradients([(np.zeros(1), w)]))
    step()
    np.testing.assert_allclose(w.value, 7.75)  # one corrected step of size lr
    np.testing.assert_allclose(optimizer.state["w/m"].value, 0.1 * 0.5 * 8)
