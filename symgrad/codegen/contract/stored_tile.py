"""Stores of a GEMM microkernel: the sums of a tile, where they go on or where results are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import INDEX, index, scalar_type
from symgrad.codegen.contract.register_tile import Microkernel


class StoredTile(NamedTuple):
    """Where a tile is stored, and how many elements its rows are apart."""

    begin: ir.Value
    row: ir.Value


def emit_tile(
    builder: ir.IRBuilder, kernel: Microkernel, tile: StoredTile, sums: Sequence[ir.Value]
) -> None:
    """Store the sums."""
    if kernel.is_streamed:
        _emit_streamed(builder, kernel, tile, sums)
    else:
        _emit_sums(builder, kernel, tile, sums)


def _emit_sums(
    builder: ir.IRBuilder, kernel: Microkernel, tile: StoredTile, sums: Sequence[ir.Value]
) -> None:
    for at, value in enumerate(sums):
        builder.store(value, place_in_tile(builder, kernel, tile, at), align=kernel.tile_align)


def _emit_streamed(
    builder: ir.IRBuilder, kernel: Microkernel, tile: StoredTile, sums: Sequence[ir.Value]
) -> None:
    """Store the sums past the caches, if the tile lies on whole lines."""
    line = kernel.left.target.vector_bytes
    begin = builder.and_(builder.ptrtoint(tile.begin, INDEX), index(line - 1))
    with builder.if_else(builder.icmp_signed("==", begin, index(0))) as (aligned, other):
        with aligned:
            for at, value in enumerate(sums):
                place = place_in_tile(builder, kernel, tile, at)
                builder.store(value, place, align=line, is_streamed=True)
        with other:
            _emit_sums(builder, kernel, tile, sums)


def place_in_tile(
    builder: ir.IRBuilder, kernel: Microkernel, tile: StoredTile, at: int
) -> ir.Value:
    """Return where vector `at` of the sums is stored in a tile."""
    row, vector = divmod(at, kernel.vectors)
    offset = builder.add(builder.mul(tile.row, index(row)), index(vector * kernel.lanes))
    return builder.gep(tile.begin, [offset], source_etype=scalar_type(kernel.left.compute))
