"""Software prefetch of what the epilogue of the next tile meets in memory, beside this tile.

A processor follows a few long walks through memory by itself. These are many short ones: a row of a
tile in each buffer that the epilogue reads or writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import POINTER, Elements, final_loop, index
from symgrad.codegen.contract.plans.plan import ContractPlan

# meets(builder, row, column): the addresses of what the epilogue reads and writes there in memory.
Meets = Callable[[ir.IRBuilder, ir.Value, ir.Value], Sequence[ir.Value]]


class TilePlace(NamedTuple):
    """Where a tile is in the result: its first row and column, how many rows, and what is below."""

    row: ir.Value
    column: ir.Value
    rows: ir.Value
    below: ir.Value


class RowsMet:
    """Prefetches the rows that the epilogue of the next tile meets, or tells a microkernel of them.

    The microkernel prefetches one after the other: few lines can be on their way at a time.
    """

    def __init__(
        self, builder: ir.IRBuilder, plan: ContractPlan, results: Elements, meets: Meets
    ) -> None:
        self._builder = builder
        self._plan = plan
        self._results = results
        self._meets = meets
        if plan.steps_a_row:
            with builder.goto_entry_block():
                rows = plan.met * plan.tile_rows
                self._table = builder.alloca(ir.ArrayType(POINTER, rows))

    def emit(self, tile: TilePlace, is_finished: ir.Value) -> tuple[ir.Value, ...]:
        """Prefetch the rows, or return the microkernel's arguments: a table, and its last entry.

        An epilogue comes behind `tile` if this is its last block of k: if it `is_finished`. Sums
        that are stored where results are meet these in each block of k.
        """
        builder, plan = self._builder, self._plan
        if plan.result_row:
            is_finished = ir.Constant(ir.IntType(1), 1)
        if plan.steps_a_row == 0:
            if plan.k_blocks == 1:
                for _, row in self._rows(tile):
                    self._results.prefetch(builder, row, plan.tile_columns)
            return ()
        with builder.if_then(is_finished):
            for number, row in self._rows(tile):
                builder.store(row, builder.gep(self._table, [number], source_etype=POINTER))
        rows = builder.mul(tile.rows, index(plan.met))
        last = builder.select(is_finished, builder.sub(rows, index(1)), index(0))
        return self._table, last

    def _rows(self, tile: TilePlace) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Yield, in a loop over the rows of the next tile, where each begins in what is met.

        Where products go on along columns it is the same tile of the next one. A row that is not
        full has others behind it, which may be prefetched as well.
        """
        builder, plan = self._builder, self._plan
        across = index(plan.tile_columns) if plan.rows_first else index(0)
        start = tile.row if plan.rows_first else tile.below
        is_within = plan.goes_on not in ("rows", "columns")
        if plan.goes_on == "rows":
            across, start = index(0), builder.add(tile.row, index(plan.rows))
        if plan.goes_on == "columns":
            across, start = index(plan.columns), tile.row
        column = builder.add(tile.column, across)
        column = column if plan.goes_on == "columns" else at_most(builder, column, plan.columns)
        with final_loop(builder, index(0), tile.rows) as i:
            row = builder.add(start, i)
            row = at_most(builder, row, plan.rows) if is_within else row
            m, n = (row, column) if plan.vector_axis == "n" else (column, row)
            first = builder.mul(i, index(plan.met))
            for number, address in enumerate(self._meets(builder, m, n)):
                yield builder.add(first, index(number)), address


def at_most(builder: ir.IRBuilder, place: ir.Value, extent: int) -> ir.Value:
    """Return `place`, the last one of `extent` if it lies beyond."""
    is_inside = builder.icmp_signed("<", place, index(extent))
    return builder.select(is_inside, place, index(extent - 1))
