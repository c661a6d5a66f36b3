"""Random graphs on every floor: the reference, the passes, the loops, native code.

A seed is a graph and its inputs; where floors disagree the message has the seed, and names the
first floor that differs. `run_everywhere(*random_program(seed))` is the way to look at it again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph, Update
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.leaf import placeholder
from symgrad.graph.ops.transcendental import sin, tanh
from symgrad.graph.state import variable
from symgrad.graph.types import Array
from symgrad.passes.gradients import gradients
from symgrad.passes.plan_memory import Request
from tests.support import floors
from tests.support.floors import Results, run_everywhere
from tests.support.strategies import random_graph

SEEDS = range(50)
MORE_SEEDS = range(50, 2050)
_BLOCK = 100

# Integers are compared bit by bit, so all ops are among theirs. On floats two ways of computing
# may differ in the last bit, which an op that jumps makes a difference of 1.
_INTEGERS = (dtypes.int32, dtypes.uint8, dtypes.int64, dtypes.int8, dtypes.uint16)
_FLOATS = (dtypes.float32, dtypes.float64)
_HALVES = (dtypes.float16, dtypes.bfloat16)


def random_program(seed: int) -> tuple[Graph, list[Array]]:
    """Return a graph, in two of five cases with gradients, and its inputs."""
    kind, number = seed % 5, seed // 5
    if kind == 0:
        return _forward(seed, _INTEGERS[number % len(_INTEGERS)])
    if kind == 1:
        return _forward(seed, _HALVES[number % 2] if number % 4 == 0 else _FLOATS[number % 2])
    if kind == 2:
        return _forward(seed, _FLOATS[number % 2])
    return _with_gradients(seed, _FLOATS[number % 2])


def _forward(seed: int, dtype: DType) -> tuple[Graph, list[Array]]:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 14))
    return random_graph(rng, dtype=dtype, size=size, smooth=dtype.is_float)


def _with_gradients(seed: int, dtype: DType) -> tuple[Graph, list[Array]]:
    graph, inputs = _forward(seed, dtype)
    found = gradients(list(graph.outputs), [*graph.inputs, *graph.variables])
    outputs = [*graph.outputs, *(g for g in found if g is not None)]
    return Graph(outputs, graph.inputs, graph.updates, name="random"), inputs


def _complaint(seed: int) -> str:
    graph, inputs = random_program(seed)
    try:
        different = run_everywhere(graph, inputs)
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise
    return "" if different is None else f"seed {seed}: {different}\n{graph}"


@pytest.mark.parametrize("seed", SEEDS)
def test_all_floors_agree(seed):
    assert not _complaint(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(MORE_SEEDS.start, MORE_SEEDS.stop, _BLOCK))
def test_all_floors_agree_on_many_more(first):
    complaints = [_complaint(seed) for seed in range(first, first + _BLOCK)]
    assert not any(complaints), "\n".join(filter(None, complaints))


# ------------------------------------------------------------------ the oracles can say no


def _two_products() -> tuple[Graph, list[Array]]:
    """Return a graph with two temporaries that are needed together."""
    x = placeholder((24, 24), name="x")
    graph = Graph(tanh(matmul(x, x)) @ sin(matmul(x, x.T)), [x])
    return graph, [np.linspace(-1, 1, 24 * 24, dtype=np.float32).reshape(24, 24)]


def _one_too_many(results: Results) -> Results:
    return Results([a + 1 for a in results.outputs], results.state)


@pytest.mark.parametrize(
    ("broken", "floor"),
    [
        ("run_loops", "the loops for native"),
        ("run_native", "native code for native"),
    ],
)
def test_a_floor_that_is_wrong_is_named(broken, floor, monkeypatch):
    right = getattr(floors, broken)
    monkeypatch.setattr(floors, broken, lambda *given: _one_too_many(right(*given)))
    different = run_everywhere(*_two_products())
    assert different is not None
    assert different.floor == floor
    assert different.result == "output 0"
    assert str(different).startswith(f"{floor} differs from the reference in output 0:\n  found")


def test_a_pass_that_is_wrong_is_named(monkeypatch):
    def wrong(graph: Graph, options: object) -> Graph:
        return Graph([x + 1 for x in graph.outputs], graph.inputs, graph.updates)

    monkeypatch.setattr("symgrad.runtime.executable.optimize_graph", wrong)
    different = run_everywhere(*_two_products())
    assert different is not None
    assert different.floor == "the graph after the passes for native"


def test_a_plan_of_memory_that_is_wrong_is_found_in_the_loops(monkeypatch):
    def all_at_the_start(requests: Sequence[Request]) -> tuple[list[int], int]:
        return [0] * len(requests), max(r.size for r in requests)

    monkeypatch.setattr("symgrad.codegen.program.plan_memory", all_at_the_start)
    different = run_everywhere(*_two_products())
    assert different is not None
    assert different.floor == "the loops for native"


def test_a_variable_that_is_wrong_is_named(monkeypatch):
    w = variable([1.0, 2.0], name="w")
    graph = Graph([], [], [Update(w, w * 2)])
    assert run_everywhere(graph, []) is None
    monkeypatch.setattr(floors, "run_native", lambda *_: Results([], {w.state: w.value}))
    different = run_everywhere(graph, [])
    assert different is not None
    assert different.result == "variable w"
    np.testing.assert_array_equal(w.value, [1.0, 2.0])
