"""A graph is drawn as boxes of name scopes, lines and ops, in which each op is once."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.graph.drawing import draw_graph, draw_outline
from symgrad.graph.outline import Outline, cut_to, outline_of

Place = tuple[float, float, float, float]


def names(outline: Outline) -> list[str]:
    return [child.name for child in outline.children if isinstance(child, Outline)]


def a_model() -> sg.Graph:
    x = sg.placeholder((4, 8), name="x")
    hidden = x
    for number in range(2):
        with sg.name_scope(f"layer{number}"):
            hidden = sg.tanh(hidden @ sg.variable(np.eye(8, dtype=np.float32), name="w"))
    with sg.name_scope("loss"):
        loss = sg.sum(sg.sin(hidden))
    return sg.Graph(loss, updates=sg.optim.SGD(0.1).minimize(loss), name="model")


def test_scopes_come_in_the_order_of_the_program_with_gradients_beside_them():
    found = names(outline_of(a_model()))
    assert found[:3] == ["layer0", "layer1", "loss"]
    assert {"gradient: loss", "gradient: layer1", "gradient: layer0", "SGD"} == set(found[3:])


def test_each_op_but_constants_is_in_it_once():
    graph = a_model()
    found = list(outline_of(graph).ops)
    assert len(found) == len(set(found))
    assert set(found) == {node for node in graph.nodes if node.op != "constant"}


def test_a_variable_is_where_it_is_first_read():
    first = next(c for c in outline_of(a_model()).children if isinstance(c, Outline))
    assert {op.op for op in first.ops} >= {"variable", "placeholder", "einsum", "tanh"}


def test_edges_join_what_feeds_each_other():
    outline = outline_of(a_model())
    found = names(outline)
    edges = {(found[a], found[b]) for a, b in outline.edges}
    assert {("layer0", "layer1"), ("layer1", "loss")} <= edges
    assert ("loss", "layer0") not in edges


def test_what_a_script_builds_outside_of_functions_is_of_its_file():
    written = compile("y = sg.exp(sg.placeholder((4,)))", "somewhere/train.py", "exec")
    namespace: dict[str, Any] = {"sg": sg}
    exec(written, namespace)
    assert names(outline_of(sg.Graph(namespace["y"]))) == ["train.py"]


def test_without_scopes_functions_are_scopes():
    x = sg.placeholder((4,), name="x")

    def model(value: sg.Tensor) -> sg.Tensor:
        return sg.tanh(value)

    assert names(outline_of(sg.Graph(model(x)))) == ["model"]


def test_a_loop_has_its_body_inside():
    x = sg.placeholder((4, 8), name="x")
    last, _ = sg.scan(lambda c, row: (sg.tanh(c + row), None), sg.zeros((8,)), x)
    outline = outline_of(sg.Graph(last))
    while outline.node is None:
        outline = next(c for c in outline.children if isinstance(c, Outline))
    loop = outline
    assert loop.node is last.node
    assert "tanh" in {op.op for op in loop.ops}


def test_a_drawing_is_well_formed_and_boxes_of_one_scope_are_apart():
    picture = ElementTree.fromstring(draw_outline(outline_of(a_model()), lambda _: ()))
    assert picture.tag == "svg"
    for group in picture.iter("g"):
        boxes = [box for child in group if (box := _box(child)) is not None]
        for i, (left, top, right, bottom) in enumerate(boxes):
            for other in boxes[i + 1 :]:
                assert (
                    right <= other[0] + 1
                    or other[2] <= left + 1
                    or bottom <= other[1] + 1
                    or other[3] <= top + 1
                )


def _box(group: ElementTree.Element) -> Place | None:
    rectangle = group.find("rect")
    if group.tag != "g" or rectangle is None:
        return None
    x, y = map(float, re.findall(r"-?[\d.]+", group.attrib["transform"]))
    return x, y, x + float(rectangle.attrib["width"]), y + float(rectangle.attrib["height"])


def test_calls_are_attributes_of_ops_and_of_what_they_are_in():
    text = draw_outline(outline_of(a_model()), lambda node: [3] if node.op == "tanh" else [])
    assert len(re.findall(r'class="op" data-c="3"', text)) == 2
    assert 'class="group" data-c="3" data-name="layer0"' in text


def test_a_large_graph_is_drawn_down_to_its_scopes():
    x = sg.placeholder((4,), name="x")
    for number in range(20):
        with sg.name_scope(f"layer{number}"):
            for _ in range(20):
                x = sg.tanh(x)
    outline = outline_of(sg.Graph(x))
    assert outline.boxes > 400
    cut = cut_to(outline, 60)
    assert 20 <= cut.boxes <= 60
    text = draw_graph(sg.Graph(x))
    assert "layer19" in text
    assert "tanh" not in text
    assert len(text) < 20_000


def test_a_chain_of_ops_may_be_long():
    x = sg.placeholder((4,), name="x")
    for _ in range(3000):
        x = x + 1.0
    assert draw_graph(sg.Graph(x))


def test_names_of_the_user_are_text():
    x = sg.placeholder((4,), name="<b>")
    with sg.name_scope("<i>"):
        text = draw_graph(sg.Graph(sg.tanh(x)))
    assert "<b>" not in text
    assert "<i>" not in text
