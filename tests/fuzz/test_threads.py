"""The same bits from any number of threads: random graphs, and each op of the table.

What is small is shared too here, cut finely and, but for one thread, interleaved. A seed is a
program of `test_three_oracles`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from symgrad.codegen.kernel_costs import kernel_parts
from symgrad.codegen.schedule import parallelize as share_work
from symgrad.codegen.schedule import two_stage_reduction as split_folds
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.cost_model import VECTORS_IN_FLIGHT
from symgrad.graph.graph import Graph
from symgrad.graph.types import Array
from symgrad.runtime.executable import Executable
from tests.support.case import Case, draw, placeholders
from tests.support.cases import CASES
from tests.support.elementary_cases import ELEMENTARY
from tests.support.elementwise_cases import ELEMENTWISE
from tests.support.floors import compile_for, optimized_once, run_everywhere, run_native
from tests.support.fuzz_families import random_program, random_training
from tests.support.schedules import interleaved
from tests.support.special_cases import SPECIAL

COUNTS = (1, 2, 3, 4)


def batched(cases: Sequence[Case], size: int) -> list[Sequence[Case]]:
    """Return `cases` in pieces: what makes one program takes far less than as many programs."""
    return [cases[start : start + size] for start in range(0, len(cases), size)]


_NETWORKS = [
    pytest.param(random_training, 0, marks=pytest.mark.slow),
    (random_training, 1),
]


@pytest.fixture(autouse=True)
def cut_finely(monkeypatch):
    monkeypatch.setattr(share_work, "UNCUT", 1)
    monkeypatch.setattr(split_folds, "PIECES", 2)


def differing(
    graph: Graph, inputs: Sequence[Array], counts: Sequence[int] = COUNTS
) -> tuple[list[int], int]:
    """Return the numbers of threads whose bits differ from those of the first, and the parts."""
    executables = []
    with optimized_once():
        for count in counts:
            with interleaved(1 if count == counts[0] else max(VECTORS_IN_FLIGHT)):
                executables.append(compile_for(graph, threads=Threads(count, least_cycles=0)))
    results = [_bits(executable, inputs) for executable in executables]
    parts = max((kernel_parts(k) for e in executables for k in e.program.kernels), default=1)
    return [n for n, found in zip(counts, results, strict=True) if found != results[0]], parts


def _bits(executable: Executable, inputs: Sequence[Array]) -> list[bytes]:
    results = run_native(executable, inputs)
    return [a.tobytes() for a in (*results.outputs, *results.state.values())]


# A Map is shared among threads as every other is, whatever it computes.
_OPS_OF_MAPS = {case.op for case in (*ELEMENTWISE, *ELEMENTARY, *SPECIAL)}


def some_first(cases: Sequence[Case], rows: int, maps: int, size: int) -> list[Any]:
    """Return the cases in pieces of `size`: `rows` of each op and `maps` of all Maps, then others.

    The others are slow, with what is composed of ops that have rows of their own.
    """
    left: Counter[str | None] = Counter(dict.fromkeys((c.op for c in cases if c.op), rows))
    left["Map"] = maps
    first: list[Case] = []
    others: list[Case] = []
    for case in cases:
        kind = "Map" if case.op in _OPS_OF_MAPS and case.op else case.op
        (first if left[kind] > 0 else others).append(case)
        left[kind] -= 1
    slow = (pytest.param(piece, marks=pytest.mark.slow) for piece in batched(others, size))
    return [*batched(first, size), *slow]


@pytest.mark.parametrize("cases", some_first(CASES, 3, 12, 12), ids=lambda cases: cases[0].name)
def test_each_op_gives_the_same_bits(cases):
    xs = [placeholders(case, case.dtypes[0]) for case in cases]
    results = [case.build(*of_case) for case, of_case in zip(cases, xs, strict=True)]
    given = [array for case in cases for array in draw(case, case.dtypes[0])]
    graph = Graph(results, [x for of_case in xs for x in of_case])
    assert differing(graph, given, (1, 3))[0] == []


def resized(cases: Sequence[Case]) -> list[Case]:
    """Return the cases once with each of their other shapes."""
    return [case.with_shapes(shapes) for case in cases for shapes in case.also]


@pytest.mark.parametrize(
    "cases", some_first(resized(CASES), 6, 24, 24), ids=lambda cases: cases[0].name
)
def test_each_op_gives_the_same_bits_for_empty_and_single_axes(cases):
    test_each_op_gives_the_same_bits(cases)


@pytest.mark.parametrize(("make", "seed"), [*((random_program, n) for n in range(8)), *_NETWORKS])
def test_random_programs_give_the_same_bits(make, seed):
    graph, inputs = make(seed)
    assert differing(graph, inputs, (1, 2 + seed % 3))[0] == []


@pytest.mark.parametrize(("make", "seed"), [*((random_program, n) for n in range(4)), *_NETWORKS])
def test_parts_on_all_floors_give_what_the_reference_gives(make, seed):
    threads = Threads(3, least_cycles=0)
    assert run_everywhere(*make(seed), targets=("native",), threads=threads) is None


def test_there_are_parts_in_what_is_compared():
    assert differing(*random_training(1), (1, 4)) == ([], 4)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 500, 50))
def test_400_more_programs_give_the_same_bits(first):
    wrong = [
        f"{make.__name__}({seed}): {counts} threads differ"
        for make in (random_program, random_training)
        for seed in range(first, first + 50)
        if (counts := differing(*make(seed))[0])
    ]
    assert wrong == []
