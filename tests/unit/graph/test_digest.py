"""The digest of a graph: equal for equal graphs, another for whatever makes them differ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import symgrad as sg
from symgrad.graph import digest
from symgrad.graph.compare import has_nested_graphs, statements, structurally_equal
from symgrad.graph.digest import graph_digest
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import Variable, placeholder, variable_node
from symgrad.graph.node import Tensor
from symgrad.graph.types import State
from tests.support.test_ops import sink


def _variable(value: float = 0.0) -> Variable:
    return variable_node(State(np.full(2, value), name="w", trainable=True), "w")


def _of(build: Callable[[Tensor, Tensor], Tensor], shape: tuple[int, ...] = (4, 4)) -> Graph:
    x, y = placeholder(shape, name="x"), placeholder(shape, name="y")
    return Graph(build(x, y), [x, y])


DIFFERENT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "op": lambda x, y: x + y,
    "another op": lambda x, y: x - y,
    "wiring": lambda x, y: y - x,
    "one operand twice": lambda x, _: x - x,
    "one node": lambda x, _: (lambda h: h * h)(sg.tanh(x)),
    "two equal nodes": lambda x, _: sg.tanh(x) * sg.tanh(x),
    "an attribute": lambda x, _: x.sum(axis=0),
    "another attribute": lambda x, _: x.sum(axis=1),
    "a constant": lambda x, _: x * 0.0,
    "zero of the other sign": lambda x, _: x * -0.0,
    "a constant of elements": lambda x, _: x * np.arange(16, dtype=np.float32).reshape(4, 4),
    "one other bit": lambda x, _: x * np.nextafter(
        np.arange(16, dtype=np.float32).reshape(4, 4), np.float32(1)
    ),
    "a type": lambda x, _: x.astype("float64"),
    "another type": lambda x, _: x.astype("int32"),
    "a branch": lambda x, _: sg.cond(x.sum() > 0, lambda: x, lambda: -x),
    "another branch": lambda x, _: sg.cond(x.sum() > 0, lambda: x, lambda: sg.exp(x)),
    "a loop": lambda x, _: sg.fori_loop(0, 3, lambda _, h: h * 2.0, x),
    "another loop": lambda x, _: sg.fori_loop(0, 3, lambda _, h: h * 3.0, x),
}  # fmt: skip


def test_equal_graphs_have_one_digest_and_no_others():
    digests = {}
    for name, build in DIFFERENT.items():
        first, second = graph_digest(_of(build)), graph_digest(_of(build))
        assert first is not None, name
        assert first == second, name
        digests[name] = first
    assert len(set(digests.values())) == len(DIFFERENT)


def test_types_of_inputs_and_their_order_count():
    assert graph_digest(_of(DIFFERENT["op"])) != graph_digest(_of(DIFFERENT["op"], (4, 5)))
    x, y = placeholder((2,)), placeholder((2,))
    graphs = [Graph([x, y], [x, y]), Graph([y, x], [x, y]), Graph(x, [x]), Graph(x, [x, y])]
    assert len({graph_digest(graph) for graph in graphs}) == 4


def test_names_of_tensors_do_not_count():
    def named(name: str) -> Graph:
        x = placeholder((2,), name=name)
        return Graph(sg.tanh(x), [x])

    assert graph_digest(named("x")) == graph_digest(named("y"))


def test_which_variables_are_one_counts_and_values_do_not():
    shared = State(np.zeros(2), name="w", trainable=True)
    one = Graph([variable_node(shared, None), variable_node(shared, None)])
    two = Graph([_variable(), _variable()])
    assert graph_digest(one) != graph_digest(two)
    assert graph_digest(two) == graph_digest(Graph([_variable(1.0), _variable(2.0)]))


def test_updates_count():
    w, v = _variable(), _variable()
    graphs = [
        Graph([w, v], updates=[Update(w, v)]),
        Graph([w, v], updates=[Update(v, w)]),
        Graph([w, v]),
    ]
    assert len({graph_digest(graph) for graph in graphs}) == 3


def test_a_graph_and_its_text_read_back_have_one_digest():
    for name, build in DIFFERENT.items():
        graph = _of(build)
        again = Graph.parse(str(graph))
        assert structurally_equal(graph, again)
        # Text does not name nested graphs, and functions of the program are named after some.
        is_same = graph_digest(graph) == graph_digest(again)
        assert is_same or has_nested_graphs(graph), name


def test_what_a_name_does_not_say_has_no_digest():
    x = placeholder((2,))
    assert graph_digest(Graph(sink([x]), [x])) is None  # an op that is not symgrad's own
    n = placeholder((None,))
    assert graph_digest(Graph(sg.tanh(n), [n])) is None


def test_a_function_of_functions_is_looked_at_once(monkeypatch):
    """Each calls the one before twice, so there are two to the power of 40 ways to the first."""
    inner = sg.function(lambda x: sg.tanh(x) * 2.0)
    for _ in range(40):
        inner = sg.function(lambda x, f=inner: f(x) + f(x * 2.0))
    x = placeholder((2,))
    count = 0

    def counted(graph: Graph) -> object:
        nonlocal count
        count += 1
        return statements(graph)

    monkeypatch.setattr(digest, "statements", counted)
    assert graph_digest(Graph(inner(x), [x])) is not None
    assert count == 42
