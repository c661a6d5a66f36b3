"""Loops that are equal up to the buffers they work on, and loops that are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import symgrad as sg
from symgrad.codegen.program.equal_loops import canonical_text
from symgrad.codegen.program.language import ScanInstr, WhileInstr
from symgrad.graph.graph import Graph
from tests.support.floors import program_for

Loop = Callable[[sg.Tensor, sg.Tensor], Any]


def halved(v: sg.Tensor, n: sg.Tensor) -> Any:
    return sg.fori_loop(0, n, lambda _i, v: v * 0.5, v)


def texts(*loops: Loop) -> list[str]:
    """Return the canonical text of each loop in a program of all of them, one after another."""
    v, n = sg.placeholder((8,), name="v"), sg.placeholder((), "int64", name="n")
    x = v
    for loop in loops:
        x = loop(x, n)
    program = program_for(Graph(x, [v, n]), "x86-64-v4")
    return [canonical_text(s) for s in program.instrs if isinstance(s, WhileInstr | ScanInstr)]


def test_loops_on_other_buffers_are_equal():
    first, second, third = texts(halved, halved, halved)
    # The last one's loop variable is copied to the output, the others' to the next loop's.
    assert first == second == third


@pytest.mark.parametrize(
    "other",
    [
        lambda v, n: sg.fori_loop(0, n, lambda _i, v: v * 0.25, v),
        lambda v, n: sg.fori_loop(0, 4, lambda _i, v: v * 0.5, v),
        lambda v, n: sg.fori_loop(0, n, lambda _i, v: halved(v, n), v),
        lambda v, n: sg.while_loop(lambda v: v[0] > 0.1, lambda v: v * 0.5, v),
        lambda v, n: sg.scan(lambda v, x: (v * 0.5, ()), v, sg.zeros((3, 1)))[0],
    ],
    ids=["another kernel", "another bound", "a nested loop", "another condition", "slices"],
)
def test_loops_that_do_something_else_differ(other):
    first, second = texts(halved, other)
    assert first != second


def test_loops_that_fail_in_other_ops_differ():
    def looked_up(v: sg.Tensor, n: sg.Tensor) -> Any:
        return sg.fori_loop(0, n, lambda i, v: sg.take(v, i) + v, v)

    first, second = texts(looked_up, looked_up)
    assert first != second
