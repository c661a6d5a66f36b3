"""What differs between machines is read from `Target`: another number is another schedule."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract import ContractPlan, Operand, plan_contract
from symgrad.codegen.contract.plans.scratch import scratch_bytes
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.program.language import Instr, ScanInstr, WhileInstr
from symgrad.codegen.program.registers import schedule_registers
from symgrad.codegen.target import MemoryHierarchy, Target, target_named
from symgrad.graph import dtypes
from tests.support.programs import program_from
from tests.unit.codegen import test_contract as contractions
from tests.unit.codegen.test_contract import Case

TARGET = target_named("x86-64-v4")

# A fresh process: nothing that was asked of the host before is known.
OF_ANOTHER_HOST = """
import sys
import llvmlite.binding as llvm
cpu, features = sys.argv[1].split(":")
host = llvm.get_host_cpu_features()
for name in features.split(","):
    host[name] = False
llvm.get_host_cpu_name = lambda: cpu
llvm.get_host_cpu_features = lambda: host
import symgrad as sg
from symgrad.codegen.target import target_named
assert target_named("native").cpu == cpu
x, y = (sg.placeholder((70, 64), name=name) for name in "xy")
small = sg.placeholder((9, 16, 16), name="small")
results = [sg.exp(x @ y.T).sum(axis=1), small @ small, x.reshape(-1)[sg.arange(64) * 3]]
for target in "x86-64-v3", "x86-64-v4", "aarch64":
    step = sg.compile([x, y, small], results, target=target, cache=False)
    print(*(step.ir(stage) for stage in ("loops", "llvm", "asm")))
