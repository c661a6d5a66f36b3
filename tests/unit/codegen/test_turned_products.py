"""A right that is transposed in parts, two vectors of columns at a time: beside NumPy, and when."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.kernels.held import HeldKernel
from symgrad.codegen.contract.kernels.leaf_functions import leaf_function
from symgrad.codegen.contract.kernels.turned import TurnedKernel
from symgrad.codegen.contract.plans.held import held_leaf, unit_turned
from symgrad.codegen.contract.plans.scratch import scratch_bytes
from symgrad.codegen.target import TARGET_NAMES, target_named
from symgrad.cost_model.products import CODE_BYTES, MOST_TURNED_ROWS, MOST_TURNED_TERMS
from symgrad.graph import dtypes
from tests.unit.codegen import test_contract as contractions
from tests.unit.codegen.test_contract import Case, EpilogueKind, address, aligned
from tests.unit.codegen.test_stored_results import plan_of

AVX512 = pytest.mark.isa("avx512f")
V4 = "x86-64-v4"
Kernel = HeldKernel | TurnedKernel
KINDS: tuple[EpilogueKind, ...] = ("store", "bias", "count")
ELEMENTS = Case(16, 16, 16, dtypes.float64, rhs="columns")
PAIRS = Case(16, 16, 16, dtypes.float32, "columns", "columns")


def unit_of(case: Case, target: str = V4) -> int:
    """Return the unit of a right that the plan of a case transposes in parts, or 0."""
    plan = case.plan(target)
    return unit_turned(plan) if plan.method == "held" else 0


def cases() -> list[Case]:
    """Return products of one group of rows and of several, with and without a last part of k."""
    found = []
    for at, m in enumerate((8, 9, 17, 24, 31, MOST_TURNED_ROWS)):
        for n, k in ((16, 16), (13, 7), (15, 3), (14, 33), (16, MOST_TURNED_TERMS), (16, 1)):
            lhs = ("rows", "columns", "padded")[(at + k) % 3]
            found.append(Case(m, n, k, dtypes.float64, lhs, "columns", epilogue=KINDS[at % 3]))
        for n, k in ((16, 16), (13, 6), (15, 2), (14, 34)):
            both = "columns", "columns"
            found.append(Case(m + m % 2, n, k, dtypes.float32, *both, epilogue=KINDS[at % 3]))
    return found


@AVX512
def test_sums_of_a_right_in_parts_agree_with_numpy():
    units = [unit_of(case) for case in cases()]
    assert units.count(1) >= 20
    assert units.count(2) >= 20
    contractions.run_cases(cases(), V4)


@AVX512
def test_sums_along_columns_of_the_result_agree_with_numpy():
    down = [
        replace(ELEMENTS, lhs="rows", rhs="rows", m=14, n=20, result="columns"),
        replace(PAIRS, lhs="rows", rhs="rows", m=14, n=20, result="columns"),
    ]
    assert {case.plan(V4).vector_axis for case in down} == {"m"}
    assert [unit_of(case) for case in down] == [1, 2]
    contractions.run_cases(down, V4)


@AVX512
@pytest.mark.parametrize("case", [ELEMENTS, PAIRS], ids=["elements", "pairs"])
def test_sums_of_broadcast_operands_agree_with_numpy(case):
    layouts = ("rows", "columns", "same row", "same column", "same")
    some = [
        replace(case, m=m, n=n, k=k, lhs=left, rhs=right)
        for m, n, k in ((16, 16, 16), (10, 15, 6))
        for left in layouts
        for right in layouts
    ]
    assert [unit_of(one) > 0 for one in some].count(True) >= 2
    contractions.run_cases(some, V4)


@AVX512
def test_not_a_byte_outside_the_operands_is_touched():
    some = [
        replace(case, m=m, n=n, k=k)
        for case in (ELEMENTS, PAIRS)
        for m, n, k in ((18, 16, 14), (10, 13, 6), (24, 15, 26))
    ]
    assert 0 not in {unit_of(case) for case in some}
    contractions.check_at_the_brink(some, V4)


@AVX512
@pytest.mark.parametrize("case", [ELEMENTS, PAIRS], ids=["elements", "pairs"])
def test_infinities_and_nans_reach_their_own_sums_only(case):
    case = replace(case, n=14, k=14)
    library, (kernel,) = contractions.compile_cases([case], V4)
    assert unit_turned(kernel.plan)
    dtype = case.dtype.numpy
    lhs, turned = np.ones((case.m, case.k), dtype), np.ones((case.n, case.k), dtype)
    lhs[3, 12], turned[5, 13], turned[7, 0] = np.inf, -np.inf, np.nan
    stored = np.ascontiguousarray(lhs.T) if case.lhs == "columns" else lhs
    result = np.zeros((case.m, case.n), dtype)
    scratch = aligned(scratch_bytes(kernel.plan))
    library.run("kernel_0", *map(address, (stored, turned, result, result, scratch)))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(result, lhs @ turned.T)


def test_a_right_is_in_parts_whose_columns_fill_two_vectors_of_units():
    assert unit_of(ELEMENTS) == 1
    assert unit_of(replace(ELEMENTS, lhs="columns")) == 1
    assert unit_of(PAIRS) == 2
    others = [
        replace(ELEMENTS, rhs="rows"),
        replace(ELEMENTS, n=12),
        replace(ELEMENTS, n=17),
        replace(ELEMENTS, m=7),
        replace(ELEMENTS, m=MOST_TURNED_ROWS + 1),
        replace(ELEMENTS, k=MOST_TURNED_TERMS + 1),
        replace(ELEMENTS, dtype=dtypes.int64),
        replace(PAIRS, lhs="rows"),  # no two rows lie side by side
        replace(PAIRS, m=17),
        replace(PAIRS, k=17),
    ]
    assert {unit_of(case) for case in others} == {0}


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "aarch64"])
def test_no_right_is_in_parts_where_vectors_are_short(target):
    assert unit_of(ELEMENTS, target) == unit_of(PAIRS, target) == 0


@pytest.mark.parametrize("case", [ELEMENTS, PAIRS], ids=["elements", "pairs"])
def test_sums_and_parts_stay_in_registers_and_all_parts_have_the_same_code(case):
    x, y = (sg.placeholder((5, 16, 16), case.dtype) for _ in range(2))
    step = sg.compile([x, y], (x.mT if case.lhs == "columns" else x) @ y.mT, target=V4)
    assert unit_turned(plan_of(step.graph))
    text = step.ir("asm").partition("contract.turned:")[2].partition("retq")[0]
    assert "rsp" not in text
    # The sums of a part: four terms of 8 rows and two vectors, or eight of 8 pairs of rows.
    assert text.count("vfmadd") == (64 if case is ELEMENTS else 128)


@pytest.mark.parametrize("case", [ELEMENTS, PAIRS], ids=["elements", "pairs"])
@pytest.mark.parametrize("count", [3, 37])
def test_batches_agree_for_any_number_of_threads(case, count):
    m, n, k = 18, 14, 22
    x = sg.placeholder((count, k, m), case.dtype)
    y, z = sg.placeholder((count, n, k), case.dtype), sg.placeholder((count, m, n), case.dtype)
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-1, 1, t.type.static_shape).astype(t.dtype.numpy) for t in (x, y, z))
    ys = [x.mT @ y.mT, sg.tanh(x.mT @ y.mT) + z]
    results = [sg.compile([x, y, z], ys, threads=threads)(a, b, c) for threads in (1, 2, 4)]
    product = a.mT @ b.mT
    for result, expected in zip(results[0], (product, np.tanh(product) + c), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    for some in results[1:]:
        for result, first in zip(some, results[0], strict=True):
            np.testing.assert_array_equal(result, first)


HELD = Case(16, 16, 16, rhs="columns")
INCLUDES = {is_so: replace(target_named(V4), includes_code=is_so) for is_so in (False, True)}


def kernel_of(case: Case, *, includes_code: bool, next_right: int = 256) -> Kernel:
    """Return the microkernel of a case that prefetches the right of the next product."""
    plan = replace(case.plan(V4), next_right=next_right)
    stored = Elements(plan.dtype, plan.compute, INCLUDES[includes_code])
    return held_leaf(plan, stored, case.m, case.n)


def text_of(kernel: Kernel) -> str:
    module = ir.Module()
    leaf_function(module, kernel)
    return str(module)


@pytest.mark.parametrize("case", [HELD, ELEMENTS, PAIRS], ids=["held", "elements", "pairs"])
def test_a_batch_prefetches_its_code_where_a_cache_of_data_includes_it(case):
    prefetched = text_of(kernel_of(case, includes_code=True))
    assert prefetched.count("ptrtoint") == 1
    assert "ptrtoint" not in text_of(kernel_of(case, includes_code=False))
    assert "ptrtoint" not in text_of(kernel_of(case, includes_code=True, next_right=0))


@AVX512
@pytest.mark.parametrize("case", [HELD, ELEMENTS, PAIRS], ids=["held", "elements", "pairs"])
def test_lines_of_code_that_are_prefetched_are_about_as_many_as_there_are(case):
    kernel = kernel_of(case, includes_code=True)
    x, y = (sg.placeholder((5, 16, 16), case.dtype) for _ in range(2))
    step = sg.compile([x, y], (x.mT if case.lhs == "columns" else x) @ y.mT, target=V4)
    text = re.split(r"contract\.(?:held|turned):", step.ir("asm"))[1].partition("retq")[0]
    instructions = [line for line in text.splitlines() if re.match(r"\t[a-z]", line)]
    line = kernel.elements.target.memory.line_bytes
    lines = len(instructions) * CODE_BYTES / line
    assert kernel.code_lines & (kernel.code_lines - 1) == 0
    assert 0.75 * lines <= kernel.code_lines <= 2 * lines


def test_only_processors_known_to_include_code_are_prefetched_it():
    assert not any(target_named(name).includes_code for name in TARGET_NAMES if name != "native")
