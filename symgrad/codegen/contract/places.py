"""Address computation of a GEMM: where tiles, panels and steps of k lie in operands and scratch.

TilePlaces are counted as the plan counts them. Nothing here reads or writes an element.
"""

from __future__ import annotations

from copy import copy

from symgrad.codegen import ir
from symgrad.codegen.contract.digits import CountedAxis
from symgrad.codegen.contract.elements import index, scalar_type
from symgrad.codegen.contract.lifted import PlanSizes
from symgrad.codegen.contract.operand import Operand
from symgrad.codegen.contract.plans.packing import packs_next
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.scratch import packed_right_offset, partial_offset

_NO = ir.Constant(ir.IntType(1), 0)
# Where a block of panels, of tiles or of steps of k starts, and where it stops.
Extent = tuple[ir.Value, ir.Value]


class TilePlaces:
    """The addresses of one contraction; panels are counted across and tiles down the result.

    The sums of a tile have `tile_elements`, if any plan with other `sizes` may have the code.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        plan: ContractPlan,
        left: ir.Value,
        right: ir.Value,
        scratch: ir.Value | None,
        sizes: PlanSizes,
        tile_elements: int | None = None,
    ) -> None:
        self._builder = builder
        self._plan = plan
        self._sizes = sizes
        self._left = left
        self._right = right
        if scratch is not None:
            self._packed_left = scratch
            bytes_ = ir.IntType(8)
            offset = index(packed_right_offset(plan))
            self._packed_right = builder.gep(scratch, [offset], source_etype=bytes_)
            offset = index(partial_offset(plan))
            self._tiles = builder.gep(scratch, [offset], source_etype=bytes_)
        self._tile_elements = tile_elements or plan.tile_elements
        if plan.k_blocks == 1 and not plan.keeps_rows:
            with builder.goto_entry_block():
                kind = ir.ArrayType(scalar_type(plan.compute), self._tile_elements)
                self._tiles = builder.alloca(kind)
                self._tiles.align = 64

    @property
    def kept_sums(self) -> ir.Value:
        """Where the sums of tiles are kept that lie aside."""
        return self._tiles

    def within(self, builder: ir.IRBuilder, kept_sums: ir.Value) -> TilePlaces:
        """Return the places in another function, which is given no more than where sums are."""
        places = copy(self)
        places._builder, places._tiles = builder, kept_sums
        return places

    def rows_of(self, tile: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Return the first row of `tile`, how many it has, and whether it is one row short."""
        builder, plan = self._builder, self._plan
        start: ir.Value | None
        if plan.pack_left == "windows":
            # All tiles that read a panel come one after the other.
            start = builder.mul(builder.urem(tile, index(plan.runs)), index(plan.row_run))
            tile = builder.udiv(tile, index(plan.runs))
        else:
            tile, start = self._in_run(tile, plan.tiles_of_run, plan.row_tiles, plan.row_run)
        high = self._sizes.tile_rows
        row = builder.mul(tile, high)
        if plan.tall_tiles == plan.tiles_of_run:
            return self._behind(start, row), high, _NO
        tall = self._sizes.tall_tiles
        is_short = builder.icmp_signed(">=", tile, tall)
        missing = builder.sub(tile, tall)
        row = builder.sub(row, builder.select(is_short, missing, index(0)))
        rows = builder.select(is_short, builder.sub(high, index(1)), high)
        return self._behind(start, row), rows, is_short

    def column_of(self, panel: ir.Value) -> ir.Value:
        """Return the first column of `panel`."""
        plan = self._plan
        panel, start = self._in_run(panel, plan.panels_of_run, plan.panels, plan.column_run)
        return self._behind(start, self._builder.mul(panel, index(plan.tile_columns)))

    def _in_run(
        self, part: ir.Value, of_run: int, most: int, extent: int
    ) -> tuple[ir.Value, ir.Value | None]:
        """Return which of its run a tile or panel is, and where the run starts; None if at 0."""
        if of_run == most:
            return part, None
        builder = self._builder
        run = builder.udiv(part, index(of_run))
        return builder.urem(part, index(of_run)), builder.mul(run, index(extent))

    def _behind(self, start: ir.Value | None, place: ir.Value) -> ir.Value:
        return place if start is None else self._builder.add(start, place)

    def is_edge(self, panel: ir.Value) -> ir.Value:
        plan = self._plan
        if plan.edge_columns == 0:
            return _NO
        of_run = plan.panels_of_run
        if of_run != plan.panels:
            panel = self._builder.urem(panel, index(of_run))
        return self._builder.icmp_signed("==", panel, index(of_run - 1))

    def left_at(self, row: ir.Value, step: ir.Value) -> ir.Value:
        return self._element(
            self._left, self._plan.left, (row, self._plan.rows), (step, self._plan.k)
        )

    def right_at(self, step: ir.Value, column: ir.Value) -> ir.Value:
        plan = self._plan
        return self._element(self._right, plan.right, (step, plan.k), (column, plan.columns))

    def _element(
        self,
        base: ir.Value,
        operand: Operand,
        row: tuple[ir.Value, int],
        column: tuple[ir.Value, int],
    ) -> ir.Value:
        builder = self._builder
        across = CountedAxis(operand.row_stride, operand.row_digits, row[1]).offset(builder, row[0])
        along = CountedAxis(operand.column_stride, operand.column_digits, column[1])
        offset = builder.add(across, along.offset(builder, column[0]))
        return builder.gep(base, [offset], source_etype=ir.IntType(self._plan.dtype.bits))

    def packed_tile(self, tile: ir.Value) -> ir.Value:
        plan = self._plan
        return self._computed(self._packed_left, tile, plan.packed_tile_elements)

    def packed_panel(self, panel: ir.Value) -> ir.Value:
        plan = self._plan
        if plan.kept_panels == 1:
            return self._packed_right
        if packs_next(plan):
            panel = self._builder.and_(panel, index(1))
        return self._computed(self._packed_right, panel, plan.packed_steps * plan.tile_columns)

    def tile_at(self, tile: ir.Value, panel: ir.Value) -> ir.Value:
        """Return where the sums of a tile of a band are kept until all blocks of k are added."""
        builder, plan = self._builder, self._plan
        if plan.keeps_rows:
            return self.row_at(index(0), panel)
        if plan.k_blocks == 1:
            return self._tiles
        number = builder.add(builder.mul(tile, index(plan.block_panels)), panel)
        return self._computed(self._tiles, number, plan.tile_elements)

    def emit_zero_tile(self) -> None:
        """Store zeros where the sums of each tile are kept in turn."""
        builder, plan = self._builder, self._plan
        zero = ir.Constant(ir.VectorType(scalar_type(plan.compute), plan.lanes), None)
        for start in range(0, self._tile_elements, plan.lanes):
            place = builder.gep(self._tiles, [index(start)], source_etype=scalar_type(plan.compute))
            builder.store(zero, place, align=plan.lanes * plan.compute.itemsize)

    def row_at(self, row: ir.Value, panel: ir.Value) -> ir.Value:
        """Return where a row of the tile of a panel is kept until all of the row is added."""
        tile = self._computed(self._tiles, panel, self._plan.tile_columns)
        return self._computed(tile, row, self._plan.tile_row)

    def _computed(self, base: ir.Value, number: ir.Value, size: int) -> ir.Value:
        """Return the address of part `number` of scratch memory, of parts of `size` elements."""
        offset = self._builder.mul(number, index(size))
        return self._builder.gep(base, [offset], source_etype=scalar_type(self._plan.compute))

    def packed_channels(self, tiles: Extent) -> Extent:
        """Return which tiles of each run of rows there are among `tiles`."""
        builder, runs = self._builder, self._plan.runs
        last = builder.add(tiles[1], index(runs - 1))
        return builder.udiv(tiles[0], index(runs)), builder.udiv(last, index(runs))

    def packed_window(self, tile: ir.Value, tiles: Extent, steps: Extent) -> ir.Value:
        """Return where the terms of a tile would begin in packed windows, with the first of all."""
        builder, plan = self._builder, self._plan
        runs = index(plan.runs)
        across, along = plan.packed_windows
        panel = self.packed_tile(
            builder.sub(builder.udiv(tile, runs), self.packed_channels(tiles)[0])
        )
        offset = across.offset(builder, builder.urem(tile, runs))
        offset = builder.sub(offset, along.offset(builder, steps[0]))
        return builder.gep(panel, [offset], source_etype=scalar_type(plan.compute))
