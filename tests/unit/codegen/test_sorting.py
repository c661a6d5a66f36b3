"""Sorts of rows and binary searches: their text, what is well formed, plans, networks, threads."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.canonical import canonical
from symgrad.codegen.loops.language import Index, SortRows, StridedOperand
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.loops.print import print_kernel
from symgrad.codegen.loops.run import run_kernel
from symgrad.codegen.loops.verify import verify_kernel
from symgrad.codegen.schedule.parallelize import Threads, share_work
from symgrad.codegen.schedule.plan_sorts import plan_sorts
from symgrad.codegen.sorting.networks import comparators, half_cleaners
from symgrad.codegen.sorting.plan import sort_plan
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph
from tests.support.floors import run_everywhere

KERNEL = """\
kernel @k(in x: f32[60], out y: i64[30], out z: i64[10], scratch s: u8[640]) {
  sort positions y[0] by (5, 1) = x[0] by (10, 1) for 6 rows of 10 keep 5 descending \
scratch(320 in s) parallel(3)
  for i in 0..10 vector(2) {
    t0: f32 = x[i]
    t1: i64 = count_less(t0, x[2*i] by 3, 10)
    t2: i64 = count_less_equal(0.5:f32, x[0], 0)
    t3: i64 = add(t1, t2)
    z[i] = t3
  }
}
"""


def test_sorts_and_searches_are_read_back_as_they_are_printed():
    kernel = parse_kernel(KERNEL)
    verify_kernel(kernel)
    assert print_kernel(kernel) == KERNEL
    assert print_kernel(canonical(kernel)) == print_kernel(canonical(canonical(kernel)))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("rows of 10 keep 5", "rows of 3 keep 5", "5 are kept of 3"),
        ("x[0] by (10, 1)", "x[6] by (10, 1)", "x[6, ...] reaches 6..65, of 60 elements"),
        ("y[0] by (5, 1)", "y[1] by (5, 1)", "y[1, ...] reaches 1..30, of 30 elements"),
        ("sort positions", "sort values", "y holds i64, not f32"),
        ("scratch(320 in s)", "scratch(321 in s)", "s has 640 bytes, the sort needs 642"),
        ("scratch(320 in s)", "scratch(320)", "the sort needs 640 bytes of scratch and has no"),
        ("320 in s", "2 in z", "z is out and not scratch"),
        ("parallel(3)", "parallel(0)", "parts of 0 rows"),
        ("by 3, 10)", "by 5, 10)", "x[2*i, ...] reaches 0..63, of 60 elements"),
        ("t1: i64 = count_less(t0", "t1: i64 = count_less(0.5:f64", "is f64, not f32"),
    ],
)
def test_what_is_not_well_formed_is_refused(old, new, problem):
    assert old in KERNEL
    with pytest.raises(AssertionError) as refused:
        verify_kernel(parse_kernel(KERNEL.replace(old, new)))
    assert problem in str(refused.value)


def test_a_sort_within_a_loop_of_vectors_or_to_one_place_is_refused():
    sort = "sort values y[0] by (0, 1) = x[0] by (0, 1) for 1 rows of 4 keep 4"
    text = "kernel @k(in x: f32[8], out y: f32[8]) {{ for i in 0..2 {} {{ {} }} }}"
    with pytest.raises(AssertionError, match="a sort within the vector of i"):
        verify_kernel(parse_kernel(text.format("vector(2)", sort)))
    with pytest.raises(AssertionError, match="have no order and sort to the same rows"):
        verify_kernel(parse_kernel(text.format("", sort)))
    verify_kernel(parse_kernel(text.format("", sort.replace("y[0]", "y[4*i]"))))


def test_the_interpreter_sorts_and_searches():
    x = np.array([2, np.nan, -0.0, 0.0, 2, -1, np.inf, 0, 0, 0], np.float32)
    x = np.concatenate([x, np.sort(np.random.default_rng(0).random(50, np.float32))])
    y, z = np.zeros(30, np.int64), np.zeros(10, np.int64)
    assert run_kernel(parse_kernel(KERNEL), {"x": x, "y": y, "z": z}) == 0
    assert y[:5].tolist() == [6, 0, 4, 2, 3]
    assert y[5:].reshape(5, 5).tolist() == [[9, 8, 7, 6, 5]] * 5
    assert z[8] == np.count_nonzero(x[16:46:3] < x[8])


# ---------------------------------------------------------------------------------------- networks


@pytest.mark.parametrize("lines", range(1, 11))
def test_a_network_sorts_all_zeros_and_ones(lines):
    network = list(comparators(lines))
    for bits in itertools.product((0, 1), repeat=lines):
        assert _applied(network, bits) == sorted(bits)


def test_half_cleaners_sort_what_falls_and_then_rises():
    network = list(half_cleaners(8, 8))
    for first, last in itertools.product(range(9), repeat=2):
        bits = [int(not first <= i < last) for i in range(8)]
        assert _applied(network, bits) == sorted(bits)


def _applied(network: Iterable[tuple[int, int]], bits: Sequence[int]) -> list[int]:
    found = list(bits)
    for low, high in network:
        assert low < high
        found[low], found[high] = sorted((found[low], found[high]))
    return found


# ------------------------------------------------------------------------------------------- plans


def _sort(
    rows: int,
    length: int,
    dtype: DType = dtypes.float32,
    gives: Literal["values", "positions"] = "values",
    count: int | None = None,
) -> SortRows:
    source = StridedOperand("x", Index(), length, 1)
    kept = length if count is None else count
    return SortRows(
        gives, dtype, StridedOperand("y", Index(), kept, 1), source, rows, length, kept, False
    )


def test_a_plan_follows_the_shape_and_the_dtype():
    target = target_named("x86-64-v3")
    plans = {
        "many short rows": sort_plan(_sort(1000, 16), target),
        "one short row": sort_plan(_sort(1, 16), target),
        "a long row": sort_plan(_sort(1, 100_000), target),
        "a long row of doubles": sort_plan(_sort(1, 100_000, dtypes.float64), target),
        "positions of a long row of doubles": sort_plan(
            _sort(1, 100_000, dtypes.float64, "positions"), target
        ),
        "positions of floats": sort_plan(_sort(1000, 16, gives="positions"), target),
        "positions of halves": sort_plan(_sort(9, 16, dtypes.float16, "positions"), target),
        "positions of doubles": sort_plan(_sort(9, 16, dtypes.float64, "positions"), target),
        "a few of many": sort_plan(_sort(1, 100_000, gives="positions", count=5), target),
    }
    found = {name: (p.method, p.form, p.bits, p.lanes, p.selects) for name, p in plans.items()}
    assert found == {
        "many short rows": ("across", "alone", 32, 8, False),
        "one short row": ("runs", "alone", 32, 8, False),
        "a long row": ("parts", "alone", 32, 8, False),
        "a long row of doubles": ("parts", "alone", 64, 4, False),
        "positions of a long row of doubles": ("runs", "pairs", 64, 4, False),
        "positions of floats": ("across", "packed", 64, 4, False),
        "positions of halves": ("across", "packed", 32, 8, False),
        "positions of doubles": ("across", "pairs", 64, 4, False),
        "a few of many": ("runs", "packed", 64, 4, True),
    }


def test_long_rows_are_merged_where_lanes_cannot_be_packed():
    for name in ("x86-64-v2", "aarch64"):
        plan = sort_plan(_sort(1, 100_000), target_named(name))
        assert (plan.method, plan.packing) == ("runs", None)
    found = [sort_plan(_sort(1, 9999), target_named(f"x86-64-v{n}")).packing for n in (3, 4)]
    assert found == ["permute", "compress"]
    # A minimum of floats is one instruction of x86 in the order that keys have.
    assert sort_plan(_sort(1, 9999), target_named("x86-64-v2")).has_floats
    assert not sort_plan(_sort(1, 9999), target_named("aarch64")).has_floats


def test_rows_are_shared_by_whole_vectors_and_each_part_has_scratch():
    text = (
        "kernel @k(in x: f32[160000], out y: f32[160000]) {\n"
        "  sort values y[0] by (16, 1) = x[0] by (16, 1) for 10000 rows of 16 keep 16\n}\n"
    )
    target = target_named("x86-64-v3")
    planned = plan_sorts(parse_kernel(text), target)
    shared = share_work(planned, target, Threads(3, 0))
    verify_kernel(shared)
    (sort,) = shared.body
    assert isinstance(sort, SortRows)
    assert (sort.parallel, sort.parts) == (3336, 3)
    assert shared.params[-1].count == 3 * planned.params[-1].count


# ------------------------------------------------------------------------------------------ values


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "axis"), [((9, 20), 1), ((20, 9), 0), ((2, 70), 1), ((3, 600), 1), ((35, 33), 1)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_all_floors_agree_on_ties_zeros_and_nan(shape, axis, dtype):
    rng = np.random.default_rng(0)
    given = rng.integers(-3, 4, shape).astype(dtype)
    if given.dtype.kind == "f":
        given[rng.random(shape) < 0.2] = np.nan
        given[rng.random(shape) < 0.2] = -0.0
        given[rng.random(shape) < 0.1] = np.inf
    x = sg.placeholder(shape, dtype)
    outputs = [sg.sort(x, axis=axis), sg.argsort(x, axis=axis, descending=True)]
    assert run_everywhere(Graph(outputs, [x]), [given]) is None


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64"])
def test_rows_of_whole_blocks_are_sorted_as_they_are_transposed(target):
    rng = np.random.default_rng(0)
    given = rng.integers(-30, 30, (19, 32)).astype(np.float32)
    given[rng.random(given.shape) < 0.1] = np.nan
    given[rng.random(given.shape) < 0.1] = -0.0
    x = sg.placeholder(given.shape)
    outputs = [sg.sort(x), sg.top_k(x, 20, largest=False)[1]]
    values, places = sg.compile([x], outputs, target=target)(given)
    order = np.argsort(given, axis=1, kind="stable")
    np.testing.assert_array_equal(places, order[:, :20])
    exact = np.take_along_axis(given, order, 1)
    np.testing.assert_array_equal(values, exact)
    np.testing.assert_array_equal(np.signbit(values), np.signbit(exact))


@pytest.mark.parametrize("count", [1, 40, 900])
def test_of_a_long_row_no_more_is_sorted_than_is_wanted(count):
    given = np.random.default_rng(0).integers(-500, 500, (3, 1000)).astype(np.float32)
    x = sg.placeholder(given.shape)
    values, positions = sg.compile([x], sg.top_k(x, count, largest=False))(given)
    order = np.argsort(given, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_array_equal(values, np.take_along_axis(given, order, 1))


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64"])
def test_lanes_that_search_one_row_find_what_each_would_alone(target):
    rng = np.random.default_rng(0)
    row = np.sort(rng.integers(-20, 20, 101)).astype(np.float32)
    row[-3:] = np.nan
    queries = rng.integers(-25, 25, 77).astype(np.float32)
    queries[:3] = np.nan, np.inf, -np.inf
    x, q = sg.placeholder(row.shape), sg.placeholder(queries.shape)
    ways: tuple[Literal["left", "right"], ...] = ("left", "right")
    outputs = [sg.searchsorted(x, q, side=side) for side in ways]
    wide = [sg.astype(t, "float64") for t in (x, q)]
    outputs += [sg.searchsorted(*wide, side=side) for side in ways]
    found = sg.compile([x, q], outputs, target=target)(row, queries)
    for places, side in zip(found, ways * 2, strict=True):
        np.testing.assert_array_equal(places, np.searchsorted(row, queries, side))


def test_the_sign_of_each_zero_stays_with_its_place():
    given = np.array([0.0, 1.0, -0.0, -0.0, -1.0, 0.0], np.float32)
    x = sg.placeholder((6,))
    for descending, signs in ((False, "-+--++"), (True, "++--+-")):
        found = sg.compile([x], sg.sort(x, descending=descending))(given)
        assert "".join("-" if s else "+" for s in np.signbit(found)) == signs


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("data", ["random", "falling", "rising", "equal"])
def test_the_first_of_a_long_row_are_those_of_the_sorted_row(data, largest):
    given = np.random.default_rng(0).standard_normal(9001).astype(np.float32)
    given = {"random": given, "falling": -np.sort(given), "rising": np.sort(given)}.get(
        data, np.full(9001, np.inf, np.float32)
    )
    given[77] = np.nan
    x = sg.placeholder((9001,))
    values, positions = sg.compile([x], sg.top_k(x, 9, largest=largest))(given)
    order = np.argsort(-given if largest else given, kind="stable")[:9]
    assert positions.tolist() == order.tolist()
    np.testing.assert_array_equal(values, given[order])


def test_results_do_not_depend_on_the_number_of_threads():
    given = np.random.default_rng(0).integers(0, 50, (4000, 20)).astype(np.float32)
    x = sg.placeholder(given.shape)
    outputs = [sg.sort(x), sg.argsort(x)]
    one, four = (sg.compile([x], outputs, threads=n)(given) for n in (1, 4))
    for a, b in zip(one, four, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [d for d in dtypes.REAL if not d.is_bool], ids=str)
@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64"])
def test_rows_of_any_length_are_sorted(dtype, target):
    rng = np.random.default_rng(0)
    for length in (2, 3, 15, 17, 31, 63, 64, 65, 100, 257, 1000, 5000):
        given = rng.integers(0, 100, (20, length)).astype(dtype.numpy)
        x = sg.placeholder(given.shape, dtype)
        for descending in (False, True):
            step = sg.compile([x], sg.argsort(x, descending=descending), target=target)
            wide = given.astype(np.int64)
            order = np.argsort(-wide if descending else wide, axis=1, kind="stable")
            np.testing.assert_array_equal(step(given), order)
