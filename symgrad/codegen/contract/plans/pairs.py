"""Plans of bfloat16 products on targets whose instructions add up pairs of terms.

A tile is as many squares of sums as a matrix unit holds, or as many vectors as registers do.
"""

from __future__ import annotations

from symgrad.codegen.contract.kernels.matrix import TILE_SIDE
from symgrad.codegen.contract.kernels.pair_packing import CHUNK, SIDE
from symgrad.codegen.contract.methods import Method
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.target import Target
from symgrad.cost_model.products import matrix_cycles, tiling_cycles
from symgrad.records import replace


def can_multiply_pairs(plan: ContractPlan, target: Target) -> bool:
    """Return whether `target` has instructions for the terms of a product, and it has terms."""
    is_served = target.bfloat16_unit is not None and plan.lanes == SIDE
    return is_served and plan.dtype.name == "bfloat16" and plan.k > 0 and not plan.borders


def plan_pairs(plan: ContractPlan, target: Target) -> ContractPlan:
    """Return `plan` with pairs of terms multiplied: its tile, its packing and its blocks of k."""
    across = min(TILE_SIDE, -(-plan.columns // SIDE))
    method: Method = "matrix" if target.bfloat16_unit == "matrix" else "pairs"
    highest = TILE_SIDE * SIDE
    if method == "pairs":
        # Registers for a line of the right and an element of the left; a square has so many rows.
        highest = min(SIDE, (target.vector_registers - across - 1) // across)
    tiles = -(-plan.rows // highest)
    whole, part = (2 * terms for terms in target.memory.near_terms)
    blocks = 1 if plan.k <= whole else -(-plan.k // part)
    terms = -(-plan.k // blocks)
    return replace(
        plan,
        method=method,
        vector_width=SIDE if plan.columns >= SIDE else plan.vector_width,
        tile_rows=-(-plan.rows // tiles),
        tile_columns=across * SIDE,
        block_k=-(-terms // CHUNK) * CHUNK,
        pack_left="pairs",
        pack_right="pairs",
    )


def multiplying_cycles(plan: ContractPlan) -> float:
    """Return the cycles of the microkernels of a plan that multiplies pairs."""
    if plan.method == "matrix":
        squares = -(-plan.columns // SIDE) * plan.row_tiles * (plan.packed_rows // SIDE)
        return matrix_cycles(squares, -(-plan.k // CHUNK), plan.k_blocks)
    vectors = -(-plan.columns // SIDE)
    across = plan.tile_columns // SIDE
    # Each pair in the time of one product.
    return tiling_cycles(plan.rows, vectors, plan.tile_rows, across, -(-plan.k // 2))
