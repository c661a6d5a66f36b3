"""Large products where the shared cache is slow and few instructions are issued, and their bits."""

from __future__ import annotations

from itertools import pairwise
from unittest import mock

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen import ir
from symgrad.codegen import target as targets
from symgrad.codegen.contract import Operand, plan_contract
from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.kernels import microkernel
from symgrad.codegen.contract.kernels.assembled import is_assembled
from symgrad.codegen.contract.kernels.register_tile import Microkernel
from symgrad.codegen.contract.plans.packing import packs_within
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.unrolling import turns_of
from symgrad.codegen.contract.variants import _microkernel, _with_more_steps
from symgrad.codegen.target import Target, target_named
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.types import Array
from symgrad.records import replace

V3, V4 = target_named("x86-64-v3"), target_named("x86-64-v4")


def told(target: Target, *, is_so: bool) -> Target:
    """Return a machine of which all that is measured of Skylake's servers holds, or nothing."""
    ahead = 768 if is_so else 0
    return replace(target, issues_few=is_so, near_ahead=ahead, shares_slowly=is_so)


SLOW = told(V4, is_so=True)


def plan_of(target: Target, size: int, k: int, form: str = "NN") -> ContractPlan:
    lhs = Operand(*((1, size) if form[0] == "T" else (k, 1)), 4)
    rhs = Operand(*((1, k) if form[1] == "T" else (size, 1)), 4)
    result = Operand(size, 1, 4)
    return plan_contract(size, size, k, dtypes.float32, lhs, rhs, result, target)


def kernel_of(plan: ContractPlan, target: Target) -> Microkernel:
    stored = Elements(plan.dtype, plan.compute, target)
    return _microkernel(plan, stored, stored, plan.tile_rows, plan.tile_columns, packs=False)


@pytest.mark.parametrize("size", [512, 1024])
def test_a_block_of_the_left_leaves_half_of_a_second_cache_of_512_kib(size: int) -> None:
    for target, least, most in ((V3, 128 << 10, 256 << 10), (V4, 384 << 10, 640 << 10)):
        plan = plan_of(target, size, size)
        assert least <= plan.block_tiles * plan.tile_rows * plan.block_k * 4 <= most


def test_a_right_that_is_in_no_near_cache_is_packed_by_the_first_tile_of_each_panel() -> None:
    assert not plan_of(V4, 1024, 1024).packs_late
    plan = plan_of(SLOW, 1024, 1024)
    assert plan.packs_late
    assert packs_within(plan)
    turned = plan_of(SLOW, 1024, 1024, "NT")
    assert turned.packs_late
    assert not packs_within(turned)


def test_sums_over_many_terms_are_added_up_in_blocks() -> None:
    assert plan_of(V4, 2048, 2048).block_k == 2048
    assert plan_of(SLOW, 2048, 2048).block_k == 1024
    assert plan_of(SLOW, 1024, 1024).block_k == 1024


def test_long_loops_are_unrolled_where_few_instructions_are_issued() -> None:
    plan = replace(plan_of(V4, 2048, 2048), block_k=2048)
    sizes = plan.tile_rows, plan.tile_columns
    assert turns_of(plan, V4, *sizes) == (1, 1)
    assert turns_of(plan, SLOW, *sizes) == (1, 4)


def test_assembled_kernels_take_four_steps_an_iteration_however_few_registers_are_free() -> None:
    for target, expected in ((V4, 2), (SLOW, 4)):
        plan = plan_of(target, 512, 512)
        assert (plan.tile_rows + 1) * plan.tile_columns // plan.lanes == 30
        kernel = kernel_of(plan, target)
        assert kernel.unrolled == 2
        assert _with_more_steps(plan, kernel).unrolled == expected
    # One that LLVM selects keeps registers for what it loads ahead.
    other = replace(kernel, prefetches_next=True)
    assert _with_more_steps(plan, other).unrolled == 2


def whole_kernel_of(plan: ContractPlan, target: Target) -> Microkernel:
    return _with_more_steps(plan, kernel_of(plan, target))


@pytest.mark.parametrize(("size", "met"), [(32, 0), (64, 0), (512, 0), (1024, 1)])
def test_kernels_of_avx2_take_four_steps_although_no_register_is_free(size: int, met: int) -> None:
    for target, expected in ((V3, 4), (replace(V3, issues_few=False), 1)):
        plan = replace(plan_of(target, size, size), met=met)
        assert (plan.tile_rows + 1) * plan.tile_columns // plan.lanes + 1 >= 15
        kernel = whole_kernel_of(plan, target)
        assert (kernel.unrolled, kernel.prefetches_apart) == (expected, expected == 4 and met > 0)
        assert is_assembled(kernel)
    # One that LLVM selects has no registers for what it would load ahead.
    other = replace(kernel_of(plan, V3), prefetches_next=True)
    assert _with_more_steps(plan, other).unrolled == 1


