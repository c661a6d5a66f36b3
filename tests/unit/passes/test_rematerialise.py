"""What a loop keeps for a later one, what that computes again, and how much memory it may take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.loop_view import LoopView
from symgrad.graph.node import Node, Tensor
from symgrad.passes.loops import extend_loop
from symgrad.passes.loops.merge_loops import merge_loops
from symgrad.passes.loops.prune_loops import prune_loops
from symgrad.passes.loops.rematerialise import rematerialise
from symgrad.passes.rewrites.rewrite import Rewrites
from tests.support.loop_parts import changed_by, ops_by_depth, reasons, scan_of

H = sg.placeholder((8, 30), "float64", name="h")
W, U = (sg.placeholder((30, 30), "float64", name=name) for name in "wu")
RNG = np.random.default_rng(0)
ARRAYS = [RNG.normal(size=s) * 0.2 for s in ((8, 30), (30, 30), (30, 30))]


def _gradient_of(step: Any, **options: Any) -> Graph:
    """Return a loop of 6 iterations with its gradients, merged and pruned."""
    start = (0, H)
    _, last = sg.while_loop(lambda i, _: i < 6, lambda i, v: (i + 1, step(v)), start, **options)
    grads = sg.gradients((last * last).sum(), [H, W, U], unconnected_gradients="zero")
    return prune_loops(merge_loops(Graph([last, *grads], [H, W, U])))


def _loops(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.op in ("while", "scan")]


@pytest.mark.parametrize("options", [{"maximum_iterations": 6}, {}])
def test_a_gradient_reads_what_was_costly_and_computes_again_what_was_cheap(options):
    graph = _gradient_of(lambda v: sg.exp(v @ W) * 0.1 - 0.2, **options)
    assert ops_by_depth(graph)[1, "einsum"] == 4
    saved = changed_by(rematerialise, graph, ARRAYS)
    assert ops_by_depth(saved)[1, "einsum"] == 3
    forward, backward = _loops(saved)
    assert len(forward.outputs) == len(_loops(graph)[0].outputs) + 1
    assert backward.attrs["scanned"] == 2  # the exponential, and the loop variable


def _shifted(v: Tensor) -> Any:
    return sg.concat([sg.ones((1,), "float64"), v[:-1]])


def _gradient_of_shifts(step: Any) -> Graph:
    """Return a loop over a row, which `step` shifts, with its gradient."""
    row, x = sg.placeholder((30,), "float64"), sg.placeholder((30,), "float64")
    body = lambda i, v: (i + 1, step(v, x))  # noqa: E731
    _, last = sg.while_loop(lambda i, _: i < 6, body, (0, row), maximum_iterations=6)
    grads = sg.gradients((last * last).sum(), [row, x, W], unconnected_gradients="zero")
    return prune_loops(merge_loops(Graph([last, *grads], [row, x, W])))


def test_pieces_that_elementwise_ops_read_are_put_side_by_side_again():
    graph = _gradient_of_shifts(lambda v, x: v + x * _shifted(v + x * _shifted(v)))
    saved = changed_by(rematerialise, graph, [*ARRAYS[0][:2], ARRAYS[1]])
    assert [ops_by_depth(g)[1, "concat"] for g in (graph, saved)] == [4, 4]
    forward = LoopView(_loops(saved)[0])
    assert list(forward.places_of_stacks) == [forward.body.inputs[1]]  # the row, beside a counter


def test_pieces_that_a_product_reads_are_kept():
    graph = _gradient_of_shifts(lambda v, x: x * (_shifted(v * x) @ W))
    saved = changed_by(rematerialise, graph, [*ARRAYS[0][:2], ARRAYS[1]])
    assert [ops_by_depth(g)[1, "concat"] for g in (graph, saved)] == [2, 1]


def test_a_stack_that_nothing_reads_any_more_goes():
    _, last = sg.while_loop(
        lambda i, _: i < 6, lambda i, v: (i + 1, sg.sin(v @ W)), (0, H), maximum_iterations=6
    )
    (g,) = sg.gradients(last.sum(), [H])
    assert g is not None
    graph = prune_loops(merge_loops(Graph([last, g], [H, W])))
    saved = changed_by(rematerialise, graph, ARRAYS[:2])
    assert ops_by_depth(saved)[1, "einsum"] == 2
    before, after = (_loops(g)[0] for g in (graph, saved))
    assert len(after.outputs) == len(before.outputs)  # a product in the place of its operand


def test_second_gradients_read_what_the_first_ones_have():
    graph = _gradient_of(lambda v: sg.tanh(v @ W), maximum_iterations=6)
    (g,) = sg.gradients(graph.outputs[1].sum(), [U], unconnected_gradients="zero")
    assert g is not None
    start, w = graph.inputs[:2]
    _, last = sg.while_loop(
        lambda i, _: i < 6, lambda i, v: (i + 1, sg.tanh(v @ w)), (0, start), maximum_iterations=6
    )
    (first,) = sg.gradients((last * last).sum(), [w])
    assert first is not None
    (second,) = sg.gradients((first * first).sum(), [w])
    assert second is not None
    whole = prune_loops(merge_loops(Graph([first, second], [start, w])))
    saved = changed_by(rematerialise, whole, ARRAYS[:2])
    assert ops_by_depth(saved)[1, "einsum"] < ops_by_depth(whole)[1, "einsum"] - 1


def test_only_what_recompute_grad_asked_for_is_computed_again():
    again = _gradient_of(sg.recompute_grad(lambda v: sg.tanh(v @ W)), maximum_iterations=6)
    saved = changed_by(rematerialise, again, ARRAYS)
    assert ops_by_depth(saved)[1, "einsum"] == ops_by_depth(again)[1, "einsum"]


def test_loops_over_one_stack_share_the_products_of_its_slices():
    xs, n = sg.placeholder((6, 8, 30), "float64"), sg.placeholder((), "int64")
    first = scan_of(lambda v, x: [v + x @ W], [H], [xs], trips=n, capacity=6)
    second = scan_of(lambda v, x: [v * (x @ W)], [H], [xs], trips=n, capacity=6)
    graph = Graph([*first.outputs, *second.outputs], [H, W, xs, n])
    given = [*ARRAYS[:2], RNG.normal(size=(6, 8, 30)), np.array(4)]
    assert ops_by_depth(changed_by(rematerialise, graph, given))[1, "einsum"] == 1


def test_loops_of_another_number_of_iterations_or_of_slices_share_nothing():
    xs, n, m = (
        sg.placeholder((6, 8, 30), "float64"),
        sg.placeholder((), "int64"),
        sg.placeholder((), "int64"),
    )
    first = scan_of(lambda v, x: [v + x @ W], [H], [xs], trips=n, capacity=6)
    another = scan_of(lambda v, x: [v * (x @ W)], [H], [xs], trips=m, capacity=6)
    graph = Graph([*first.outputs, *another.outputs], [H, W, xs, n, m])
    assert rematerialise(graph, Rewrites()) is graph


def test_a_graph_within_a_body_is_computed_again():
    def step(v: Tensor) -> Any:
        return sg.cond(v.sum() > 0.0, lambda: sg.tanh(v @ W), lambda: sg.exp(v @ W))

    graph = _gradient_of(lambda v: sg.sin(step(v)), maximum_iterations=6)
    saved = rematerialise(graph, Rewrites())
    assert ops_by_depth(saved)[1, "switch"] == ops_by_depth(graph)[1, "switch"]


def test_what_is_kept_fits_the_memory_that_is_allowed(monkeypatch):
    graph = _gradient_of(lambda v: sg.tanh(sg.tanh(v @ W) @ U), maximum_iterations=6)
    stacks = len(_loops(graph)[0].outputs)
    monkeypatch.setattr(extend_loop, "STACK_BYTES", 0)
    products = []
    for ratio in (0, 1, 2):
        monkeypatch.setattr(extend_loop, "STACK_RATIO", ratio)
        saved = changed_by(rematerialise, graph, ARRAYS)
        products.append(ops_by_depth(saved)[1, "einsum"])
        assert len(_loops(saved)[0].outputs) <= stacks + ratio
    assert products == sorted(products, reverse=True)
    assert (products[0], products[-1]) == (8, 6)


def test_reasons_are_told_for_what_is_kept_and_for_what_is_not():
    told = reasons(rematerialise, _gradient_of(lambda v: sg.exp(v @ W) + 1.0, maximum_iterations=6))
    assert any("kept: 1920 bytes an iteration" in reason for reason in told)
    assert any("kept: not" in reason for reason in told)


def _products(v: Tensor) -> Any:
    return sg.tanh(v @ sg.exp(W)) @ U


def _scan_of_products(v: Tensor) -> Any:
    """Run a loop in the body whose sums of products leave it, and whose products of slices do."""
    xs = sg.stack([v * 0.5, v[::-1], sg.sin(v)])
    return sg.scan(lambda u, x: (sg.tanh(u @ W + x @ U), None), v, xs)[0]


@pytest.mark.parametrize(
    ("step", "trips", "bound"),
    [
        (_products, 0, 6),
        (_products, 5, 6),
        pytest.param(_products, 6, None, marks=pytest.mark.slow),
        pytest.param(_scan_of_products, 5, 6, marks=pytest.mark.slow),
    ],
)
def test_checkpoints_give_the_same_bits_with_products_in_the_body(step, trips, bound):
    def gradients(**options: Any) -> list[Tensor]:
        body = lambda i, v: (i + 1, step(v))  # noqa: E731
        _, last = sg.while_loop(lambda i, _: i < trips, body, (0, H), **options)
        grads = sg.gradients((last * last).sum(), [H, W, U])
        return [last, *(g for g in grads if g is not None)]

    plain = sg.compile([H, W, U], gradients(maximum_iterations=bound), opt_level=1)(*ARRAYS)
    kept = gradients(maximum_iterations=bound, checkpoint=2)
    found = sg.compile([H, W, U], kept, opt_level=1)(*ARRAYS)
    assert [a.tobytes() for a in found] == [a.tobytes() for a in plain]
