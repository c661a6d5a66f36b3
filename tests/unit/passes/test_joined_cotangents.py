"""Cotangents of slices that lie side by side: joined, not padded with zeros and added."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.passes.gradients.aggregate import AggregationMethod
from tests.support.floors import run_reference

Slices = Callable[[Tensor], Sequence[Tensor]]
SPLITS: dict[str, Slices] = {
    "columns": lambda x: sg.split(x, 3, axis=1),
    "rows": lambda x: [x[:2], x[2:]],
    "in another order": lambda x: [x[:, 4:], x[:, :1], x[:, 1:4]],
    "indices": lambda x: [x[0], x[1], x[2], x[3]],
}
PARTLY: dict[str, Slices] = {
    "not from the start": lambda x: [x[:, 1:3], x[:, 3:]],
    "not to the end": lambda x: [x[:1], x[1:2]],
    "of two runs": lambda x: [x[:1], x[1:2], x[:, 4:5], x[:, 3:4]],
}
APART: dict[str, Slices] = {
    "with a gap": lambda x: [x[:, :1], x[:, 2:]],
    "overlapping": lambda x: [x[:, :3], x[:, 2:]],
    "of two axes": lambda x: [x[:2], x[:, 3:]],
    "with a step": lambda x: [x[::2], x[1::2]],
    "corners": lambda x: [x[:2, :3], x[2:, 3:]],
    "once more": lambda x: [x[:2], x[:2]],
}


def _gradient(
    slices: Slices,
    method: AggregationMethod = AggregationMethod.DEFAULT,
    *,
    adds_all_of_it: bool = False,
) -> tuple[Graph, list[str]]:
    """Return the gradient of a function of slices of a (4, 6) matrix, and the ops it is made of."""
    x = sg.placeholder((4, 6), "float64")
    parts = slices(x)
    y = sum((sg.sum(sg.sin(part) * (i + 1)) for i, part in enumerate(parts)), sg.constant(0.0))
    y = y + sg.sum(x * x) if adds_all_of_it else y
    (dx,) = sg.gradients(y, [x], aggregation_method=method)
    assert dx is not None
    return Graph([dx], [x]), [node.op for node in Graph([dx], [x]).nodes]


def _agrees_with_differences(slices: Slices, graph: Graph, *, adds_all_of_it: bool) -> None:
    x = np.random.default_rng(0).normal(size=(4, 6))
    wanted = np.zeros_like(x)
    positions = sg.placeholder((4, 6), "int64")
    given = np.arange(24).reshape(4, 6)
    places = run_reference(Graph(list(slices(positions)), [positions]), [given]).outputs
    for i, place in enumerate(places):
        np.add.at(wanted.reshape(-1), place, np.cos(x.reshape(-1)[place]) * (i + 1))
    wanted += 2 * x if adds_all_of_it else 0
    (found,) = run_reference(graph, [x]).outputs
    np.testing.assert_allclose(found, wanted, rtol=1e-13)


@pytest.mark.parametrize("adds_all_of_it", [False, True])
@pytest.mark.parametrize("method", [AggregationMethod.ADD_N, AggregationMethod.EXPERIMENTAL_TREE])
@pytest.mark.parametrize("name", SPLITS)
def test_parts_of_a_whole_are_one_concat(name, method, adds_all_of_it):
    graph, ops = _gradient(SPLITS[name], method, adds_all_of_it=adds_all_of_it)
    assert ops.count("concat") == 1
    assert "pad" not in ops
    _agrees_with_differences(SPLITS[name], graph, adds_all_of_it=adds_all_of_it)


@pytest.mark.parametrize("adds_all_of_it", [False, True])
@pytest.mark.parametrize(("name", "runs"), list(zip(PARTLY, (1, 1, 2), strict=True)))
def test_parts_of_a_part_are_joined_and_padded(name, runs, adds_all_of_it):
    graph, ops = _gradient(PARTLY[name], adds_all_of_it=adds_all_of_it)
    assert (ops.count("concat"), ops.count("pad")) == (runs, runs)
    _agrees_with_differences(PARTLY[name], graph, adds_all_of_it=adds_all_of_it)


@pytest.mark.parametrize("adds_all_of_it", [False, True])
@pytest.mark.parametrize("name", APART)
def test_what_does_not_lie_side_by_side_is_added(name, adds_all_of_it):
    graph, ops = _gradient(APART[name], adds_all_of_it=adds_all_of_it)
    assert "concat" not in ops
    _agrees_with_differences(APART[name], graph, adds_all_of_it=adds_all_of_it)


def test_parts_along_a_known_axis_are_joined_where_another_size_is_unknown():
    x = sg.placeholder((None, 6))
    a, b = sg.split(x, 2, axis=1)
    (dx,) = sg.gradients(a * b, [x])
    assert dx is not None
    assert [n.op for n in Graph([dx], [x]).nodes].count("concat") == 1
    given = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    wanted = np.concatenate([given[:, 3:], given[:, :3]], axis=1)
    np.testing.assert_array_equal(sg.compile([x], dx)(given), wanted)


def test_second_derivatives_of_joined_parts():
    x = sg.placeholder((2, 4), "float64")
    a, b = sg.split(x, 2, axis=1)
    (dx,) = sg.gradients(a * a * b, [x])
    assert dx is not None
    (ddx,) = sg.gradients(dx, [x])
    assert ddx is not None
    given = np.random.default_rng(0).normal(size=(2, 4))
    p, q = given[:, :2], given[:, 2:]
    wanted = np.concatenate([2 * q + 2 * p, 2 * p], axis=1)
    np.testing.assert_allclose(sg.compile([x], ddx)(given), wanted, rtol=1e-14)
