"""What the tests of calls share: a program with its functions kept, inlined, and as it is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from symgrad.graph.verify import verify
from symgrad.passes.calls import inline_calls as rule
from symgrad.passes.calls.callees import calls_in, graphs_within
from symgrad.passes.calls.inline_calls import inline_calls
from symgrad.passes.calls.share_calls import share_calls
from symgrad.passes.loops.merge_loops import merge_loops
from symgrad.passes.loops.prune_loops import prune_loops
from tests.support.control_programs import arrays
from tests.support.floors import run_everywhere


def kept(graph: Graph) -> Graph:
    """Return the program with all its calls, as it is before sizes are put in."""
    return share_calls(prune_loops(merge_loops(graph)))


def inlined(graph: Graph, monkeypatch: Any) -> Graph:
    """Return the program without any call."""
    monkeypatch.setattr(rule, "SMALL_FUNCTION", 10**9)
    return kept(inline_calls(graph))


def count_calls(graph: Graph) -> int:
    """Return how many calls are written in a program, those in functions once."""
    return sum(1 for inner in graphs_within(graph) for _ in calls_in(inner))


def run_both(outputs: Sequence[Tensor], given: Mapping[Tensor, Any], monkeypatch: Any) -> list[Any]:
    """Return `outputs` as the reference has them.

    The program is run on all floors with its functions kept, and must give the same without any.
    """
    graph = Graph(list(outputs), list(given))
    values = arrays(given)
    found, _ = evaluate(graph, values)
    with_calls, without = kept(graph), inlined(graph, monkeypatch)
    assert count_calls(with_calls)
    assert not count_calls(without)
    for program in (with_calls, without):
        verify(program)
        difference = run_everywhere(program, values, targets=("native",))
        assert difference is None, difference
    _agree(evaluate(without, values)[0], found)
    return found


def _agree(found: Sequence[Array], wanted: Sequence[Array]) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
