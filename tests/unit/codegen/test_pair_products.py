"""bfloat16 products in pairs of terms: by dot products and by a matrix unit, beside NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen import target as description
from symgrad.codegen.contract.plans import sharing
from symgrad.codegen.contract.plans.scratch import scratch_bytes
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.native.jit import optimize
from symgrad.codegen.program.print import print_program
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import Target, target_named, without_matrix_unit
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph
from symgrad.runtime import aot
from tests.support import floors
from tests.support.bfloat16_units import DOT, MATRIX, UNITS, ask_for, pairs_only
from tests.support.evaluators import evaluate_compiled, evaluate_reference
from tests.support.floors import compile_for, run_native
from tests.unit.codegen import test_contract as contractions
from tests.unit.codegen.test_contract import Case, EpilogueKind, Kernel, address, aligned

BFLOAT16 = dtypes.bfloat16
# Sizes about those of squares of 16, of tiles of 32 and of chunks of 32 terms.
SHAPES = (
    (1, 1, 1),
    (3, 50, 2),
    (15, 17, 31),
    (16, 16, 32),
    (33, 31, 33),
    (50, 97, 65),
    (70, 5, 129),
)
FORMS = (("rows", "rows"), ("columns", "rows"), ("rows", "columns"), ("columns", "columns"))
ODD = (("gaps", "padded"), ("padded", "gaps"), ("rows backwards", "columns backwards"))
FLAT = (("same row", "same column"), ("same column", "same"), ("pages", "pages"))


@pytest.fixture(params=UNITS)
def unit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """Return a target with such instructions, which stands for any that is named."""
    ask_for(request.param)
    monkeypatch.setattr(contractions, "target_named", lambda _: request.param)
    with pairs_only():
        yield request.param


def cases(layouts: tuple[tuple[str, str], ...]) -> list[Case]:
    """Return a case for each shape, in turns with each layout and epilogue."""
    kinds: tuple[EpilogueKind, ...] = ("store", "bias", "count")
    return [
        Case(*shape, BFLOAT16, *layouts[at % len(layouts)], epilogue=kinds[at % 3])
        for at, shape in enumerate(SHAPES)
    ]


def test_products_of_pairs_agree_with_numpy_in_every_form(unit):
    every = [Case(*shape, BFLOAT16, *form) for shape in SHAPES for form in FORMS]
    assert {case.plan("").method for case in every} <= {"pairs", "matrix"}
    contractions.run_cases(every, "")


def test_products_of_pairs_agree_with_numpy_for_every_epilogue_and_result(unit):
    along_m = [replace(case, result="columns") for case in cases(FORMS)]
    assert "m" in {case.plan("").vector_axis for case in along_m}
    contractions.run_cases(cases(FORMS) + along_m, "")


def test_operands_without_neighbours_and_with_any_strides_are_packed_in_pairs(unit):
    contractions.run_cases(cases(ODD) + cases(FLAT), "")


def test_sums_of_several_blocks_go_on_where_the_last_ended(unit):
    several = [
        Case(40, 37, 2 * 2048 + 33, BFLOAT16, "columns", "columns"),
        Case(1100, 19, 2050, BFLOAT16),
        Case(35, 20, 3073, BFLOAT16, "gaps", "gaps"),
    ]
    assert all(case.plan("").k_blocks > 1 for case in several)
    contractions.run_cases(several, "")


@pytest.mark.parametrize("number", range(len(contractions.BRINK_SHAPES)))
def test_not_a_byte_outside_the_operands_of_pairs_is_touched(number, unit):
    m, n, k = contractions.BRINK_SHAPES[number]
    layouts = (*contractions.BRINK_LAYOUTS, ("columns", "columns"))
    contractions.check_at_the_brink([Case(m, n, k, BFLOAT16, *form) for form in layouts], "")


def multiplied(unit: Target, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Return the float32 sums of the product of two contiguous matrices of bfloat16."""
    (m, k), n = lhs.shape, rhs.shape[1]
    library, (kernel,) = contractions.compile_cases([Case(m, n, k, BFLOAT16)], "")
    result = np.zeros((m, n), np.float32)
    scratch = aligned(scratch_bytes(kernel.plan))  # of bits that are nan
    library.run("kernel_0", *map(address, (lhs, rhs, result, result, scratch)))
    return result


