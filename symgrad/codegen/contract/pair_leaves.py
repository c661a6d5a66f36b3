"""Leaf functions of products by pairs of terms: which kernels and packers a plan asks for."""

from __future__ import annotations

from symgrad.codegen.contract.kernels.matrix import MatrixKernel
from symgrad.codegen.contract.kernels.pair_packing import CHUNK, SIDE, PairPacker
from symgrad.codegen.contract.kernels.pairs import PairKernel
from symgrad.codegen.contract.operand import Operand
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.target import Target


def pair_kernel(plan: ContractPlan, rows: int, columns: int) -> PairKernel:
    """Describe a microkernel of pairs of terms, of so many rows and columns."""
    return PairKernel(
        rows=rows,
        columns=columns,
        packed_rows=plan.packed_rows,
        tile_columns=plan.tile_columns,
        resumes=plan.k_blocks > 1,
    )


def matrix_kernel(plan: ContractPlan, columns: int) -> MatrixKernel:
    """Describe a microkernel of a matrix unit, of so many columns."""
    return MatrixKernel(
        high=plan.packed_rows // SIDE,
        wide=plan.whole_vectors(columns) // SIDE,
        tile_columns=plan.tile_columns,
        resumes=plan.k_blocks > 1,
    )


def pair_packer(
    plan: ContractPlan, target: Target, panel: Operand, sizes: tuple[int, int], *, is_left: bool
) -> PairPacker:
    """Describe a packer of pairs, of panels with rows along k as in `variants.py`."""
    count, padded = sizes
    return PairPacker(
        count=count,
        padded=padded,
        across=panel.column_stride,
        along=panel.row_stride,
        rest=plan.k % CHUNK,
        is_left=is_left,
        target=target,
        is_far=abs(panel.row_stride) * plan.dtype.itemsize >= target.memory.followed_bytes,
    )
