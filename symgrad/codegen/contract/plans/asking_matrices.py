"""Software prefetch by tiles of a GEMM for a loop around it: lines of the next matrices of a batch.

They have nothing to do with the product. Which these are is a part of the `Product`, decided in
`schedule/ask_for_matrices.py`; where they begin is told to the tiles (`tile_asking.py`).
"""

from __future__ import annotations

from symgrad.codegen.contract.operand import AskedLines, AskedSource
from symgrad.codegen.contract.plans.asking import right_lines_a_step
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.loops.strided import AskedPart
from symgrad.graph.aligned import ALIGNMENT
from symgrad.records import replace


def can_ask_for_matrices(plan: ContractPlan) -> bool:
    """Return whether tiles can ask for the next matrices of a batch: if for nothing else."""
    asks = plan.asks_for_next or plan.asks_for_panel or plan.asks_for_block or plan.next_source
    is_free = not (asks or plan.asks_for_product or plan.next_steps or plan.goes_on)
    is_free = is_free and not right_lines_a_step(plan)
    is_plain = plan.method == "tile" and plan.pack_left == plan.pack_right == "none"
    is_plain = is_plain and not (plan.borders or plan.has_pieces) and plan.k_blocks == 1
    return is_plain and is_free and plan.dtype == plan.compute


def with_asked_part(plan: ContractPlan, part: AskedPart | None) -> ContractPlan:
    """Return `plan` with tiles that ask for a part of the next matrices, if there is one."""
    if part is None:
        return plan
    source = AskedSource(
        AskedLines(part.steps), ALIGNMENT // plan.dtype.itemsize, 1, 0, 0, 0, of_loop=True
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
