"""What leaves a loop because it is the same in every iteration, and what stays in it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import IndexOutOfRangeError
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.passes.loops.licm import licm
from symgrad.passes.pipeline import optimize
from symgrad.passes.rewrites.rewrite import Rewrites
from symgrad.passes.table import Options
from tests.support.loop_parts import changed_by, ops_by_depth, reasons, scan_of

X, W = (sg.placeholder((20, 20), "float64", name=name) for name in "xw")
N = sg.placeholder((), "int64", name="n")
ARRAYS = [np.full((20, 20), 0.01) + np.eye(20) / 3, np.ones((20, 20)) / 20]


def test_a_chain_leaves_as_a_whole_and_only_its_end_is_read():
    node = scan_of(lambda v: [v @ (sg.exp(W) @ sg.sin(W))], [X], trips=5)
    graph = changed_by(licm, Graph(node.outputs, [X, W]), ARRAYS)
    found = ops_by_depth(graph)
    assert [found[0, op] for op in ("exp", "sin", "einsum")] == [1, 1, 1]
    assert [found[1, op] for op in ("exp", "sin", "einsum")] == [0, 0, 1]
    (loop,) = [n for n in graph.nodes if n.op == "scan"]
    assert len(loop.inputs) == 3  # the count, the loop variable, the product


def test_what_is_computed_from_loop_variables_or_slices_stays():
    node = scan_of(lambda v, x: [sg.exp(v) @ W, sg.sin(x)], [X], [sg.stack([X, W])], trips=2)
    graph = Graph(node.outputs, [X, W])
    assert licm(graph, Rewrites()) is graph


def test_what_is_stacked_unchanged_in_each_iteration_is_computed_once():
    node = scan_of(lambda v: [v * 2.0, sg.exp(W)], [X], trips=5)
    graph = changed_by(licm, Graph(node.outputs, [X, W]), ARRAYS)
    assert (ops_by_depth(graph)[0, "exp"], ops_by_depth(graph)[1, "exp"]) == (1, 0)


def test_work_leaves_two_loops_at_once():
    def outer(v: Tensor) -> list[Tensor]:
        return [scan_of(lambda u: [u @ sg.exp(W)], [v], trips=3).outputs[0]]

    graph = Graph(scan_of(outer, [X], trips=4).outputs, [X, W])
    found = ops_by_depth(optimize(graph))
    assert [found[depth, "exp"] for depth in range(3)] == [1, 0, 0]
    only_once = ops_by_depth(licm(graph, Rewrites()))
    assert only_once[2, "exp"] == 1  # the pass by itself looks at one graph


def test_a_branch_and_a_loop_that_do_not_change_leave_too():
    def step(v: Tensor) -> list[Tensor]:
        chosen = sg.cond(W.sum() > 0.0, lambda: sg.exp(W), lambda: sg.sin(W))
        powers = scan_of(lambda u: [u @ W], [W], trips=3).outputs[0]
        return [v @ (chosen + powers)]

    graph = changed_by(licm, Graph(scan_of(step, [X], trips=5).outputs, [X, W]), ARRAYS)
    found = ops_by_depth(graph)
    assert (found[0, "switch"], found[0, "scan"], found[1, "switch"]) == (1, 2, 0)


def test_a_loop_that_may_run_for_ever_stays_unless_it_runs_anyway():
    def step(v: Tensor) -> list[Tensor]:
        (power,) = sg.while_loop(lambda u: u.sum() > 1e-3, lambda u: (u @ W * 0.5,), (W,))
        return [v @ power]

    stays = Graph(scan_of(step, [X], trips=N, capacity=5).outputs, [X, W, N])
    found = ops_by_depth(changed_by(licm, stays, [*ARRAYS, np.array(3)]))
    assert (found[0, "while"], found[1, "while"]) == (0, 1)
    leaves = Graph(scan_of(step, [X], trips=5).outputs, [X, W])
    found = ops_by_depth(changed_by(licm, leaves, ARRAYS))
    assert (found[0, "while"], found[1, "while"]) == (1, 0)


@pytest.mark.parametrize("trips", [0, 3])
def test_an_index_out_of_range_is_an_error_only_if_the_loop_runs(trips):
    rows = sg.placeholder((20,), "int64")
    last = scan_of(lambda v: [v @ sg.exp(sg.take(W, rows, axis=0))], [X], trips=N, capacity=5)
    step = sg.compile([X, W, rows, N], last.outputs[0])
    given = (*ARRAYS, np.full(20, 99), np.array(trips))
    if trips:
        with pytest.raises(IndexOutOfRangeError, match="99"):
            step(*given)
    else:
        np.testing.assert_array_equal(step(*given), ARRAYS[0])


def test_nan_that_no_iteration_reads_does_no_harm():
    last = scan_of(lambda v: [v @ sg.log(W)], [X], trips=N, capacity=5).outputs[0]
    graph = changed_by(licm, Graph(last, [X, W, N]), [ARRAYS[0], -ARRAYS[1], np.array(0)])
    assert ops_by_depth(graph)[0, "log"] == 1


def test_a_number_repeated_into_a_large_tensor_stays():
    step = lambda v: [v * sg.broadcast_to(W[0, 0], (20, 20)) + sg.ones((20, 20), "float64")]  # noqa: E731
    graph = Graph(scan_of(step, [X], trips=5).outputs, [X, W])
    assert licm(graph, Rewrites()) is graph
    assert any("in the loop" in reason for reason in reasons(licm, graph))


def test_the_reason_is_told():
    graph = Graph(scan_of(lambda v: [v @ sg.exp(W)], [X], trips=5).outputs, [X, W])
    (reason,) = reasons(licm, graph)
    assert reason.startswith("licm: <exp")
    assert "before the loop: 3200 bytes to read" in reason
    assert re.search(r"to read, \d+ ps an iteration, \d+ ps to compute", reason)


def test_sizes_that_are_not_known_are_left_for_later():
    x = sg.placeholder((None, 20), "float64")
    graph = Graph(scan_of(lambda v: [v @ sg.exp(W)], [x], trips=5).outputs, [x, W])
    assert licm(graph, Rewrites()) is graph
    step = sg.compile([x, W], graph.outputs[0])
    step(*ARRAYS)
    assert ops_by_depth(step.executable.optimized)[0, "exp"] == 1


def test_skipping_the_pass_changes_no_result():
    graph = Graph(scan_of(lambda v: [v @ sg.exp(W)], [X], trips=5).outputs, [X, W])
    kept = optimize(graph, options=Options(skip=["licm"]))
    assert ops_by_depth(kept)[1, "exp"] == 1