def test_loops_of_few_steps_of_avx2_take_one_at_a_time() -> None:
    for k, expected in ((16, 1), (23, 1), (24, 4)):
        assert whole_kernel_of(plan_of(V3, 48, k), V3).unrolled == expected


def test_an_iteration_of_avx2_has_20_instructions_a_step_and_six_to_go_on() -> None:
    plan = plan_of(V3, 2048, 2048)
    kernel = replace(whole_kernel_of(plan, V3), steps_a_row=0, prefetches_panel=False)
    assert (kernel.rows, kernel.vectors) == (6, 2)
    module = ir.Module()
    microkernel.emit_microkernel(module, kernel)
    loop = str(module).split("2:", 1)[1].split("jl 2b")[0]
    assert loop.count("vfmadd231ps") == 4 * 12
    assert loop.count("vbroadcastss") + loop.count("vmovups") == 4 * 8
    around = ("addq", "leaq", "cmpq", "movq", "prefetch")
    assert sum(map(loop.count, around)) <= 6


def test_sums_of_avx2_that_go_on_with_a_packed_left_are_assembled() -> None:
    # Sums of blocks of k go on where the one before ended.
    for target, expected in ((V3, True), (V4, False)):
        plan = replace(plan_of(target, 1024, 1024), pack_left="copy", block_k=512)
        kernel = whole_kernel_of(plan, target)
        assert kernel.resumes
        assert kernel.has_packed_left
        assert is_assembled(kernel) is expected


@pytest.mark.isa("avx512f")
def test_lines_of_a_panel_are_prefetched_one_by_one() -> None:
    machine = told(target_named("native"), is_so=True)
    with mock.patch.object(targets, "_native", return_value=machine):
        target_named.cache_clear()
        try:
            x, y = sg.placeholder((512, 512)), sg.placeholder((512, 512))
            text = sg.compile([x, y], x @ y, threads=1, cache=False).ir("asm")
        finally:
            target_named.cache_clear()
    lines = [line.split()[0] for line in text.splitlines() if line.startswith("\t")]
    assert lines.count("prefetcht0") > 0
    assert ("prefetcht0", "prefetcht0") not in set(pairwise(lines))


def test_what_the_next_epilogue_meets_is_prefetched_in_a_loop_of_its_own_if_that_is_short() -> None:
    for target, expected in ((V4, False), (SLOW, True)):
        plan = replace(plan_of(target, 1024, 1024), met=1)
        assert kernel_of(plan, target).prefetches_apart is expected
    short = replace(plan_of(SLOW, 1024, 1024), met=1, block_k=128)
    assert not kernel_of(short, SLOW).prefetches_apart


def test_rows_that_lie_whole_pages_apart_are_prefetched_a_line_before() -> None:
    assert kernel_of(plan_of(SLOW, 512, 1024), SLOW).left_near == 64
    assert kernel_of(plan_of(SLOW, 512, 1000), SLOW).left_near == 0
    assert kernel_of(plan_of(V4, 512, 1024), V4).left_near == 0


def test_a_packed_left_is_prefetched_as_its_panel_is() -> None:
    plan = plan_of(SLOW, 1024, 1024, "TN")
    assert plan.pack_left == "copy"
    assert kernel_of(plan, SLOW).left_near == 768


def test_rows_that_lie_side_by_side_are_brought_near_if_the_second_cache_has_them() -> None:
    plan, other = plan_of(SLOW, 256, 256, "TN"), plan_of(V4, 256, 256, "TN")
    assert plan.pack_left == other.pack_left == "none"
    near, far = kernel_of(plan, SLOW), kernel_of(other, V4)
    assert (near.brings_near, near.left_ahead) == (True, 4)
    assert (far.brings_near, far.left_ahead) == (False, 16)


def few_rows(target: Target, rows: int, columns: int, k: int) -> ContractPlan:
    lhs, rhs, result = Operand(k, 1, 4), Operand(columns, 1, 4), Operand(columns, 1, 4)
    return plan_contract(rows, columns, k, dtypes.float32, lhs, rhs, result, target)


