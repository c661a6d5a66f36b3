"""Random compositions of branches and loops with gradients, for three cases at once by vmap.

A seed is a program and its inputs; `complaint(seed)` is the way to look at one again. The cases
differ in their floats, so that branches and loops go other ways in each of them.
"""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.graph.graph import Graph
from symgrad.graph.reference import evaluate
from symgrad.graph.types import Array
from symgrad.graph.verify import verify
from symgrad.passes.batching.vmap import batch
from tests.fuzz.test_control_flow import LONG, random_program

SEEDS = range(6)
MORE_SEEDS = range(6, 206)
_BLOCK = 50
_SIZE = 3
_TOLERANCE = 1e-9  # relative to the largest element, in float64


def _cases(rng: np.random.Generator, inputs: list[Array]) -> list[list[Array]]:
    """Return inputs like the given ones for each case."""
    return [
        [a * rng.uniform(0.8, 1.2, a.shape) if a.dtype.kind == "f" and k else a for a in inputs]
        for k in range(_SIZE)
    ]


def complaint(seed: int) -> str | None:
    """Return what is wrong with the program of a seed, '' if nothing is, None if it is refused."""
    graph, inputs = random_program(seed)
    cases = _cases(np.random.default_rng(seed), inputs)
    stacks = {x: sg.placeholder((_SIZE, *x.shape), x.dtype) for x in graph.inputs}
    try:
        outputs = batch(graph.outputs, stacks, _SIZE)
    except sg.CompileError:
        return None
    mapped = Graph(outputs, list(stacks.values()))
    verify(mapped)
    found, _ = evaluate(mapped, [np.stack(column) for column in zip(*cases, strict=True)])
    for k, case in enumerate(cases):
        wanted, _ = evaluate(graph, case)
        for position, (want, result) in enumerate(zip(wanted, found, strict=True)):
            apart = np.abs(want - result[k]).max(initial=0)
            if not apart <= _TOLERANCE * max(1.0, np.abs(want).max(initial=0)):
                return f"seed {seed}: case {k} of output {position} is {apart} apart\n{graph}"
    return ""


@pytest.mark.parametrize("seed", [LONG, *SEEDS[1:]])
def test_a_random_program_is_the_same_for_all_cases_at_once(seed):
    assert complaint(seed) == ""


@pytest.mark.slow
@pytest.mark.parametrize("start", MORE_SEEDS[::_BLOCK])
def test_more_random_programs_are_the_same_for_all_cases_at_once(start):
    found = [complaint(seed) for seed in range(start, start + _BLOCK)]
    assert not any(found), next(filter(None, found))
    assert found.count("") > _BLOCK // 2
