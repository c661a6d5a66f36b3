"""What notebooks show of each kind of object: well-formed HTML that says what it is."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest

import symgrad as sg

F32 = np.float32


def shown(value: Any) -> str:
    """Return the words that a notebook shows of `value`, of HTML that is well formed."""
    root = ElementTree.fromstring(value._repr_html_())
    assert root.tag == "div"
    styles = {text for style in root.iter("style") for text in style.itertext()}
    return " ".join(text for text in root.itertext() if text not in styles)


@pytest.fixture(scope="module")
def step() -> sg.Step:
    x = sg.placeholder((64, 32), name="x")
    hidden = x
    for number in range(2):
        with sg.name_scope(f"layer{number}"):
            hidden = sg.tanh(hidden @ sg.variable(np.eye(32, dtype=F32), name="w"))
    loss = sg.sum(hidden)
    return sg.compile([x], loss, sg.optim.SGD(0.1).minimize(loss), name="train", opt_level=1)


def test_a_tensor_says_its_type_its_op_and_where_it_was_built():
    x = sg.placeholder((2, 3), name="x")
    with sg.name_scope("model"):
        text = shown(sg.tanh(x))
    for word in ("f32[2, 3]", "tanh", "x: f32[2, 3]", "model", "test_notebook_panels.py"):
        assert word in text


def test_a_variable_says_its_value():
    text = shown(sg.variable([1.0, 2.0], name="w"))
    assert "Variable" in text
    assert "[1. 2.]" in text


def test_a_gradient_says_what_it_is_of():
    x = sg.placeholder((3,))
    (dx,) = sg.gradients(sg.tanh(x), [x])
    assert dx is not None
    assert "gradient of" in shown(dx)


def test_a_tensor_of_unknown_size_has_no_bytes():
    assert "f32[" in shown(sg.placeholder((None, 3)))


def test_a_graph_is_drawn(step: sg.Step) -> None:
    text = shown(step.graph)
    for word in ("Graph train", "layer0", "layer1", "gradient: layer0", "SGD"):
        assert word in text


def test_a_step_says_what_it_takes_and_of_what_it_is(step: sg.Step) -> None:
    text = shown(step)
    for word in ("Step train", "x: f32[64, 32]", "kernels", "memory"):
        assert word in text
    x = sg.placeholder((None,))
    assert "not known yet" in shown(sg.compile([x], sg.tanh(x)))


def test_kernels_are_listed_once_with_a_count(step: sg.Step) -> None:
    text = shown(step.kernels)
    names = [record.name for record in step.kernels]
    assert f"{len(set(names))} kernels, {len(names)} calls" in text
    assert all(text.count(f"{name} ") == 1 for name in set(names))


def test_memory_and_decisions_and_profile(step: sg.Step) -> None:
    assert "at the most" in shown(step.memory)
    assert "decisions" in shown(step.decisions)
    text = shown(step.profile(np.ones((64, 32), F32), repeat=1))
    for word in ("layer0", "layer1", "of limit", "test_notebook_panels.py"):
        assert word in text


def test_an_optimizer_says_its_hyperparameters_and_slots():
    optimizer = sg.optim.Adam(0.125)
    assert "0.125" in shown(optimizer)
    w = sg.variable(np.ones((3, 4), F32), name="w")
    optimizer.minimize(sg.sum(w * w))
    text = shown(optimizer)
    for word in ("Adam", "beta1", "w/m", "w/v", "f32[3, 4]"):
        assert word in text


def test_a_generator_says_its_state():
    text = shown(sg.random.Generator(seed=7, name="rng"))
    assert "rng/key" in text
    assert "7" in text


def test_a_container_lists_its_leaves():
    weights = sg.Container(a=np.ones((2, 3)), b={"c": sg.placeholder((4,)), "d": 1.5})
    text = shown(weights)
    for word in ("3 leaves", "b/c", "float64[2, 3]", "1.5", "f32[4]"):
        assert word in text
    assert "<" not in shown(sg.Container({"<b>": 1})).replace("<b>", "")


def test_long_tables_are_cut():
    text = shown(sg.Container({f"k{i}": i for i in range(100)}))
    assert "the first 40 of 100" in text
    assert "k99" not in text.split()
