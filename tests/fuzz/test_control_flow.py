"""Random compositions of branches and loops, with gradients: native code against the reference.

A seed is a program and its inputs; `complaint(seed)` is the way to look at one again.
"""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.graph import dtypes
from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.ops.reduction import sum as sum_of
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from symgrad.graph.verify import verify
from symgrad.passes.gradients.reverse_mode import gradients
from symgrad.passes.loops.merge_loops import merge_loops
from symgrad.passes.loops.prune_loops import prune_loops
from symgrad.runtime.function import compile
from tests.support.strategies import random_graph

SEEDS = (*range(12), 18, 55, 167)
LONG = pytest.param(0, marks=pytest.mark.slow)  # takes as long as all others together
MORE_SEEDS = range(12, 312)
_BLOCK = 50
_TOLERANCE = 1e-9  # relative to the largest element, in float64


def random_program(seed: int) -> tuple[Graph, list[Array]]:
    """Return a graph of branches and loops with first gradients, in one of four with second."""
    rng = np.random.default_rng(seed)
    graph, inputs = random_graph(
        rng, dtype=dtypes.float64, size=int(rng.integers(1, 4)), smooth=True, control=True
    )
    xs = [*graph.inputs, *graph.variables]
    found = [g for g in gradients(list(graph.outputs), xs) if g is not None]
    if seed % 4 == 0 and found:
        total = sum_of(sum((sum_of(g) for g in found[1:]), sum_of(found[0])))
        found += [g for g in gradients(total, xs) if g is not None]
    outputs = [*graph.outputs, *found]
    return Graph(outputs, graph.inputs, graph.updates, name="random"), inputs


def complaint(seed: int, opt_level: int = 3) -> str:
    """Return what is wrong with the program of a seed, '' if nothing is."""
    graph, inputs = random_program(seed)
    verify(graph)
    smaller = prune_loops(merge_loops(graph))
    verify(smaller)
    wanted, _ = evaluate(graph, inputs)
    again, _ = evaluate(smaller, inputs)
    if [a.tobytes() for a in wanted] != [a.tobytes() for a in again]:
        return f"seed {seed}: merged and pruned, the reference gives something else\n{graph}"
    native = compile(list(smaller.inputs), list(smaller.outputs), opt_level=opt_level)(*inputs)
    for position, (want, found) in enumerate(zip(wanted, native, strict=True)):
        apart = np.abs(want - found).max(initial=0)
        if not apart <= _TOLERANCE * max(1.0, np.abs(want).max(initial=0)):
            return f"seed {seed}: output {position} is {apart} apart\n{graph}"
    return ""


@pytest.mark.parametrize("seed", [LONG, *SEEDS[1:]])
def test_native_code_of_branches_and_loops_agrees_with_the_reference(seed):
    assert not complaint(seed, opt_level=seed % 2)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(MORE_SEEDS.start, MORE_SEEDS.stop, _BLOCK))
def test_native_code_of_many_more_agrees(first):
    complaints = [complaint(seed) for seed in range(first, first + _BLOCK)]
    assert not any(complaints), "\n".join(filter(None, complaints))


def test_the_programs_have_branches_and_loops_within_one_another():
    graphs = [random_program(seed)[0] for seed in SEEDS]
    ops = [op for graph in graphs for op in _nested_ops(graph)]
    for op in ("switch", "while", "scan"):
        assert any(path.endswith(f"/{op}") for path in ops), f"no {op} is inside of another op"


def _nested_ops(graph: Graph, path: str = "") -> list[str]:
    found = []
    for node in graph.nodes:
        for _, inner in graphs_of(node):
            here = f"{path}/{node.op}" if path else node.op
            found += [here, *_nested_ops(inner, here)]
    return found
