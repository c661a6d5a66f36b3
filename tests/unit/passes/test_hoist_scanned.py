"""Products of slices and invariants: when all iterations are computed at once."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.passes.loops import extend_loop
from symgrad.passes.loops.hoist_scanned import hoist_scanned
from symgrad.passes.rewrites.rewrite import Rewrites
from tests.support.loop_parts import changed_by, ops_by_depth, reasons, scan_of

XS = sg.placeholder((6, 2, 30), "float64", name="xs")
H = sg.placeholder((2, 30), "float64", name="h")
W, U = (sg.placeholder((30, 30), "float64", name=name) for name in "wu")
N = sg.placeholder((), "int64", name="n")
RNG = np.random.default_rng(0)
ARRAYS = [RNG.normal(size=s) * 0.2 for s in ((6, 2, 30), (2, 30), (30, 30), (30, 30))]


def _graph(node_outputs: tuple[Tensor, ...]) -> Graph:
    return Graph(node_outputs, [XS, H, W, U])


def test_the_products_of_all_iterations_are_one_and_what_is_element_by_element_goes_along():
    node = scan_of(lambda h, x: [sg.tanh(sg.sin(x @ W) + 1.0 + h @ U)], [H], [XS], trips=6)
    found = ops_by_depth(changed_by(hoist_scanned, _graph(node.outputs), ARRAYS))
    assert [found[0, op] for op in ("einsum", "sin", "tanh")] == [1, 1, 0]
    assert [found[1, op] for op in ("einsum", "sin", "tanh")] == [1, 0, 1]


def test_a_gather_before_the_product_goes_along():
    ids = sg.placeholder((6, 2), "int64")
    node = scan_of(lambda h, i: [h @ U + sg.take(W, i, axis=0) @ U], [H], [ids], trips=6)
    graph = Graph(node.outputs, [ids, H, W, U])
    given = [RNG.integers(0, 30, (6, 2)), *ARRAYS[1:]]
    found = ops_by_depth(changed_by(hoist_scanned, graph, given))
    assert (found[0, "gather"], found[1, "gather"]) == (1, 0)


def test_a_result_that_is_all_products_of_slices_does_not_pass_the_loop():
    node = scan_of(lambda x: [x @ W], [], [XS], trips=6)
    graph = changed_by(hoist_scanned, _graph(node.outputs), ARRAYS)
    assert not any(n.op == "scan" for n in graph.nodes)


def test_two_products_one_after_the_other_leave_as_one_stack():
    node = scan_of(lambda h, x: [h + sg.tanh(x @ W) @ U], [H], [XS], trips=6)
    graph = changed_by(hoist_scanned, _graph(node.outputs), ARRAYS)
    (loop,) = [n for n in graph.nodes if n.op == "scan"]
    assert loop.attrs["scanned"] == 1
    assert ops_by_depth(graph)[0, "einsum"] == 2


@pytest.mark.parametrize(
    "step",
    [
        lambda h, x: [(h + x) @ W],  # a loop variable is in it
        lambda h, x: [h + sg.einsum("ij,ij->i", x, x)[:, None]],  # both factors are slices
        lambda h, x: [h + sg.sin(x)],  # no product
    ],
)
def test_what_does_not_pay_or_cannot_be_done_is_left(step):
    graph = _graph(scan_of(step, [H], [XS], trips=6).outputs)
    assert hoist_scanned(graph, Rewrites()) is graph


def test_a_product_within_a_branch_is_left():
    def step(h: Tensor, x: Tensor) -> list[Tensor]:
        return [sg.cond(h.sum() > 0.0, lambda: h + x @ W, lambda: h - x)]

    graph = _graph(scan_of(step, [H], [XS], trips=6).outputs)
    assert hoist_scanned(graph, Rewrites()) is graph


def test_a_loop_that_may_run_less_often_than_there_are_slices_is_left():
    node = scan_of(lambda h, x: [h @ U + x @ W], [H], [XS], trips=N, capacity=6)
    graph = Graph(node.outputs, [XS, H, W, U, N])
    assert hoist_scanned(graph, Rewrites()) is graph


def test_a_batch_that_is_large_beside_the_weights_gains_nothing_and_is_left():
    xs, h = sg.placeholder((6, 500, 30), "float64"), sg.placeholder((500, 30), "float64")
    node = scan_of(lambda h, x: [h @ U + x @ W], [h], [xs], trips=6)
    graph = Graph(node.outputs, [xs, h, W, U])
    assert hoist_scanned(graph, Rewrites()) is graph


def test_stacks_take_no_more_than_is_allowed(monkeypatch):
    graph = _graph(scan_of(lambda h, x: [h @ U + x @ W], [H], [XS], trips=6).outputs)
    monkeypatch.setattr(extend_loop, "STACK_BYTES", 0)
    monkeypatch.setattr(extend_loop, "STACK_RATIO", 1)
    assert hoist_scanned(graph, Rewrites()) is not graph
    monkeypatch.setattr(extend_loop, "STACK_RATIO", 0)
    assert hoist_scanned(graph, Rewrites()) is graph
    (reason,) = reasons(hoist_scanned, graph)
    assert "in the loop: stacks of 480 bytes an iteration, at most 0" in reason
