"""Random orders and choices: all orders alike, no element twice, chances as they are given."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from tests.support.floors import TARGETS, compile_for, run_native, run_reference
from tests.support.samples import DEVIATIONS, deviations_of_counts, sample

KEY = sg.random.key(2)
COUNT = 3000


def test_all_orders_of_three_come_alike() -> None:
    keys = sg.random.split(KEY, COUNT)
    orders = sample(sg.map(lambda key: sg.random.permutation(key, 3), keys))
    assert orders.dtype == np.int64
    found = [int((orders == order).all(axis=1).sum()) for order in itertools.permutations(range(3))]
    assert sum(found) == COUNT
    assert deviations_of_counts(found, [1 / 6] * 6) < DEVIATIONS


def test_a_permutation_moves_rows_and_their_gradients() -> None:
    x = sg.variable(np.arange(12.0).reshape(6, 2))
    weights = np.arange(12.0).reshape(6, 2)
    moved = sg.random.permutation(KEY, x)
    (slope,) = sg.gradients((moved * weights).sum(), [x])
    order, rows, to_x = sample([sg.random.permutation(KEY, 6), moved, slope])
    assert sorted(order.tolist()) == list(range(6))
    np.testing.assert_array_equal(rows, x.value[order])
    np.testing.assert_array_equal(to_x[order], weights)


def test_choices_have_their_chances() -> None:
    p = [0.2, 0.0, 0.3, 0.5]
    even, weighed, rows = sample([
        sg.random.choice(KEY, 4, (COUNT,)), sg.random.choice(KEY, 4, (COUNT,), p=p),
        sg.random.choice(KEY, np.arange(8.0).reshape(4, 2), (5, 3)),
    ])  # fmt: skip
    assert even.dtype == weighed.dtype == np.int64
    assert deviations_of_counts(list(np.bincount(even)), [0.25] * 4) < DEVIATIONS
    counts = np.bincount(weighed, minlength=4)
    assert counts[1] == 0
    assert deviations_of_counts(list(counts[[0, 2, 3]]), [0.2, 0.3, 0.5]) < DEVIATIONS
    assert rows.shape == (5, 3, 2)
    assert (rows[..., 1] - rows[..., 0] == 1).all()


@pytest.mark.parametrize("p", [None, [0.2, 0.3, 0.5]])
def test_nothing_is_chosen_twice_without_replacement(p: Any) -> None:
    keys = sg.random.split(KEY, COUNT)
    pairs = sample(sg.map(lambda key: sg.random.choice(key, 3, (2,), replace=False, p=p), keys))
    chances = [1 / 3] * 3 if p is None else p
    orders = list(itertools.permutations(range(3), 2))
    wanted = [chances[i] * chances[j] / (1 - chances[i]) for i, j in orders]
    found = [int((pairs == order).all(axis=1).sum()) for order in orders]
    assert sum(found) == COUNT
    assert deviations_of_counts(found, wanted) < DEVIATIONS


def test_orders_have_the_same_bits_on_every_target() -> None:
    order = sg.random.permutation(KEY, 500)
    few = sg.random.choice(KEY, 50, (7,), replace=False, p=np.arange(1.0, 51.0))
    graph = Graph([order, few], [])
    wanted = run_reference(graph, []).outputs
    for target in TARGETS:
        found = run_native(compile_for(graph, target), []).outputs
        for positions, expected in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(positions, expected)
