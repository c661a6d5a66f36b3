"""Adadelta: its first step, and that it needs no rate."""

import numpy as np

import symgrad as sg
from symgrad.optim import Adadelta


def test_the_first_step_comes_from_epsilon_alone():
    w = sg.variable(np.zeros(1), name="w")
    optimizer = Adadelta(rho=0.75, epsilon=1.0)
    step = sg.compile([], [], optimizer.apply_gradients([(np.array([4.0]), w)]))
    step()
    d = np.sqrt(1 / (0.25 * 16 + 1)) * 4
    np.testing.assert_allclose(w.value, [-d], rtol=1e-15)
    np.testing.assert_allclose(optimizer.state["w/v"].value, [4])
    np.testing.assert_allclose(optimizer.state["w/s"].value, [0.25 * d**2])


def test_steps_do_not_depend_on_the_scale_of_the_loss():
    moved = []
    for scale in (1.0, 1000.0):
        w = sg.variable(np.array([2.0]), name="w")
        step = sg.compile([], [], Adadelta(epsilon=1e-12).minimize((w * w).sum() * scale))
        for _ in range(20):
            step()
        moved.append(w.value)
    np.testing.assert_allclose(moved[1], moved[0], rtol=1e-6)
