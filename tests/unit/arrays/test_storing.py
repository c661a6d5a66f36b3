"""`stop_gradient` on tensors, arrays and nests, and what `out` is given."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

X = np.array([1.0, 2.0])


def test_an_array_is_returned_as_it_is_and_a_tensor_is_cut():
    assert sg.stop_gradient(X) is X
    x = sg.placeholder((2,))
    cut = sg.stop_gradient(x)
    assert cut.node.op == "stop_gradient"
    assert sg.gradients(cut * cut, x) == [None]
    mixed = sg.stop_gradient({"a": x, "b": [X, 3.0]})
    assert mixed["a"].node.op == "stop_gradient"
    assert mixed["b"][0] is X
    assert mixed["b"][1] == 3.0


@pytest.mark.parametrize("preserve_type", [True, False])
def test_out_is_filled_and_returned(preserve_type):
    out = {"a": np.zeros(2), "b": np.zeros((), np.float32)}
    assert sg.stop_gradient({"b": 3.0, "a": X}, preserve_type, out=out) is out
    np.testing.assert_array_equal(out["a"], X)
    assert out["b"] == 3


def test_out_that_does_not_fit_is_left_alone():
    good, bad = np.zeros(2), np.zeros(3)
    with pytest.raises(sg.ShapeError, match=r"out has shape \(3,\), the result has shape \(2,\)"):
        sg.stop_gradient([X, X], out=[good, bad])
    np.testing.assert_array_equal(good, np.zeros(2))
    with pytest.raises(sg.DTypeError, match="out takes no tensor"):
        sg.stop_gradient([X, sg.placeholder((2,))], out=[good, good])
    np.testing.assert_array_equal(good, np.zeros(2))
