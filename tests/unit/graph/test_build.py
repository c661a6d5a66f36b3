"""Building: what is one node when it is built once, and what a rebuilt node has of its model."""

from __future__ import annotations

import pytest

from symgrad.graph import dtypes
from symgrad.graph.build import built_once, derived_from, inside, rebuild, region
from symgrad.graph.graph import Graph, transform
from symgrad.graph.leaf import placeholder
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.structure import broadcast_to, reshape
from symgrad.graph.ops.transcendental import exp
from symgrad.graph.types import ArrayLiteral


def test_equal_ops_are_one_node_where_they_are_built_once():
    x = placeholder((4,))
    with built_once():
        assert multiply(0.9, x) is multiply(0.9, x)
        assert exp(x) is exp(x)
    assert exp(x) is not exp(x)
    with built_once():
        first = exp(x)
    with built_once():
        assert exp(x) is not first


def test_what_differs_in_anything_is_another_node():
    x, y = placeholder((4,)), placeholder((4,))
    with built_once():
        made = [
            exp(x),
            exp(y),
            add(x, y),
            add(y, x),
            broadcast_to(x, (2, 4)),
            broadcast_to(x, (3, 4)),
            reshape(x, (2, 2)),
        ]
        with derived_from(y.node):
            made.append(exp(x))
        with region("inner"):
            made.append(exp(x))
        with inside(None):
            assert exp(x) is made[0]
    assert len({t.node for t in made}) == len(made)


def test_what_is_named_and_what_is_an_argument_is_always_another_node():
    with built_once():
        assert placeholder((4,), name="x") is not placeholder((4,), name="x")
        assert constant(1.0, name="one") is not constant(1.0, name="one")


@pytest.mark.parametrize(("a", "b"), [(0.0, -0.0), (1, 1.0), (True, 1), (False, 0.0)])
def test_scalars_that_python_takes_for_equal_are_constants_of_their_own(a, b):
    assert a == b
    for value in (a, b, a, b):
        made = constant(value).node.attrs["value"]
        assert isinstance(made, ArrayLiteral)
        assert repr(made.array.item()) == repr(value)


def test_a_scalar_is_a_constant_of_the_dtype_that_is_asked_for():
    for dtype in (dtypes.float16, dtypes.float64, dtypes.int8, dtypes.float32):
        assert constant(3, dtype).dtype is dtype


def test_a_node_that_is_rebuilt_on_another_type_is_inferred_anew():
    node = exp(placeholder((4,))).node
    wide = placeholder((2, 3))
    assert rebuild(node, (wide,)).output.type == wide.type
    assert rebuild(node, (placeholder((4,)),)).output.type == node.output.type


def test_a_program_in_which_no_node_is_replaced_stays_the_same():
    x = placeholder((4,))
    graph = Graph(exp(x) * 2.0)
    assert transform(graph, lambda node, inputs: None) is graph
    other = transform(graph, lambda node, inputs: x.node if node.op == "exp" else None)
    assert [n.op for n in other.nodes].count("exp") == 0