def test_infinities_and_nans_reach_their_own_results_only(unit):
    lhs, rhs = (np.ones(shape, BFLOAT16.numpy) for shape in ((20, 33), (33, 18)))
    lhs[3, 32], rhs[32, 5], rhs[0, 7] = np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = lhs.astype(np.float32) @ rhs.astype(np.float32)
    np.testing.assert_array_equal(multiplied(unit, lhs, rhs), expected)


def test_denormal_operands_and_sums_are_zeros(unit):
    tiny = np.float32(2.0**-130)
    values = np.array([[2.0**-126, tiny, -tiny, 2.0**-64]], BFLOAT16.numpy).T
    ones = np.array([[1.0, 2.0**-64]], BFLOAT16.numpy)
    expected = np.array([[2.0**-126, 0], [0, 0], [0, 0], [2.0**-64, 0]], np.float32)
    np.testing.assert_array_equal(multiplied(unit, values, ones), expected)


def test_whole_numbers_are_added_exactly(unit):
    rng = np.random.default_rng(0)
    lhs, rhs = (
        rng.integers(-8, 9, shape).astype(BFLOAT16.numpy) for shape in ((65, 700), (700, 39))
    )
    expected = lhs.astype(np.float32) @ rhs.astype(np.float32)
    np.testing.assert_array_equal(multiplied(unit, lhs, rhs), expected)


# -------------------------------------------------------------------------------- what is emitted


