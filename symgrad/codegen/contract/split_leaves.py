"""Leaf functions of split sums, as their plan describes them."""

from __future__ import annotations

from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.operand import Operand
from symgrad.codegen.contract.plan import ContractPlan
from symgrad.codegen.contract.split_kernel import SplitKernel
from symgrad.codegen.contract.split_packing import SplitPacker


def split_kernel(plan: ContractPlan, stored: Elements, rows: int, columns: int) -> SplitKernel:
    """Describe the microkernel of a tile of so many rows and columns."""
    is_packed, half = plan.pack_left != "none", plan.lanes // 2
    return SplitKernel(
        rows=rows,
        columns=columns,
        lanes=plan.lanes,
        elements=stored,
        left_row=2 if is_packed else plan.left.row_stride,
        left_pair=-(-rows // half) * plan.lanes if is_packed else 2,
        tile_row=plan.tile_row,
        is_aside=plan.result_row == 0,
    )


def split_packer(plan: ContractPlan, stored: Elements, panel: Operand, count: int) -> SplitPacker:
    """Describe a packer of pairs of steps, of panels with rows along k as in `_packer`."""
    is_along = panel.column_stride == 1
    return SplitPacker(
        count=count,
        across=panel.column_stride,
        along=panel.row_stride,
        rest=0 if is_along else plan.k % plan.lanes,
        lanes=plan.lanes,
        elements=stored,
    )
