"""Adagrad: the sum, and what it starts as."""

import numpy as np

import symgrad as sg
from symgrad.optim import Adagrad


def test_the_sum_starts_as_told():
    w = sg.variable(np.zeros(2), name="w")
    optimizer = Adagrad(1.0, initial_accumulator=7, epsilon=0)
    step = sg.compile([], [], optimizer.apply_gradients([(np.array([3.0, 0.0]), w)]))
    np.testing.assert_array_equal(optimizer.state["w/sum"].value, [7, 7])
    step()
    np.testing.assert_array_equal(w.value, [-0.75, 0])
    np.testing.assert_array_equal(optimizer.state["w/sum"].value, [16, 7])


def test_an_element_without_gradient_stays_though_its_sum_is_zero():
    w = sg.variable(np.ones(2, np.float32), name="w")
    step = sg.compile([], [], Adagrad(0.5).apply_gradients([(np.array([2, 0], np.float32), w)]))
    step()
    np.testing.assert_allclose(w.value, [0.5, 1])