@pytest.mark.parametrize(("rows", "is_packed"), [(32, False), (128, True)])
def test_rows_of_a_right_that_lie_far_apart_are_brought_near(rows: int, is_packed: bool) -> None:
    for target, expected in ((SLOW, (True, 4)), (V4, (False, 16))):
        plan = few_rows(target, rows, 512, 512)
        assert (plan.pack_right == "copy") is is_packed
        stored = Elements(plan.dtype, plan.compute, target)
        sizes = plan.tile_rows, plan.tile_columns
        kernel = _microkernel(plan, stored, stored, *sizes, packs=is_packed)
        assert (kernel.brings_right_near, kernel.right_ahead) == expected
    near = few_rows(SLOW, rows, 128, 512)  # a processor follows such rows
    assert not kernel_of(near, SLOW).brings_right_near


def test_what_is_packed_from_afar_is_not() -> None:
    plan = plan_of(SLOW, 1024, 1024)
    stored = Elements(plan.dtype, plan.compute, SLOW)
    sizes = plan.tile_rows, plan.tile_columns
    kernel = _microkernel(plan, stored, stored, *sizes, packs=True)
    assert (kernel.brings_right_near, kernel.right_ahead) == (False, 16)


@pytest.mark.parametrize("is_assembled", [False, True])
def test_all_lines_of_a_row_are_prefetched_wherever_it_begins(is_assembled: bool) -> None:
    plan = few_rows(SLOW, 32, 512, 512)
    kernel = kernel_of(plan, SLOW)
    with mock.patch.object(microkernel, "is_assembled", return_value=is_assembled):
        module = ir.Module()
        microkernel.emit_microkernel(module, kernel)
    line = SLOW.memory.line_bytes
    lines = kernel.columns * 4 // line
    if is_assembled:
        first = str(module).split("vbroadcastss")[0]
        begin = kernel.right_ahead * plan.columns * 4
        prefetched = [*range(0, kernel.columns * 4, line), (kernel.columns - 1) * 4]
        found = [part.split("(")[0] for part in first.split("prefetcht0 ")[1:]]
        assert found == [str(begin + nbytes) for nbytes in prefetched]
    else:
        assert str(module).count('call void @"llvm.prefetch.p0') == kernel.unrolled * (lines + 1)


def results_on(
    form: str, dtype: DType, sizes: tuple[int, int, int], threads: int, *, is_so: bool
) -> Array:
    """Return what a product gives, with a bias and a gelu in a form with a plus."""
    m, n, k = sizes
    machine = told(target_named("native"), is_so=is_so)
    with mock.patch.object(targets, "_native", return_value=machine):
        target_named.cache_clear()
        try:
            x = sg.placeholder((k, m) if form[0] == "T" else (m, k), dtype)
            y = sg.placeholder((n, k) if form[1] == "T" else (k, n), dtype)
            b = sg.placeholder((n,), dtype)
            product = (x.T if form[0] == "T" else x) @ (y.T if form[1] == "T" else y)
            result = sg.nn.gelu(product + b) if form.endswith("+") else product
            step = sg.compile([x, y, b], result, threads=threads, cache=False)
            random = np.random.default_rng(0)
            arrays = [
                random.normal(size=t.type.static_shape).astype(dtype.numpy) for t in (x, y, b)
            ]
            found: Array = step(*arrays)
            return found
        finally:
            target_named.cache_clear()


@pytest.mark.isa("avx2", "fma")
@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT", "NN+"])
@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
@pytest.mark.parametrize(
    "sizes",
    [(300, 333, 512), (1024, 1100, 70), (200, 260, 1300), (21, 333, 100), (330, 1030, 1024)],
)
def test_no_bit_is_another(form: str, dtype: DType, sizes: tuple[int, int, int]) -> None:
    expected = results_on(form, dtype, sizes, 1, is_so=False)
    for threads in (1, 2):
        found = results_on(form, dtype, sizes, threads, is_so=True)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.isa("avx2", "fma")
@pytest.mark.slow
@pytest.mark.parametrize("form", ["NN", "TT"])
@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
def test_no_bit_of_sums_in_blocks_is_another(form: str, dtype: DType) -> None:
    sizes = 1050, 1100, 2049
    expected = results_on(form, dtype, sizes, 1, is_so=False)
    for threads in (1, 2, 4):
        found = results_on(form, dtype, sizes, threads, is_so=True)
        np.testing.assert_array_equal(found, expected)


def test_only_measured_processors_are_so() -> None:
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"):
        assert not target_named(name).shares_slowly


def test_tiles_have_no_more_rows_than_the_nearest_cache_keeps_lines_of() -> None:
    rows, result = Operand(10, 1, 4), Operand(10, 1, 4)
    for apart, expected in ((512, 16), (1024, 8), (500, 26)):
        lefts = Operand(apart, 1, 4)
        # An odd number of terms, which are not added up in pairs.
        plan = plan_contract(128, 10, 511, dtypes.float32, lefts, rows, result, V4)
        assert plan.tile_rows == expected
