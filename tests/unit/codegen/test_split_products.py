"""Split vectors: products whose columns fill half of one, beside NumPy, and when it is chosen."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract.lifted import can_lift, most_tile_elements
from symgrad.codegen.contract.plans.scratch import scratch_bytes
from symgrad.codegen.contract.plans.split import pairs_of
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph
from tests.unit.codegen import test_contract as contractions
from tests.unit.codegen.test_contract import Case, EpilogueKind, address, aligned
from tests.unit.codegen.test_kernels import assembly
from tests.unit.codegen.test_prefetching_tiles import mixtures
from tests.unit.codegen.test_stored_results import plan_of, plans_of, product

TARGETS = ("native", pytest.param("x86-64-v3", marks=pytest.mark.isa("avx2")))
FLOATS = (dtypes.float32, dtypes.float64)
FORMS = (("rows", "rows"), ("rows", "columns"), ("columns", "rows"), ("columns", "columns"))
STRIDED = (("padded", "padded"), ("rows backwards", "rows"), ("same row", "columns"))


def half_of(target_name: str, dtype: DType) -> int:
    """Return how many columns half a vector has, and skip the test where it has less than two."""
    half = target_named(target_name).lanes(dtype.itemsize) // 2
    if half < 2 or not target_named(target_name).has_fma:
        pytest.skip("vectors have no halves")
    return half


def cases_of(target_name: str, dtype: DType) -> list[Case]:
    """Return products of one to five halves of a vector, whole and not, in turns."""
    half = half_of(target_name, dtype)
    widths = (half, 3 * half, 3 * half - 1, 2 * half + 1, 5 * half, 2 * half, 2 * half - 1)
    sizes = [(rows, n, k) for n in widths for rows, k in ((16, 16), (23, 26), (17, 42))]
    kinds: tuple[EpilogueKind, ...] = ("store", "bias", "count")
    return [
        Case(*size, dtype, *FORMS[at % 4], epilogue=kinds[at % 3]) for at, size in enumerate(sizes)
    ]


def methods(cases: list[Case], target_name: str) -> list[str]:
    return [case.plan(target_name).method for case in cases]


@pytest.mark.parametrize("target_name", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_split_sums_agree_with_numpy_in_every_form(dtype, target_name):
    cases = cases_of(target_name, dtype)
    assert methods(cases, target_name).count("split") >= len(cases) // 2
    contractions.run_cases(cases, target_name)


@pytest.mark.parametrize("target_name", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_split_sums_along_columns_and_of_strided_operands_agree_with_numpy(dtype, target_name):
    half = half_of(target_name, dtype)
    strided = [Case(24, 3 * half, 36, dtype, *form) for form in STRIDED]
    forms = (("rows", "columns"), ("columns", "columns"))
    down = [Case(3 * half, 29, 24, dtype, *form, result="columns") for form in forms]
    assert set(methods(strided, target_name)) == {"split"}
    assert {case.plan(target_name).vector_axis for case in down} == {"m"}
    assert set(methods(down, target_name)) == {"split"}
    contractions.run_cases(strided + down, target_name)


@pytest.mark.parametrize("target_name", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_split_sums_of_broadcast_operands_agree_with_numpy(dtype, target_name):
    half = half_of(target_name, dtype)
    layouts = ("rows", "columns", "same row", "same column", "same")
    cases = [
        Case(m, n, k, dtype, left, right)
        for m, n, k in ((16, half, 16), (24, 3 * half, 36), (17, half, 20))
        for left in layouts
        for right in layouts
    ]
    split = [case for case in cases if case.plan(target_name).method == "split"]
    # All terms of a right that is read in place may be one.
    in_place = {case.lhs for case in split if case.rhs == "same row"}
    assert in_place >= {"rows", "columns"}
    contractions.run_cases(cases, target_name)


@pytest.mark.parametrize("target_name", TARGETS)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_not_a_byte_outside_the_operands_of_split_sums_is_touched(form, target_name):
    half = half_of(target_name, dtypes.float32)
    sizes = (3 * half, 26), (3 * half - 1, 20), (2 * half, 34), (2 * half - 1, 34)
    cases = [Case(19, n, k, dtypes.float32, *form) for n, k in sizes]
    contractions.check_at_the_brink(cases, target_name)


def test_infinities_and_nans_reach_their_own_split_sums_only():
    half = half_of("native", dtypes.float32)
    case = Case(20, 3 * half - 1, 34)
    library, (kernel,) = contractions.compile_cases([case], "native")
    assert kernel.plan.method == "split"
    lhs, rhs = (np.ones(shape, np.float32) for shape in ((case.m, case.k), (case.k, case.n)))
    lhs[3, 32], rhs[33, 5], rhs[0, 7] = np.inf, -np.inf, np.nan
    result = np.zeros((case.m, case.n), np.float32)
    scratch = aligned(scratch_bytes(kernel.plan))
    library.run("kernel_0", *map(address, (lhs, rhs, result, result, scratch)))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(result, lhs @ rhs)


def test_sums_are_split_where_the_last_vector_is_half_full_at_most():
    case = Case(24, 24, 24)
    assert case.plan("x86-64-v4").method == "split"
    assert case.plan("x86-64-v3").method == "tile"  # three whole vectors
    assert replace(case, n=12).plan("x86-64-v3").method == "split"
    for full in (25, 32, 128, 1032):
        assert replace(case, n=full).plan("x86-64-v4").method == "tile"
    assert Case(24, 24, 24, dtypes.int32).plan("x86-64-v4").method == "tile"
    assert Case(24, 24, 24, dtypes.bfloat16).plan("x86-64-v4").method == "tile"
    assert case.plan("x86-64").method == "tile"  # which rounds each product


@pytest.mark.parametrize("target_name", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sums_are_split_where_columns_are_one_vector(dtype, target_name):
    lanes = target_named(target_name).lanes(dtype.itemsize)
    cases = [Case(64, lanes, 64, dtype, *form) for form in FORMS]
    assert methods(cases, target_name) == ["split"] * len(cases)
    two = [Case(64, 2 * lanes, 64, dtype, *form) for form in FORMS]
    assert "split" not in methods(two, target_name)


def test_a_right_that_few_registers_hold_is_not_split():
    assert Case(16, 16, 16).plan("x86-64-v4").method == "held"
    assert Case(16, 16, 16, lhs="columns").plan("x86-64-v4").method == "split"
    ragged = Case(24, 14, 34, lhs="columns", rhs="columns")
    assert ragged.plan("x86-64-v4").method == "held"  # stored where its results are
    assert replace(ragged, n=16).plan("x86-64-v4").method == "split"


def test_pairs_of_rows_double_columns_of_the_right_as_they_load_them():
    x, y = sg.placeholder((9, 16, 16)), sg.placeholder((9, 16, 8))
    assert pairs_of(Case(16, 8, 16, lhs="columns").plan("x86-64-v3")) == "rows"
    text = assembly(x.mT @ y, target="x86-64-v3")
    assert "vmovsldup\t(" in text
    assert "vmovshdup\t(" in text


def test_sums_are_split_of_pairs_that_are_added_up_at_once():
    for k in (7, 25, 4096):
        assert Case(24, 24, k).plan("x86-64-v4").method == "tile"
    assert Case(24, 24, 24, lhs="gaps").plan("x86-64-v4").method != "split"


def test_rows_of_a_left_that_lies_along_them_are_in_lanes_beside_each_other():
    plans = [Case(24, 24, 24, lhs=lhs).plan("x86-64-v4") for lhs in ("rows", "columns")]
    assert [(plan.method, pairs_of(plan)) for plan in plans] == [
        ("split", "terms"),
        ("split", "rows"),
    ]
    assert [plan.tile_rows for plan in plans] == [8, 12]


def test_a_left_whose_terms_lie_further_apart_than_is_fetched_ahead_is_multiplied_as_it_is():
    far = target_named("x86-64-v4").memory.followed_bytes // 4
    assert Case(far - 8, 24, 24, lhs="columns").plan("x86-64-v4").method == "split"
    assert Case(far, 24, 24, lhs="columns").plan("x86-64-v4").method == "tile"
    assert Case(1000, 24, 256, lhs="columns").plan("x86-64-v4").method == "tile"
    assert Case(1000, 24, 256).plan("x86-64-v4").method == "split"


def test_a_right_is_packed_in_pairs_if_its_columns_lie_apart_or_many_tiles_read_pairs_of_terms():
    def packing(m: int, lhs: str, rhs: str) -> str:
        plan = Case(m, 24, 24, lhs=lhs, rhs=rhs).plan("x86-64-v4")
        assert plan.method == "split"
        return plan.pack_right

    assert packing(24, "rows", "rows") == packing(200, "columns", "rows") == "none"
    assert packing(24, "rows", "columns") == packing(24, "columns", "columns") == "split"
    assert packing(200, "rows", "rows") == "split"


@pytest.mark.parametrize("target_name", TARGETS)
def test_an_odd_row_of_a_tile_of_pairs_of_rows_agrees_with_numpy(target_name):
    half = half_of(target_name, dtypes.float32)
    cases = [
        Case(m, 3 * half, 16, lhs="columns", rhs=rhs)
        for m in (9, 15)
        for rhs in ("rows", "columns")
    ]
    assert "split" in methods(cases, target_name)
    contractions.run_cases(cases, target_name)


def test_rows_that_share_few_sets_of_a_cache_are_no_more_than_it_keeps():
    target = target_named("x86-64-v4")
    near, far = Case(1000, 8, 24).plan("x86-64-v4"), Case(1000, 8, 1024).plan("x86-64-v4")
    assert near.method == far.method == "split"
    assert near.tile_rows > far.tile_rows == target.memory.lines_kept(4096)


def test_tiles_that_prefetch_what_the_next_product_reads_do_not_split_sums():
    across, *_ = mixtures(10_000, 25, 20)
    assert Case(256, 20, 20, dtypes.float64).plan("x86-64-v4").method == "split"
    plans = plans_of(across)
    assert [plan.goes_on for plan in plans] == ["rows", None]
    assert plans[0].method == "tile"


def test_split_sums_are_stored_where_results_are_if_they_fill_half_a_vector():
    assert plan_of(product(200, 24, 48)).result_row == 24
    assert plan_of(product(200, 23, 48)).result_row == 0
    assert plan_of(product(200, 24, 48)).method == plan_of(product(200, 23, 48)).method == "split"


def test_batches_of_split_sums_are_stored_where_results_are():
    half = half_of("native", dtypes.float32)
    n = 3 * half
    x, y = (sg.placeholder((5, n, n), "float32") for _ in range(2))
    step = sg.compile([x, y], x @ y.mT)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, (5, n, n)).astype(np.float32) for _ in range(2))
    np.testing.assert_array_equal(step(a, b), a @ b.swapaxes(1, 2))
    # Vectors of four have room for three columns in tiles of their own.
    x, y = (sg.placeholder((5, 24, 24), "float32") for _ in range(2))
    assert "contract.split" in sg.compile([x, y], x @ y.mT, target="x86-64-v4").ir("llvm")


def test_small_rights_of_a_batch_are_prefetched_where_the_ones_before_are_transposed():
    def prefetched(n: int, is_turned: bool, batch: tuple[int, ...] = (9,)) -> int:
        x, y = (sg.placeholder((*batch, n, n)) for _ in range(2))
        return plan_of(Graph([x @ (y.mT if is_turned else y)], [x, y])).next_right

    assert [prefetched(n, True) for n in (16, 24, 32)] == [256, 576, 1024]
    assert prefetched(24, False) == 0  # which is read where it lies
    assert prefetched(24, True, ()) == 0  # one product
    assert prefetched(128, True) == 0  # too large for the nearest cache


def test_split_vectors_of_rows_have_the_same_bits_on_two_threads():
    x, y = sg.placeholder((31, 24, 200)), sg.placeholder((31, 24, 24))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(t.shape, np.float32) for t in (x, y))
    one, two = (sg.compile([x, y], x.mT @ y, threads=threads)(a, b) for threads in (1, 2))
    np.testing.assert_array_equal(np.asarray(one), np.asarray(two))


def test_split_sums_have_the_same_bits_on_two_threads():
    x, y = sg.placeholder((3000, 100), "float32"), sg.placeholder((100, 24), "float32")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((3000, 100), (100, 24)))
    one, two = (sg.compile([x, y], x @ y, threads=threads)(a, b) for threads in (1, 2))
    np.testing.assert_array_equal(np.asarray(one), np.asarray(two))


@pytest.mark.parametrize("target_name", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_sums_of_the_highest_tile_have_room_where_they_wait_for_an_epilogue(target_name):
    target, highest = target_named(target_name), 0
    for dtype, n, lhs in itertools.product(FLOATS, range(1, 50), ("rows", "columns")):
        for m in range(1, 130, 3):
            plan = Case(m, n, 16, dtype, lhs).plan(target_name)
            if can_lift(plan):
                assert plan.tile_elements <= most_tile_elements(plan, target)
                highest = max(highest, plan.tile_rows if plan.method == "split" else 0)
    assert highest > target.vector_registers or not target.has_fma


def test_an_epilogue_of_high_tiles_of_pairs_of_rows_changes_no_memory_but_its_result():
    half = half_of("native", dtypes.float64)
    x, y = sg.placeholder((20, 14 * half), "float64"), sg.placeholder((20, half), "float64")
    z = sg.placeholder((14 * half, half), "float64")
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-9, 9, t.shape).astype(float) for t in (x, y, z))
    step = sg.compile([x, y, z], z - 0.5 * (x.mT @ y))
    np.testing.assert_array_equal(step(a, b, c), c - 0.5 * (a.T @ b))
