"""RMSProp: its slots, and the variance that rounding must not make negative."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.optim import RMSProp


def test_equal_gradients_leave_no_negative_variance():
    w = sg.variable(np.ones(1000, np.float32), name="w")
    g = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    optimizer = RMSProp(1e-9, rho=0.5, centered=True)
    step = sg.compile([], [], optimizer.apply_gradients([(g, w)]))
    for _ in range(60):
        step()
    v, mean = optimizer.state["w/v"].value, optimizer.state["w/mean"].value
    assert (v - mean**2 < 0).any(), "the case would say nothing"
    assert np.isfinite(w.value).all()


@pytest.mark.parametrize(
    ("arguments", "slots"),
    [
        ({}, {"w/v"}),
        ({"centered": True}, {"w/v", "w/mean"}),
        ({"momentum": 0.5}, {"w/v", "w/momentum"}),
    ],
)
def test_slots_are_what_the_settings_need(arguments, slots):
    w = sg.variable(np.ones(2), name="w")
    optimizer = RMSProp(**arguments)
    optimizer.minimize((w * w).sum())
    assert set(optimizer.state) == slots