"""


def with_memory(**changes: Any) -> Target:
    return replace(TARGET, memory=replace(TARGET.memory, **changes))


def plan(target: Target, m: int = 2048, n: int = 2048, k: int = 2048) -> ContractPlan:
    rows = Operand(k, 1, 4), Operand(n, 1, 4), Operand(n, 1, 4)
    return plan_contract(m, n, k, dtypes.float32, *rows, target)


def test_all_targets_are_taken_to_have_the_same_memory_but_for_blocks_of_avx2():
    smaller = replace(MemoryHierarchy(), block_bytes=192 << 10)
    for name in ("native", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"):
        target = target_named(name)
        assert target.memory == (smaller if target.level == 3 else MemoryHierarchy())


def test_code_for_a_named_target_is_the_same_on_all_hosts():
    hosts = "znver5:avx512bf16", "cascadelake:avx512vnni", "haswell:avx512f,avx512vl"
    given = []
    for host in hosts:
        command = [sys.executable, "-c", OF_ANOTHER_HOST, host]
        made = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
        assert made.returncode == 0, made.stderr
        given.append(made.stdout)
    assert "zmm" in given[0]
    assert given[0] == given[1] == given[2]


def test_results_are_the_same_bits_whatever_is_added_up_at_once(monkeypatch):
    cases = [
        Case(37, 70, 1500),
        Case(20, 33, 2047, dtypes.float64, rhs="columns"),
    ]
    rng = np.random.default_rng(0)
    given = [
        [rng.standard_normal(size).astype(case.dtype.numpy) for size in (c, d)]
        for case in cases
        for c, d in [(case.m * case.k, case.k * case.n)]
    ]
    results, blocks = [], []
    for terms in ((1024, 768), (2048, 768)):
        memory = replace(MemoryHierarchy(), near_terms=terms)
        machine = replace(target_named("native"), memory=memory)
        monkeypatch.setattr(contractions, "target_named", lambda _, machine=machine: machine)
        library, kernels = contractions.compile_cases(cases, "")
        blocks.append([kernel.plan.k_blocks for kernel in kernels])
        for at, (case, kernel) in enumerate(zip(cases, kernels, strict=True)):
            result = np.zeros(case.m * case.n, case.dtype.numpy)
            scratch = contractions.aligned(scratch_bytes(kernel.plan))
            buffers = (*given[at], result, result, scratch)
            library.run(f"kernel_{at}", *map(contractions.address, buffers))
            results.append(result.tobytes())
    assert blocks == [[2, 3], [1, 1]]
    assert results[:2] == results[2:]


def test_a_long_sum_of_few_results_reads_as_much_at_a_time_as_stays_in_the_second_cache():
    m, n, k = 64, 256, 25600
    turned = Operand(1, m, 4), Operand(n, 1, 4), Operand(n, 1, 4)
    for target in (with_memory(l1_bytes=1 << 18), with_memory(l1_bytes=1 << 18, l2_bytes=1 << 20)):
        found = plan_contract(m, n, k, dtypes.float32, *turned, target)
        assert found.block_k * (m + n) * 4 <= target.memory.l2_bytes
        assert 4 * found.block_k * (m + n) * 4 > target.memory.l2_bytes
    # The panel that all tiles read comes from the first cache.
    near = plan_contract(m, n, k, dtypes.float32, *turned, TARGET)
    assert near.block_k * near.tile_columns * 4 == TARGET.memory.l1_bytes


def test_sums_of_a_left_whose_rows_lie_side_by_side_are_long_earlier():
    """Then its lines come from the second cache, and those of a panel from the first one."""
    k = 2 * TARGET.memory.near_terms[1]
    right = Operand(64, 1, 4)
    across, along = (
        plan_contract(256, 64, k, dtypes.float32, left, right, right, TARGET)
        for left in (Operand(1, 256, 4), Operand(k, 1, 4))
    )
    assert across.block_k == 128
    assert along.block_k == k // 2
    shorter = plan_contract(
        256, 64, k - 64, dtypes.float32, Operand(1, 256, 4), right, right, TARGET
    )
    assert shorter.block_k > 128


def test_terms_that_lie_evenly_are_those_of_a_long_sum_though_the_others_are_in_pieces():
    """So it is with the cotangent of a 1 x 1 convolution with a stride."""
    k = 8 * 28 * 28
    pixels = Operand(256, 1, 4, ((28, 2 * 28 * 256),))
    evenly, apart = (
        plan_contract(
            256, 128, k, dtypes.float32, Operand(1, 256, 4, (), ((28, by),)), pixels, pixels, TARGET
        )
        for by in (28 * 256, 30 * 256)
    )
    assert evenly.block_k % 28 == 0
    assert evenly.block_k <= TARGET.memory.l1_bytes // (64 * 4) + 28
    assert apart.block_k > evenly.block_k


def test_of_a_panel_that_lies_in_wider_rows_as_many_terms_are_read_as_its_sets_keep():
    rows, target = (256, 192, 128, 64), with_memory(l1_bytes=1 << 15, l1_ways=8)
    of_width = {}
    for columns in rows:
        turned = Operand(1, 256, 4), Operand(columns, 1, 4), Operand(columns, 1, 4)
        of_width[columns] = plan_contract(256, columns, 25600, dtypes.float32, *turned, target)
    half = of_width[128]
    assert (half.pack_right, half.tile_columns) == ("none", 64)
    # A row of a panel is every other 256 bytes, so half of the sets have all of it.
    assert half.block_k == 64
    # Rows of 768 bytes meet all sets, and what is packed, or as wide as its panel, lies densely.
    assert of_width[192].block_k == of_width[64].block_k == 128
    assert of_width[256].pack_right == "copy"
    assert of_width[256].block_k == 128


def test_a_left_whose_terms_are_far_apart_is_packed_some_terms_at_a_time():
    turned = Operand(1, 2048, 4), Operand(2048, 1, 4), Operand(2048, 1, 4)
    packed = plan_contract(2048, 2048, 2048, dtypes.float32, *turned, TARGET)
    assert (packed.pack_left, packed.packed_terms) == ("copy", 16)
    assert packed.packed_tile_elements == packed.block_k * packed.packed_rows + packed.lanes
    near = plan_contract(
        2048,
        2048,
        2048,
        dtypes.float32,
        *turned,
        with_memory(followed_bytes=1 << 20, l2_bytes=1 << 14),
    )
    assert (near.pack_left, near.packed_terms) == ("copy", near.block_k)
    assert near.packed_tile_elements == near.block_k * near.packed_rows


@pytest.mark.parametrize(
    ("number", "field"),
    [
        ({"block_bytes": 64 << 10}, "block_tiles"),
        ({"shared_bytes": 1 << 20}, "block_panels"),
        ({"large_terms": (256, 256)}, "block_k"),
        ({"band_rows": 128}, "band_tiles"),
        ({"l1_bytes": 1 << 20}, "tile_rows"),  # no rows fall on one set of the cache
        ({"l1_ways": 2}, "tile_rows"),
    ],
)
def test_a_plan_follows_the_caches(number, field):
    changed = plan(with_memory(**number), k=4096)
    assert getattr(changed, field) != getattr(plan(TARGET, k=4096), field)


@pytest.mark.parametrize(("columns", "field"), [(64, "tile_rows"), (2048, "block_k")])
def test_a_plan_of_a_left_whose_terms_are_far_apart_follows_the_size_of_pages(columns, field):
    turned = Operand(1, 2048, 4), Operand(columns, 1, 4), Operand(columns, 1, 4)
    of_pages = [
        plan_contract(2048, columns, 2048, dtypes.float32, *turned, target)
        for target in (TARGET, with_memory(page_bytes=1 << 20))
    ]
    assert getattr(of_pages[0], field) != getattr(of_pages[1], field)


def test_a_plan_of_a_smaller_result_follows_the_terms_that_are_near():
    few = with_memory(near_terms=(256, 256))
    assert plan(few, m=512).block_k < plan(TARGET, m=512).block_k


def test_where_more_terms_are_added_up_at_once_tiles_are_stored_where_results_are():
    patient = with_memory(near_terms=(2048, 768), far_terms=(1024, 1024))
    assert plan(TARGET, m=512).k_blocks == 3
    assert plan(patient, m=512).k_blocks == 1
    assert plan(patient, m=512, k=4096).block_k <= patient.memory.near_terms[1]
    turned = Operand(1, 1024, 4), Operand(1024, 1, 4), Operand(1024, 1, 4)
    blocks = [
        plan_contract(1024, 1024, 1024, dtypes.float32, *turned, target).k_blocks
        for target in (TARGET, patient)
    ]
    assert blocks == [2, 1]


def test_sums_of_a_result_that_no_near_cache_holds_are_added_up_at_once_for_longer():
    def blocks(m: int, k: int, lhs: Operand | None = None, target: Target = TARGET) -> int:
        right = Operand(2048, 1, 8)
        left = lhs or Operand(k, 1, 8)
        return plan_contract(m, 2048, k, dtypes.float64, left, right, right, target).k_blocks

    fitting = TARGET.memory.shared_bytes // (2048 * 8)
    assert (blocks(fitting, 2048), blocks(fitting + 1, 2048)) == (3, 1)
    assert blocks(2048, 4096) == 6  # too many terms for any
    assert blocks(2048, 2048, Operand(1, 2048, 8)) == 4  # each term on another page
    assert blocks(2048, 2048, target=with_memory(large_terms=(1024, 768))) == 3


def test_windows_are_added_up_at_once_for_longer_than_other_rows_are():
    def terms(digits: tuple[tuple[int, int], ...], target: Target = TARGET, k: int = 1152) -> int:
        lhs = Operand(k, 1, 4, (), digits)
        return plan_contract(
            784, 128, k, dtypes.float32, lhs, Operand(128, 1, 4), Operand(128, 1, 4), target
        ).block_k

    walked = ((128, 256), (384, 9000))
    assert terms(walked) == 1152
    assert terms(()) == 576
    assert terms(walked, k=2304) == 768
    assert terms(walked, with_memory(window_terms=(1024, 768))) == 640


@pytest.mark.parametrize(("dtype", "size"), [("float32", 1024), ("float64", 1024), (None, 2048)])
def test_no_block_is_much_smaller_than_others_since_each_packs_the_other_operand(dtype, size):
    kind = dtypes.float64 if dtype == "float64" else dtypes.float32
    turned = Operand(1, size, kind.itemsize), *[Operand(size, 1, kind.itemsize)] * 2
    found = plan_contract(size, size, size, kind, *turned, TARGET)
    assert found.pack_left == found.pack_right == "copy"
    for count, block in (
        (found.panels, found.block_panels),
        (found.row_tiles, found.band_tiles),
    ):
        assert (count - 1) % block >= block // 2
    packed = found.block_panels * found.packed_steps * found.tile_columns * kind.itemsize
    assert packed <= 1.25 * TARGET.memory.shared_bytes


def test_the_order_of_tiles_follows_the_nearest_cache():
    small = {"m": 512, "n": 16, "k": 256}
    assert plan(TARGET, **small).rows_first
    assert not plan(with_memory(l1_bytes=1 << 10), **small).rows_first


def test_far_operands_are_packed_by_the_pages_that_are_near():
    wide = {"m": 512, "n": 2048, "k": 128}
    assert plan(TARGET, **wide).pack_right == "copy"
    assert plan(with_memory(near_pages=1 << 20), **wide).pack_right == "none"


def test_kernels_of_windows_that_span_more_than_the_second_cache_are_packed():
    m, n, k = 56, 768, 256  # so few rows that a plain product does not pack
    rows = (
        Operand(k, 1, 4, column_digits=((64, 64),)),
        Operand(n, 1, 4, row_digits=((64, 64 * n),)),
        Operand(n, 1, 4),
    )
    large = with_memory(l2_bytes=1 << 20)
    packed = [
        plan_contract(m, n, k, dtypes.float32, *rows, target).pack_right
        for target in (TARGET, large)
    ]
    assert packed == ["copy", "none"]
    # A plain product of as many terms reads its right where it lies.
    assert plan(TARGET, m=m, n=n, k=k).pack_right == "none"


def test_a_right_is_packed_where_many_tiles_read_what_no_processor_follows():
    wide = {"m": 512, "n": 256, "k": 512}
    followed = with_memory(followed_bytes=2048)
    assert [plan(t, **wide).pack_right for t in (TARGET, followed)] == ["copy", "none"]
    assert plan(TARGET, **wide | {"m": 32}).pack_right == "none"  # of few tiles
    assert plan(TARGET, **wide | {"n": 192}).pack_right == "none"  # steps of 768 bytes
    assert plan(TARGET, **wide | {"k": 32}).pack_right == "none"


def test_what_is_read_where_it_lies_in_far_steps_is_read_in_short_blocks():
    few = {"m": 16, "n": 512, "k": 512}
    assert plan(TARGET, **few).block_k == 32
    assert plan(with_memory(followed_bytes=4096), **few).block_k == 512
    assert plan(TARGET, **few | {"m": 512}).block_k == 512  # packed
    assert plan(TARGET, **few | {"n": 192}).block_k == 512  # steps of 768 bytes
    assert plan(TARGET, **few | {"k": 32}).k_blocks == 1
    # What is short is not packed for being large.
    assert plan(TARGET, m=16, n=4096, k=4096).pack_right == "none"


@pytest.mark.parametrize(
    ("shapes", "steps", "count"),
    [
        (((8, 128), (128, 512)), 16, 3),  # of the right, three lines a step
        (((8, 128), (128, 512)), 0, 0),
        (((8, 128), (128, 64)), 16, 0),  # the processor follows steps of 256 bytes
        (((8, 16), (16, 512)), 16, 0),  # all steps are the first ones
    ],
)
def test_what_no_processor_follows_is_prefetched_some_steps_before(shapes, steps, count):
    a, b = (sg.placeholder(shape, name=name) for shape, name in zip(shapes, "ab", strict=True))
    target = with_memory(steps_ahead=steps)
    module = emit_module(program_from(sg.matmul(a, b)), target)
    (tile, *_) = [f for f in str(module).split("define ") if '@"contract.tile' in f.split("\n")[0]]
    assert tile.count("prefetcht1 ") == count


def test_a_transposed_left_that_spans_more_than_the_second_cache_is_packed():
    m, n, k = 256, 1024, 2048
    rows = Operand(1, m, 4), Operand(n, 1, 4), Operand(n, 1, 4)
    small = with_memory(near_pages=1 << 20)
    large = with_memory(near_pages=1 << 20, l2_bytes=1 << 24)
    packed = [
        plan_contract(m, n, k, dtypes.float32, *rows, target).pack_left for target in (small, large)
    ]
    assert packed == ["copy", "none"]


def test_a_loop_is_written_out_if_the_cache_of_instructions_holds_it():
    v = sg.placeholder((64,))
    last = sg.fori_loop(0, sg.placeholder((), "int64"), lambda i, v: v * 0.5, v)
    program = program_from(last)
    plain = replace(program, instrs=tuple(map(_without_registers, program.instrs)))
    assert any(map(_has_registers, schedule_registers(plain, TARGET).instrs))
    small = replace(TARGET, loop_instructions=1)
    assert not any(map(_has_registers, schedule_registers(plain, small).instrs))


def _without_registers(instr: Instr) -> Instr:
    return replace(instr, registers=()) if isinstance(instr, ScanInstr | WhileInstr) else instr


def _has_registers(instr: Instr) -> bool:
    return isinstance(instr, ScanInstr | WhileInstr) and bool(instr.registers)
