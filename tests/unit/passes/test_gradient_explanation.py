"""What `explain_none` says: the first cut, its reason and its line."""

from __future__ import annotations

import pytest

import symgrad as sg
from symgrad.graph import dtypes
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import square
from symgrad.graph.ops.conversion import astype, stop_gradient
from symgrad.graph.ops.slicing import slice_axes
from symgrad.graph.ops.transcendental import exp, sin
from symgrad.graph.ops.whole_numbers import floor
from symgrad.passes.gradients.explanation import explain_none
from symgrad.passes.gradients.reverse_mode import gradients
from tests.support.gradient_programs import (
    made_node,
)


@pytest.fixture
def x() -> Tensor:
    return placeholder((3,), name="x")


def test_explain_none_names_the_dtype_of_an_x():
    assert "only floats carry" in explain_none(placeholder(()), placeholder((), "int32"))


def test_explain_none_says_that_y_does_not_use_x(x):
    assert "y is not computed from x" in explain_none(constant(1.0), x)
    text = explain_none(square(x), slice_axes(x, [0], [2], [1]))
    assert "but from <Tensor x: f32[3]>, of which x is made too" in text


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        (lambda t: astype(t, "int32"), "astype gives i32[3]"),
        (floor, "floor is not differentiable"),
        (stop_gradient, "stop_gradient ends it"),
    ],
)
def test_explain_none_names_the_first_cut_and_its_line(x, cut, reason):
    y = astype(floor(astype(cut(sin(x)), "float32")), "float64")
    assert gradients(y, x) == [None]
    text = explain_none(y, x)
    assert f"is None: {reason}" in text
    assert "--> test_gradient_explanation.py:" in text


def test_explain_none_ignores_a_live_way_that_does_not_lead_to_y(x):
    def grad(_node: Node, *_gs: Tensor) -> None:
        raise AssertionError("an explanation does not get this far")

    kept, count = made_node(x, gives=(x.type, x.type.with_dtype(dtypes.int64)), grad=grad).outputs
    square(kept)
    assert "made gives i64[3]" in explain_none(astype(count, "float32"), x)


def test_explain_none_names_the_rule_that_gave_none(x):
    inner = made_node(sin(x), gives=(x.type,), grad=lambda _n, _g: None)
    assert "the gradient of made is None for its input 0" in explain_none(exp(inner.output), x)


def test_explain_none_admits_that_there_is_a_gradient(x):
    assert explain_none(square(x), x).endswith("is not None")


@pytest.mark.parametrize("of", ["x", "y"])
def test_explain_none_names_the_region_that_is_not_open(x, of):
    kept: list[Tensor] = []

    def body(i: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        kept.append(s * 2.0)
        return i + 1, kept[-1]

    y = sg.while_loop(lambda i, s: i < 3, body, (0, x))[1]
    y, x = (kept[0], x) if of == "y" else (y, kept[0])
    assert gradients(y, x) == [None]
    text = explain_none(y, x)
    assert f"is None: {of} is of region 'body', which is not open here" in text
    assert "--> test_gradient_explanation.py:" in text
