"""The functions one contraction consists of: each microkernel and packer its plan asks for.

Tiles come in at most two heights and panels in at most two widths, so a plan needs at most four
microkernels and two packers for each operand. The calls choose among them by flags of the tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from llvmlite import ir

from symgrad.codegen.contract.elements import Elements
from symgrad.codegen.contract.microkernel import Microkernel, emit_microkernel
from symgrad.codegen.contract.pack import PanelPacker, emit_packer
from symgrad.codegen.contract.plan import ContractPlan, Operand, Packing
from symgrad.codegen.llvm.target import Target


@dataclass(frozen=True, slots=True)
class Variants:
    """The functions of a plan: packers and kernels by height, then by width.

    Where there are two heights or widths, the full one comes first.
    """

    kernels: tuple[tuple[ir.Function, ...], ...]
    left_packers: tuple[ir.Function, ...]
    right_packers: tuple[ir.Function, ...]

    def call_kernel(
        self,
        builder: ir.IRBuilder,
        is_short: ir.Value,
        is_edge: ir.Value,
        arguments: tuple[ir.Value, ...],
    ) -> None:
        """Call the microkernel for the height and the width of a tile."""
        calls = [partial(call_one, builder, row, is_edge, arguments) for row in self.kernels]
        if len(calls) == 1:
            calls[0]()
            return
        with builder.if_else(is_short) as (short, tall):
            with short:
                calls[1]()
            with tall:
                calls[0]()


def call_one(
    builder: ir.IRBuilder,
    functions: tuple[ir.Function, ...],
    is_second: ir.Value,
    arguments: tuple[ir.Value, ...],
) -> None:
    """Call the second of `functions` if `is_second`, else the first; there may be one only."""
    if len(functions) == 1:
        builder.call(functions[0], arguments)
        return
    with builder.if_else(is_second) as (second, first):
        with second:
            builder.call(functions[1], arguments)
        with first:
            builder.call(functions[0], arguments)


def emit_variants(module: ir.Module, plan: ContractPlan, target: Target) -> Variants:
    """Emit the functions `plan` needs."""
    stored = Elements(plan.dtype, plan.compute, target)
    heights = [plan.tile_rows]
    if plan.tall_tiles < plan.row_tiles:
        heights.append(plan.tile_rows - 1)
    widths = [plan.panel_columns] if plan.columns >= plan.panel_columns else []
    if plan.edge_columns:
        widths.append(plan.edge_columns)
    kernels = tuple(
        tuple(emit_microkernel(module, _microkernel(plan, stored, h, w)) for w in widths)
        for h in heights
    )
    left_packers = [
        _packer(plan, stored, plan.pack_left, plan.left.transposed, h, plan.packed_rows)
        for h in heights
    ]
    right_packers = [
        _packer(plan, stored, plan.pack_right, plan.right, w, _whole_vectors(plan, w))
        for w in widths
    ]
    return Variants(
        kernels,
        tuple(emit_packer(module, packer) for packer in left_packers if packer.how != "none"),
        tuple(emit_packer(module, packer) for packer in right_packers if packer.how != "none"),
    )


def _microkernel(plan: ContractPlan, stored: Elements, rows: int, columns: int) -> Microkernel:
    packed = Elements(plan.compute, plan.compute, stored.target)
    left_is_packed, right_is_packed = plan.pack_left != "none", plan.pack_right != "none"
    return Microkernel(
        rows=rows,
        columns=_whole_vectors(plan, columns) if right_is_packed else columns,
        lanes=plan.lanes,
        left=packed if left_is_packed else stored,
        left_row=1 if left_is_packed else plan.left.row_stride,
        left_k=plan.packed_rows if left_is_packed else plan.left.column_stride,
        right=packed if right_is_packed else stored,
        right_k=_whole_vectors(plan, columns) if right_is_packed else plan.right.row_stride,
        tile_columns=plan.panel_columns,
        resumes=plan.k_blocks > 1,
        is_empty=plan.k == 0,
    )


def _packer(
    plan: ContractPlan, stored: Elements, how: Packing, panel: Operand, count: int, padded: int
) -> PanelPacker:
    """Describe the packer of panels `count` across, where rows of `panel` run along k."""
    return PanelPacker(
        how=how,
        count=count,
        padded=padded,
        across=panel.column_stride,
        along=panel.row_stride,
        lanes=plan.lanes,
        tail=(plan.k - (plan.k_blocks - 1) * plan.block_k) % plan.lanes,
        elements=stored,
    )


def _whole_vectors(plan: ContractPlan, columns: int) -> int:
    return -(-columns // plan.lanes) * plan.lanes
