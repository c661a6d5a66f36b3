"""Software prefetch by tiles of a GEMM for a loop around it: lines of the next matrices of a batch.

They have nothing to do with the product. Which these are is a part of the `Product`, decided in
`schedule/prefetch_matrices.py`; where they begin is told to the tiles (`tile_prefetching.py`).
"""

from __future__ import annotations

from symgrad.codegen.contract.operand import PrefetchedLines, PrefetchedSource
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.prefetching import right_lines_a_step
from symgrad.codegen.loops.strided import PrefetchedPart
from symgrad.graph.aligned import ALIGNMENT
from symgrad.records import replace


def can_prefetch_matrices(plan: ContractPlan) -> bool:
    """Return whether tiles can prefetch the next matrices of a batch: if for nothing else."""
    prefetches = (
        plan.prefetches_next or plan.prefetches_panel or plan.prefetches_block or plan.next_source
    )
    is_free = not (prefetches or plan.prefetches_product or plan.next_steps or plan.goes_on)
    is_free = is_free and not right_lines_a_step(plan)
    is_plain = plan.method == "tile" and plan.pack_left == plan.pack_right == "none"
    is_plain = is_plain and not (plan.borders or plan.has_pieces) and plan.k_blocks == 1
    return is_plain and is_free and plan.dtype == plan.compute


def with_prefetched_part(plan: ContractPlan, part: PrefetchedPart | None) -> ContractPlan:
    """Return `plan` with tiles that prefetch a part of the next matrices, if there is one."""
    if part is None:
        return plan
    source = PrefetchedSource(
        PrefetchedLines(part.steps), ALIGNMENT // plan.dtype.itemsize, 1, 0, 0, 0, of_loop=True
    )
    return replace(plan, next_source=source)


def steps_of_tiles(plan: ContractPlan) -> int:
    """Return how many steps of k all tiles of a product have, but those that are left out."""
    border, total = plan.diagonal, plan.row_tiles * plan.k
    if border is not None:
        total = 0
        for row in range(0, plan.row_tiles * plan.tile_rows, plan.tile_rows):
            begin = min(max(row + border.first, 0), plan.k - 1)
            end = min(max(row + plan.tile_rows - 1 + border.stop, begin + 1), plan.k)
            total += end - begin
    return total * plan.panels
