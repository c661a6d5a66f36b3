"""A node knows the name scopes it was built in, which change no program."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from symgrad.graph.digest import graph_digest


def test_a_node_knows_its_scope_whatever_it_is_called():
    x = sg.placeholder((3,), name="x")
    with sg.name_scope("a"), sg.name_scope("b"):
        inner = sg.tanh(x)
    assert inner.node.scope == "a/b"
    assert inner.name is None
    assert sg.tanh(x).node.scope == ""


def test_a_gradient_has_the_scope_of_what_it_is_of():
    x = sg.placeholder((3,), name="x")
    with sg.name_scope("model"):
        y = sg.tanh(x)
    (dx,) = sg.gradients(y, [x], unconnected_gradients="zero")
    assert dx is not None
    graph = sg.Graph([dx], [x])
    made = [node for node in graph.nodes if node.origin is y.node]
    assert made
    assert {node.scope for node in made} == {"model"}


def test_what_an_optimizer_makes_has_its_scope():
    w = sg.variable(np.ones(3, np.float32))
    (update,) = sg.optim.Adam(0.1).minimize(sg.sum(w * w))[:1]
    assert update.value.node.scope == "Adam"


def test_scopes_change_no_program():
    def build(scope: str) -> sg.Graph:
        x = sg.placeholder((3,))
        with sg.name_scope(scope):
            return sg.Graph([sg.sum(sg.tanh(x))], [x])

    one, other = build("a"), build("b/c")
    assert str(one) == str(other)
    assert graph_digest(one) == graph_digest(other) is not None


def test_what_is_traced_has_the_scope_it_is_traced_in():
    x = sg.placeholder((4, 3), name="x")
    with sg.name_scope("loop"):
        last, _ = sg.scan(lambda c, row: (sg.tanh(c + row), None), sg.zeros((3,)), x)
    (body,) = (value for value in last.node.attrs.values() if isinstance(value, sg.Graph))
    assert {n.scope for n in body.nodes if n.op == "tanh"} == {"loop"}
