"""What the verifier asks of the graphs within a graph: one broken program for each thing."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.graph import dtypes
from symgrad.graph.build import region
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder, variable_node
from symgrad.graph.nested import Traced
from symgrad.graph.node import Node, Tensor, make_node
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.branches import branch
from symgrad.graph.ops.comparison import less
from symgrad.graph.ops.transcendental import sin, tanh
from symgrad.graph.ops.while_loop import loop
from symgrad.graph.types import Attr, State, TensorType
from symgrad.graph.verify import verify
from tests.support.test_ops import sink

F32 = TensorType(dtypes.float32, (3,))


def _chosen() -> Node:
    """Return a `switch_case` of two branches on an index and a vector."""
    i, x = placeholder((), "int64", name="i"), placeholder((3,), name="x")
    functions = [Traced("a", ()), Traced("b", ())]
    functions[0].run(lambda: [sin(x)])
    functions[1].run(lambda: [tanh(x)])
    return branch(i, functions)


def _with(node: Node, **attrs: Attr) -> Graph:
    """Return a graph of `node` with other attributes, unchecked."""
    types = tuple(t.type for t in node.outputs)
    return Graph(make_node(node.definition, node.inputs, {**node.attrs, **attrs}, types).outputs)


def _forged(graph: Graph, **fields: object) -> Graph:
    copy = Graph(graph.outputs, graph.inputs, name=graph.name, region=graph.region)
    for name, value in fields.items():
        object.__setattr__(copy, name, value)
    return copy


def _branches(node: Node) -> tuple[Graph, Graph]:
    (_, first), (_, second) = graphs_of(node)
    return first, second


def test_branches_and_loops_within_one_another_pass():
    n, x = placeholder((), "int64"), placeholder((3,))
    start = constant(np.int64(0))
    condition, body = (Traced(name, [start.type, x.type]) for name in ("condition", "body"))
    condition.run(lambda i, _: [less(i, n)])

    def step(i: Tensor, v: Tensor) -> list[Tensor]:
        functions = [Traced("a", ()), Traced("b", ())]
        functions[0].run(lambda: [add(v, x)])
        functions[1].run(lambda: [constant(np.zeros(3, np.float32))])
        return [add(i, 1), branch(i, functions).output]

    body.run(step)
    graph = Graph(loop([start, x], condition, body, 4).outputs)
    verify(graph)
    # A nested graph alone is well formed too: that is how passes meet it.
    for label, nested in graphs_of(graph.nodes[-1]):
        assert label in ("body", "condition")
        verify(nested)


def test_a_nested_graph_that_is_not_well_formed_is_found_with_its_label():
    node = _chosen()
    first, second = _branches(node)
    idle = constant(1.0).node
    broken = _forged(second, nodes=(*second.nodes, idle))
    with pytest.raises(
        AssertionError, match=r"switch.*branches\.1: graph 'b': nothing uses <constant"
    ):
        verify(_with(node, branches=(first, broken)))


def test_a_nested_graph_that_reads_what_is_around_it_is_found():
    node = _chosen()
    first, second = _branches(node)
    outer = constant(np.zeros(3, np.float32))
    (inner,) = second.outputs
    leaking = make_node(
        inner.node.definition, (outer,), {}, (inner.type,), region=inner.node.region
    )
    nodes = (second.inputs[0].node, outer.node, leaking)
    broken = _forged(second, nodes=nodes, outputs=leaking.outputs)
    with pytest.raises(AssertionError, match=r"branches\.1: .*operand 0, .* to the top level"):
        verify(_with(node, branches=(first, broken)))


def test_a_nested_graph_of_two_regions_is_found():
    node = _chosen()
    first, second = _branches(node)
    with region("elsewhere"):
        stray = constant(np.zeros(3, np.float32))
    nodes = (second.inputs[0].node, stray.node)
    broken = _forged(second, nodes=nodes, outputs=(stray,))
    with pytest.raises(
        AssertionError, match=r"branches\.1: output 0 .* belongs to region 'elsewhere'"
    ):
        verify(_with(node, branches=(first, broken)))


def test_a_nested_graph_without_a_region_of_its_own_is_found():
    node = _chosen()
    first, _ = _branches(node)
    x = placeholder((3,))
    plain = Graph(tanh(x), [x])
    with pytest.raises(AssertionError, match=r"branches\.1 is in no region of its own"):
        verify(_with(node, branches=(first, plain)))
    # In the region around it, which is that of the operands.
    i = placeholder((), "int64", name="i")
    with region("around"):
        function = Traced("a", ())
        function.run(lambda: [tanh(x)])
        index, operand = (t for t in branch(i, [function]).inputs)
    flat = Graph(operand, [operand], region=operand.node.region)
    wrong = make_node(
        node.definition, (index, operand), {"branches": (flat,)}, (F32,), region=flat.region
    )
    with pytest.raises(AssertionError, match=r"branches\.0 is in no region of its own"):
        verify(Graph(wrong.outputs, wrong.inputs, region=flat.region))


def test_inputs_of_other_types_than_the_operands_are_found():
    node = _chosen()
    first, _ = _branches(node)
    wide = placeholder((4,))
    other = Traced("b", ())
    other.run(lambda: [tanh(wide)])
    broken = other.graph([wide])
    with pytest.raises(AssertionError, match=r"the op refuses its operands: switch: "):
        verify(_with(node, branches=(first, broken)))


def test_inputs_in_another_number_than_the_operands_are_found():
    node = _chosen()
    first, second = _branches(node)
    nodes = (*second.nodes, first.inputs[0].node)
    more = _forged(second, inputs=(*second.inputs, *first.inputs), nodes=nodes)
    with pytest.raises(AssertionError, match=r"b takes 2 operands"):
        verify(_with(node, branches=(first, more)))


def test_state_within_a_nested_graph_is_found():
    node = _chosen()
    first, second = _branches(node)
    with region("again"):
        w = variable_node(State(np.zeros(3, np.float32), name="w", trainable=True), "w")
    broken = _forged(second, outputs=(w,), inputs=(), nodes=(w.node,))
    with pytest.raises(AssertionError, match=r"branches\.1 has variables"):
        verify(_with(node, branches=(first, broken)))


def test_graphs_and_other_values_in_one_attribute_are_found():
    node = _chosen()
    first, _ = _branches(node)
    with pytest.raises(AssertionError, match=r"attribute branches mixes graphs with other values"):
        verify(_with(node, branches=(first, 1)))
    with pytest.raises(AssertionError, match=r"attribute tag mixes graphs with other values"):
        verify(Graph(sink([], (None, first))))
