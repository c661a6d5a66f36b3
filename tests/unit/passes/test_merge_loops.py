"""Which loops become one, and which must not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from symgrad.graph.build import apply_node, derived_from, inside
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder
from symgrad.graph.nested import Traced
from symgrad.graph.node import Node, Tensor
from symgrad.graph.operands import constant
from symgrad.graph.ops.arithmetic import add, multiply
from symgrad.graph.ops.comparison import less
from symgrad.graph.ops.transcendental import sin, tanh
from symgrad.graph.ops.while_loop import loop
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from symgrad.graph.verify import verify
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.passes.loops.merge_loops import merge_loops

X, N = placeholder((3,), "float64", name="x"), placeholder((), "int64", name="n")
VALUES = [np.array([0.5, 1.0, -2.0]), np.array(3)]
Step = Callable[[Tensor], Tensor]


def _loop(step: Step = lambda v: multiply(v, X), *, first: Tensor = X, capacity: int = 5) -> Node:
    """Return a loop that runs `step` n times, with the counter as its first variable."""
    start = constant(np.int64(0))
    condition, body = (Traced(name, [start.type, first.type]) for name in ("condition", "body"))
    condition.run(lambda i, _: [less(i, N)])
    body.run(lambda i, v: [add(i, 1), step(v)])
    return loop([start, first], condition, body, capacity)


def _gradient(y: Tensor) -> Tensor:
    (g,) = gradients([y], [X])
    assert g is not None
    return g


def _stacking(node: Node, stacks: Sequence[Tensor], capacity: int | None = None) -> Node:
    """Return the loop `node` made again with other stacks, as the gradient does."""
    body = node.attrs["body"]
    assert isinstance(body, Graph)
    again = Graph([*body.outputs[:2], *stacks], body.inputs, region=body.region)
    attrs = {**node.attrs, "body": again}
    if capacity is not None:
        attrs["capacity"] = capacity
    return apply_node(node.definition, node.inputs, attrs)


def _of_body(node: Node, step: Step) -> Node:
    """Return the loop `node` with another next value of its second variable."""
    body = node.attrs["body"]
    assert isinstance(body, Graph)
    assert body.region is not None
    with inside(body.region):
        outputs = [body.outputs[0], step(body.inputs[1])]
    other = Graph(outputs, body.inputs, region=body.region)
    return apply_node(node.definition, node.inputs, {**node.attrs, "body": other})


def _count(graph: Graph, op: str) -> int:
    """Return how many nodes of `op` there are at any depth."""
    inner = sum(_count(g, op) for node in graph.nodes for _, g in graphs_of(node))
    return inner + sum(node.op == op for node in graph.nodes)


def _merged(*outputs: Tensor) -> Graph:
    """Return the merged graph, having checked that it computes the same."""
    graph = Graph(outputs, [X, N])
    merged = merge_loops(graph)
    verify(merged)
    assert merged.inputs == graph.inputs
    for found, wanted in zip(_run(merged), _run(graph), strict=True):
        assert found.tobytes() == wanted.tobytes()
    assert merge_loops(merged) is merged
    return merged


def _run(graph: Graph) -> list[Array]:
    return evaluate(graph, VALUES)[0]


def _inputs_of_body(node: Node) -> tuple[Tensor, ...]:
    body = node.attrs["body"]
    assert isinstance(body, Graph)
    return body.inputs


@pytest.mark.parametrize("is_gradient_first", [False, True])
def test_a_loop_and_the_copy_its_gradient_records_are_one(is_gradient_first):
    y = _loop().outputs[2]
    g = _gradient(y)
    outputs = (g, y) if is_gradient_first else (y, g)
    assert _count(Graph(outputs, [X, N]), "while") == 2
    merged = _merged(*outputs)
    assert _count(merged, "while") == 1
    assert _count(merged, "scan") == 1


def test_loops_of_second_and_third_gradients_are_one_too():
    y = _loop().outputs[2]
    grads = [y]
    for _ in range(3):
        grads.append(_gradient(grads[-1]))
    merged = _merged(*grads)
    assert _count(merged, "while") == 1
    assert _count(merged, "scan") < _count(Graph(grads, [X, N]), "scan")


def test_a_loop_that_depends_on_merged_loops_is_merged_in_turn():
    first = _loop()
    copy = _stacking(first, _inputs_of_body(first)[:1])
    second = _loop(tanh, first=first.outputs[2])
    inputs = tuple(copy.outputs[2] if t is first.outputs[2] else t for t in second.inputs)
    twin = apply_node(second.definition, inputs, second.attrs)
    merged = _merged(second.outputs[2], twin.outputs[2], copy.outputs[3])
    assert _count(merged, "while") == 2


def test_stacks_of_both_are_kept_and_none_twice():
    plain = _loop()
    i, v = _inputs_of_body(plain)[:2]
    one, other = _stacking(plain, [v, i]), _stacking(plain, [i])
    merged = _merged(*one.outputs, *other.outputs)
    (node,) = [n for n in merged.nodes if n.op == "while"]
    assert [str(t.type) for t in node.outputs] == [
        "i64[]", "i64[]", "f64[3]", "f64[5, 3]", "i64[5]",
    ]  # fmt: skip


def test_a_loop_without_a_bound_takes_the_capacity_of_its_recording_copy():
    plain = _loop(capacity=0)
    g = _gradient(plain.outputs[2])
    merged = _merged(plain.outputs[2], g)
    assert _count(merged, "while") == 1


def test_the_merged_loop_has_the_name_and_line_of_the_plain_one():
    plain = _loop()
    with derived_from(plain):
        copy = _stacking(plain, _inputs_of_body(plain)[1:2])
    merged = _merged(copy.outputs[3], plain.outputs[2])
    (node,) = [n for n in merged.nodes if n.op == "while"]
    assert node.origin is None
    assert node.source == plain.source


def test_loops_within_a_loop_are_merged():
    def outer_step(v: Tensor) -> Tensor:
        inner = _loop(lambda u: multiply(u, v), first=v)
        recorded = _stacking(inner, _inputs_of_body(inner)[1:2])
        return add(sin(inner.outputs[2]), recorded.outputs[3][1])

    y = _loop(outer_step).outputs[2]
    graph = Graph(y, [X, N])
    assert _count(graph, "while") == 3
    assert _count(_merged(y), "while") == 2


@pytest.mark.parametrize(
    "other",
    [
        lambda node: _loop(),  # an equal body, but not the same: that is for others to see
        lambda node: _of_body(node, tanh),
        lambda node: apply_node(
            node.definition, (node.inputs[0], sin(X), *node.inputs[2:]), node.attrs
        ),
        lambda node: _stacking(node, [], capacity=7),
        lambda node: apply_node(
            node.definition,
            node.inputs,
            {**node.attrs, "condition": _loop().attrs["condition"]},
        ),
    ],
    ids=["built twice", "another body", "another operand", "another capacity", "condition"],
)
def test_loops_that_differ_stay_two(other):
    node = _loop()
    merged = _merged(node.outputs[2], other(node).outputs[2])
    assert _count(merged, "while") == 2


def test_a_graph_without_anything_to_merge_is_returned_as_it_is():
    graph = Graph([_loop().outputs[2], tanh(X)], [X, N])
    assert merge_loops(graph) is graph
