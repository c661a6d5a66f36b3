"""What type checkers are told of what users call: mypy reads this file, and it runs."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import symgrad as sg

X = sg.placeholder((2,), name="x")
W = sg.variable(np.ones(2, "float32"))


def test_gradients_are_used_as_tensors_and_with_zeros_are_tensors():
    (dw,) = sg.gradients((X * W).sum(), [W])
    assert_type(dw, sg.Tensor | Any)
    (zero,) = sg.gradients((X * W).sum(), [W], unconnected_gradients="zero")
    assert_type(zero, sg.Tensor)
    (same,) = sg.gradients((X * W).sum(), W, unconnected_gradients=sg.UnconnectedGradients.ZERO)
    assert_type(same, sg.Tensor)
    assert isinstance(W - 0.1 * dw, sg.Tensor)


def test_operators_and_methods_are_tensors():
    assert_type(1 - X * 2.0, sg.Tensor)
    assert_type(np.float32(2) * X, sg.Tensor)
    assert_type(X.astype("float64").mean(), sg.Tensor)
    assert_type(sg.exp(X)[0], sg.Tensor)


def test_the_version_is_text():
    assert_type(sg.__version__, str)
