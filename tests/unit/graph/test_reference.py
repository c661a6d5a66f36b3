"""Programs run by NumPy: values, updates, sizes bound at the call, and memory given back."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from symgrad.errors import DTypeError, GraphError, ShapeError
from symgrad.graph import dtypes
from symgrad.graph.build import apply, apply_node
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import placeholder, variable_node
from symgrad.graph.node import OpDef, Reference
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, divide, multiply
from symgrad.graph.ops.slicing import concat
from symgrad.graph.ops.structure import permute_dims, reduce_sum, reshape
from symgrad.graph.ops.transcendental import log, tanh
from symgrad.graph.reference import bind_sizes, evaluate
from symgrad.graph.types import State, TensorType
from tests.support.test_ops import sink, source


def test_outputs_come_in_order_with_the_inferred_types():
    x, y = placeholder((2, 3), name="x"), placeholder((3,), "int8", name="y")
    graph = Graph([reduce_sum(x, (1,)), y, tanh(x)], [x, y])
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    outputs, updates = evaluate(graph, [rows, np.ones(3, np.int8)])
    assert [o.dtype.name for o in outputs] == ["float32", "int8", "float32"]
    assert outputs[0].tolist() == [3, 12]
    np.testing.assert_allclose(outputs[2], np.tanh(rows), rtol=1e-6)
    assert updates == []


def test_updates_are_simultaneous_and_leave_the_state_alone():
    a = variable_node(State(np.array([1.0]), name="a", trainable=True), "a")
    b = variable_node(State(np.array([2.0]), name="b", trainable=True), "b")
    graph = Graph([add(a, b)], updates=[Update(a, b), Update(b, a)])
    outputs, updates = evaluate(graph, [])
    assert [o.tolist() for o in outputs] == [[3.0]]
    assert [u.tolist() for u in updates] == [[2.0], [1.0]]
    assert (a.value.tolist(), b.value.tolist()) == ([1.0], [2.0])


def test_results_belong_to_the_caller():
    x = placeholder((2, 2), name="x")
    c = constant(np.ones(2))
    w = variable_node(State(np.zeros(2), name="w", trainable=True), "w")
    given = np.zeros((2, 2), np.float32)
    outputs, _ = evaluate(
        Graph([x, permute_dims(x, (1, 0)), reshape(x, (4,)), c, w, c], [x]), [given]
    )
    for output in outputs:
        output[...] = 7
    assert given.sum() == 0
    assert w.value.sum() == 0
    assert evaluate(Graph(c), [])[0][0].tolist() == [1, 1]


def test_unknown_sizes_are_those_of_the_inputs():
    x, y = placeholder(("n", None), name="x"), placeholder((None, "n"), name="y")
    flat = concat([reshape(x, (-1,)), reshape(y, (-1,))])
    arrays = [np.ones((2, 3), np.float32), np.zeros((4, 2), np.float32)]
    (result,), _ = evaluate(Graph(flat, [x, y]), arrays)
    assert result.tolist() == [1] * 6 + [0] * 8


def test_a_polynomial_size_is_checked_once_its_unknowns_are_bound():
    x, y = placeholder(("n",), name="x"), placeholder((2 * placeholder(("n",)).shape[0],), name="y")
    graph = Graph([], [y, x])
    three, six = np.zeros(3, np.float32), np.zeros(6, np.float32)
    assert bind_sizes(graph, [six, three]) == {"n": 3}
    with pytest.raises(ShapeError, match=r"y: shape \(3,\) is given, f32\[2\*n\] .*: here \[6\]"):
        bind_sizes(graph, [three, three])


def test_inputs_that_do_not_fit_are_refused_by_name():
    x = placeholder((2, "n"), name="x")
    graph = Graph([x, placeholder(("n",))])
    row = np.zeros(3, np.float32)
    with pytest.raises(GraphError, match="graph: 1 inputs are given, 2 are wanted"):
        evaluate(graph, [row])
    with pytest.raises(DTypeError, match=r"x: float64 is given, f32\[2, n\] is wanted"):
        evaluate(graph, [np.zeros((2, 3)), row])
    with pytest.raises(ShapeError, match=r"x: shape \(3,\) is given, f32\[2, n\] is wanted"):
        evaluate(graph, [row, row])
    with pytest.raises(ShapeError, match=r"x: shape \(1, 3\) is given"):
        evaluate(graph, [np.zeros((1, 3), np.float32), row])
    with pytest.raises(
        ShapeError, match=r"input 1: shape \(3,\) is given, f32\[n\] .*: here \[4\]"
    ):
        evaluate(graph, [np.zeros((2, 4), np.float32), row])


def test_sizes_that_had_to_be_equal_are_refused_at_the_call():
    x, y = placeholder((None,), name="x"), placeholder((None,), name="y")
    graph = Graph(multiply(x, y), [x, y])
    with pytest.raises(ShapeError, match="sizes at this call: axis 0 of x is 2, axis 0 of y is 3"):
        evaluate(graph, [np.ones(2, np.float32), np.ones(3, np.float32)])


def test_numpy_warns_of_nothing():
    x = placeholder((3,), name="x")
    bad = np.array([-1, 0, np.inf], np.float32)
    (quotient, logarithm), _ = evaluate(Graph([divide(x, x), log(x)], [x]), [bad])
    np.testing.assert_array_equal(quotient, [1, np.nan, np.nan])
    np.testing.assert_array_equal(logarithm, [np.nan, -np.inf, np.inf])


def test_scalars_stay_arrays():
    x = placeholder((), name="x")
    (result,), _ = evaluate(Graph(tanh(x)), [np.array(0.0, np.float32)])
    assert isinstance(result, np.ndarray)
    assert result.shape == ()


def _op(reference: Reference) -> OpDef:
    """Return an op of this test alone, whose result has the type of its operand."""
    return OpDef("test.local", lambda x: x, reference, "none", None)


def test_a_reference_of_another_dtype_or_shape_is_found():
    x = placeholder((2,), name="x")
    wide = Graph(apply(_op(lambda x: x.astype(np.float64)), x))
    ones = np.ones(2, np.float32)
    with pytest.raises(AssertionError, match=r"gives float64\[2\] in the place of f32\[2\]"):
        evaluate(wide, [ones])
    with pytest.raises(AssertionError, match=r"gives float32\[1\] in the place of f32\[2\]"):
        evaluate(Graph(apply(_op(lambda x: x[:1]), x)), [ones])


def test_an_op_without_a_reference_is_found():
    (tensor,) = source(TensorType(dtypes.float32, (2,)))
    with pytest.raises(AssertionError, match=r"test.source.* has no reference"):
        evaluate(Graph(sink([tensor])), [])


def test_intermediates_are_freed_after_their_last_use():
    x = placeholder((1 << 17,), name="x")
    y = x
    for _ in range(50):
        y = add(tanh(y), x)
    total = reduce_sum(y, (0,))
    given = np.zeros(1 << 17, np.float32)
    tracemalloc.start()
    evaluate(Graph(total, [x]), [given])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * given.nbytes, f"{peak} bytes for arrays of {given.nbytes}"


def test_a_result_nobody_uses_is_not_kept():
    pair = OpDef("test.pair", lambda x: (x, x), lambda x: (x, x + 1), "none", None)
    x = placeholder((2,), name="x")
    second = apply_node(pair, (x,), {}).outputs[1]
    (result,), _ = evaluate(Graph(second), [np.zeros(2, np.float32)])
    assert result.tolist() == [1, 1]
