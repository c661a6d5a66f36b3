"""Stores of a GEMM microkernel: the sums of a tile, where they go on or where results are.

One that packs also stores the rows of the right that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import INDEX, index, scalar_type
from symgrad.codegen.contract.kernels.register_tile import Microkernel


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
    for value, place in zip(sums, places_in_tile(builder, kernel, tile), strict=True):
        builder.store(value, place, align=kernel.left.compute.itemsize)


def _emit_streamed(
    builder: ir.IRBuilder, kernel: Microkernel, tile: StoredTile, sums: Sequence[ir.Value]
) -> None:
    """Store the sums past the caches, if the tile lies on whole lines."""
    line = kernel.left.target.vector_bytes
    begin = builder.and_(builder.ptrtoint(tile.begin, INDEX), index(line - 1))
    with builder.if_else(builder.icmp_signed("==", begin, index(0))) as (aligned, other):
        with aligned:
            for value, place in zip(sums, places_in_tile(builder, kernel, tile), strict=True):
                builder.store(value, place, align=line, is_streamed=True)
        with other:
            _emit_sums(builder, kernel, tile, sums)


def places_in_tile(builder: ir.IRBuilder, kernel: Microkernel, tile: StoredTile) -> list[ir.Value]:
    """Return where each vector of the sums is stored in a tile."""
    rows = [builder.mul(tile.row, index(number)) for number in range(kernel.rows)]
    offsets = [
        builder.add(row, index(vector * kernel.lanes))
        for row in rows
        for vector in range(kernel.vectors)
    ]
    kind = scalar_type(kernel.left.compute)
    return [builder.gep(tile.begin, [offset], source_etype=kind) for offset in offsets]


def emit_packed_row(
    builder: ir.IRBuilder,
    kernel: Microkernel,
    packed: ir.Value,
    number: int,
    row: Sequence[ir.Value],
) -> None:
    """Store a row of the right as step `number` of a packed panel."""
    for vector, values in enumerate(row):
        offset = (number * kernel.vectors + vector) * kernel.lanes
        place = kernel.right.address(builder, packed, index(offset))
        builder.store(values, place, align=kernel.right.target.vector_bytes)
