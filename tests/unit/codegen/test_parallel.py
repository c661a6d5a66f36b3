"""Forks in LLVM IR, and the parts of products: what is emitted, and that parts make a whole."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.contract import ContractPlan, Operand, plan_contract
from symgrad.codegen.contract.plans.parts import even_columns, even_rows, in_parts
from symgrad.codegen.contract.plans.prefetching import with_next_steps
from symgrad.codegen.contract.plans.sharing import choose_share
from symgrad.codegen.kernel_costs import kernel_parts
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.loops.blocking import Share
from symgrad.codegen.native.jit import optimize
from symgrad.codegen.program.print import print_program
from symgrad.codegen.schedule import parallelize as share_work
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.codegen.team.fork import FORK
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.graph.graph import Graph
from tests.support.floors import compile_for, run_everywhere, run_native
from tests.unit.codegen.test_contract import Case

TARGET = target_named("x86-64-v4")
LONG = sg.placeholder((100_000,), name="x")


def plain_ir(*outputs: sg.Tensor, threads: int) -> str:
    executable = compile_for(Graph(outputs), "x86-64-v3", threads=Threads(threads))
    return str(emit_module(executable.program, target_named("x86-64-v3")))


def functions(ir: str) -> dict[str, str]:
    """Return the text of each function that is defined."""
    found = re.findall(r'(?ms)^define [^@]*@"([^"]+)"(.*?)^}', ir)
    return dict(found)


# ------------------------------------------------------------------------------- what is emitted


def test_a_part_is_a_function_that_a_team_is_given_with_what_its_parts_share():
    ir = plain_ir(sg.tanh(LONG), threads=2)
    found = functions(ir)
    assert {"k0", "k0.part", "k0.part.run"} <= found.keys()
    assert re.search(r'call void @"team.fork"\(.*k0.part.run.*, i64 2, i64 2\)', ir)
    assert 'call void @"k0.part"(' in found["k0.part.run"]
    takes = r"\(ptr noalias [^,]+, ptr noalias [^,]+, i64 [^,]+, i64 [^,]+\)"
    assert re.match(takes, found["k0.part"])


def test_what_one_thread_does_forks_nowhere():
    assert FORK in plain_ir(LONG + 1, threads=4)
    assert FORK not in plain_ir(sg.tanh(LONG), threads=1)
    assert FORK not in plain_ir(LONG[:100] + 1, threads=4)


def test_what_parts_share_lies_on_the_stack_once_a_call():
    ir = plain_ir(sg.tanh(LONG), threads=2)
    optimized = str(optimize(ir, target_named("x86-64-v3"), 2))
    assert functions(ir)["k0"].count("alloca") == 1
    assert "malloc" not in optimized


def test_a_part_that_cannot_fail_returns_nothing_and_one_that_can_a_status():
    at = sg.placeholder((100_000,), "int64")
    assert re.search(r'define [^@]*void @"k0.part"', plain_ir(LONG + 1.5 / LONG, threads=2))
    ir = plain_ir(sg.take(LONG, at), threads=2)
    assert re.search(r'define [^@]*i32 @"k0.part"', ir)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bfloat16", "bool"])
def test_a_part_is_given_the_values_bound_around(dtype):
    x, scale = sg.placeholder((300, 200), dtype), sg.placeholder((), dtype)
    y = x & scale if dtype == "bool" else x * (scale + scale)
    graph = Graph([y], [x, scale])
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 2, t.type.static_shape).astype(x.dtype.numpy) for t in graph.inputs]
    threads = Threads(3, least_cycles=0)
    assert run_everywhere(graph, arrays, threads=threads) is None
    kernel = compile_for(graph, threads=threads).program.kernels[0]
    assert [type(s).__name__ for s in kernel.body][-2:] == ["Let", "For"]
    assert kernel_parts(kernel) == 3


def test_a_part_of_a_product_is_given_indices_and_values_bound_around():
    a, b = sg.placeholder((3, 100, 60), name="a"), sg.placeholder((3, 60, 90), name="b")
    scale, each = sg.placeholder((), name="scale"), sg.placeholder((3, 1, 1), name="each")
    graph = Graph([a @ b * scale + each], [a, b, scale, each])
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=t.type.static_shape).astype(np.float32) for t in graph.inputs]
    threads = Threads(2, least_cycles=0)
    assert run_everywhere(graph, arrays, threads=threads) is None
    text = print_program(compile_for(graph, threads=threads).program)
    assert re.search(
        r"for i0 in 0..3 {\n(.*\n)*? +t\d+: f32 = b\d\[i0\]\n +product .*\n.*parallel", text
    )


# --------------------------------------------------------------------------- parts of products


def share(m: int, n: int, k: int, threads: int = 2, rhs: str = "rows") -> tuple[str, int, float]:
    plan = Case(m, n, k, rhs=rhs).plan("x86-64-v4")
    found, speed_up = choose_share(plan, threads, TARGET)
    return found.axis, found.tiles, speed_up


def test_the_axis_is_the_one_that_divides_better():
    assert share(4096, 64, 256)[0] == "m"
    assert share(64, 4096, 256)[0] == "n"


def test_packing_that_each_thread_repeats_counts():
    # Both axes divide evenly: 56 tiles and 42 panels. It is the panels that are packed.
    assert share(504, 2016, 512, rhs="columns") == ("n", 21, 2.0)


def test_reading_that_each_thread_repeats_counts_beside_an_operand_that_is_near():
    # Four panels and 683 tiles: threads that share panels each read 4096 rows.
    assert share(4096, 256, 256)[0] == "m"
    # Of both operands blocks are read again and again.
    assert share(2048, 768, 768)[0] == "n"


def test_a_narrow_last_panel_is_less_than_an_even_part():
    plan = replace(Case(1568, 336, 512).plan("x86-64-v4"), n=256)
    assert (plan.panels, plan.edge_columns) == (6, 16)
    # Three panels of 48 columns are more than half of 256.
    tiles = -(-plan.row_tiles // 2)
    assert choose_share(plan, 2, TARGET)[0] == Share("m", tiles, plan.row_tiles)


def test_panels_begin_anew_in_each_part_where_their_number_is_odd():
    plan = Case(128, 512, 512).plan("x86-64-v4")
    assert (plan.tile_columns, plan.panels) == (48, 11)
    found, speed_up = choose_share(plan, 2, TARGET)
    assert (found, speed_up > 1.9) == (Share("n", 6, 12, 256), True)
    part = in_parts(plan, found, TARGET)
    assert (part.panels, part.panels_of_run, part.edge_columns) == (12, 6, 16)
    # Of 384 columns threads have four panels each.
    assert choose_share(Case(128, 384, 512).plan("x86-64-v4"), 2, TARGET)[0] == Share("n", 4, 8)
    # Narrow tiles of so few rows would add up their sums in several chains, so in another order.
    assert even_columns(replace(plan, tile_rows=5), 2, TARGET) is None
    # Columns of no whole vectors, and more parts than there are panels.
    assert even_columns(replace(plan, n=520), 2, TARGET) is None
    assert even_columns(plan, 16, TARGET) is None


def test_tiles_begin_anew_in_each_part_where_their_rows_are_uneven():
    # The gradient to the kernel of a convolution of 1 by 1 pixels, of 64 channels to 256.
    plan = Case(256, 64, 25088, lhs="columns").plan("x86-64-v4")
    assert (plan.tile_rows, plan.row_tiles, plan.panels) == (6, 43, 1)
    found, _ = choose_share(plan, 2, TARGET)
    assert found == Share("m", 22, 44, 128)  # 22 of 43 tiles would have 132 rows
    part = in_parts(plan, found, TARGET)
    assert (part.row_run, part.row_tiles, part.tiles_of_run) == (128, 44, 22)
    assert part.tall_tiles == 18
    # As many tiles below each other, of which the first ones are a row higher.
    found, _ = choose_share(Case(32, 64, 512).plan("x86-64-v4"), 2, TARGET)
    assert found == Share("m", 3, 6, 16)
    # Of many tiles one more or less is nothing; 257 rows are not even.
    assert choose_share(Case(4096, 64, 256).plan("x86-64-v4"), 2, TARGET)[0].by is None
    assert even_rows(replace(plan, m=257), 2, TARGET) is None
    # Low tiles with few sums have these in several chains: other heights, another order.
    assert even_rows(Case(16, 16, 512).plan("x86-64-v4"), 2, TARGET) is None


def test_the_tiles_of_a_part_prefetch_what_it_reads_of_the_next_block():
    plan = Case(256, 64, 25088, lhs="columns").plan("x86-64-v4")
    part = in_parts(plan, Share("m", 22, 44, 128), TARGET)
    prefetched = with_next_steps(part, 22).next_steps
    assert prefetched is not None
    assert prefetched.turns * prefetched.left.elements >= 128
    assert prefetched.turns * prefetched.steps >= part.block_k


def test_a_right_that_is_far_from_one_thread_may_be_near_to_each_of_two():
    plan = Case(2048, 1024, 512).plan("x86-64-v4")
    target = replace(TARGET, memory=replace(TARGET.memory, l2_bytes=2 << 20))
    part = in_parts(plan, Share("n", 11, 22, 512), target)
    assert (plan.packs_late, part.packs_late) == (False, True)


def plan_of_images(filters: int) -> ContractPlan:
    """Return the plan of a convolution of 8 images of 14 x 14 pixels, a pixel of all at a time."""
    left = Operand(50176, 1, 64, ((8, 256), (112, 3584)), ((256, 256), (768, 3584)))
    right, result = Operand(filters, 1, 64), Operand(filters, 1, 64)
    target = target_named("x86-64-v4")
    return plan_contract(1568, filters, 2304, dtypes.float32, left, right, result, target)


def test_many_panels_of_short_runs_of_rows_are_all_as_wide():
    assert plan_of_images(256).tile_rows == plan_of_images(256).row_run == 8
    assert [plan_of_images(filters).edge_columns for filters in (256, 512)] == [0, 0]
    assert plan_of_images(128).edge_columns  # few panels: the widest are the cheapest


def test_one_tile_cannot_be_shared():
    assert share(8, 16, 512)[2] == 1.0


FORMS = {
    "NN": lambda a, b: a @ b,
    "TN": lambda a, b: a.T @ b,
    "NT": lambda a, b: a @ b.T,
    "TT": lambda a, b: a.T @ b.T,
}


PRODUCTS = [
    (70, 130, 33, dtypes.float32),
    (257, 190, 1100, dtypes.float64),  # in several blocks of k
    (1, 500, 64, dtypes.float32),
    (300, 3, 64, dtypes.float32),
    (90, 100, 300, dtypes.bfloat16),  # always packed
    (50, 60, 40, dtypes.int8),
    (40, 160, 90, dtypes.float32),  # panels begin anew in each part
    (90, 48, 300, dtypes.float32),  # tiles do
]


some_counts = pytest.mark.parametrize(
    "counts", [(1, 3), pytest.param((1, 2, 3, 5), marks=pytest.mark.slow)], ids=str
)


# By default each product in one form, in turns.
@some_counts
@pytest.mark.parametrize(
    ("form", "m", "n", "k", "dtype"),
    [
        pytest.param(form, *p, marks=[] if turn == number % 4 else pytest.mark.slow)
        for number, p in enumerate(PRODUCTS)
        for turn, form in enumerate(FORMS)
    ],
)
def test_parts_of_a_product_have_the_bits_of_the_whole(form, m, n, k, dtype, counts, monkeypatch):
    monkeypatch.setattr(share_work, "LEAST_SPEED_UP", 1.05)
    assert_equal_bits(FORMS[form], (m, k), (k, n), dtype, form, counts)


def test_a_gradient_to_a_kernel_in_equal_parts_has_the_bits_of_the_whole():
    pixels, channels, filters = 400, 64, 256
    assert_equal_bits(
        FORMS["TN"], (filters, pixels), (pixels, channels), dtypes.float32, "TN", (1, 2, 4)
    )


@some_counts
@pytest.mark.parametrize("shape", [(6, 40, 50), (2, 3, 40, 50), (3, 150, 40)])
def test_parts_of_many_products_have_the_bits_of_the_whole(shape, counts):
    assert_equal_bits(FORMS["NT"], shape, shape[::-1], dtypes.float32, "NT", counts, batch=True)


def assert_equal_bits(
    multiply: object,
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
    dtype: DType,
    form: str,
    counts: tuple[int, ...],
    *,
    batch: bool = False,
) -> None:
    lhs, rhs = lhs[:: -1 if form[0] == "T" else 1], rhs[:: -1 if form[1] == "T" else 1]
    a, b = sg.placeholder(lhs, dtype), sg.placeholder(lhs if batch else rhs, dtype)
    y = a @ sg.matrix_transpose(b) if batch else multiply(a, b)  # type: ignore[operator]
    graph = Graph([y + 1], [a, b])
    rng = np.random.default_rng(0)
    arrays = [rng.normal(0, 3, t.type.static_shape).astype(dtype.numpy) for t in graph.inputs]
    found = []
    for count in counts:
        executable = compile_for(graph, threads=Threads(count, least_cycles=0))
        assert (count > 1) == ("parallel(" in print_program(executable.program))
        found.append(run_native(executable, arrays).outputs[0].tobytes())
    assert found == [found[0]] * len(counts)
