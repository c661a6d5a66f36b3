"""When two graphs are the same program, and all that makes them differ."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.graph.compare import structurally_equal
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import Variable, placeholder, variable_node
from symgrad.graph.sizes import unknown
from symgrad.graph.types import ArrayLiteral, Attr, State
from tests.support.test_ops import sink


def _variable(*, trainable: bool = True, value: float = 0.0) -> Variable:
    return variable_node(State(np.full(2, value), name="w", trainable=trainable), "w")


def _tagged(tag: Attr) -> Graph:
    return Graph(sink([], tag))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        ((1,), (1, 1)),
        ((1,), (1.0,)),
        ("n", unknown("n")),
        (unknown("n"), unknown("m")),
        (ArrayLiteral(np.array([1], np.int8)), ArrayLiteral(np.array([1], np.uint8))),
        (1, None),
    ],
)
def test_graphs_with_different_attributes_differ(a, b):
    assert structurally_equal(_tagged(a), _tagged(a))
    assert not structurally_equal(_tagged(a), _tagged(b))


def test_graphs_with_other_wiring_differ():
    x, y = placeholder((), name="x"), placeholder((), name="y")
    first, second = Graph(sink([x, y]), [x, y]), Graph(sink([y, x]), [x, y])
    assert structurally_equal(first, first)
    assert not structurally_equal(first, second)
    assert not structurally_equal(Graph([x, y], [x, y]), Graph([y, x], [x, y]))
    assert not structurally_equal(Graph(x, [x]), Graph(x, [x, y]))


def test_graphs_whose_unknown_sizes_meet_elsewhere_differ():
    def build(*names: str | None) -> Graph:
        return Graph([], [placeholder((name,)) for name in names])

    assert structurally_equal(build(None, None), build(None, None))
    assert not structurally_equal(build("n", "n"), build("n", "m"))
    shared = placeholder((None,))
    twice = Graph([], [shared, placeholder(shared.shape)])
    assert not structurally_equal(twice, build(None, None))


def test_graphs_that_share_states_otherwise_differ():
    shared = State(np.zeros(2), name="w", trainable=True)
    one = Graph([variable_node(shared, None), variable_node(shared, None)])
    two = Graph([_variable(), _variable()])
    assert structurally_equal(two, Graph([_variable(value=1.0), _variable(value=1.0)]))
    assert not structurally_equal(one, two)
    assert not structurally_equal(two, one)
    frozen = Graph([_variable(), _variable(trainable=False)])
    assert not structurally_equal(two, frozen)


def test_graphs_whose_updates_differ_differ():
    w, v = _variable(), _variable()
    first = Graph([w, v], updates=[Update(w, v)])
    assert structurally_equal(first, Graph([w, v], updates=[Update(w, v)]))
    assert not structurally_equal(first, Graph([w, v], updates=[Update(v, w)]))
    assert not structurally_equal(first, Graph([w, v]))
