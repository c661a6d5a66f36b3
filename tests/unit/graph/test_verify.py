"""What the verifier refuses: one graph for each thing that can be wrong, and its message."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.graph import dtypes
from symgrad.graph.build import region
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import placeholder, variable_node, variable_op
from symgrad.graph.node import Node, Tensor, make_node
from symgrad.graph.operands import constant
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reduce_sum, sum_op
from symgrad.graph.ops.transcendental import tanh
from symgrad.graph.types import Attr, State, TensorType
from symgrad.graph.verify import verify
from tests.support.test_ops import sink, source

F32 = TensorType(dtypes.float32, (2,))


def _forged(graph: Graph, **fields: object) -> Graph:
    """Return `graph` with fields set to what its constructor would not let pass."""
    copy = Graph(graph.outputs, graph.inputs, graph.updates)
    for name, value in fields.items():
        object.__setattr__(copy, name, value)
    return copy


def _sum_node(x: Tensor, result: TensorType, **attrs: Attr) -> Node:
    return make_node(sum_op, (x,), {"axes": (0,), **attrs}, (result,))


def test_well_formed_graphs_pass():
    x = placeholder((2, "n"), name="x")
    w = variable_node(State(np.zeros(2, np.float32), name="w", trainable=True), "w")
    y = tanh(permute_dims(x, (1, 0)))
    verify(Graph([y, y, x], [x], [Update(w, tanh(w))]))
    verify(Graph([], []))
    verify(Graph([sink(source(F32, F32)), w]))
    unread = Graph(x, [x, placeholder(())], [Update(w, constant(np.ones(2, np.float32)))])
    verify(unread)


def test_an_operand_after_its_use_is_found():
    graph = Graph(tanh(tanh(placeholder((), name="x"))))
    x, first, second = graph.nodes
    with pytest.raises(AssertionError, match=r"node 1 .*<tanh: f32\[\]>: operand 0, .* before it"):
        verify(_forged(graph, nodes=(x, second, first)))


def test_a_missing_node_is_found():
    graph = Graph(tanh(placeholder((), name="x")))
    with pytest.raises(AssertionError, match=r"output 0 .* no node of the graph defines it"):
        verify(_forged(graph, nodes=graph.nodes[:1]))
    with pytest.raises(AssertionError, match=r"input 0 .* its node is missing from the nodes"):
        verify(_forged(graph, nodes=graph.nodes[1:]))


def test_a_node_that_comes_twice_is_found():
    graph = Graph(tanh(placeholder((), name="x")))
    with pytest.raises(AssertionError, match=r"node 2 .*: it is in the graph twice"):
        verify(_forged(graph, nodes=(*graph.nodes, graph.nodes[1])))


def test_a_node_that_nothing_uses_is_found():
    graph = Graph(placeholder((), name="x"))
    idle = constant(1.0).node
    with pytest.raises(AssertionError, match=r"nothing uses <constant: f32\[\]>"):
        verify(_forged(graph, nodes=(*graph.nodes, idle)))


def test_an_output_nobody_computes_is_found_among_updates():
    w = variable_node(State(np.zeros((), np.float32), name="w", trainable=True), "w")
    graph = Graph([], updates=[Update(w, tanh(w))])
    with pytest.raises(AssertionError, match=r"update 0 .*no node of the graph defines the new"):
        verify(_forged(graph, nodes=(w.node,)))


def test_a_tensor_outside_of_its_region_is_found():
    x = placeholder((), name="x")
    with region("body"):
        inside = tanh(x)
    outside = make_node(tanh(x).node.definition, (inside,), {}, (inside.type,))
    graph = Graph(outside.output)
    with pytest.raises(AssertionError, match=r"operand 0, .* belongs to region 'body'"):
        verify(graph)
    with region("body"):
        leaf = constant(1.0)
    leaking = _forged(Graph(tanh(x)), nodes=(x.node, leaf.node), outputs=(leaf,))
    with pytest.raises(AssertionError, match=r"output 0 .* belongs to region 'body'"):
        verify(leaking)


def test_a_type_the_op_does_not_infer_is_found():
    node = _sum_node(placeholder((2, 3), name="x"), F32)
    with pytest.raises(AssertionError, match=r"the op infers f32\[3\], the outputs are f32\[2\]"):
        verify(Graph(node.output))


def test_a_count_of_results_the_op_does_not_infer_is_found():
    node = make_node(sum_op, (placeholder((2,)),), {"axes": ()}, (F32, F32))
    with pytest.raises(AssertionError, match=r"f32\[2\], the outputs are f32\[2\], f32\[2\]"):
        verify(Graph(node.outputs))


def test_operands_the_op_refuses_are_found():
    unknown_attr = _sum_node(placeholder((2,)), F32, other=1)
    with pytest.raises(AssertionError, match=r"the op refuses its operands: .*'other'"):
        verify(Graph(unknown_attr.output))
    narrow = broadcast_to(placeholder((1,)), (2,)).node
    refused = make_node(narrow.definition, (placeholder((3,)),), narrow.attrs, (F32,))
    with pytest.raises(AssertionError, match=r"the op refuses its operands: broadcast_to: x: f32"):
        verify(Graph(refused.output))


@pytest.mark.parametrize("value", [[0], {"a": 1}, np.zeros(2)])
def test_an_attribute_that_does_not_print_is_found(value):
    graph = Graph(sink([], ("legal", (1, value))))
    with pytest.raises(AssertionError, match=r"attribute tag has .*, a <class"):
        verify(graph)


@pytest.mark.parametrize("value", [np.int64(1), np.float64(1.0)])
def test_numbers_of_numpy_are_no_attributes(value):
    node = sink([], ("legal", (1, value))).node
    assert repr(node.attrs["tag"]) == repr(("legal", (1, value.item())))
    verify(Graph(node.output))


def test_outputs_that_do_not_know_their_node_are_found():
    x = placeholder((2,), name="x")
    graph = Graph(tanh(x))
    node = graph.nodes[1]
    object.__setattr__(node, "outputs", (x,))
    with pytest.raises(AssertionError, match=r"output 0 belongs to <placeholder x: f32\[2\]>"):
        verify(graph)


def test_outputs_in_another_order_are_found():
    pair = source(F32, F32)
    graph = Graph(sink(pair))
    object.__setattr__(pair[0].node, "outputs", pair[::-1])
    with pytest.raises(AssertionError, match=r"output 0 takes itself for output 1"):
        verify(graph)


def test_inputs_that_are_no_placeholders_or_come_twice_are_found():
    x = placeholder((), name="x")
    graph = Graph(tanh(x))
    with pytest.raises(AssertionError, match=r"input 0 .*: it is no placeholder"):
        verify(_forged(graph, inputs=graph.outputs))
    with pytest.raises(AssertionError, match=r"are given more than once"):
        verify(_forged(graph, inputs=(x, x)))
    with pytest.raises(AssertionError, match=r"a placeholder that is not among the inputs"):
        verify(_forged(graph, inputs=()))


def test_updates_that_do_not_fit_are_found():
    w = variable_node(State(np.zeros(2, np.float32), name="w", trainable=True), "w")
    graph = Graph([], updates=[Update(w, tanh(w))])
    with pytest.raises(AssertionError, match=r"update 1 .*: it has another update"):
        verify(_forged(graph, updates=graph.updates * 2))
    wrong = Update(w, tanh(w))
    object.__setattr__(wrong, "value", reduce_sum(w, (0,)))
    forged = _forged(Graph(reduce_sum(w, (0,))), updates=(wrong,))
    object.__setattr__(forged, "nodes", Graph([*forged.outputs, wrong.value]).nodes)
    with pytest.raises(AssertionError, match=r"f32\[\] is given to f32\[2\]"):
        verify(forged)


def test_a_variable_that_became_a_plain_tensor_is_found():
    state = State(np.zeros(2, np.float32), name="w", trainable=True)
    node = make_node(variable_op, (), {"state": state}, (state.type,))
    with pytest.raises(AssertionError, match=r"output 0 of a variable is a plain tensor"):
        verify(Graph(node.output))
