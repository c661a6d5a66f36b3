"""LAMB where its ratio of norms is limited, or says nothing."""

import numpy as np

import symgrad as sg
from symgrad.optim import LAMB


def test_a_first_step_is_the_size_of_the_weights():
    w = sg.variable(np.array([3.0, 4.0]), name="w")
    optimizer = LAMB(0.1, epsilon=0)
    step = sg.compile([], [], optimizer.apply_gradients([(np.array([7.0, -0.001]), w)]))
    step()
    # The corrected averages give (1, -1), of norm sqrt(2); that of the weights is 5.
    np.testing.assert_allclose(w.value, np.array([3, 4]) - 0.5 / np.sqrt(2) * np.array([1, -1]))
    assert set(optimizer.state) == {"step", "w/m", "w/v"}


def test_the_ratio_is_limited_where_a_limit_is_given():
    w = sg.variable(np.array([3.0, 4.0]), name="w")
    optimizer = LAMB(0.1, epsilon=0, max_trust_ratio=2)
    step = sg.compile([], [], optimizer.apply_gradients([(np.array([7.0, -0.001]), w)]))
    step()
    np.testing.assert_allclose(w.value, [3 - 0.2, 4 + 0.2])


def test_weights_of_zero_move_by_lr():
    w = sg.variable(np.zeros(2), name="w")
    step = sg.compile([], [], LAMB(0.1, epsilon=0).apply_gradients([(np.array([7.0, -0.001]), w)]))
    step()
    np.testing.assert_allclose(w.value, [-0.1, 0.1])


def test_a_gradient_of_zero_moves_nothing():
    w = sg.variable(np.array([3.0, 4.0]), name="w")
    step = sg.compile([], [], LAMB(0.1).apply_gradients([(np.zeros(2), w)]))
    step()
    np.testing.assert_array_equal(w.value, [3, 4])
