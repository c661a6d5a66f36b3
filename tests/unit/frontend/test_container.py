"""Containers: entries as attributes, arithmetic leaf by leaf, and ops that map over the leaves."""

from __future__ import annotations

import copy
import inspect
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import symgrad as sg
from symgrad.frontend import namespace
from symgrad.frontend.container import leafwise
from symgrad.frontend.nests import describe, flatten, join, map_leaves, only, paths

Box = sg.Container


def _assert_equal(found: Any, wanted: Any) -> None:
    """Compare nests of arrays, leaf by leaf."""
    leaves, nest = flatten(found)
    others, other = flatten(wanted)
    assert nest == other
    for a, b in zip(leaves, others, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def box():
    return Box(b=np.array([1.0, 2.0]), a={"x": np.array([3.0])})


def test_entries_are_attributes_and_dicts_in_it_are_containers(box):
    assert issubclass(Box, dict)
    assert isinstance(box.a, Box)
    assert box.a.x is box["a"]["x"]
    box.c = {"y": 1}
    assert box.c.y == 1
    del box.c
    assert "c" not in box
    assert not hasattr(box, "c")
    assert {"a", "b", "map"} <= set(dir(box))


def test_what_a_dict_can_do_a_container_can(box):
    assert list(box) == ["b", "a"]
    assert Box([("p", 1)]) == {"p": 1} == Box({"p": 1}, p=1)
    assert isinstance(box | {"c": {"d": 1}}, Box)
    assert (box | {"c": {"d": 1}}).c.d == 1
    assert box.setdefault("e", {"f": 2}).f == 2
    assert box.setdefault("e", 3) == {"f": 2}
    box.update(g=4)
    assert box.pop("g") == 4
    assert repr(Box(a=1, b=Box())) == "Container(a=1, b=Container())"


def test_copies_are_containers_of_their_own(box):
    for made in (copy.copy(box), copy.deepcopy(box), box.copy()):
        made.a = 0
        assert box.a != 0
        assert isinstance(made, Box)
    inner = box.copy()
    inner.a.x = 0
    assert isinstance(box.a.x, np.ndarray)
    assert inner.b is box.b


def test_map_is_given_the_leaf_and_its_chain_of_keys(box):
    sizes = box.map(lambda leaf, chain: f"{chain}: {leaf.size}")
    assert sizes == {"a": {"x": "a/x: 1"}, "b": "b: 2"}
    assert Box(p=[1, 2]).map(lambda leaf, chain: f"{chain}={leaf}") == {"p": ["p/0=1", "p/1=2"]}


_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge")


@pytest.mark.parametrize("name", _OPERATORS)
@pytest.mark.parametrize("other", [2.0, np.float32(2), np.array([3.0]), np.array([[1.0], [2.0]])])
def test_an_operator_works_leaf_by_leaf_on_either_side(box, name, other):
    function = getattr(operator, name)
    x, b = box.a.x, box.b
    _assert_equal(function(box, other), Box(a=Box(x=function(x, other)), b=function(b, other)))
    _assert_equal(function(other, box), Box(a=Box(x=function(other, x)), b=function(other, b)))


def test_two_containers_and_one_sign(box):
    _assert_equal(box - box * 3, -2 * box)
    _assert_equal(-box + abs(-box), box * 0)
    _assert_equal(+box, box)
    square = Box(p=np.eye(2))
    _assert_equal(square @ np.ones(2), Box(p=np.ones(2)))
    _assert_equal(np.ones(2) @ square, Box(p=np.ones(2)))


def test_a_leaf_stands_for_a_container_in_its_place(box):
    _assert_equal(box * Box(a=2.0, b=3.0), Box(a=Box(x=box.a.x * 2), b=box.b * 3))


def test_the_order_of_entries_does_not_matter():
    _assert_equal(Box(a=1, b=2) + Box(b=20, a=10), Box(a=11, b=22))


def test_a_container_without_leaves_stays_one():
    assert Box() + 1 == Box()
    assert isinstance(sg.exp(Box()), Box)


def test_numpy_functions_map_over_leaves(box):
    _assert_equal(np.exp(box), Box(a=Box(x=np.exp(box.a.x)), b=np.exp(box.b)))
    _assert_equal(np.add.outer(box, [1.0, 2.0]).b, np.add.outer(box.b, [1.0, 2.0]))
    _assert_equal(np.sum(box), Box(a=Box(x=np.float64(3)), b=np.float64(3)))


def test_a_tensor_and_a_container_build_a_container_of_tensors(box):
    x = sg.placeholder((2,), "float64")
    made = x - box
    assert isinstance(made, Box)
    value = np.array([5.0, 7.0])
    _assert_equal(sg.run(made, {x: value}), value - box)
    _assert_equal(sg.run(box * x, {x: value}), box * value)
    _assert_equal(sg.run(np.maximum(x, box), {x: value}), np.maximum(value, box))
    _assert_equal(sg.run(np.dot(x, Box(p=x)), {x: value}), Box(p=value @ value))


_UNARY = ("abs", "exp", "mean", "sum", "square", "sqrt", "tanh", "zeros_like", "argmax", "sigmoid")


@pytest.mark.parametrize("name", _UNARY)
def test_an_op_of_a_container_maps_over_its_leaves(box, name):
    op = getattr(sg, name)
    wanted = Box(a=Box(x=sg.run(op(box.a.x))), b=sg.run(op(box.b)))
    _assert_equal(sg.run(op(box)), wanted)


def test_ops_take_containers_beside_arrays_by_position_and_by_keyword(box):
    wanted = Box(a=Box(x=np.where([True, False], box.a.x, 0.0)), b=np.array([1.0, 0.0]))
    _assert_equal(sg.run(sg.where(np.array([True, False]), box, 0.0)), wanted)
    _assert_equal(sg.run(sg.sum(box, axis=0)), np.sum(box, axis=0))
    limited = sg.clip(np.zeros(2), min=box)
    _assert_equal(sg.run(limited), Box(a=Box(x=np.array([3.0, 3.0])), b=box.b))
    parts = sg.split(Box(p=np.arange(4.0)), 2)
    _assert_equal(sg.run(parts), Box(p=[np.array([0.0, 1.0]), np.array([2.0, 3.0])]))


def test_containers_in_a_list_of_operands_are_taken_apart(box):
    _assert_equal(sg.run(sg.concat([box, box * 2])), np.concatenate([box, box * 2]))
    wanted = Box(p=np.array([[1.0], [3.0]]))
    _assert_equal(sg.run(sg.stack((np.ones(1), Box(p=np.array([3.0]))), axis=0)), wanted)


def test_ops_of_nn_and_of_the_array_api_map_too(box):
    _assert_equal(sg.run(sg.nn.relu(box - 2.0)), np.maximum(box - 2.0, 0.0))
    _assert_equal(sg.run(namespace.add(box, 1.0)), box + 1.0)


@pytest.mark.parametrize("module", [sg, sg.nn, namespace], ids=lambda module: module.__name__)
def test_every_public_op_maps(module):
    functions = {name: value for name, value in vars(module).items() if inspect.isfunction(value)}
    families = ("symgrad.graph.ops.", "symgrad.nn.")
    ops = {n: f for n, f in functions.items() if f.__module__.startswith(families)}
    assert len(ops) > 10
    assert [name for name, op in ops.items() if not hasattr(op, "__wrapped__")] == []


def test_programs_take_and_return_containers(box):
    inputs = Box(p=sg.placeholder((2,), "float64"), q=sg.placeholder((), "float64"))
    step = sg.compile([inputs], inputs * 2.0)
    _assert_equal(step(Box(q=np.array(1.0), p=box.b)), Box(p=box.b * 2, q=np.array(2.0)))
    last = sg.while_loop(lambda v: v.q < 3.0, lambda v: (v + 1.0,), (inputs,))[0]
    _assert_equal(sg.run(last, {inputs.p: box.b, inputs.q: 0.0}), Box(p=box.b + 3, q=np.array(3.0)))


def test_a_function_keeps_its_name_and_its_other_arguments():
    calls = []

    def named(x: Any, *, factor: Any) -> Any:
        calls.append((x, factor))
        return x * factor

    mapped = leafwise(named)
    assert mapped.__name__ == "named"
    assert mapped(2, factor=3) == 6
    assert mapped(Box(a=1, b=2), factor=Box(a=5, b=7)) == {"a": 5, "b": 14}
    assert calls == [(2, 3), (1, 5), (2, 7)]


# --------------------------------------------------------------------------------------- nests

_LEAVES = st.integers(-9, 9)
_NESTS = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(Box)
    ),
    max_leaves=8,
)


@given(_NESTS)
def test_a_nest_comes_back_from_its_leaves(tree):
    assert map_leaves(lambda leaf: leaf, tree) == tree
    assert type(map_leaves(lambda leaf: leaf, tree)) is type(tree)
    assert len(paths(tree)) == len(flatten(tree)[0])
    assert describe(flatten(tree)[1]).count("*") == len(flatten(tree)[0])


@given(_NESTS)
def test_a_leaf_joins_every_nest(tree):
    leaves, nest = flatten(tree)
    joined, (mine, others) = join([tree, 7])
    assert (joined, mine, others) == (nest, leaves, [7] * len(leaves))
    assert map_leaves(operator.mul, 2, tree) == map_leaves(lambda leaf: 2 * leaf, tree)


@given(_NESTS, st.data())
def test_what_is_left_of_a_nest_is_what_was_chosen(tree, data):
    ways = paths(tree)
    chosen = [way for way in ways if data.draw(st.booleans())]
    if ways and not chosen:
        chosen = ways[:1]
    if chosen:
        left = only(tree, chosen)
        by_path = dict(zip(ways, flatten(tree)[0], strict=True))
        assert flatten(left)[0] == [by_path[way] for way in ways if way in chosen]
        assert type(left) is type(tree)
