"""Packing of a left that shares few sets of a cache, where panels come late from the next one."""

from __future__ import annotations

import pytest

from symgrad.codegen.contract import ContractPlan, Operand, plan_contract
from symgrad.codegen.contract.plans.packing import lines_further
from symgrad.codegen.target import Target, target_named
from symgrad.cost_model.products import step_cycles
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType
from symgrad.records import replace

V4 = target_named("x86-64-v4")
LATE = replace(V4, near_ahead=512, shares_slowly=True, issues_few=True)
FORMS = {"NN": "transpose", "NT": "transpose", "TN": "copy", "TT": "copy"}


def plan_of(
    sizes: tuple[int, int, int],
    form: str = "NN",
    dtype: DType = dtypes.float32,
    target: Target = LATE,
) -> ContractPlan:
    m, n, k = sizes
    lhs = Operand(*((1, m) if form[0] == "T" else (k, 1)), 4)
    rhs = Operand(*((1, k) if form[1] == "T" else (n, 1)), 4)
    return plan_contract(m, n, k, dtype, lhs, rhs, Operand(n, 1, 4), target)


@pytest.mark.parametrize("form", FORMS)
def test_a_step_of_a_packed_left_is_a_line_and_tiles_have_few_vectors(form: str) -> None:
    plan = plan_of((1024, 1024, 1024), form)
    assert plan.pack_left == FORMS[form]
    assert (plan.tile_rows, plan.tile_columns, plan.block_k) == (14, 32, 1024)
    double = plan_of((1024, 1024, 1024), form, dtypes.float64)
    assert double.pack_left == FORMS[form]
    assert (double.tile_rows, double.tile_columns, double.block_k) == (8, 24, 512)
    for found in (plan, double):
        assert found.packed_rows * found.compute.itemsize <= LATE.memory.line_bytes
        panel = found.block_k * found.tile_columns * found.compute.itemsize
        assert 4 * panel <= LATE.memory.l2_bytes


@pytest.mark.parametrize("size", [1536, 2048])
def test_blocks_of_terms_are_even(size: int) -> None:
    assert plan_of((size, size, size)).block_k == size // 2


def test_where_panels_are_met_in_time_a_left_is_read_where_it_lies() -> None:
    plan = plan_of((1024, 1024, 1024), target=V4)
    assert plan.pack_left == "none"


@pytest.mark.parametrize(
    "sizes",
    [
        (1024, 1024, 1000),  # rows in all sets
        (1024, 768, 1024),  # too few columns that are multiplied with what is packed
        (1024, 1024, 256),  # few terms
        (96, 1024, 1024),  # a result that the second-level cache has
    ],
)
def test_a_left_is_read_where_it_lies_if_packing_does_not_pay(sizes: tuple[int, int, int]) -> None:
    assert plan_of(sizes).pack_left == "none"


def test_lines_that_come_late_cost_more_than_those_that_are_there() -> None:
    """Per multiply-add the fewest lines are best: a row of the left is a sixteenth of one."""
    shapes = ((6, 4), (8, 3), (9, 3), (14, 2))
    cost = {shape: step_cycles(*shape, 1 / 16) / (shape[0] * shape[1]) for shape in shapes}
    assert min(cost, key=lambda shape: cost[shape]) == (14, 2)
    near = {shape: step_cycles(*shape) / (shape[0] * shape[1]) for shape in shapes}
    assert min(near, key=lambda shape: near[shape]) == (9, 3)


@pytest.mark.parametrize("form", ["TN", "TT"])
def test_tiles_of_rows_side_by_side_begin_with_a_line_or_divide_one(form: str) -> None:
    single, double = (
        plan_of((256, 256, 256), form, dtype) for dtype in (dtypes.float32, dtypes.float64)
    )
    assert (single.tile_rows, single.tile_columns, single.pack_left) == (8, 48, "none")
    # Of whole lines nothing is left for the next tile: they are not packed for that either.
    assert (double.tile_rows, double.tile_columns, double.pack_left) == (8, 24, "none")
    far = plan_of((512, 512, 512), form, dtypes.float64)
    assert (far.tile_rows, far.pack_left) == (8, "copy")  # that cache has not all of them
    for found in (single, double):
        assert lines_further(found, LATE.memory) == 0.0
    assert lines_further(replace(single, tile_rows=9), LATE.memory) == 0.5


def test_lines_that_stay_from_tile_to_tile_are_read_in_parts() -> None:
    assert plan_of((512, 512, 64), "TN").tile_rows != 8
    assert plan_of((512, 512, 128), "TN").tile_rows == 8
    assert plan_of((512, 512, 128), "TN", target=V4).tile_rows != 8
    assert plan_of((256, 32, 2048), "TN").tile_rows == 14  # one panel reads each line once
