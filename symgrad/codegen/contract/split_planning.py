"""Split sums in a GEMM plan: where columns fill half a vector, lanes beside each other share a sum.

    24 columns in vectors of 16    two for each term, of which a quarter is idle
    the same, of two terms each    three for each pair of terms, all of them full

The even terms of a sum are in one lane and the odd ones in the next: split-k within a register.
"""

from __future__ import annotations

from symgrad.codegen.contract.operand import Operand
from symgrad.codegen.contract.plan import ContractPlan
from symgrad.codegen.target import Target
from symgrad.cost_model import LEAST_SPLIT_TERMS, MOST_SPLIT_VECTORS, splitting_cycles
from symgrad.records import replace


def can_split_sums(plan: ContractPlan, target: Target) -> bool:
    """Return whether the last vector of a few columns is at most half full, and k in pairs.

    All terms are to be added at once, and elements to have neighbours in memory.
    """
    half = plan.lanes // 2
    if half < 2 or plan.borders or plan.left.row_digits or plan.right.column_digits:
        return False
    if plan.left.column_digits or plan.right.row_digits:
        return False
    is_fused = target.has_fma and plan.compute.is_float and plan.dtype == plan.compute
    is_narrow = plan.columns < MOST_SPLIT_VECTORS * plan.lanes
    is_wasted = 0 < plan.columns % plan.lanes <= half
    is_paired = plan.k % 2 == 0 and LEAST_SPLIT_TERMS <= plan.k <= target.memory.near_terms[0]
    are_beside = all(_has_neighbours(side) for side in (plan.left, plan.right))
    high = min(plan.rows, _highest(plan, target))
    is_busy = high * split_vectors(plan) >= target.adds_in_flight
    return is_fused and is_narrow and is_wasted and is_paired and are_beside and is_busy


def plan_split(plan: ContractPlan, target: Target) -> ContractPlan:
    """Return `plan` with sums split: one panel, packed in pairs of terms, and all of k at once."""
    tiles = -(-plan.rows // _highest(plan, target))
    half = plan.lanes // 2
    width = max(1 << i for i in range(half.bit_length()) if plan.columns % (1 << i) == 0)
    return replace(
        plan,
        method="split",
        vector_width=width,
        tile_rows=-(-plan.rows // tiles),
        tile_columns=plan.whole_vectors(plan.columns),
        block_k=plan.k,
        pack_left="none" if plan.left.column_stride == 1 else "split",
        pack_right="split",
    )


def split_cycles(plan: ContractPlan) -> float:
    """Return the cycles of the microkernels of a plan that splits sums."""
    return splitting_cycles(plan.rows, split_vectors(plan), plan.tile_rows, plan.k // 2)


def split_vectors(plan: ContractPlan) -> int:
    """Return how many vectors a row of split sums is."""
    return -(-2 * plan.columns // plan.lanes)


def _highest(plan: ContractPlan, target: Target) -> int:
    """Return how many rows of sums registers hold beside a row of the right and a pair."""
    vectors = split_vectors(plan)
    return (target.vector_registers - vectors - 1) // vectors


def _has_neighbours(operand: Operand) -> bool:
    return 1 in (operand.row_stride, operand.column_stride)
