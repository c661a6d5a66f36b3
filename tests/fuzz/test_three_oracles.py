"""Random graphs on every floor: the reference, the passes, the loops, native code.

A seed is a graph and its inputs. Where floors disagree the message names the first that differs
and has the call that gives the graph: `run_everywhere(*random_program(7))` looks at it again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symgrad.codegen.program.plan_memory import Request
from symgrad.codegen.program.run import Results
from symgrad.config import override
from symgrad.frontend.state import variable
from symgrad.graph.dtypes import float32, float64
from symgrad.graph.graph import Graph, Update
from symgrad.graph.leaf import placeholder
from symgrad.graph.ops.contraction import matmul
from symgrad.graph.ops.conversion import astype
from symgrad.graph.ops.reduction import sum as sum_of
from symgrad.graph.ops.transcendental import sin, tanh
from symgrad.graph.ops.whole_numbers import floor
from symgrad.graph.types import Array
from tests.support import floors
from tests.support.floors import TARGETS, TOLERANCES, coarsest, is_unstable, run_everywhere
from tests.support.fuzz_families import (
    FAMILIES,
    Program,
    random_complex,
    random_program,
    random_training,
    variant_in_turn,
)
from tests.support.fuzz_worker import UNSTABLE, complaint

ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(24)
NETWORKS = range(3)


def slow(seeds: Iterable[int], *long: int) -> list[Any]:
    """Return the seeds, of which some are those of long programs."""
    return [pytest.param(n, marks=pytest.mark.slow) if n in long else n for n in seeds]


def _complaint(make: Callable[[int], Program], seed: int, targets: Sequence[str] = TARGETS) -> str:
    graph, inputs = make(seed)
    try:
        different = run_everywhere(graph, inputs, targets=targets)
    except Exception as error:
        error.add_note(f"{make.__name__}({seed})")
        raise
    return "" if different is None else f"{make.__name__}({seed}): {different}\n{graph}"


@pytest.mark.parametrize("seed", SEEDS)
def test_all_floors_agree_for_the_target_whose_turn_it_is(seed):
    # Of the kinds of programs there are five, so each meets each target.
    assert not _complaint(random_program, seed, [TARGETS[seed % 3]])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_all_floors_agree(seed):
    assert not _complaint(random_program, seed)


@pytest.mark.parametrize("seed", slow(NETWORKS, 0, 2))
def test_all_floors_agree_on_a_training_step(seed):
    assert not _complaint(random_training, seed)


@pytest.mark.parametrize("seed", range(10))
def test_all_floors_agree_on_complex_numbers(seed):
    assert not _complaint(random_complex, seed, [TARGETS[seed % 3]])


# The last ones fill around results that are placed, and in between them.
@pytest.mark.parametrize("seed", [*range(4), 19, 22, 64, 69, 144])
def test_all_floors_agree_on_layers_in_the_way_whose_turn_it_is(seed):
    wrong = complaint(FAMILIES["layers"], seed, [variant_in_turn(seed)])
    assert wrong in ("", UNSTABLE), wrong


# In the last one, elements are written over after their row was filled.
@pytest.mark.parametrize("seed", [*range(9), 13])
def test_all_floors_but_the_loops_agree_on_long_axes_in_the_way_whose_turn_it_is(seed):
    wrong = complaint(FAMILIES["long"], seed, [variant_in_turn(seed)])
    assert wrong in ("", UNSTABLE), wrong


@pytest.mark.parametrize("seed", [1, 4])
def test_all_floors_but_the_loops_agree_on_alike_graphs_in_the_way_whose_turn_it_is(seed):
    with override(verify=True):  # that what is made of a template is what is made alone
        wrong = complaint(FAMILIES["alike"], seed, [variant_in_turn(seed)])
    assert wrong in ("", UNSTABLE), wrong


def fuzz(*arguments: object) -> str:
    """Run `tools/fuzz.py`; return what it printed if something was wrong, else ''."""
    command = [sys.executable, str(ROOT / "tools" / "fuzz.py"), *map(str, arguments)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"{arguments[1]} programs" in found.stdout, found.stdout + found.stderr
    return found.stdout if found.returncode else ""


# A program of some of the families runs with the quick tests, in `test_memory`.
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_all_floors_agree_between_guard_pages(family):
    count = 1 if family == "training" else 3
    assert not fuzz("--programs", count, "--family", family, "--jobs", 1, "--in-turn")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_all_floors_agree_between_guard_pages_on_every_target(family):
    assert not fuzz("--programs", 3, "--family", family, "--jobs", 1)


@pytest.mark.slow
def test_all_floors_agree_on_2000_more():
    assert not fuzz("--programs", 2000, "--first", 100)


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
        ("run_program", "the loops for native"),
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
    def wrong(graph: Graph, _runner: object) -> Graph:
        return Graph([x + 1 for x in graph.outputs], graph.inputs, graph.updates)

    monkeypatch.setattr("symgrad.compiler.run_graph_passes", wrong)
    different = run_everywhere(*_two_products())
    assert different is not None
    assert different.floor == "the graph after the passes for native"


def test_a_plan_of_memory_that_is_wrong_is_found_in_the_loops(monkeypatch):
    def all_at_the_start(requests: Sequence[Request]) -> tuple[list[int], int]:
        return [0] * len(requests), max(r.size for r in requests)

    monkeypatch.setattr("symgrad.codegen.program.arena.plan_memory", all_at_the_start)
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


def test_a_program_that_jumps_by_itself_is_no_disagreement():
    x = placeholder((3,), "float64")
    given = [np.array([0.1, 0.2, 0.3])]
    rounded = sum_of(x * 10.0) - 6.0  # 0, up to the last bits
    assert is_unstable(Graph(floor(rounded), [x]), given)
    assert not is_unstable(Graph(rounded, [x]), given)


def test_a_program_whose_variables_make_it_jump_is_no_disagreement():
    w = variable(np.array([0.1, 0.2, 0.3]), name="w")
    rounded = sum_of(w * 10.0) - 6.0
    assert is_unstable(Graph([], [], [Update(w, w * floor(rounded))]), [])
    assert not is_unstable(Graph([], [], [Update(w, w * rounded)]), [])
    np.testing.assert_array_equal(w.value, [0.1, 0.2, 0.3])


def test_results_are_as_exact_as_the_coarsest_float_of_the_program():
    x = placeholder((3,), "float64")
    assert coarsest(Graph(tanh(x), [x])) == TOLERANCES[float64]
    assert coarsest(Graph(astype(astype(x, "float32"), "float64"), [x])) == TOLERANCES[float32]
