"""Packing the next panel of a GEMM within the microkernels of this one, row by row.

A row comes from lines that are prefetched a few rows before it is read, and goes to where the next
panel is read. So packing waits for nothing, and neither do the tiles that read it. How a statement
of assembly does it is in `assembled_prefetching.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import index, prefetch
from symgrad.codegen.contract.kernels.register_tile import Microkernel


class NextPanel(NamedTuple):
    """Where the rows begin that a tile packs, those it prefetches, and where they come to be.

    Rows are `along` elements apart where they lie, and it packs them before the step `stop` of k.
    """

    source: ir.Value
    prefetched: ir.Value
    packed: ir.Value
    along: ir.Value
    stop: ir.Value


def emit_packing_next(
    builder: ir.IRBuilder, kernel: Microkernel, panel: NextPanel, span: tuple[ir.Value, int]
) -> None:
    """Pack the rows that have their turn at a `span` of k: its first step, and how many."""
    lines, (step, count) = kernel.next_source, span
    assert lines is not None, "its rows are packed"
    is_turn = builder.icmp_signed("<", step, panel.stop)
    if count < lines.steps:
        turn = builder.and_(step, index(lines.steps - 1))
        is_turn = builder.and_(is_turn, builder.icmp_signed("==", turn, index(0)))
    with builder.if_then(is_turn):
        first = builder.udiv(step, index(lines.steps))
        for number in range(max(1, count // lines.steps)):
            _emit_row(builder, kernel, panel, builder.add(first, index(number)))


def _emit_row(builder: ir.IRBuilder, kernel: Microkernel, panel: NextPanel, row: ir.Value) -> None:
    right = kernel.right
    offset = builder.mul(row, panel.along)
    line = right.target.memory.line_bytes // right.stored.itemsize
    prefetched = right.address(builder, panel.prefetched, offset)
    for start in (*range(0, kernel.tile_columns, line), kernel.tile_columns - 1):
        prefetch(builder, right.address(builder, prefetched, index(start)), is_write=False)
    source = right.address(builder, panel.source, offset)
    packed = builder.mul(row, index(kernel.tile_columns))
    packed = right.address(builder, panel.packed, packed)
    for start in range(0, kernel.tile_columns, kernel.lanes):
        place = right.address(builder, source, index(start))
        vector = right.load(builder, place, kernel.lanes, kernel.lanes)
        place = right.address(builder, packed, index(start))
        builder.store(vector, place, align=kernel.lanes * right.stored.itemsize)
