"""Copies of tensors, nodes and graphs: what is compared by identity is its own copy."""

from __future__ import annotations

import copy
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import symgrad as sg

W = sg.variable(3.0, name="w")
X = sg.placeholder((2,), name="x")
Y = W * X
PARTS = {"variable": W, "tensor": Y, "node": Y.node, "graph": sg.Graph(Y)}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_copy_is_the_same_object(part):
    assert copy.copy(part) is part
    assert copy.deepcopy({"nest": [part]})["nest"][0] is part


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_part_of_a_graph_is_not_pickled(part):
    with pytest.raises(TypeError, match=f"a {type(part).__name__} is compared by identity"):
        ForkingPickler.dumps(part)


def test_a_copied_tensor_compiles_and_has_gradients():
    x, y = copy.copy(X), copy.deepcopy(Y)
    (dw,) = sg.gradients(copy.copy(y), copy.deepcopy(W))
    assert dw is not None
    step = sg.compile([x], [y, dw])
    results = step(np.array([1, 2], "f"))
    np.testing.assert_array_equal(results[0], [3, 6])
    np.testing.assert_array_equal(results[1], 3)


def test_a_copied_tensor_array_has_the_same_slots():
    array = sg.TensorArray(2, ()).write(0, 5.0)
    assert copy.deepcopy(array).stack().node.inputs == array.stack().node.inputs
