"""Leaf functions of split vectors, as their plan describes them."""

from __future__ import annotations

from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.kernels.split import SplitKernel
from symgrad.codegen.contract.kernels.split_packing import SplitPacker
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.prefetching import (
    bytes_a_step,
    next_panel_prefetched,
    right_lines_a_step,
)
from symgrad.codegen.contract.plans.split import pairs_of
from symgrad.graph.aligned import ALIGNMENT


def split_kernel(plan: ContractPlan, stored: Elements, rows: int, columns: int) -> SplitKernel:
    """Describe the microkernel of a tile of so many rows and columns."""
    return SplitKernel(
        pairs=pairs_of(plan),
        rows=rows,
        columns=columns,
        lanes=plan.lanes,
        elements=stored,
        left_row=plan.left.row_stride,
        left_k=plan.left.column_stride,
        right_k=plan.right.row_stride if plan.pack_right == "none" else None,
        tile_row=plan.tile_row,
        is_aside=plan.result_row == 0,
        prefetched=_prefetched(plan, columns),
        right_lines=right_lines_a_step(plan),
        next_bytes=bytes_a_step(plan),
    )


def _prefetched(plan: ContractPlan, columns: int) -> int:
    """Return how many elements of a tile that is stored in the result a pair of terms prefetches.

    All of it is prefetched, if rows follow one another and the sums are no longer than that takes.
    """
    line = ALIGNMENT // plan.dtype.itemsize
    prefetched = -(-plan.tile_rows * columns // (plan.k // 2))
    is_short = plan.result_row == columns and line <= 2 * prefetched
    return min(line, -(-prefetched // 2) * 2) if is_short else 0


def split_packer(plan: ContractPlan, stored: Elements, count: int) -> SplitPacker:
    """Describe the packer of a panel of the right with so many columns."""
    across, along = plan.right.column_stride, plan.right.row_stride
    return SplitPacker(
        count=count,
        across=across,
        along=along,
        rest=0 if across == 1 else plan.k % plan.lanes,
        lanes=plan.lanes,
        elements=stored,
        next_panel=next_panel_prefetched(plan),
    )
