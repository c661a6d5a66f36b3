"""Rows that are joined of pieces: which pieces have loops in one loop over rows, and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import Check, For, Kernel
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
        [sg.tanh(W[:, :1]), X],  # a column that vectors compute sooner
        [X, sg.placeholder((5, N), "float64").T],  # vectors lie along columns
    ],
    ids=["long", "costly", "transposed"],
)
def test_pieces_have_loops_of_their_own(pieces):
    assert len(_nests(kernel_from(sg.concat(pieces, axis=1)))) == len(pieces)


def test_single_columns_are_computed_before_the_loop_along_a_row():
    pieces = [W[:, :1] * W[:, 1:2], X, -W[:, 1:2]]
    (kernel,) = program_for(Graph([sg.concat(pieces, axis=1)], [X, W])).kernels
    assert _nests(kernel) == [[26]]
    (rows,) = kernel.body
    assert isinstance(rows, For)
    assert isinstance(rows.body[-1], For)
    assert rows.body[-1].vector > 1


def test_columns_that_are_joined_first_are_part_of_the_rows():
    columns = sg.concat([sg.take(W[:, :1], AT, axis=0) * W[:, 2:3], W[:, 1:2]], axis=1)
    for pieces in ([columns, X], [X, columns]):
        (kernel,) = program_for(Graph([sg.concat(pieces, axis=1)], [X, W, AT])).kernels
        assert _nests(kernel) == [[26]]


@pytest.mark.parametrize("index", [N, -N - 1])
def test_an_index_of_a_single_column_is_out_of_range_where_the_user_wrote_it(index):
    columns = sg.stack([W[:, 0], sg.take(W[:, 1], AT)], axis=1)
    step = sg.compile([X, W, AT], sg.concat([columns, X], axis=1))
    at = np.zeros(N, "int64")
    at[N - 1] = index
    with pytest.raises(sg.IndexOutOfRangeError, match=f"take: index {index} .*") as raised:
        step(np.zeros((N, 26)), np.zeros((N, 5)), at)
    assert "test_joined_rows.py" in str(raised.value)


def test_an_index_is_checked_once_for_all_that_it_looks_up():
    rows = [sg.take(t, AT, axis=0) for t in (W[:, :1], X, W[:, 1:2])]
    (kernel,) = program_for(Graph([sg.concat(rows, axis=1)], [X, W, AT])).kernels
    assert sum(isinstance(s, Check) for s in statements(kernel.body)) == 1


def test_pieces_of_other_rows_have_loops_of_their_own():
    other = sg.placeholder((N, 26), "float64", name="other")
    assert len(_nests(kernel_from(sg.concat([X, other * 2.0], axis=0)))) == 2


def test_pieces_of_other_rows_that_read_the_same_are_one_nest():
    assert len(_nests(kernel_from(sg.concat([X, X * 2.0], axis=0)))) == 1


PROGRAMS: dict[str, Callable[[], Any]] = {
    "elementwise": lambda: sg.concat([W, sg.exp(X), X[:, ::2] * W[:, :1]], axis=1),
    "looked up": lambda: sg.concat([sg.take(W, AT, axis=0), sg.take(X, AT, axis=0)], axis=1),
    "checked where one piece is made": lambda: sg.concat([W, sg.take(X, AT, axis=0)], axis=1),
    "single columns": lambda: sg.concat(
        [W[:, :1] * W[:, 1:2], X, sg.take(W[:, 2:3], AT, axis=0), -X[:, :1]], axis=1
    ),
    "columns joined before": lambda: sg.concat(
        [sg.stack([sg.take(W[:, 0], AT), W[:, 1]], axis=1), sg.take(X, AT, axis=0)], axis=1
    ),
    "columns of pieces": lambda: sg.concat(
        [
            sg.reshape(X, (50, 2, 26)) * 2.0,
            sg.stack(
                [sg.take(W[:, i].reshape((50, 2)), AT[:50] % 50, axis=0) for i in (0, 1)], axis=2
            ),
        ],
        axis=2,
    ),
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
