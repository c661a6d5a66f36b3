"""Random graphs on every floor: the reference, the passes, the loops, native code.

A seed is a graph and its inputs. Where floors disagree the message names the first that differs
and has the call that gives the graph: `run_everywhere(*random_program(7))` looks at it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from symgrad.config import override
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
from tests.support.networks import random_network
from tests.support.strategies import random_graph

SEEDS = range(40)
MORE_SEEDS = range(40, 1640)
NETWORKS = range(6)
MORE_NETWORKS = range(6, 406)
_BLOCK = 100

_INTEGERS = (dtypes.int32, dtypes.uint8, dtypes.int64, dtypes.int8, dtypes.uint16)
_FLOATS = (dtypes.float32, dtypes.float64)
_HALVES = (dtypes.float16, dtypes.bfloat16)

Program = tuple[Graph, list[Array]]


def random_program(seed: int) -> Program:
    """Return a graph of single ops, in two of five cases with gradients, and its inputs."""
    kind, number = seed % 5, seed // 5
    if kind == 0:
        return _forward(seed, _INTEGERS[number % len(_INTEGERS)])
    if kind == 1:
        return _forward(seed, _HALVES[number % 2])
    if kind == 2:
        return _forward(seed, _FLOATS[number % 2])
    return _with_gradients(seed, _FLOATS[number % 2])


def _forward(seed: int, dtype: DType) -> Program:
    rng = np.random.default_rng(seed)
    # What jumps may jump where two ways of computing differ in the last bit: the coarser the
    # dtype, the more often. Integers have all of it, and the wider floats too.
    return random_graph(rng, dtype=dtype, size=int(rng.integers(1, 14)), smooth=dtype.is_half)


def _with_gradients(seed: int, dtype: DType) -> Program:
    graph, inputs = _forward(seed, dtype)
    found = gradients(list(graph.outputs), [*graph.inputs, *graph.variables])
    outputs = [*graph.outputs, *(g for g in found if g is not None)]
    return Graph(outputs, graph.inputs, graph.updates, name="random"), inputs


def random_training(seed: int) -> Program:
    """Return a training step of a network, and its inputs."""
    return random_network(np.random.default_rng(seed), _FLOATS[seed % 2])


def _complaint(make: Callable[[int], Program], seed: int) -> str:
    graph, inputs = make(seed)
    try:
        different = run_everywhere(graph, inputs)
    except Exception as error:
        error.add_note(f"{make.__name__}({seed})")
        raise
    return "" if different is None else f"{make.__name__}({seed}): {different}\n{graph}"


@pytest.mark.parametrize("seed", SEEDS)
def test_all_floors_agree(seed):
    assert not _complaint(random_program, seed)


@pytest.mark.parametrize("seed", NETWORKS)
def test_all_floors_agree_on_a_training_step(seed):
    assert not _complaint(random_training, seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "first"),
    [(random_program, n) for n in range(MORE_SEEDS.start, MORE_SEEDS.stop, _BLOCK)]
    + [(random_training, n) for n in range(MORE_NETWORKS.start, MORE_NETWORKS.stop, _BLOCK)],
)
def test_all_floors_agree_on_2000_more(make, first):
    complaints = [_complaint(make, seed) for seed in range(first, first + _BLOCK)]
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

    monkeypatch.setattr("symgrad.codegen.arena.plan_memory", all_at_the_start)
    with override(verify=False):  # which says that temporaries overlap
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
