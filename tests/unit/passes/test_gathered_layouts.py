"""Permutations of what is gathered, which rise above the gathers: all of it is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.ops.gathering import gather
from symgrad.graph.ops.structure import broadcast_to, permute_dims, reshape
from symgrad.passes.rewrites.gathered_layouts import lay_out_gathers
from symgrad.passes.rewrites.rewrite import Rewrites
from tests.support.evaluators import evaluate_reference

W = sg.placeholder((6, 5, 4), "float64", name="w")
AT = sg.placeholder((7,), "int64", name="i")
PAIRS = sg.placeholder((2, 3), "int64", name="j")
MANY = sg.arange(40, dtype="int64")
V = sg.placeholder((7, 1), "float64", name="v")


def _first(x: sg.Tensor) -> sg.Tensor:
    """Return `x` with its first axis last."""
    return permute_dims(x, (*range(1, x.ndim), 0))


def _moved(y: sg.Tensor) -> Graph:
    """Return the graph of `y` as the pass leaves it, having checked that it means the same."""
    random = np.random.default_rng(0)
    given: list[Any] = [
        random.random((6, 5, 4)),
        random.integers(0, 4, 7),
        random.integers(0, 4, (2, 3)),
        random.random((7, 1)),
    ]
    graph = Graph([y], [W, AT, PAIRS, V])
    moved = lay_out_gathers(graph, Rewrites())
    (found,), (wanted,) = evaluate_reference(moved, given), evaluate_reference(graph, given)
    np.testing.assert_array_equal(found, wanted)
    return moved


def _position(graph: Graph, op: str) -> int:
    return [node.op for node in graph.nodes].index(op)


@pytest.mark.parametrize(
    "build",
    [
        lambda: _first(gather(W, [AT], 1)),
        lambda: _first(-gather(W, [AT], 1) * gather(W, [AT], 1)),
        lambda: _first(gather(W, [PAIRS], 1)),
        lambda: _first(gather(W, [MANY % 5, MANY % 4], 1)),
        lambda: permute_dims(gather(W, [AT], 2), (2, 1, 0)),
        lambda: permute_dims(gather(W, [PAIRS], 1), (1, 2, 0, 3)),
        lambda: permute_dims(reshape(gather(W, [AT], 1), (6, 28)), (1, 0)),
        lambda: _first(gather(W, [AT], 1) * broadcast_to(V, (6, 7, 4))),
        lambda: _first(
            gather(W, [AT], 1) * broadcast_to(sg.asarray(np.ones((6, 1, 1))), (6, 7, 4))
        ),
        lambda: _first(gather(gather(W, [AT % 4], 1), [AT], 1)),
        lambda: _first(gather(sg.einsum("ijk,kl->ijl", W, W[0, :4]), [AT], 1)),
    ],
)
def test_permutations_rise_above_gathers(build):
    moved = _moved(build())
    assert _position(moved, "permute_dims") < _position(moved, "gather")


@pytest.mark.parametrize(
    "build",
    [
        lambda: permute_dims(gather(W, [PAIRS], 1), (2, 1, 0, 3)),  # indices change places
        lambda: permute_dims(gather(W, [PAIRS], 1), (1, 0, 2, 3)),  # and come apart
        lambda: permute_dims(gather(W, [AT], 0), (1, 2, 0)),  # rows get shorter
        lambda: _first(gather(W, [AT[:1]], 1)),  # the table has more elements
        lambda: _first(sg.cumsum(gather(W, [AT], 1), axis=1)),
        lambda: permute_dims(reshape(gather(W, [AT], 1), (3, 2, 28)), (2, 0, 1)),
    ],
)
def test_permutations_stay_where_they_are(build):
    moved = _moved(build())
    assert _position(moved, "permute_dims") > _position(moved, "gather")


def test_a_scalar_that_was_an_axis_of_one_element_is_met():
    scalar = sg.cos(reshape(V[2], ()))
    scaled = W * broadcast_to(reshape(scalar, (1, 1, 1)), W.shape)
    moved = _moved(_first(gather(scaled, [AT], 1)))
    assert _position(moved, "permute_dims") < _position(moved, "gather")


def test_a_gather_that_is_read_twice_by_what_is_permuted_is_moved_once():
    rows = gather(W, [AT], 1)
    moved = _moved(_first(sg.tanh(rows) + rows))
    assert [node.op for node in moved.nodes].count("gather") == 1


def test_what_is_met_in_two_orders_stays():
    rows = gather(W[:4], [AT % 4], 1)[:, :4]
    both = rows + permute_dims(rows, (1, 0, 2))
    moved = _moved(permute_dims(both, (1, 2, 0)))
    assert "gather" in [node.op for node in moved.nodes]


@pytest.mark.parametrize(
    ("count", "reason"),
    [
        (7, "before the gathers: it moves 120 elements before them, 168 behind them; "),
        (1, "behind the gathers: it moves 120 elements before them, 24 behind them; "),
    ],
)
def test_what_is_weighed_is_in_the_decisions(count, reason):
    step = sg.compile([W, AT], _first(gather(W, [AT[:count]], 1)))
    step(np.ones((6, 5, 4)), np.zeros(7, "int64"))
    (decision,) = [d for d in step.decisions if d.rule == "lay-out-gathers"]
    assert decision.op == "permute_dims"
    rows = "before them a row that is gathered has 24 elements, behind 4"
    assert decision.reason == reason + rows


@pytest.mark.parametrize("sizes", [(26, 300, 3), (None, 300, 3)])
def test_an_index_out_of_range_is_one_of_the_array_that_was_given(sizes):
    x, i = sg.placeholder(sizes, name="x"), sg.placeholder((1000,), "int64", name="i")
    step = sg.compile([x, i], sg.permute_dims(sg.take(x, i, axis=1) * 2.0, (1, 2, 0)))
    message = r"take: index 300 is out of range for axis 1 of size 300 of f32\[26, 300, 3\]"
    with pytest.raises(sg.IndexOutOfRangeError, match=message):
        step(np.ones((26, 300, 3), "float32"), np.full(1000, 300))
