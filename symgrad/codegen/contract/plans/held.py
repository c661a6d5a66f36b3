"""A held right in a GEMM plan: few columns whose terms are in registers while all rows are added.

    16 by 16 sums of 16, f32          a vector for each term, 16 registers; 16 are left for sums
    the same, the right transposed    transposed in these registers, where it was packed before

It is for machines whose multiply-adds broadcast an element that they read: others need a register
and an instruction more for each element of the left, and have too few registers.
"""

from __future__ import annotations

from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.kernels.held import HeldKernel
from symgrad.codegen.contract.plans.blocks import has_digits
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.target import Target
from symgrad.cost_model.products import (
    LEAST_HELD_COLUMNS,
    MOST_HELD_ROWS,
    SPARE_OF_HELD,
    packing_cycles,
    step_cycles,
    tiling_cycles,
)
from symgrad.records import replace


def can_hold_right(plan: ContractPlan, target: Target) -> bool:
    """Return whether registers hold all terms of the right, in one panel, beside enough sums.

    Rows of the left are near, or its terms: where they are further on than is fetched ahead, other
    microkernels ask for them. A right that need not be transposed is held for rows of the left that
    are less than two lines each: tiles read longer ones, and a left that lies along its rows, line
    by line.
    """
    is_fused = target.has_fma and plan.compute.is_float and plan.dtype == plan.compute
    if plan.borders or has_digits(plan) or not (target.folds_broadcasts and is_fused):
        return False
    is_turned = plan.right.row_stride == 1 and plan.right.column_stride != 1
    far = target.memory.followed_bytes // plan.dtype.itemsize
    is_along_rows = plan.left.row_stride == 1 and abs(plan.left.column_stride) < far
    is_short = plan.k * plan.dtype.itemsize < 2 * target.memory.line_bytes
    are_near = plan.left.column_stride == 1 and (is_turned or is_short)
    are_near = are_near or (is_turned and is_along_rows)
    are_beside = is_turned or plan.right.column_stride == 1
    is_enough = plan.rows >= target.adds_in_flight
    is_held = 0 < plan.k <= target.vector_registers - target.adds_in_flight - SPARE_OF_HELD
    is_one = LEAST_HELD_COLUMNS <= plan.columns <= plan.lanes
    return are_near and are_beside and is_enough and is_held and is_one


def plan_held(plan: ContractPlan) -> ContractPlan:
    """Return `plan` with a held right: one panel, nothing packed, and all of k at once."""
    tiles = -(-plan.rows // MOST_HELD_ROWS)
    return replace(
        plan,
        method="held",
        tile_rows=-(-plan.rows // tiles),
        tile_columns=plan.lanes,
        block_k=plan.k,
    )


def held_cycles(plan: ContractPlan) -> float:
    """Return the cycles of the microkernels of a plan with a held right.

    No step of k reads a vector of it; one that is transposed takes shuffles.
    """
    rows, steps = plan.tile_rows, plan.row_tiles * plan.k
    read = steps * (step_cycles(rows, 1) - step_cycles(rows, 0))
    how = "none" if plan.right.column_stride == 1 else "held"
    turned = packing_cycles(how, steps * plan.lanes)
    return tiling_cycles(plan.rows, 1, rows, 1, plan.k) - read + turned


def held_kernel(plan: ContractPlan, stored: Elements, rows: int, columns: int) -> HeldKernel:
    """Describe the microkernel of a tile of so many rows and columns."""
    return HeldKernel(
        rows=rows,
        columns=columns,
        k=plan.k,
        lanes=plan.lanes,
        elements=stored,
        left_row=plan.left.row_stride,
        left_k=plan.left.column_stride,
        right_k=plan.right.row_stride,
        right_column=plan.right.column_stride,
        tile_row=plan.tile_row,
        is_aside=plan.result_row == 0,
        next_right=plan.next_right,
        next_sides=plan.next_sides,
    )
