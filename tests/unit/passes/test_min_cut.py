"""The cut is as cheap as the cheapest of all choices, and a choice that suffices."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, combinations

import numpy as np
import pytest

from symgrad.graph.graph import Graph
from symgrad.graph.leaf import placeholder
from symgrad.graph.node import Node, Tensor
from symgrad.graph.ops.arithmetic import add
from symgrad.graph.ops.transcendental import sin
from symgrad.passes.loops.min_cut import NEVER, cheapest_cut


def _random_nodes(rng: np.random.Generator) -> tuple[list[Tensor], list[Node]]:
    given = [placeholder((3,)) for _ in range(2)]
    pool = list(given)
    for _ in range(6):
        x, y = (pool[int(rng.integers(len(pool)))] for _ in range(2))
        pool.append(sin(x) if rng.integers(2) else add(x, y))
    return given, [t.node for t in pool[2:]]


def _cost(
    prices: dict[object, int], needed: Collection[Tensor], own: set[Node], kept: Collection[Tensor]
) -> int:
    """Return what it costs to have `needed` if exactly `kept` are kept."""
    total, seen, pending = 0, set(), list(needed)
    while pending:
        tensor = pending.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        is_computed = tensor.node in own and tensor not in kept
        total += prices[tensor.node] if is_computed else prices[tensor]
        pending += tensor.node.inputs if is_computed else ()
    return total


@pytest.mark.parametrize("seed", range(40))
def test_no_choice_is_cheaper(seed):
    rng = np.random.default_rng(seed)
    given, nodes = _random_nodes(rng)
    own = set(nodes)
    results = [n.output for n in nodes]
    prices: dict[object, int] = {t: int(rng.integers(1, 20)) for t in (*given, *results)}
    prices |= {n: int(rng.integers(1, 20)) for n in nodes}
    needed = [results[-1], results[int(rng.integers(len(results)))]]
    found = cheapest_cut(
        nodes, needed, compute=prices.__getitem__, keep=prices.__getitem__, read=prices.__getitem__
    )
    every = chain.from_iterable(combinations(results, n) for n in range(len(results) + 1))
    least = min(_cost(prices, needed, own, set(kept)) for kept in every)
    assert _cost(prices, needed, own, found) == least


def test_what_must_not_be_kept_is_computed():
    x = placeholder((3,))
    first, second = sin(x), sin(sin(x))
    nodes = [n for n in Graph([first, second]).nodes if n.inputs]
    cut = {"compute": lambda _: 100, "keep": lambda _: NEVER, "read": lambda _: 0}
    assert not cheapest_cut(nodes, [second], **cut)
    assert list(cheapest_cut(nodes, [second], **{**cut, "keep": lambda _: 1})) == [second]


def test_what_costs_nothing_but_reading_is_not_kept():
    x = placeholder((3,))
    y = sin(x)
    cut = {"keep": lambda _: 1, "read": lambda _: 100}
    assert not cheapest_cut([y.node], [y], compute=lambda _: 0, **cut)
    assert list(cheapest_cut([y.node], [y], compute=lambda _: 1, **cut)) == [y]


def test_a_chain_of_thousands_is_cut_where_it_is_cheapest():
    tensors = [placeholder((3,))]
    for _ in range(3000):
        tensors.append(sin(tensors[-1]))
    keep = {t: 50_000 - 3 * i if i < 2000 else 60_000 for i, t in enumerate(tensors)}
    nodes = [t.node for t in tensors[1:]]
    kept = cheapest_cut(
        nodes, tensors[-1:], compute=lambda _: 2, keep=keep.__getitem__, read=lambda _: 99_999
    )
    assert list(kept) == [tensors[1999]]
