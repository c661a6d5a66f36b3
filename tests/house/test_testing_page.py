"""What `docs/testing.md` says that random programs cover is what they cover."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from symgrad.graph.compare import graphs_of
from symgrad.graph.graph import Graph
from symgrad.graph.structures import KernelSpec, Nested
from symgrad.passes.costs import kernel_spec
from tests.support.floors import TARGETS, Variant
from tests.support.fuzz_families import FAMILIES, THREADS, variant_in_turn, variants

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
STRUCTURES = tuple(cls.__name__ for cls in get_args(KernelSpec))
REGIONS = tuple(cls.__name__ for cls in get_args(Nested))
SEEDS = {
    **{"ops": 100, "long": 100, "training": 20, "control": 800},
    **{"recurrences": 60, "layers": 80, "complex": 80, "matrices": 250, "alike": 60},
    **{"attention": 60, "scores": 40, "rows": 60, "powers": 20},
}
# Programs take long to build. Those of the last seeds have what is rare.
FEWER_SEEDS = {
    "ops": range(24),
    "long": range(24),
    "training": (*range(4), 13),
    "control": (*range(20), 31, 32, 38, 52, 73),
    "recurrences": range(12),
    "layers": (*range(8), 35),
    "complex": (*range(16), 21),
    "matrices": (*range(16), 240),
    "alike": range(14),
    "attention": range(6),
    "scores": range(8),
    "rows": range(12),
    "powers": range(4),
}


def _visit(graph: Graph, around: str) -> Iterator[tuple[str, str]]:
    """Yield each structure of a graph with the structure whose graph it is directly in."""
    for node in graph.nodes:
        spec = kernel_spec(node)
        if spec is not None:
            yield around, type(spec).__name__
            for _, inner in graphs_of(node):
                yield from _visit(inner, type(spec).__name__)


@cache
def met(*, is_everything: bool) -> frozenset[tuple[str, str, str]]:
    """Return which structures the programs of a family have, and directly within which.

    No more programs are made once every structure is met within every other.
    """
    everything = set(itertools.product(["", *REGIONS], STRUCTURES))
    found = set()
    for name, family in FAMILIES.items():
        missing = set(everything)
        for seed in range(SEEDS[name]) if is_everything else FEWER_SEEDS[name]:
            if not missing:
                break
            pairs = set(_visit(family.program(seed)[0], ""))
            missing -= pairs
            found |= {(name, *pair) for pair in pairs}
    return frozenset(found)


def _table() -> dict[str, list[bool]]:
    """Return the rows of the table of structures: what is marked."""
    _, _, table = PAGE.read_text(encoding="utf-8").partition("| structure |")
    rows = itertools.takewhile(lambda line: line.startswith("|"), table.splitlines()[2:])
    cells = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    return {structure: [mark == "x" for mark in marks] for structure, *marks in cells}


def _found(structure: str, *, is_everything: bool) -> list[bool]:
    pairs = met(is_everything=is_everything)
    families = {family for family, _, found in pairs if found == structure}
    regions = {around for _, around, found in pairs if found == structure}
    return [*(f in families for f in FAMILIES), *(r in regions for r in REGIONS)]


def test_the_table_has_every_structure():
    assert tuple(_table()) == STRUCTURES


def test_what_the_programs_have_the_table_marks():
    table = _table()
    for structure in STRUCTURES:
        marks, found = table[structure], _found(structure, is_everything=False)
        assert marks[: len(FAMILIES)] == found[: len(FAMILIES)], structure
        assert all(mark or not is_met for mark, is_met in zip(marks, found, strict=True)), structure


@pytest.mark.slow
def test_what_the_table_marks_is_what_the_programs_have():
    assert _table() == {s: _found(s, is_everything=True) for s in STRUCTURES}


def test_every_structure_is_met_within_every_structure_with_graphs_of_its_own():
    first_region = len(FAMILIES)
    missing = [s for s, marks in _table().items() if not all(marks[first_region:])]
    assert missing == []


def test_layers_have_windows_of_every_kind():
    met_ops = {n.op for seed in range(16) for n in FAMILIES["layers"].program(seed)[0].nodes}
    assert {"convolution", "first_max"} <= met_ops


def test_each_target_runs_with_each_number_of_threads_and_each_kind_of_memory():
    _covers_everything([way for seed in range(1000) for way in variants(seed)])
    _covers_everything([variant_in_turn(seed) for seed in range(1000)])


def _covers_everything(ways: list[Variant]) -> None:
    found = {
        (w.target, w.threads.count, w.memory.side, w.memory.is_apart, w.opt_level) for w in ways
    }
    every = itertools.product(TARGETS, THREADS, ("end", "start"), (False, True), (0, 1))
    assert found == set(every)
