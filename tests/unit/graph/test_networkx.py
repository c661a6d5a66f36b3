"""The view of a graph that networkx can work on."""

from __future__ import annotations

import subprocess
import sys

import networkx
import numpy as np

from symgrad.graph import dtypes
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import placeholder, variable_node
from symgrad.graph.nested import Traced
from symgrad.graph.ops.arithmetic import multiply
from symgrad.graph.ops.branches import branch
from symgrad.graph.ops.transcendental import tanh
from symgrad.graph.types import State, TensorType
from tests.support.test_ops import sink, source


def test_vertices_are_the_nodes_with_op_name_and_types():
    x = placeholder((2,), name="x")
    y = tanh(x)
    view = Graph(y, name="loss").to_networkx()
    assert isinstance(view, networkx.DiGraph)
    assert view.name == "loss"
    assert list(view) == [x.node, y.node]
    assert view.nodes[x.node] == {"op": "placeholder", "name": "x", "types": (x.type,)}
    assert view.nodes[y.node] == {"op": "tanh", "name": None, "types": (y.type,)}


def test_edges_have_every_position_at_which_an_operand_stands():
    x = placeholder((2,), name="x")
    y = tanh(x)
    view = Graph(multiply(multiply(y, y), x)).to_networkx()
    square, product = list(view)[2:]
    assert set(view.edges) == {
        (x.node, y.node),
        (y.node, square),
        (square, product),
        (x.node, product),
    }
    assert view.edges[y.node, square] == {"operands": (0, 1)}
    assert view.edges[x.node, product] == {"operands": (1,)}


def test_results_of_one_node_share_its_vertex():
    f32 = TensorType(dtypes.float32, (2,))
    first, second = source(f32, f32)
    used = sink([second, first])
    view = Graph(used).to_networkx()
    assert view.edges[first.node, used.node] == {"operands": (0, 1)}
    assert view.nodes[first.node]["types"] == (f32, f32)


def test_a_variable_that_is_only_updated_is_a_vertex():
    w = variable_node(State(np.zeros((), np.float32), name="w", trainable=True), "w")
    x = placeholder(())
    assert w.node in Graph([], [x], [Update(w, x)]).to_networkx()


def test_a_node_with_nested_graphs_has_views_of_them():
    i, x = placeholder((), "int64"), placeholder((2,))
    functions = [Traced("a", ()), Traced("b", ())]
    for function in functions:
        function.run(lambda: [tanh(x)])
    chosen = branch(i, functions)
    views = Graph(chosen.outputs).to_networkx().nodes[chosen]["graphs"]
    assert list(views) == ["branches.0", "branches.1"]
    assert [op for _, op in views["branches.1"].nodes(data="op")] == ["placeholder", "tanh"]


def test_the_order_of_the_nodes_is_topological_for_networkx_too():
    x = placeholder(())
    y = tanh(x)
    view = Graph(multiply(tanh(y), y)).to_networkx()
    assert networkx.is_directed_acyclic_graph(view)
    position = {node: i for i, node in enumerate(view)}
    assert all(position[a] < position[b] for a, b in view.edges)


def test_who_asks_for_no_view_does_not_wait_for_networkx():
    program = "import sys, symgrad; sys.exit('networkx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
