"""Split sums in a GEMM plan: where columns fill half a vector, lanes beside each other share a sum.

    24 columns in vectors of 16    two for each term, of which a quarter is idle
    the same, of two terms each    three for each pair of terms, all of them full

The even terms of a sum are in one lane and the odd ones in the next: split-k within a register.
"""

from __future__ import annotations

from symgrad.codegen.contract.block_planning import has_digits
from symgrad.codegen.contract.plan import ContractPlan
from symgrad.codegen.target import Target
from symgrad.cost_model import (
    MOST_SPLIT_VECTORS,
    SPLIT_TERMS,
    joining_cycles,
    tiling_cycles,
)
from symgrad.records import replace


def can_split_sums(plan: ContractPlan, target: Target) -> bool:
    """Return whether the last vector of a few columns is at most half full, and k in pairs.

    All terms are to be added at once, and those of a row of the left to lie together.
    """
    half = plan.lanes // 2
    if half < 2 or plan.borders or has_digits(plan):
        return False
    is_fused = target.has_fma and plan.compute.is_float and plan.dtype == plan.compute
    is_narrow = plan.columns < MOST_SPLIT_VECTORS * plan.lanes
    is_wasted = 0 < plan.columns % plan.lanes <= half
    is_paired = plan.k % 2 == 0 and plan.k in SPLIT_TERMS
    are_beside = plan.left.column_stride == 1 and 1 in (
        plan.right.row_stride,
        plan.right.column_stride,
    )
    high = min(plan.rows, _highest(plan, target))
    is_busy = high * split_vectors(plan) >= target.adds_in_flight
    is_full = 4 * plan.columns > 3 * half
    is_served = is_fused and is_narrow and is_wasted and is_paired and are_beside
    return is_served and is_busy and is_full


def plan_split(plan: ContractPlan, target: Target) -> ContractPlan:
    """Return `plan` with sums split: one panel, packed in pairs of terms, and all of k at once."""
    tiles = -(-plan.rows // _highest(plan, target))
    return replace(
        plan,
        method="split",
        tile_rows=-(-plan.rows // tiles),
        tile_columns=plan.whole_vectors(plan.columns),
        block_k=plan.k,
        pack_right="split",
    )


def split_cycles(plan: ContractPlan) -> float:
    """Return the cycles of the microkernels of a plan that splits sums."""
    vectors = split_vectors(plan)
    multiply = tiling_cycles(plan.rows, vectors, plan.tile_rows, vectors, plan.k // 2)
    return multiply + joining_cycles(plan.rows * vectors)


def split_vectors(plan: ContractPlan) -> int:
    """Return how many vectors a row of split sums is."""
    return -(-2 * plan.columns // plan.lanes)


def _highest(plan: ContractPlan, target: Target) -> int:
    """Return how many rows of sums registers hold beside a row of the right and a pair.

    Rows of the left that lie far apart are no more than the first-level cache keeps lines of.
    """
    vectors, memory = split_vectors(plan), target.memory
    highest = (target.vector_registers - vectors - 1) // vectors
    apart = abs(plan.left.row_stride) * plan.dtype.itemsize
    is_far = apart >= memory.line_bytes
    return min(highest, memory.lines_kept(apart)) if is_far else highest
