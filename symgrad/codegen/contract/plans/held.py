"""A held right in a GEMM plan: few columns whose terms are in registers while all rows are added.

    16 by 16 sums of 16, f32          a vector for each term, 16 registers; 16 are left for sums
    the same, the right transposed    transposed in these registers, where it was packed before
    the same, both transposed         four pairs of terms at a time, for pairs of rows
    16 by 16 sums of 16, f64          the right transposed: four terms of two vectors at a time

It is for machines whose multiply-adds broadcast an element that they read: others need a register
and an instruction more for each element of the left, and have too few registers.
"""

from __future__ import annotations

from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.kernels.held import HeldKernel
from symgrad.codegen.contract.kernels.turned import (
    MOST_LINES,
    UNIT_BYTES,
    UNITS,
    VECTORS,
    TurnedKernel,
)
from symgrad.codegen.contract.plans.blocks import has_digits
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.target import Target
from symgrad.cost_model.products import (
    LEAST_HELD_COLUMNS,
    MOST_HELD_ROWS,
    MOST_TURNED_ROWS,
    MOST_TURNED_TERMS,
    SPARE_OF_HELD,
    packing_cycles,
    step_cycles,
    tiling_cycles,
)
from symgrad.records import replace


def can_hold_right(plan: ContractPlan, target: Target) -> bool:
    """Return whether registers hold all terms of the right, in one panel, beside enough sums.

    Rows of the left are near, or its terms: where they are further on than is fetched ahead, other
    microkernels prefetch them. A right that need not be transposed is held for rows of the left
    that are less than two lines each: tiles read longer ones, and a left that lies along its rows,
    line by line.
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
    if unit_turned(plan):
        return are_near and is_enough
    is_held = 0 < plan.k <= target.vector_registers - target.adds_in_flight - SPARE_OF_HELD
    is_one = LEAST_HELD_COLUMNS <= plan.columns <= plan.lanes
    return are_near and are_beside and is_enough and is_held and is_one


def unit_turned(plan: ContractPlan) -> int:
    """Return how many elements are a unit of a right that is transposed in parts; 0 if it is not.

    It is where its columns fill most of two vectors of such units, which are elements of 8 bytes,
    or two of 4 bytes where rows of the left lie side by side, in a pair. It is transposed again for
    each group of rows: more of these are worth to pack it.
    """
    unit = UNIT_BYTES // plan.dtype.itemsize
    is_turned = plan.right.row_stride == 1 and plan.right.column_stride != 1
    is_turned = is_turned and plan.lanes == UNITS * unit
    if not is_turned or (unit == 2 and plan.left.row_stride != 1):
        return 0
    most = VECTORS * UNITS
    is_wide = most - UNITS // 2 < plan.columns <= most
    is_small = plan.rows <= MOST_TURNED_ROWS and 0 < plan.k <= MOST_TURNED_TERMS
    are_even = plan.rows % unit == plan.k % unit == 0
    return unit if is_wide and is_small and are_even else 0


def plan_held(plan: ContractPlan) -> ContractPlan:
    """Return `plan` with a held right: one panel, nothing packed, and all of k at once."""
    tiles = -(-plan.rows // MOST_HELD_ROWS)
    unit = unit_turned(plan)
    return replace(
        plan,
        method="held",
        tile_rows=-(-plan.rows // tiles),
        tile_columns=VECTORS * UNITS if unit else plan.lanes,
        block_k=plan.k,
    )


def held_cycles(plan: ContractPlan) -> float:
    """Return the cycles of the microkernels of a plan with a held right.

    No step of k reads a vector of it; one that is transposed takes shuffles: beyond the first
    square of terms those of whole squares.
    """
    if unit := unit_turned(plan):
        lines = plan.rows // unit
        groups = -(-lines // MOST_LINES)
        turned = packing_cycles("held", groups * plan.k * plan.tile_columns)
        return tiling_cycles(lines, VECTORS, -(-lines // groups), VECTORS, plan.k) + turned
    rows, steps = plan.tile_rows, plan.row_tiles * plan.k
    read = steps * (step_cycles(rows, 1) - step_cycles(rows, 0))
    how = "none" if plan.right.column_stride == 1 else "held"
    terms = plan.k if plan.k <= plan.lanes else -(-plan.k // plan.lanes) * plan.lanes
    turned = packing_cycles(how, plan.row_tiles * terms * plan.lanes)
    return tiling_cycles(plan.rows, 1, rows, 1, plan.k) - read + turned


def held_leaf(
    plan: ContractPlan, stored: Elements, rows: int, columns: int
) -> HeldKernel | TurnedKernel:
    """Describe the microkernel of a tile of so many rows and columns: all terms, or in parts."""
    describe = turned_kernel if unit_turned(plan) else held_kernel
    return describe(plan, stored, rows, columns)


def turned_kernel(plan: ContractPlan, stored: Elements, rows: int, columns: int) -> TurnedKernel:
    """Describe the microkernel of a tile whose right is transposed in parts."""
    left, tile = plan.next_sides
    return TurnedKernel(
        unit=unit_turned(plan),
        rows=rows,
        columns=columns,
        k=plan.k,
        lanes=plan.lanes,
        elements=stored,
        left_row=plan.left.row_stride,
        left_k=plan.left.column_stride,
        right_column=plan.right.column_stride,
        tile_row=plan.tile_row,
        is_aside=plan.result_row == 0,
        nexts=(left, plan.next_right, tile),
    )


def held_kernel(plan: ContractPlan, stored: Elements, rows: int, columns: int) -> HeldKernel:
    """Describe the microkernel of a tile whose right is held, with all its terms."""
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
