"""Rows that are joined of pieces: which pieces have loops in one loop over rows, and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import For, Kernel
from symgrad.codegen.loops.rewrite import statements
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.graph.graph import Graph
from tests.support.floors import Memory, Variant, program_for, run_variants
from tests.support.programs import kernel_from

N = 100
X = sg.placeholder((N, 26), "float64", name="x")
W = sg.placeholder((N, 5), "float64", name="w")
AT = sg.placeholder((N,), "int64", name="i")


def _nests(kernel: Kernel) -> list[list[int]]:
    """Return for each loop of the kernel itself the extents of the loops in it."""
    outer = (s for s in kernel.body if isinstance(s, For))
    return [[s.extent for s in statements(loop.body) if isinstance(s, For)] for loop in outer]


def test_the_pieces_of_a_row_are_written_one_after_another():
    assert _nests(kernel_from(sg.concat([W, sg.exp(X)], axis=1))) == [[5, 26]]


def test_what_both_pieces_look_up_is_looked_up_once_for_a_row():
    rows = [sg.take(t, AT % N, axis=0) for t in (X, W)]
    (kernel,) = program_for(Graph([sg.concat(rows, axis=1)], [X, W, AT])).kernels
    assert _nests(kernel) == [[26, 5]]


@pytest.mark.parametrize(
    "pieces",
    [
        [X, X, X],  # rows of more than some cache lines
        [W[:, :1], X],  # a piece that is no vector
        [X, sg.placeholder((5, N), "float64").T],  # vectors lie along columns
    ],
    ids=["long", "single", "transposed"],
)
def test_pieces_have_loops_of_their_own(pieces):
    assert len(_nests(kernel_from(sg.concat(pieces, axis=1)))) == len(pieces)


def test_pieces_of_other_rows_have_loops_of_their_own():
    other = sg.placeholder((N, 26), "float64", name="other")
    assert len(_nests(kernel_from(sg.concat([X, other * 2.0], axis=0)))) == 2


def test_pieces_of_other_rows_that_read_the_same_are_one_nest():
    assert len(_nests(kernel_from(sg.concat([X, X * 2.0], axis=0)))) == 1


PROGRAMS: dict[str, Callable[[], Any]] = {
    "elementwise": lambda: sg.concat([W, sg.exp(X), X[:, ::2] * W[:, :1]], axis=1),
    "looked up": lambda: sg.concat([sg.take(W, AT, axis=0), sg.take(X, AT, axis=0)], axis=1),
    "checked where one piece is made": lambda: sg.concat([W, sg.take(X, AT, axis=0)], axis=1),
    "backwards": lambda: sg.concat([W[:, ::-1], X], axis=1),
    "joined axes": lambda: sg.concat(
        [
            sg.reshape(t, (N, -1))
            for t in (sg.reshape(W, (4, 25, 5)) * 2.0, sg.exp(sg.reshape(X, (4, 25, 26))))
        ],
        axis=1,
    ),
    "of many axes": lambda: sg.concat(
        [sg.reshape(W, (10, 2, 5, 5)), sg.reshape(X, (10, 2, 5, 26)) + 1.0], axis=3
    ),
}


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_what_numpy_gives(name, target):
    y = PROGRAMS[name]()
    gradients = sg.gradients(sg.sum(sg.sin(y)), [X, W], unconnected_gradients="zero")
    graph = Graph([y, *gradients], [X, W, AT])
    random = np.random.default_rng(0)
    given = [random.random((N, 26)), random.random((N, 5)), random.integers(-N, N, N)]
    variants = [
        Variant(target, memory=Memory("end", is_apart=True)),
        Variant(target, threads=Threads(3, least_cycles=0), memory=Memory("start", is_apart=True)),
    ]
    different = run_variants(graph, given, variants)
    assert different is None, str(different)
