"""Gradients registered by key, and the scopes in which they replace those of ops."""

from __future__ import annotations

import threading

import pytest

from symgrad.errors import DTypeError, NoGradientError
from symgrad.graph import gradient_registry
from symgrad.graph.build import rebuild
from symgrad.graph.gradient_registry import (
    gradient_override_map,
    not_differentiable,
    register_gradient,
)
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.arithmetic import multiply, negative, square
from symgrad.graph.ops.structure import reshape
from symgrad.graph.ops.transcendental import sin, tanh
from symgrad.passes.gradients.explanation import explain_none
from symgrad.passes.gradients.reverse_mode import gradients
from tests.support.gradient_programs import gradient_of


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(gradient_registry, "_RULES", {})


@pytest.fixture
def x() -> Tensor:
    return placeholder((3,))


def same(_node: Node, g: Tensor) -> Tensor:
    return g


@pytest.fixture
def calls() -> list[Node]:
    """Register a gradient "recorded" and return the nodes it is called for, in order."""
    seen: list[Node] = []

    @register_gradient("recorded")
    def record(node: Node, g: Tensor) -> Tensor:
        seen.append(node)
        return g

    return seen


@pytest.mark.parametrize("key", [1, None, b"key"])
def test_r8_4_a_key_that_is_no_string_is_refused(key):
    with pytest.raises(TypeError, match="is not a string"):
        register_gradient(key)
    with pytest.raises(TypeError, match="is not a string"):
        not_differentiable(key)


def test_r8_4_what_is_no_function_is_refused():
    with pytest.raises(DTypeError, match="is no function"):
        register_gradient("key")(3)  # type: ignore[type-var]


def test_r8_4_a_key_is_registered_once():
    register_gradient("key")(same)
    with pytest.raises(KeyError, match="'key' has a gradient already") as caught:
        register_gradient("key")(same)
    assert "test_gradient_registry.py" in str(caught.value)
    with pytest.raises(KeyError):
        not_differentiable("key")


@pytest.mark.parametrize("op", ["tanh", "stop_gradient"])
def test_r8_4_the_name_of_an_op_is_taken(op):
    with pytest.raises(KeyError, match="by the op of this name"):
        register_gradient(op)(same)
    with pytest.raises(KeyError):
        not_differentiable(op)


def test_the_decorator_returns_the_function():
    assert register_gradient("key")(same) is same


def test_r8_5_not_differentiable_stops_a_gradient_silently(x):
    not_differentiable("nothing")
    with gradient_override_map({"tanh": "nothing"}):
        y = tanh(sin(x))
    assert gradients(square(y), x) == [None]
    assert "tanh has the gradient 'nothing'" in explain_none(y, x)
    (of_y,) = gradients(square(y), y)
    assert of_y is not None


def test_r8_6_an_override_holds_for_nodes_built_in_its_scope(x, calls):
    before = tanh(x)
    with gradient_override_map({"tanh": "recorded"}):
        inside, other = tanh(x), negative(x)
        gradients([before, other], x)
    assert calls == []
    gradients([before, inside, other, tanh(x)], x)
    assert calls == [inside.node]


def test_r8_6_scopes_nest_and_restore_also_after_an_error(x):
    with gradient_override_map({"tanh": "outer", "sin": "outer"}):
        with gradient_override_map({"tanh": "inner"}):
            assert tanh(x).node.gradient_key == "inner"
            assert sin(x).node.gradient_key == "outer"
        with pytest.raises(ZeroDivisionError), gradient_override_map({"tanh": "inner"}):
            raise ZeroDivisionError
        assert tanh(x).node.gradient_key == "outer"
    assert tanh(x).node.gradient_key is None


@pytest.mark.parametrize("wrong", [[("tanh", "key")], "tanh", {"tanh": 1}, {1: "key"}])
def test_r8_6_anything_but_a_mapping_of_strings_is_refused(wrong):
    with pytest.raises(TypeError), gradient_override_map(wrong):
        pass


@pytest.mark.parametrize(
    ("op", "hint"), [("softplus", "node.op is the name"), ("Tanh", "perhaps 'tanh' is meant")]
)
def test_r8_6_an_op_that_there_is_not_is_refused(x, op, hint):
    with pytest.raises(LookupError, match=rf"there is no op {op!r} ") as caught:
        gradient_override_map({"sin": "tanh", op: "tanh"})
    assert hint in str(caught.value)
    assert "test_gradient_registry.py" in str(caught.value)
    assert sin(x).node.gradient_key is None


def test_r8_6_a_scope_belongs_to_its_thread(x):
    keys = []
    with gradient_override_map({"tanh": "key"}):
        thread = threading.Thread(target=lambda: keys.append(tanh(x).node.gradient_key))
        thread.start()
        thread.join()
    assert keys == [None]


def test_a_rebuilt_node_keeps_its_override(x):
    with gradient_override_map({"tanh": "key"}):
        node = tanh(x).node
    assert rebuild(node, (placeholder((3,)),)).gradient_key == "key"


def test_r8_7_an_override_comes_before_the_gradient_of_the_op(x, calls):
    seed = placeholder((3,))
    with gradient_override_map({"tanh": "recorded"}):
        y = tanh(x)
    assert gradients(y, x, seed)[0] is seed
    assert calls == [y.node]


def test_an_override_may_name_an_op(x):
    with gradient_override_map({"tanh": "identity"}):
        y = tanh(x)
    seed = placeholder((3,))
    assert gradients(y, x, seed)[0] is seed
    with gradient_override_map({"tanh": "stop_gradient"}):
        assert gradients(tanh(x), x) == [None]


def test_a_registered_function_finds_attributes_on_the_node(x):
    shapes = []

    @register_gradient("reshape_back")
    def grad(node: Node, g: Tensor) -> Tensor:
        shapes.append(node.attrs["shape"])
        return reshape(g, node.inputs[0].shape)

    with gradient_override_map({"reshape": "reshape_back"}):
        y = reshape(x, (3, 1))
    g = gradient_of(y, x)
    assert shapes == [(3, 1)]
    assert g.type == x.type


def test_r4_13_an_override_that_is_not_registered_is_a_lookup_error_where_a_gradient_arrives(x):
    with gradient_override_map({"tanh": "absent"}):
        y = tanh(x)
    with pytest.raises(NoGradientError, match=r"'absent'.*is not registered") as caught:
        gradients(square(y), x)
    text = str(caught.value)
    assert text.startswith("tanh: ")
    assert "test_gradient_registry.py" in text
    (note,) = caught.value.__notes__
    assert note.startswith("while building the gradient of tanh (test_gradient_registry.py:")
    assert gradients(square(y), y)[0] is not None
    register_gradient("absent")(same)
    assert gradients(square(y), x)[0] is not None


def test_r7_10_a_registered_function_may_return_none(x):
    @register_gradient("left")
    def grad(_node: Node, g: Tensor) -> tuple[Tensor, None]:
        return g, None

    with gradient_override_map({"multiply": "left"}):
        y = multiply(x, x)
    seed = placeholder((3,))
    assert gradients(y, x, seed)[0] is seed
