"""Loops that are given stacks, slices and invariants in the place of nodes of their bodies."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.cost_model import STACK_BYTES, STACK_RATIO
from symgrad.graph.build import inside
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LoopView
from symgrad.graph.node import Node, Tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from symgrad.graph.verify import verify
from symgrad.passes.loops.extend_loop import (
    Extension,
    LoopVariable,
    Stack,
    allowed_bytes,
    is_static,
    placeholder_inside,
    region_of_body,
    trips_of,
    with_extensions,
)
from tests.support.loop_parts import ops_by_depth, scan_of

X = sg.placeholder((3,), "float64", name="x")
W = sg.placeholder((3,), "float64", name="w")
XS = sg.placeholder((4, 3), "float64", name="xs")
N = sg.placeholder((), "int64", name="n")
ARRAYS: list[Array] = [np.array([0.5, 1.0, -2.0]), np.array([0.25, -1.0, 2.0]), np.ones((4, 3)) / 3]


def _inner(loop: Node, op: str, graph: Graph | None = None) -> Tensor:
    """Return the result of the only `op` in the body, or in another graph of the loop."""
    (node,) = [n for n in (graph or LoopView(loop).body).nodes if n.op == op]
    return node.output


def _results(graph: Graph) -> list[Array]:
    verify(graph)
    given = dict(zip([X, W, XS, N], [*ARRAYS, np.array(3)], strict=True))
    return evaluate(graph, [given[t] for t in graph.inputs])[0]


def _iterated() -> Node:
    """Return a loop that doubles until the sum of exponentials is above a number."""
    _, last = sg.while_loop(
        lambda i, v: (v.sum() < sg.exp(W).sum()) & (i < 9),
        lambda i, v: (i + 1, v * 2.0 + sg.sin(W)),
        (0, sg.abs(X)),
    )
    assert isinstance(last, Tensor)
    return last.node


def test_body_and_condition_read_what_is_computed_before_the_loop():
    loop = _iterated()
    graph = Graph(loop.outputs, [X, W])
    condition = LoopView(loop).condition
    assert condition is not None
    extension = Extension(
        invariants={_inner(loop, "sin"): sg.sin(W)},
        tests={_inner(loop, "exp", condition): sg.exp(W)},
    )
    extended = with_extensions(graph, {loop: extension})
    found = ops_by_depth(extended)
    assert [found[depth, op] for op in ("sin", "exp") for depth in (0, 1)] == [1, 0, 1, 0]
    for a, b in zip(_results(extended), _results(graph), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_later_loop_reads_slices_of_a_stack_the_earlier_one_is_given():
    first = scan_of(lambda v, x: [v + sg.tanh(x)], [X], [XS], trips=N, capacity=4)
    second = scan_of(lambda v, x: [v * sg.tanh(x)], [W], [XS], trips=N, capacity=4)
    graph = Graph([*first.outputs, *second.outputs], [X, W, XS, N])
    earlier, later = Extension(), Extension()
    later.slices[_inner(second, "tanh")] = earlier.record(first, _inner(first, "tanh"))
    extended = with_extensions(graph, {first: earlier, second: later})
    assert ops_by_depth(extended)[1, "tanh"] == 1
    for a, b in zip(_results(extended), _results(graph), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_result_may_be_made_of_what_the_extended_loop_gives():
    loop = scan_of(lambda v, x: [v + sg.exp(x)], [X], [XS], trips=4)
    extension = Extension()
    stack = extension.record(loop, _inner(loop, "exp"))
    graph = Graph(loop.outputs, [X, XS])

    def results(new: Node) -> dict[Tensor, Tensor]:
        return {loop.output: X + new.outputs[extension.place(stack)].sum(axis=0)}

    extension.results = results
    extended = with_extensions(graph, {loop: extension})
    assert (ops_by_depth(extended)[0, "sum"], ops_by_depth(extended)[1, "add"]) == (1, 0)
    np.testing.assert_allclose(_results(extended)[0], _results(graph)[0])


def test_a_new_loop_variable_comes_before_the_stacks_and_stands_for_what_is_made_of_these():
    loop = scan_of(lambda v, x: [v + x * W, sg.exp(x)], [X], [XS], trips=4)
    total = loop.outputs[1].sum(axis=0)
    body = LoopView(loop).body
    region, zeros = region_of_body(body), sg.zeros(total.shape, total.dtype)
    inside_ = placeholder_inside(region, zeros, zeros.type)
    with inside(region):
        variable = LoopVariable(zeros, inside_, inside_ + _inner(loop, "exp"))
    extension = Extension(variables=[variable], results=lambda new: {total: new.outputs[1]})
    stack = extension.record(loop, _inner(loop, "multiply"))
    graph = Graph([*loop.outputs, total], [X, XS, W])
    extended = with_extensions(graph, {loop: extension})
    assert extension.place(stack) == 3
    assert ops_by_depth(extended)[0, "sum"] == 0
    for a, b in zip(_results(extended), _results(graph), strict=True):
        np.testing.assert_allclose(a, b)


def test_what_is_a_stack_already_is_not_stacked_again():
    loop = scan_of(lambda v, x: [v + x, v, sg.sin(v)], [X], [XS], trips=4)
    extension = Extension()
    there = extension.record(loop, _inner(loop, "sin"))
    new = extension.record(loop, _inner(loop, "add"))
    assert extension.record(loop, new.tensor) == Stack(loop, new.tensor)
    assert [extension.place(s) for s in (there, new)] == [2, 3]
    assert sorted(LoopView(loop).places_of_stacks.values()) == [1, 2]
    assert len(extension.stacks) == 1


def test_nothing_is_rebuilt_where_nothing_is_extended():
    graph = Graph(_iterated().outputs, [X, W])
    assert with_extensions(graph, {}) is graph


def test_the_parts_of_loops_are_told():
    loop = scan_of(lambda v, x: [v + x * W], [X], [XS], trips=4)
    assert LoopView(loop).operands == (X, XS, W)
    assert (LoopView(loop).scanned, LoopView(_iterated()).scanned) == (1, 0)
    assert LoopView(loop).condition is None
    assert is_static(loop)
    assert not is_static(scan_of(lambda v: [v], [sg.placeholder(("m",))], trips=4))


@pytest.mark.parametrize(
    ("loop", "trips"),
    [
        (lambda: scan_of(lambda v, x: [v + x], [X], [XS], trips=4), 4),
        (lambda: sg.scan(lambda v, x: (v + x, None), X, XS)[0].node, 4),  # a size, not a constant
        (lambda: scan_of(lambda v, x: [v + x], [X], [XS], trips=3, capacity=4), None),
        (lambda: scan_of(lambda v, x: [v + x], [X], [XS], trips=N, capacity=4), None),
        (_iterated, None),
    ],
)
def test_how_often_a_loop_runs_is_known_if_it_fills_its_stacks(loop, trips):
    assert trips_of(loop()) == trips


def test_memory_grows_with_what_is_scanned_or_is_small():
    small = scan_of(lambda v, x: [v + x], [X], [XS], trips=4)
    assert allowed_bytes(small) == STACK_BYTES // 4
    wide = sg.placeholder((4, STACK_BYTES // 8), "float32")
    large = scan_of(lambda x: [x.sum()], [], [wide], trips=4)
    assert allowed_bytes(large) == STACK_RATIO * STACK_BYTES // 2
