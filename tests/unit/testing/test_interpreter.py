"""Values of tensors and graphs without compiling, and comparing arrays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from symgrad.errors import DTypeError, GraphError
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import placeholder, variable_node
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.types import State
from symgrad.testing import assert_allclose, interpret


def test_a_nest_of_tensors_comes_back_as_the_same_nest():
    x, y = placeholder((2,), name="x"), placeholder((), name="y")
    found = interpret({"a": [add(x, y)], "b": (y,)}, {x: [1, 2], y: 3})
    assert found["a"][0].tolist() == [4, 5]
    assert found["b"][0].tolist() == 3
    assert interpret(multiply(x, y), [[1.0, 2.0], 2.0]).dtype == np.float32


def test_a_graph_is_run_on_its_inputs_and_updates_nothing():
    x = placeholder((), name="x")
    w = variable_node(State(np.array(1, np.float32), name="w", trainable=True), "w")
    graph = Graph([add(x, w)], [x], [Update(w, x)])
    assert [a.tolist() for a in interpret(graph, [2.0])] == [3.0]
    assert w.value == 1


def test_a_feed_that_does_not_fit_is_refused():
    x = placeholder((), "int32", name="x")
    with pytest.raises(GraphError, match=r"<Tensor x: i32\[\]> is not fed"):
        interpret(x, {})
    with pytest.raises(GraphError, match="2 values are fed to 1 inputs"):
        interpret(x, [1, 2])
    with pytest.raises(DTypeError, match=r"x: float64 is fed, i32\[\] is wanted"):
        interpret(x, [1.5])
    with pytest.raises(DTypeError, match=r"x: int64 is fed, i32\[\] is wanted"):
        interpret(x, [np.int64(1)])
    with pytest.raises(DTypeError, match=r"1.0 is no tensor"):
        interpret([x, 1.0], [1])


def test_tolerances_follow_the_coarser_dtype():
    assert_allclose(np.float32(1) + np.float32(1e-6), 1.0)
    assert_allclose(np.array([1.01], ml_dtypes.bfloat16), [1.0])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_allclose(np.array([1.000001]), [1.0])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_allclose(np.array([1.0]), [1.1], rtol=0.01)
    assert_allclose(np.array([1.0]), [1.1], rtol=0.2)


def test_nests_and_shapes_must_be_the_same():
    assert_allclose([np.zeros(2), {"a": np.array([1, 2])}], [np.zeros(2), {"a": [1, 2]}])
    assert_allclose(np.full((2, 2), np.nan), np.nan)
    with pytest.raises(AssertionError, match=r"shape \(2,\) is not \(1,\)"):
        assert_allclose(np.zeros(2), np.zeros(1))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_allclose([np.array([1, 2])], [np.array([1, 3])])
    with pytest.raises(ValueError, match="Expected an instance of dict"):
        assert_allclose({"a": np.zeros(1)}, [np.zeros(1)])
