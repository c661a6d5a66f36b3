"""Sums of stacks: when the loop that makes a stack adds up its slices."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.cost_model import LEAST_STACK_SUMMED
from symgrad.graph.graph import Graph
from symgrad.graph.node import Node, Tensor
from symgrad.passes.loops import carry_sums as module
from symgrad.passes.loops.carry_sums import carry_sums
from symgrad.passes.rewrites.rewrite import Rewrites
from tests.support.loop_parts import changed_by, ops_by_depth, reasons, scan_of

XS = sg.placeholder((6, 4, 3), "float64", name="xs")
H = sg.placeholder((4, 3), "float64", name="h")
N = sg.placeholder((), "int64", name="n")
RNG = np.random.default_rng(0)
ARRAYS = [RNG.normal(size=s) * 0.2 for s in ((6, 4, 3), (4, 3))]


def _stacking(h: Tensor, x: Tensor) -> list[Tensor]:
    after = sg.sin(h) + x
    return [after, sg.exp(after)]


def _graph(outputs: tuple[Tensor, ...] | list[Tensor]) -> Graph:
    return Graph(outputs, [XS, H])


def _loop_of(graph: Graph) -> Node:
    (loop,) = [n for n in graph.nodes if n.op == "scan"]
    return loop


@pytest.fixture
def small(monkeypatch):
    """Have stacks of any size count as large ones."""
    monkeypatch.setattr(module, "LEAST_STACK_SUMMED", 0)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("axes", [(0, 1), (0, 1, 2)])
def test_the_sum_of_a_stack_is_a_loop_variable(axes):
    last, stack = scan_of(_stacking, [H], [XS], trips=6).outputs
    graph = changed_by(carry_sums, _graph([last, stack.sum(axis=axes), stack]), ARRAYS)
    found = ops_by_depth(graph)
    assert (found[0, "sum"], found[1, "sum"]) == (0, 1)
    loop = _loop_of(graph)
    assert loop.attrs["carried"] == 2
    assert [t.type.shape for t in loop.outputs] == [(4, 3), (3,)[len(axes) - 2 :], (6, 4, 3)]


@pytest.mark.usefixtures("small")
def test_a_stack_that_is_only_summed_is_no_stack_any_more():
    last, stack = scan_of(_stacking, [H], [XS], trips=6).outputs
    loop = _loop_of(changed_by(carry_sums, _graph([last, stack.sum(axis=(0, 1))]), ARRAYS))
    assert [t.type.shape for t in loop.outputs] == [(4, 3), (3,)]


@pytest.mark.parametrize("axes", [(0,), (0, 1)])
@pytest.mark.parametrize("flipped", [False, True])
def test_a_loop_variable_that_is_the_sum_stands_for_it(axes, flipped):
    zeros = sg.zeros(H.shape[len(axes) - 1 :], "float64")

    def step(h: Tensor, total: Tensor, x: Tensor) -> list[Tensor]:
        after = sg.sin(h) + x
        added = after.sum(axis=0) if len(axes) == 2 else after
        return [after, added + total if flipped else total + added, after]

    last, total, stack = scan_of(step, [H, zeros], [XS], trips=6).outputs
    graph = changed_by(carry_sums, _graph([last, total, stack.sum(axis=axes), stack]), ARRAYS)
    assert (graph.outputs[1] is graph.outputs[2], _loop_of(graph).attrs["carried"]) == (True, 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "change",
    [
        lambda total, added: total - added,
        lambda total, added: total * 0.5 + added,
        lambda total, added: total + added * 2.0,
        lambda total, added: total + added + added,
    ],
)
def test_a_loop_variable_that_is_another_sum_does_not(change):
    def step(h: Tensor, total: Tensor, x: Tensor) -> list[Tensor]:
        after = sg.sin(h) + x
        return [after, change(total, after.sum(axis=0)), after]

    zeros = sg.zeros((3,), "float64")
    last, total, stack = scan_of(step, [H, zeros], [XS], trips=6).outputs
    graph = changed_by(carry_sums, _graph([last, total, stack.sum(axis=(0, 1))]), ARRAYS)
    assert _loop_of(graph).attrs["carried"] == 3


@pytest.mark.usefixtures("small")
def test_nor_does_one_that_starts_with_something():
    def step(h: Tensor, total: Tensor, x: Tensor) -> list[Tensor]:
        after = sg.sin(h) + x
        return [after, total + after.sum(axis=0), after]

    last, total, stack = scan_of(step, [H, H[0]], [XS], trips=6).outputs
    graph = changed_by(carry_sums, _graph([last, total, stack.sum(axis=(0, 1))]), ARRAYS)
    assert _loop_of(graph).attrs["carried"] == 3


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("axes", [(1,), (1, 2), (0,)])
def test_sums_that_are_stacks_or_as_large_as_a_slice_stay(axes):
    last, stack = scan_of(_stacking, [H], [XS], trips=6).outputs
    graph = _graph([last, stack.sum(axis=axes)])
    assert carry_sums(graph, Rewrites()) is graph


@pytest.mark.usefixtures("small")
def test_sums_of_16_bits_are_rounded_once():
    halves = sg.placeholder((6, 4, 3), "float16", name="xs")
    start = sg.placeholder((4, 3), "float16", name="h")
    last, stack = scan_of(_stacking, [start], [halves], trips=6).outputs
    graph = Graph([last, stack.sum(axis=(0, 1))], [halves, start])
    assert carry_sums(graph, Rewrites()) is graph


@pytest.mark.usefixtures("small")
def test_a_loop_that_may_run_less_often_than_there_are_slices_is_left():
    last, stack = scan_of(_stacking, [H], [XS], trips=N, capacity=6).outputs
    graph = Graph([last, stack.sum(axis=(0, 1))], [XS, H, N])
    assert carry_sums(graph, Rewrites()) is graph


def test_small_stacks_are_added_up_where_they_are():
    last, stack = scan_of(_stacking, [H], [XS], trips=6).outputs
    graph = _graph([last, stack.sum(axis=(0, 1))])
    assert carry_sums(graph, Rewrites()) is graph
    (reason,) = reasons(carry_sums, graph)
    assert "behind the loop: 2160 ps an iteration, 2880 ps to read a slice of 576 bytes" in reason
    assert f"from {LEAST_STACK_SUMMED} on" in reason


def test_the_biases_before_and_in_a_loop_have_one_sum_of_gradients():
    """As in `sg.nn.lstm`, whose second bias is added in each step."""
    xs = sg.placeholder((8, 4, 5), name="xs")
    b, d = (sg.placeholder((5,), name=name) for name in "bd")
    _, hs = sg.scan(lambda h, x: ((after := sg.tanh(h + x + d)), after), sg.zeros((4, 5)), xs + b)
    step = sg.compile([xs, b, d], sg.gradients((hs * hs).sum(), [b, d]))
    (reason,) = [str(d) for d in step.decisions if d.rule == "carry-sums"]
    assert "is this sum already" in reason
    given = [RNG.normal(size=s).astype(np.float32) for s in ((8, 4, 5), (5,), (5,))]
    first, second = step(*given)
    np.testing.assert_array_equal(first, second)
