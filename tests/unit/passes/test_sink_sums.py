"""Sums of products over iterations: when they are one product behind the loop."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.cost_model import STACK_BYTES
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.ops.conversion import identity
from symgrad.passes.loops import extend_loop
from symgrad.passes.loops.sink_sums import sink_sums
from symgrad.passes.rewrites.rewrite import Rewrites
from tests.support.loop_parts import changed_by, ops_by_depth, reasons, scan_of

XS = sg.placeholder((6, 2, 30), "float64", name="xs")
H = sg.placeholder((2, 30), "float64", name="h")
W = sg.placeholder((30, 30), "float64", name="w")
N = sg.placeholder((), "int64", name="n")
RNG = np.random.default_rng(0)
ARRAYS = [RNG.normal(size=s) * 0.2 for s in ((6, 2, 30), (2, 30), (30, 30))]


def _graph(outputs: tuple[Tensor, ...]) -> Graph:
    return Graph(outputs, [XS, H, W])


def _product(x: Tensor, h: Tensor) -> Tensor:
    return sg.einsum("ij,ik->jk", x, h)


def test_the_sum_of_products_is_one_product_on_what_it_started_with():
    node = scan_of(lambda h, s, x: [sg.sin(h), s + _product(x, h)], [H, W], [XS], trips=6)
    graph = changed_by(sink_sums, _graph(node.outputs), ARRAYS)
    found = ops_by_depth(graph)
    assert (found[0, "einsum"], found[1, "einsum"], found[0, "add"]) == (1, 0, 1)
    (loop,) = [n for n in graph.nodes if n.op == "scan"]
    assert loop.attrs["carried"] == 1
    assert [str(t.type) for t in loop.outputs] == ["f64[2, 30]", "f64[6, 2, 30]"]


def test_a_sum_that_starts_with_zeros_is_the_product_alone():
    zeros = sg.zeros((30, 30), "float64")
    node = scan_of(lambda h, s, x: [sg.sin(h), s + _product(x, h)], [H, zeros], [XS], trips=6)
    found = ops_by_depth(changed_by(sink_sums, Graph(node.outputs, [XS, H]), ARRAYS[:2]))
    assert (found[0, "einsum"], found[0, "add"]) == (1, 0)


def test_several_terms_and_what_stands_for_them_all_leave():
    def step(h: Tensor, s: Tensor, x: Tensor) -> list[Tensor]:
        return [sg.sin(h), _product(x, h) + identity(s + _product(h, x))]

    graph = changed_by(sink_sums, _graph(scan_of(step, [H, W], [XS], trips=6).outputs), ARRAYS)
    found = ops_by_depth(graph)
    assert (found[0, "einsum"], found[1, "einsum"]) == (2, 0)
    (loop,) = [n for n in graph.nodes if n.op == "scan"]
    assert len(loop.outputs) == 2  # the loop variable, and one stack for both products


@pytest.mark.parametrize(
    "step",
    [
        lambda h, s, x: [sg.sin(h) + s[:2], s + _product(x, h)],  # read by another
        lambda h, s, x: [sg.sin(h), s + _product(x, h) * 2.0],  # not a product alone
        lambda h, s, x: [sg.sin(h), s * 0.5 + _product(x, h)],  # not a sum alone
        lambda h, s, x: [sg.sin(h), s + s + _product(x, h)],  # twice itself
        lambda h, s, x: [sg.sin(h), s + _product(H, h)],  # a factor that never changes
        lambda h, s, x: [sg.sin(h), s + (h @ W)[0]],  # a sum over nothing the iterations share
    ],
)
def test_what_is_more_than_a_sum_of_products_stays(step):
    graph = _graph(scan_of(step, [H, W], [XS], trips=6).outputs)
    assert sink_sums(graph, Rewrites()) is graph


def test_a_sum_that_is_stacked_as_it_grows_stays():
    node = scan_of(lambda h, s, x: [sg.sin(h), s + _product(x, h), s], [H, W], [XS], trips=6)
    graph = _graph(node.outputs)
    assert sink_sums(graph, Rewrites()) is graph
    next_too = scan_of(
        lambda h, s, x: [sg.sin(h), (t := s + _product(x, h)), t], [H, W], [XS], trips=6
    )
    graph = _graph(next_too.outputs)
    assert sink_sums(graph, Rewrites()) is graph


def test_a_loop_that_may_run_less_often_than_there_are_slices_is_left():
    node = scan_of(
        lambda h, s, x: [sg.sin(h), s + _product(x, h)], [H, W], [XS], trips=N, capacity=6
    )
    graph = Graph(node.outputs, [XS, H, W, N])
    assert sink_sums(graph, Rewrites()) is graph


def test_a_small_sum_of_large_factors_stays_and_says_so():
    start = sg.zeros((), "float64")
    step = lambda h, s, x: [sg.sin(h), s + sg.einsum("ij,ij->", x, h)]  # noqa: E731
    graph = Graph(scan_of(step, [H, start], [XS], trips=6).outputs, [XS, H])
    assert sink_sums(graph, Rewrites()) is graph
    (reason,) = reasons(sink_sums, graph)
    assert "left: 480 bytes stacked, 8 added to; " in reason
    assert reason.endswith(f"; stacks of 480 bytes an iteration, at most {STACK_BYTES // 6}")


def test_factors_that_are_stacks_already_need_no_more(monkeypatch):
    monkeypatch.setattr(extend_loop, "STACK_BYTES", 0)
    monkeypatch.setattr(extend_loop, "STACK_RATIO", 0)
    new = scan_of(lambda h, s, x: [sg.sin(h), s + _product(x, h)], [H, W], [XS], trips=6)
    assert ops_by_depth(sink_sums(_graph(new.outputs), Rewrites()))[0, "einsum"] == 0
    there = scan_of(lambda h, s, x: [sg.sin(h), s + _product(x, h), h], [H, W], [XS], trips=6)
    assert ops_by_depth(sink_sums(_graph(there.outputs), Rewrites()))[0, "einsum"] == 1


def test_the_gradient_of_weights_in_a_scan_is_one_product():
    last, _ = sg.scan(lambda h, x: (sg.tanh(h @ W + x), None), H, XS)
    (g,) = sg.gradients((last * last).sum(), [W])
    step = sg.compile([XS, H, W], g)
    found = ops_by_depth(step.executable.optimized)
    assert found[0, "einsum"] == 1
    assert found[1, "einsum"] == 2  # forward, and the gradient of the loop variable
    told = [d for d in step.executable.decisions if d.rule == "sink-sums"]
    assert ["sunk" in d.reason for d in told] == [True]
    assert "test_sink_sums.py" in str(told[0])
