"""Split vectors in a GEMM plan: where columns fill half a vector, lanes beside each other are one.

    24 columns in vectors of 16           two for each term and row, of which a quarter is idle
    the same, of two terms or two rows    three for each pair of these, all of them full
    16 columns in vectors of 16           an element of the left is loaded for each multiply-add
    the same, of two terms or two rows    a pair of them is loaded for two

The even terms of a sum are in one lane and the odd ones in the next: split-k within a register. Or
of two rows whose elements lie together the one is in one lane and the other in the next.
"""

from __future__ import annotations

from symgrad.codegen.contract.kernels.split import Pairs
from symgrad.codegen.contract.plans.blocks import has_digits
from symgrad.codegen.contract.plans.held import can_hold_right
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.target import Target
from symgrad.cost_model.products import (
    FEW_READS,
    MOST_SPLIT_VECTORS,
    SPLIT_TERMS,
    joining_cycles,
    packing_cycles,
    tiling_cycles,
)
from symgrad.records import replace


def can_split_vectors(plan: ContractPlan, target: Target) -> bool:
    """Return whether the last vector of a few columns is at most half full, and k in pairs.

    Or columns are one vector: a processor loads no more elements a cycle than it multiplies
    vectors, and has to load the right as well. All terms are to be added at once, and those of a
    row of the left to lie together, or those of a step of k: where steps are further on than is
    fetched ahead, other microkernels prefetch them.
    """
    half = plan.lanes // 2
    if half < 2 or plan.borders or has_digits(plan):
        return False
    is_fused = target.has_fma and plan.compute.is_float and plan.dtype == plan.compute
    is_narrow = plan.columns < MOST_SPLIT_VECTORS * plan.lanes
    is_wasted = 0 < plan.columns % plan.lanes <= half
    # Rows of a held right are stored where results are, whatever they are long.
    is_one = plan.columns == plan.lanes or not can_hold_right(plan, target)
    is_one = is_one and plan.columns <= plan.lanes
    is_paired = plan.k % 2 == 0 and plan.k in SPLIT_TERMS
    far = target.memory.followed_bytes // plan.dtype.itemsize
    are_beside = plan.left.column_stride == 1 or (
        plan.left.row_stride == 1 and abs(plan.left.column_stride) < far
    )
    are_beside = are_beside and 1 in (plan.right.row_stride, plan.right.column_stride)
    if not (is_fused and is_narrow and (is_wasted or is_one) and is_paired and are_beside):
        return False
    high = _lines(plan, min(plan.rows, _highest(plan, target)))
    is_busy = high * split_vectors(plan) >= target.adds_in_flight
    is_full = 4 * plan.columns > 3 * half
    return is_busy and is_full


def plan_split(plan: ContractPlan, target: Target) -> ContractPlan:
    """Return `plan` with split vectors: one panel, and all of k at once.

    The right is packed in pairs of terms where its columns lie apart. Else a tile takes them from
    where they are, unless several would put terms beside each other again.
    """
    tiles = -(-plan.rows // _highest(plan, target))
    is_read = plan.right.column_stride == 1 and (pairs_of(plan) == "rows" or tiles < FEW_READS)
    return replace(
        plan,
        method="split",
        tile_rows=-(-plan.rows // tiles),
        tile_columns=plan.whole_vectors(plan.columns),
        block_k=plan.k,
        pack_right="none" if is_read else "split",
    )


def split_cycles(plan: ContractPlan) -> float:
    """Return the cycles of the microkernels of a plan with split vectors.

    A right that is transposed as it is packed takes twice as long as one that is woven.
    """
    vectors, of_terms = split_vectors(plan), pairs_of(plan) == "terms"
    rows, highest = _lines(plan, plan.rows), _lines(plan, plan.tile_rows)
    k = plan.k // 2 if of_terms else plan.k
    multiply = tiling_cycles(rows, vectors, highest, vectors, k)
    shuffled = rows * vectors
    if plan.pack_right == "none" or not of_terms:
        shuffled += plan.row_tiles * k * vectors
    turned = plan.columns * plan.k if plan.right.column_stride != 1 else 0
    return multiply + joining_cycles(shuffled) + packing_cycles("split", turned)


def split_vectors(plan: ContractPlan) -> int:
    """Return how many vectors a row, or a pair of rows, is."""
    return -(-2 * plan.columns // plan.lanes)


def pairs_of(plan: ContractPlan) -> Pairs:
    """Return whether lanes beside each other are terms, which lie so in the left, or rows."""
    return "terms" if plan.left.column_stride == 1 else "rows"


def _lines(plan: ContractPlan, rows: int) -> int:
    """Return how many lines of vectors so many rows are: with pairs of rows half of them."""
    return rows if pairs_of(plan) == "terms" else -(-rows // 2)


def _highest(plan: ContractPlan, target: Target) -> int:
    """Return how many rows of sums registers hold beside a row of the right and a pair.

    Rows of the left that lie far apart are no more than the first-level cache keeps lines of.
    """
    vectors, memory = split_vectors(plan), target.memory
    highest = (target.vector_registers - vectors - 3) // vectors
    if pairs_of(plan) == "rows":
        return 2 * highest
    apart = abs(plan.left.row_stride) * plan.dtype.itemsize
    is_far = apart >= memory.line_bytes
    return min(highest, memory.lines_kept(apart)) if is_far else highest
