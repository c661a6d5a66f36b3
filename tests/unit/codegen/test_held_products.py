"""A right that registers hold: products of few terms and columns, beside NumPy, and when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.plans.held import held_kernel
from symgrad.codegen.contract.plans.scratch import scratch_bytes
from symgrad.codegen.target import target_named
from symgrad.cost_model.products import MOST_HELD_ROWS
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph
from tests.unit.codegen import test_contract as contractions
from tests.unit.codegen.test_contract import Case, EpilogueKind, address, aligned
from tests.unit.codegen.test_prefetching_tiles import mixtures
from tests.unit.codegen.test_stored_results import plan_of, plans_of, product

AVX512 = pytest.mark.isa("avx512f")
FLOATS = (dtypes.float32, dtypes.float64)
FORMS = (("rows", "rows"), ("rows", "columns"), ("columns", "rows"), ("columns", "columns"))
STRIDED = (("padded", "padded"), ("rows backwards", "columns"), ("same row", "columns"))
KINDS: tuple[EpilogueKind, ...] = ("store", "bias", "count")


def cases_of(dtype: DType) -> list[Case]:
    """Return products of odd sizes, with one group of rows, with some and with loops over many."""
    lanes = target_named("x86-64-v4").lanes(dtype.itemsize)
    sizes = [
        (m, n, k)
        for m in (8, 17, 33)
        for n, k in ((lanes, lanes), (lanes - 1, 11), (3, 22), (5, 7), (lanes, 1), (lanes - 3, 20))
    ]
    sizes += [(2 * MOST_HELD_ROWS + 3, lanes - 2, 9), (MOST_HELD_ROWS + 1, 7, 16)]
    return [
        Case(*size, dtype, *FORMS[(at + at // 4) % 4], epilogue=KINDS[at % 3])
        for at, size in enumerate(sizes)
    ]


def method_of(case: Case, target: str = "x86-64-v4") -> str:
    return case.plan(target).method


@AVX512
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sums_of_a_held_right_agree_with_numpy_in_every_form(dtype):
    cases = cases_of(dtype)
    assert [method_of(case) for case in cases].count("held") >= len(cases) // 2
    contractions.run_cases(cases, "x86-64-v4")


@AVX512
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sums_of_broadcast_operands_and_a_held_right_agree_with_numpy(dtype):
    lanes = target_named("x86-64-v4").lanes(dtype.itemsize)
    layouts = ("rows", "columns", "same row", "same column", "same")
    cases = [
        Case(m, n, k, dtype, left, right)
        for m, n, k in ((16, lanes, 16), (9, lanes - 1, 7))
        for left in layouts
        for right in layouts
    ]
    held = {(case.lhs, case.rhs) for case in cases if method_of(case) == "held"}
    assert held >= {("same row", "columns"), ("rows", "same row")}
    contractions.run_cases(cases, "x86-64-v4")


@AVX512
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sums_of_a_held_right_of_strided_operands_and_along_columns_agree_with_numpy(dtype):
    n = target_named("x86-64-v4").lanes(dtype.itemsize) - 1
    strided = [Case(21, n, 13, dtype, *form) for form in STRIDED]
    down = [
        Case(n, 26, 13, dtype, *form, result="columns")
        for form in (("rows", "columns"), ("columns", "columns"))
    ]
    assert {method_of(case) for case in strided + down} == {"held"}
    assert {case.plan("x86-64-v4").vector_axis for case in down} == {"m"}
    contractions.run_cases(strided + down, "x86-64-v4")


@AVX512
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_not_a_byte_outside_the_operands_of_a_held_right_is_touched(form):
    cases = [Case(19, n, k, dtypes.float32, *form) for n, k in ((16, 22), (13, 9))]
    contractions.check_at_the_brink(cases, "x86-64-v4")


@AVX512
def test_infinities_and_nans_reach_their_own_sums_of_a_held_right_only():
    case = Case(20, 13, 15, rhs="columns")
    library, (kernel,) = contractions.compile_cases([case], "x86-64-v4")
    assert kernel.plan.method == "held"
    lhs, turned = np.ones((case.m, case.k), np.float32), np.ones((case.n, case.k), np.float32)
    lhs[3, 12], turned[5, 13], turned[7, 0] = np.inf, -np.inf, np.nan
    result = np.zeros((case.m, case.n), np.float32)
    scratch = aligned(scratch_bytes(kernel.plan))
    library.run("kernel_0", *map(address, (lhs, turned, result, result, scratch)))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(result, lhs @ turned.T)


def test_a_right_is_held_that_registers_have_room_for_beside_eight_sums():
    turned = Case(16, 16, 16, rhs="columns")
    assert method_of(turned) == method_of(replace(turned, m=40, k=22)) == "held"
    # Two squares would be transposed for few rows: pairs of terms of a packed one take less time.
    assert method_of(replace(turned, k=22)) == "split"
    for size in ((16, 16, 23), (16, 17, 16), (7, 16, 16), (16, 2, 16)):
        assert method_of(Case(*size, rhs="columns")) != "held"
    assert method_of(replace(turned, dtype=dtypes.float64, n=24)) == "tile"  # three vectors
    assert method_of(replace(turned, dtype=dtypes.float64, n=8)) == "held"
    for dtype in (dtypes.int32, dtypes.bfloat16, dtypes.float16):
        assert method_of(replace(turned, dtype=dtype)) != "held"


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "aarch64"])
def test_no_right_is_held_where_a_multiply_add_broadcasts_no_operand(target):
    cases = [Case(16, n, 6, rhs=rhs) for n in (4, 8) for rhs in ("rows", "columns")]
    assert "held" not in {method_of(case, target) for case in cases}


def test_a_right_whose_columns_lie_side_by_side_is_held_for_short_rows_of_the_left_alone():
    assert method_of(Case(16, 16, 16)) == method_of(Case(16, 16, 16, lhs="padded")) == "held"
    assert method_of(Case(16, 16, 16, lhs="columns")) == "split"
    assert method_of(Case(16, 8, 15, dtypes.float64)) == "held"
    assert method_of(Case(16, 8, 16, dtypes.float64)) == "tile"
    assert method_of(Case(16, 8, 16, dtypes.float64, rhs="columns")) == "held"


def test_groups_of_rows_are_even_and_no_higher_than_registers_are_left():
    def heights(m: int, k: int, rhs: str = "rows") -> tuple[int, ...]:
        plan = Case(m, 16, k, rhs=rhs).plan("x86-64-v4")
        stored = Elements(plan.dtype, plan.compute, target_named("x86-64-v4"))
        return held_kernel(plan, stored, m, 16).heights

    assert heights(16, 16) == heights(16, 22) == heights(16, 22, "columns") == (8, 8)
    assert heights(17, 16) == heights(17, 16, "columns") == (9, 8)
    assert heights(15, 16) == (8, 7)
    assert heights(13, 16) == (13,)
    assert heights(9, 22) == (5, 4)
    # Where the right is transposed, few rows have all registers that it leaves.
    assert heights(16, 16, "columns") == (16,)
    assert heights(15, 16, "columns") == (15,)
    assert heights(9, 22, "columns") == (9,)
    assert heights(11, 22, "columns") == (6, 5)


@pytest.mark.parametrize("m", [15, 16])
def test_sums_and_a_right_that_take_all_registers_stay_in_these(m):
    x, y = sg.placeholder((5, m, 16)), sg.placeholder((5, 16, 16))
    step = sg.compile([x, y], x @ y.mT, target="x86-64-v4")
    assert plan_of(step.graph).method == "held"
    text = step.ir("asm").partition("contract.held:")[2]
    assert text.count("vfmadd") == m * 16
    assert "rsp" not in text.partition("retq")[0]


def test_sums_of_a_held_right_are_stored_where_results_are_whatever_their_columns():
    for n in (16, 13):
        plan = plan_of(product(40, n, 12))
        assert (plan.method, plan.result_row) == ("held", n)


def test_tiles_that_prefetch_what_the_next_product_reads_hold_no_right():
    across, *_ = mixtures(10_000, 25, 8)
    assert method_of(Case(25, 8, 8, dtypes.float64)) == "held"
    assert [plan.method for plan in plans_of(across) if plan.goes_on == "rows"] == ["tile"]


def test_a_batch_prefetches_the_right_of_the_next_product():
    for n in (16, 12):
        x, y = (sg.placeholder((5, n, n)) for _ in range(2))
        plans = [plan_of(Graph([x @ right], [x, y])) for right in (y, y.mT)]
        assert [(plan.method, plan.next_right) for plan in plans] == [("held", n * n)] * 2
        assert [plan.next_sides for plan in plans] == [(0, 0), (n * n, n * n)]


def test_a_batch_whose_right_is_transposed_prefetches_left_and_result_where_these_are_dense():
    x, y, z = (sg.placeholder((5, 16, 16)) for _ in range(3))
    one = sg.placeholder((16, 16))
    prefetched = {
        "both": x @ y.mT,
        "both, the left transposed": x.mT @ y.mT,
        "the left, for an epilogue writes the result": x @ y.mT + z,
        "the result, for all have one left": one @ y.mT,
    }
    sides = [plan_of(Graph([r], [x, y, z, one])).next_sides for r in prefetched.values()]
    assert sides == [(256, 256), (256, 256), (256, 0), (0, 256)]


@AVX512
@pytest.mark.parametrize("form", ["NT", "TT"])
@pytest.mark.parametrize("m", [9, 16])
def test_products_that_prefetch_all_that_the_next_one_meets_agree_for_any_number_of_threads(
    form, m
):
    x = sg.placeholder((37, 16, m) if form == "TT" else (37, m, 16))
    y = sg.placeholder((37, 16, 16))
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, t.type.static_shape).astype(np.float32) for t in (x, y))
    results = [
        sg.compile([x, y], (x.mT if form == "TT" else x) @ y.mT, threads=threads)(a, b)
        for threads in (1, 2, 4)
    ]
    left = a.mT if form == "TT" else a
    np.testing.assert_allclose(results[0], left @ b.mT, rtol=1e-5, atol=1e-5)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
def test_batches_and_their_gradients_agree_with_numpy_for_any_number_of_threads(form):
    n, k, m = 13, 11, 18
    shapes = (
        (1000, *((k, m) if form[0] == "T" else (m, k))),
        (1000, *((n, k) if form[1] == "T" else (k, n))),
    )
    x, y = (sg.placeholder(shape) for shape in shapes)
    z = (x.mT if form[0] == "T" else x) @ (y.mT if form[1] == "T" else y)
    g = sg.placeholder(z.shape)
    ys = [z, *sg.gradients(z, [x, y], grad_ys=g)]
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-9, 9, shape).astype(np.float32) for shape in (*shapes, (1000, m, n)))
    left, right = (a.mT if form[0] == "T" else a), (b.mT if form[1] == "T" else b)
    by_x, by_y = c @ right.mT, left.mT @ c
    expected = [
        left @ right,
        by_x.mT if form[0] == "T" else by_x,
        by_y.mT if form[1] == "T" else by_y,
    ]
    for threads in (1, 2, 4):
        step = sg.compile([x, y, g], ys, threads=threads)
        for result, right_one in zip(step(a, b, c), expected, strict=True):
            np.testing.assert_array_equal(result, right_one)


@AVX512
@pytest.mark.parametrize("m", [MOST_HELD_ROWS, 3 * MOST_HELD_ROWS + 1])
def test_tiles_of_more_rows_than_registers_have_room_for_an_epilogue(m):
    x, y, z = sg.placeholder((5, m, 9)), sg.placeholder((5, 13, 9)), sg.placeholder((5, m, 13))
    step = sg.compile([x, y, z], sg.tanh(x @ y.mT) + z, target="x86-64-v4")
    assert plan_of(step.graph).method == "held"
    assert "the right held in registers" in str(step.kernels)
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-1, 1, t.type.static_shape).astype(np.float32) for t in (x, y, z))
    np.testing.assert_allclose(step(a, b, c), np.tanh(a @ b.mT) + c, rtol=1e-5, atol=1e-5)
