"""Loops that another loop contains: random pairs of loops compute what they did apart.

The variables of a pair begin with few tensors and move by few functions, so that some are equal,
some begin alike and some move alike; one has them in another order, all of them or a part, and may
run longer, stack some or be in a branch.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.verify import verify
from symgrad.passes.pipeline import optimize
from symgrad.passes.table import Options

SEEDS = range(60)
MORE_SEEDS = range(60, 2000)
MOVES: tuple[Any, ...] = (
    lambda a, b: a * 0.5 + b,
    lambda a, b: sg.sin(a - b),
    lambda a, b: sg.where(a < b, a, b * 0.9),
    lambda a, _b: a + 0.25,
    lambda a, _b: a,
)


def _program(seed: int) -> tuple[Graph, list[Any]]:
    rng = np.random.default_rng(seed)
    starts = [sg.placeholder((), "float64", f"x{i}") for i in range(2)]
    count = int(rng.integers(2, 5))
    rules = [(rng.integers(2), rng.integers(len(MOVES)), rng.integers(count)) for _ in range(count)]
    first = _loop(rng, starts, rules, 4)
    if rng.integers(2):  # another loop
        place = int(rng.integers(count))
        rules[place] = (rng.integers(2), rng.integers(len(MOVES)), rng.integers(count))
    trips = 4 if rng.integers(4) else 3
    if rng.integers(2):
        second = _loop(rng, starts, rules, trips)
    else:
        is_taken = sum(t.sum() for t in first) < 1.0
        zero = sg.zeros((), "float64")
        second = [
            sg.cond(
                is_taken,
                lambda: sum(t.sum() for t in _loop(rng, starts, rules, trips)),
                lambda: zero,
            )
        ]
    return Graph([*first, *second], starts), list(rng.normal(size=2))


def _loop(rng: Any, starts: list[Tensor], rules: list[Any], trips: int) -> list[Tensor]:
    """Return results of a loop over variables that move by `rules`, in some order."""
    order = [int(i) for i in rng.permutation(len(rules))]
    place = {variable: i for i, variable in enumerate(order)}
    begins = [starts[rules[i][0]] for i in order]

    def move(*values: Tensor) -> list[Tensor]:
        return [
            MOVES[rules[i][1]](values[place[i]], values[place[int(rules[i][2])]]) for i in order
        ]

    kept = [i for i in range(len(order)) if rng.integers(3)] or [0]
    if rng.integers(2):
        limit = sg.asarray(trips, dtype="int64")
        _, *found = sg.while_loop(
            lambda n, *_: n < limit,
            lambda n, *values: (n + 1, *move(*values)),
            [sg.asarray(0, dtype="int64"), *begins],
        )
        return [found[i] for i in kept]
    last, stacks = sg.scan(
        lambda values, _: (tuple(move(*values)), values[0]), tuple(begins), length=trips
    )
    return [*(last[i] for i in kept), *([stacks] if rng.integers(2) else [])]


def complaint(seed: int, fired: Counter[str]) -> str:
    """Return what is wrong with the program of a seed, '' if nothing is; count the rewrites."""
    graph, inputs = _program(seed)
    arrays = [np.asarray(x) for x in inputs]
    options = Options(on_rewrite=lambda r: fired.update([r.rule]), verify=True)
    changed = optimize(graph, options=options)
    verify(changed)
    wanted, found = evaluate(graph, arrays)[0], evaluate(changed, arrays)[0]
    same = all(np.allclose(a, b, 1e-12, 1e-12) for a, b in zip(wanted, found, strict=True))
    return "" if same else f"seed {seed}\n{graph}\n{changed}"


def test_random_pairs_of_loops_give_what_they_gave():
    fired: Counter[str] = Counter()
    complaints = [complaint(seed, fired) for seed in SEEDS]
    assert not any(complaints), "\n".join(filter(None, complaints))
    assert fired["join-loops"]


@pytest.mark.slow
def test_many_more_random_pairs_of_loops_give_what_they_gave():
    fired: Counter[str] = Counter()
    complaints = [complaint(seed, fired) for seed in MORE_SEEDS]
    assert not any(complaints), "\n".join(filter(None, complaints))
