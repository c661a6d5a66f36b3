"""Lion: the sign of the average with beta1, and the average with beta2."""

import numpy as np

import symgrad as sg
from symgrad.optim import Lion


def test_every_weight_moves_by_lr_however_small_its_gradient():
    w = sg.variable(np.zeros(3), name="w")
    g = np.array([1e-30, -5.0, 0.0])
    optimizer = Lion(0.25)
    step = sg.compile([], [], optimizer.apply_gradients([(g, w)]))
    step()
    np.testing.assert_array_equal(w.value, [-0.25, 0.25, 0])
    np.testing.assert_allclose(optimizer.state["w/m"].value, 0.01 * g, rtol=1e-14)


def test_the_direction_is_that_of_the_average_of_beta1():
    w, g = sg.variable(np.zeros(1), name="w"), sg.placeholder((1,), "float64")
    step = sg.compile([g], [], Lion(1.0, beta1=0.5, beta2=0.75).apply_gradients([(g, w)]))
    step(np.array([8.0]))  # m = 2
    step(np.array([-1.0]))  # sign of 0.5 * 2 - 0.5 * 1
    assert w.value == -2


def test_the_decay_is_no_part_of_the_sign():
    w = sg.variable(np.array([8.0]), name="w")
    step = sg.compile([], [], Lion(0.5, weight_decay=0.25).apply_gradients([(np.array([-1.0]), w)]))
    step()
    assert w.value == 8 - 0.5 * (-1 + 0.25 * 8)


def test_defaults_are_those_of_the_paper():
    optimizer = Lion()
    assert (optimizer.lr, optimizer.beta1, optimizer.beta2) == (1e-4, 0.9, 0.99)
    assert optimizer.weight_decay == 0
