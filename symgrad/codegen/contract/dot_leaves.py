"""Leaf functions of products whose lanes run along k: which microkernel a plan asks for."""

from __future__ import annotations

from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.kernels.dot import DotKernel
from symgrad.codegen.contract.plans.plan import ContractPlan


def dot_kernel(
    plan: ContractPlan, left: Elements, right: Elements, rows: int, columns: int
) -> DotKernel:
    """Return the microkernel of a tile with so many rows and columns."""
    return DotKernel(
        rows=rows,
        columns=columns,
        k=plan.k,
        lanes=plan.lanes,
        left=left,
        left_row=plan.left.row_stride if plan.pack_left == "none" else plan.block_k,
        right=right,
        right_column=plan.right.column_stride if plan.pack_right == "none" else plan.block_k,
        tile_columns=plan.tile_columns,
    )
