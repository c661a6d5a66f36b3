"""Constants that kernels read: stored as vectors read them, in as few bits as they need."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.language import Program
from symgrad.codegen.schedule.parallelize import ONE_THREAD, Threads
from symgrad.codegen.target import target_named
from symgrad.compiler import CompileOptions
from symgrad.graph.dtypes import float32, float64, int16, int32, int64
from symgrad.graph.graph import Graph
from symgrad.passes.table import Options
from symgrad.runtime.executable import Executable
from tests.support.floors import run_native

ROWS, COLUMNS, TABLE = 200, 5, 64
PASSES = ("lay-out-constants", "narrow-constants")


def places(largest: int = TABLE - 1) -> np.ndarray:
    found = np.random.default_rng(0).integers(0, TABLE, (ROWS, COLUMNS))
    found[0, 0] = largest
    return found


def sums_of_rows(table: np.ndarray) -> tuple[Graph, list[np.ndarray]]:
    """Return the sums of what is found at the places in each row of a table, and a random one."""
    x = sg.placeholder((TABLE,), "float64")
    graph = Graph([sg.take(x, table).sum(1)], [x])
    return graph, [np.random.default_rng(1).standard_normal(TABLE)]


def step_of(graph: Graph, threads: Threads = ONE_THREAD, skip: tuple[str, ...] = ()) -> Executable:
    options = CompileOptions(target_named("native"), 1, False, False, threads)
    return Executable(graph, options, passes=Options(skip=skip))


def shapes_of(program: Program) -> list[tuple[int, ...]]:
    return [literal.type.static_shape for literal in program.constants]


def test_a_table_of_places_is_stored_by_columns_in_a_quarter_of_the_bits():
    graph, _ = sums_of_rows(places())
    step, as_written = (step_of(graph, skip=skip).program for skip in ((), PASSES))
    assert (ROWS, COLUMNS) in shapes_of(as_written)
    assert (ROWS, COLUMNS) not in shapes_of(step)
    dtypes = {literal.type.dtype for literal in step.constants if literal.type.count >= ROWS}
    assert int16 in dtypes
    assert int64 not in dtypes


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_stored_otherwise_gives_the_same_bits(threads):
    graph, inputs = sums_of_rows(places())
    found, expected = (
        run_native(step_of(graph, Threads(threads), skip), inputs).outputs for skip in ((), PASSES)
    )
    assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]


EDGES = [bound for bits in (15, 31) for bound in (2**bits - 1, -(2**bits), 2**bits, -(2**bits) - 1)]


@pytest.mark.parametrize("value", [*EDGES, 2**62])
def test_numbers_have_as_many_bits_as_they_need(value):
    table = places(value)
    x = sg.placeholder((ROWS, COLUMNS), "int64")
    step = step_of(Graph([x + table], [x]))
    (literal,) = step.program.constants
    fitting = [d for d, bits in ((int16, 15), (int32, 31)) if -(2**bits) <= value < 2**bits]
    assert literal.type.dtype == (*fitting, int64)[0]
    given = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    (found,) = run_native(step, [given]).outputs
    np.testing.assert_array_equal(found, given + table)


def test_numbers_that_are_looked_up_are_as_long_as_a_gather_takes():
    table, given = np.arange(500)[::-1].copy(), np.random.default_rng(1).integers(0, 500, 96)
    at = sg.placeholder((96,), "int64")
    step = step_of(Graph([sg.take(sg.constant(table), at) + 1], [at]))
    assert [literal.type.dtype for literal in step.program.constants] == [int32]
    (found,) = run_native(step, [given]).outputs
    np.testing.assert_array_equal(found, table[given] + 1)


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (-0.0, True),
        (np.inf, True),
        (np.nan, True),
        (2.0**-126, True),
        (2.0**-127, False),  # subnormal as float32
        (1 + 2.0**-30, False),
        (1e300, False),
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_floats_that_are_floats_of_32_bits_are_stored_as_such(value, fits, threads):
    table = np.where(np.arange(ROWS * COLUMNS) % 2, -1.0, 1.0)
    table[7] = value
    x, places = sg.placeholder((ROWS * COLUMNS,), "float64"), np.arange(ROWS * COLUMNS)[::-1]
    ys = [sg.copysign(x, table), sg.take(sg.constant(table), places.copy()) * x]
    graph, given = Graph(ys, [x]), [np.random.default_rng(1).standard_normal(ROWS * COLUMNS)]
    step, as_written = (step_of(graph, Threads(threads), skip) for skip in ((), PASSES))
    dtypes = {literal.type.dtype for literal in step.program.constants}
    assert (float32 in dtypes) == fits
    assert (float64 in dtypes) == (not fits)
    found, wanted = (run_native(s, given).outputs for s in (step, as_written))
    assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted]


def test_few_floats_stay_as_they_are():
    x = sg.placeholder((ROWS,), "float64")
    step = step_of(Graph([x * np.where(np.arange(ROWS) % 2, -1.0, 1.0)], [x]))
    assert [literal.type.dtype for literal in step.program.constants] == [float64]


def test_a_constant_that_a_product_reads_stays_as_it_is():
    w = np.arange(ROWS * COLUMNS, dtype=np.int64).reshape(ROWS, COLUMNS)
    x = sg.placeholder((3, ROWS), "int64")
    step = step_of(Graph([sg.matmul(x, w)], [x]))
    assert [literal.type.dtype for literal in step.program.constants] == [int64]