def assembly(unit: Target, case: Case, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the code of a product for a target, which this CPU need not be able to run."""
    monkeypatch.setattr(contractions, "target_named", lambda _: unit)
    module = ir.Module("contraction")
    Kernel(module, "kernel", case, "")
    return str(unit.machine().emit_assembly(optimize(str(module), unit, 3)))


def test_dot_products_keep_their_sums_in_registers(monkeypatch):
    code = assembly(DOT, Case(64, 96, 300, BFLOAT16), monkeypatch)
    assert code.count("vdpbf16ps") >= 28
    assert "Spill" not in code
    assert "tdpbf16ps" not in code


def test_a_matrix_unit_is_configured_once_for_a_product_and_released(monkeypatch):
    code = assembly(MATRIX, Case(64, 96, 300, BFLOAT16), monkeypatch)
    assert code.count("tdpbf16ps") == 4  # a tile of two squares by two
    assert code.count("ldtilecfg") == 1
    assert code.count("tilerelease") == 1
    assert "vdpbf16ps" not in code


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_targets_without_such_instructions_widen_bfloat16(name, monkeypatch):
    code = assembly(target_named(name), Case(64, 96, 300, BFLOAT16), monkeypatch)
    assert "pbf16ps" not in code
    assert "bfdot" not in code


@pytest.mark.parametrize("unit", [DOT, MATRIX], ids=["dot", "matrix"])
def test_other_dtypes_and_convolutions_are_multiplied_as_before(unit, monkeypatch):
    for dtype in (dtypes.float16, dtypes.float32, dtypes.int8):
        assert "pbf16ps" not in assembly(unit, Case(64, 96, 300, dtype), monkeypatch)
    x, kernel = (
        sg.placeholder((2, 20, 20, 32), "bfloat16"),
        sg.placeholder((3, 3, 32, 32), "bfloat16"),
    )
    step = compile_for(Graph([sg.nn.conv2d(x, kernel)], [x, kernel]), "x86-64-v4")
    assert "pbf16ps" not in str(emit_module(step.program, unit))


def test_a_plan_says_how_pairs_are_multiplied(monkeypatch):
    case = Case(256, 512, 784, BFLOAT16)
    for unit, text in ((DOT, "pairs(14x32)"), (MATRIX, "matrix(32x32)")):
        monkeypatch.setattr(contractions, "target_named", lambda _, unit=unit: unit)
        packed = "block(m=256, n=512, k=784) pack(lhs: pairs, rhs: pairs)"
        assert str(case.plan("")) == f"{text} along n {packed}"


def test_a_row_by_a_matrix_is_not_packed_for_it(monkeypatch):
    monkeypatch.setattr(contractions, "target_named", lambda _: MATRIX)
    assert Case(1, 512, 512, BFLOAT16).plan("").method == "tile"


def test_parts_of_a_product_are_weighed_by_what_the_unit_takes(monkeypatch):
    monkeypatch.setattr(contractions, "target_named", lambda _: MATRIX)
    plan = Case(64, 4096, 64, BFLOAT16).plan("")
    assert plan.method == "matrix"
    # Packing is most of it: so it is shared along the operand that is the larger one.
    assert sharing.choose_share(plan, 2, MATRIX)[0].axis == "n"


# ------------------------------------------------------------------------------------- targets


def test_a_core_with_a_matrix_unit_that_may_not_be_used_computes_in_float32(monkeypatch):
    has_both = {"avx512bf16": True, "amx-tile": True, "amx-bf16": True}
    monkeypatch.setattr(description, "may_use_tiles", lambda: False)
    assert description._bfloat16_unit(has_both) is None
    assert description._bfloat16_unit({"avx512bf16": True}) == "dot"
    monkeypatch.setattr(description, "may_use_tiles", lambda: True)
    assert description._bfloat16_unit(has_both) == "matrix"
    assert description._bfloat16_unit({}) is None


def test_code_for_other_processes_uses_no_matrix_unit():
    assert without_matrix_unit(MATRIX).bfloat16_unit is None
    assert without_matrix_unit(DOT) == DOT
    assert aot._checked_targets("native")[0].bfloat16_unit != "matrix"


# ------------------------------------------------------------------------------ whole programs


def products() -> tuple[Graph, list[np.ndarray]]:
    """Return batched and strided products with epilogues, and gradients, of small whole numbers."""
    rng = np.random.default_rng(0)
    shapes = (3, 40, 66), (66, 50), (3, 50, 90)
    x, w, v = (sg.placeholder(shape, "bfloat16") for shape in shapes)
    y = sg.maximum(x @ w, 0)
    z = y @ v[:, :, ::2] * 0.5 + 1
    graph = Graph([y, z, *sg.gradients(sg.sum(z, axis=1), [x, w, v])], [x, w, v])
    return graph, [rng.integers(-2, 3, shape).astype(BFLOAT16.numpy) for shape in shapes]


def test_programs_with_products_of_pairs_agree_on_all_floors(unit, monkeypatch):
    monkeypatch.setattr(floors, "target_named", lambda _: unit)
    graph, arrays = products()
    wanted = evaluate_reference(graph, arrays)
    for floor, found in evaluate_compiled(graph, arrays).items():
        for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
            np.testing.assert_array_equal(a, b, err_msg=f"output {number} of {floor}")


def test_products_of_pairs_are_the_same_bits_on_any_number_of_threads(unit, monkeypatch):
    monkeypatch.setattr(floors, "target_named", lambda _: unit)
    rng = np.random.default_rng(0)
    x, w = sg.placeholder((300, 700), "bfloat16"), sg.placeholder((700, 260), "bfloat16")
    arrays = [rng.normal(size=t.type.static_shape).astype(BFLOAT16.numpy) for t in (x, w)]
    y = sg.tanh(x @ w)
    graph = Graph([y, *sg.gradients(y, [x, w])], [x, w])
    results = []
    for count in (1, 2, 4):
        step = compile_for(graph, threads=Threads(count))
        assert (count > 1) == ("parallel(" in print_program(step.program))
        results.append([a.tobytes() for a in run_native(step, arrays).outputs])
    assert results[0] == results[1] == results[2]
