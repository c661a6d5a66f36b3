"""Software prefetch by tiles: where a part begins of what the next tile, panel or block reads.

It is told to the microkernel, which prefetches it step by step (`prefetching`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from symgrad.codegen import ir
from symgrad.codegen.contract.digits import CountedAxis
from symgrad.codegen.contract.elements import INDEX, Elements, index
from symgrad.codegen.contract.kernels.prefetching import elements_prefetched
from symgrad.codegen.contract.operand import PrefetchedSource
from symgrad.codegen.contract.places import Extent, TilePlaces
from symgrad.codegen.contract.plans.packing import packs_next
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.prefetching import (
    bytes_a_step,
    next_places,
    right_lines_a_step,
)
from symgrad.codegen.contract.rows_met import at_most
from symgrad.cost_model.products import ROWS_PREFETCHED, STEPS_A_LINE
from symgrad.graph.aligned import ALIGNMENT
from symgrad.records import replace


class TileOfBlock(NamedTuple):
    """A tile, which panel of its block it is in, the band, and tiles, panels and steps of that."""

    tile: ir.Value
    panel: ir.Value
    band: Extent
    tiles: Extent
    panels: Extent
    steps: Extent


class PrefetchedMatrix(NamedTuple):
    """Where line 0 of all that a product prefetches would begin; which of its lines there are."""

    begin: ir.Value
    first: int
    end: int


class TilePrefetching:
    """Tells the microkernels of one contraction what to prefetch."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        plan: ContractPlan,
        places: TilePlaces,
        stored: Elements,
        matrices: Sequence[PrefetchedMatrix] = (),
    ) -> None:
        self._builder = builder
        self._plan = plan
        self._places = places
        self._stored = stored
        self._matrices = matrices
        if matrices:
            with builder.goto_entry_block():
                self._prefetched = builder.alloca(INDEX)
            builder.store(index(0), self._prefetched)

    def places(
        self,
        at: TileOfBlock,
        near: tuple[ir.Value, ir.Value],
        result: ir.Value | None = None,
        count: ir.Value | None = None,
    ) -> tuple[ir.Value, ...]:
        """Return where the microkernel of a tile, which reads what is `near`, begins to prefetch.

        The `result` of the product begins there, if tiles are stored in it. The tile has `count`
        steps of k.
        """
        builder, plan = self._builder, self._plan
        if plan.prefetches_next:
            return (self._next_rows(at.tile, at.steps),)
        if self._matrices and count is not None:
            return (self._part_of_matrices(count, near[0]),)
        down = builder.sub(at.tile, at.tiles[0])
        if plan.prefetches_panel:
            return (self._part_of_next_panel(down, at.panel, at.panels),)
        if plan.next_source is not None:
            return self._of_source(plan.next_source, down, at)
        number = builder.mul(at.panel, builder.sub(at.tiles[1], at.tiles[0]))
        number = builder.add(number, down)
        if plan.prefetches_product:
            return self._parts_of_next_product(number, result)
        if lines := right_lines_a_step(plan):
            part = plan.k * lines * ALIGNMENT // plan.dtype.itemsize
            offset = builder.add(builder.mul(number, index(part)), index(plan.next_right))
            return (
                self._stored.address(builder, self._places.right_at(index(0), index(0)), offset),
            )
        if plan.prefetches_block:
            return (self._part_of_next_block(number, at.steps, near[0]),)
        if plan.next_steps is not None:
            row = self._places.rows_of(at.tiles[0])[0]
            of_next = index(plan.next_steps.steps), row
            return self._part_of_next_steps(number, at.steps, of_next, near)
        return ()

    def _of_source(
        self, source: PrefetchedSource, tile: ir.Value, at: TileOfBlock
    ) -> tuple[ir.Value, ...]:
        """Return where begins what a tile prefetches of the next panel, or the rows it packs."""
        if packs_next(self._plan):
            return self._packed_rows(source, tile, at)
        if self._plan.pack_right == "none":
            return (self._part_of_next_in_place(source, tile, at),)
        return (self._part_of_next_source(source, tile, at),)

    def _part_of_matrices(self, count: ir.Value, near: ir.Value) -> ir.Value:
        """Return where the lines of the next matrices begin for a tile of `count` steps.

        They go on where those of the tile before end. Tiles behind those that prefetch all of them
        prefetch what is `near`.
        """
        builder, plan = self._builder, self._plan
        assert plan.next_source is not None, "nothing is prefetched"
        steps, line = plan.next_source.lines.steps, plan.next_source.along
        at = builder.load(self._prefetched, typ=INDEX)
        lines = builder.udiv(builder.add(count, index(steps - 1)), index(steps))
        builder.store(builder.add(at, lines), self._prefetched)
        offset, begin = builder.mul(at, index(line)), near
        for matrix in reversed(self._matrices):
            is_inside = builder.icmp_signed("<", at, index(matrix.end))
            place = self._stored.address(builder, matrix.begin, offset)
            begin = builder.select(is_inside, place, begin)
        return begin

    def is_packing(self, tile: ir.Value, panel: ir.Value, is_edge: ir.Value) -> ir.Value:
        """Return whether a tile of a band packs its panel: the first one, if no tile has before."""
        builder = self._builder
        is_first = builder.icmp_signed("==", tile, index(0))
        if not packs_next(self._plan):
            return is_first
        is_unpacked = builder.or_(is_edge, builder.icmp_signed("==", panel, index(0)))
        return builder.and_(is_first, is_unpacked)

    def _next_rows(self, i: ir.Value, steps: Extent) -> ir.Value:
        """Return where the rows of the left begin that the microkernel of tile `i` prefetches.

        They are its own in the next block of k: over a whole block the lines come evenly, where
        those of the next tile would come in bursts, and late. In the last block it prefetches those
        of the next tile.
        """
        builder, plan = self._builder, self._plan
        start = index(0) if plan.has_pieces else steps[0]
        if plan.goes_on == "rows":
            behind = self._places.left_at(self._places.rows_of(i)[0], start)
            return self._stored.address(builder, behind, index(plan.rows * plan.left.row_stride))
        following = at_most(builder, builder.add(i, index(1)), plan.row_tiles)
        if plan.k_blocks == 1:
            return self._places.left_at(self._places.rows_of(following)[0], start)
        goes_on = builder.icmp_signed("<", steps[1], index(plan.k))
        row = self._places.rows_of(builder.select(goes_on, i, following))[0]
        # Pieces that do not lie in the next block as in this one are prefetched by guess.
        axis = CountedAxis(plan.left.column_stride, plan.left.column_digits, plan.k)
        now, then = (axis.offset(builder, step) for step in steps)
        further = builder.select(goes_on, builder.sub(then, now), index(0))
        return self._stored.address(builder, self._places.left_at(row, start), further)

    def _part_of_next_panel(
        self, tile: ir.Value, panel: ir.Value, panels: Extent, steps: int = STEPS_A_LINE
    ) -> ir.Value:
        """Return where the part of the next packed panel begins that a tile of a block prefetches.

        It prefetches a line in so many `steps`. Behind the last panel comes the first one, for the
        next tiles. When all of a panel has been prefetched tiles prefetch what is near.
        """
        builder, plan = self._builder, self._plan
        right = replace(self._stored, stored=plan.compute)
        part = index(plan.block_k * elements_prefetched(right) * STEPS_A_LINE // steps)
        offset = builder.mul(tile, part)
        is_left = builder.icmp_signed("<", offset, index(plan.block_k * plan.tile_columns))
        following = builder.add(panel, index(1))
        is_inside = builder.icmp_signed("<", following, builder.sub(panels[1], panels[0]))
        following = builder.select(is_inside, following, index(0))
        begin = self._places.packed_panel(builder.select(is_left, following, panel))
        return right.address(builder, begin, builder.select(is_left, offset, index(0)))

    def _part_of_next_source(
        self, source: PrefetchedSource, tile: ir.Value, at: TileOfBlock
    ) -> ir.Value:
        """Return where what a tile prefetches begins, of what the next panel is packed from.

        The tiles behind those that prefetch all of it prefetch the first lines again. Those of
        blocks that read panels again prefetch these.
        """
        builder, plan = self._builder, self._plan
        following = builder.add(builder.add(at.panels[0], at.panel), index(1))
        is_inside = builder.icmp_signed("<", following, at.panels[1])
        following = builder.select(is_inside, following, at.panels[0])
        step = at.steps[0] if plan.k_blocks > 1 else index(0)
        begin = self._places.right_at(step, self._places.column_of(following))
        is_left = builder.icmp_signed("<", tile, index(source.tiles))
        part = builder.select(is_left, tile, index(0))
        around = builder.mul(builder.udiv(part, index(source.wide)), index(source.around))
        down = builder.mul(builder.urem(part, index(source.wide)), index(source.down))
        begin = self._stored.address(builder, begin, builder.add(around, down))
        if plan.block_tiles >= plan.band_tiles:
            return begin
        packed = self._part_of_next_panel(tile, at.panel, at.panels, source.lines.steps)
        is_packing = builder.icmp_signed("==", at.tiles[0], at.band[0])
        return builder.select(is_packing, begin, packed)

    def _part_of_next_in_place(
        self, source: PrefetchedSource, tile: ir.Value, at: TileOfBlock
    ) -> ir.Value:
        """Return where what a tile prefetches begins, of the next panel, or of the next block of k.

        Behind the last panel is what the next product may read, in the last block of k what this
        one reads.
        """
        builder, plan = self._builder, self._plan
        if plan.k_blocks > 1:
            goes_on = builder.icmp_signed("<", at.steps[1], index(plan.k))
            step = builder.select(goes_on, at.steps[1], at.steps[0])
            begin = self._places.right_at(step, index(0))
        else:
            following = builder.add(builder.add(at.panels[0], at.panel), index(1))
            begin = self._places.right_at(index(0), self._places.column_of(following))
        is_left = builder.icmp_signed("<", tile, index(source.tiles))
        part = builder.select(is_left, tile, index(0))
        return self._stored.address(builder, begin, builder.mul(part, index(source.around)))

    def _packed_rows(
        self, source: PrefetchedSource, tile: ir.Value, at: TileOfBlock
    ) -> tuple[ir.Value, ...]:
        """Return where the rows begin that a tile packs, those it prefetches, and where they come.

        Then comes before which step of k it packs them. The last tile may pack rows of the one
        before again. Where the next panel is an edge, or there is none, none are packed.
        """
        builder, plan = self._builder, self._plan
        following = builder.add(at.panel, index(1))
        number = builder.add(at.panels[0], following)
        is_inside = builder.icmp_signed("<", number, at.panels[1])
        is_packed = builder.and_(is_inside, builder.not_(self._places.is_edge(number)))
        number = builder.select(is_packed, number, at.panels[0])
        rows = source.around // source.along
        step = at_most(builder, builder.mul(tile, index(rows)), plan.k - rows + 1)
        begin = self._places.right_at(step, self._places.column_of(number))
        prefetched = self._stored.address(builder, begin, index(ROWS_PREFETCHED * source.along))
        panel = self._places.packed_panel(following)
        packed = replace(self._stored, stored=plan.compute)
        packed_at = packed.address(builder, panel, builder.mul(step, index(plan.tile_columns)))
        steps = builder.select(is_packed, index(rows * source.lines.steps), index(0))
        return begin, prefetched, packed_at, steps

    def _parts_of_next_product(
        self, number: ir.Value, result: ir.Value | None
    ) -> tuple[ir.Value, ...]:
        """Return where the parts begin, of what the next product meets, that a tile prefetches."""
        builder, plan = self._builder, self._plan
        operands = (
            self._places.left_at(index(0), index(0)),
            self._places.right_at(index(0), index(0)),
        )
        begins = zip((*operands, result), next_places(plan), strict=True)
        places = []
        sizes = iter(bytes_a_step(plan))
        for begin, further in begins:
            if not further:
                continue
            assert begin is not None, "results are prefetched where tiles are stored in them"
            offset = builder.mul(number, index(plan.k * next(sizes)))
            offset = builder.add(offset, index(further * plan.dtype.itemsize))
            places.append(builder.gep(begin, [offset], source_etype=ir.IntType(8)))
        return tuple(places)

    def _part_of_next_steps(
        self,
        number: ir.Value,
        steps: Extent,
        of_next: tuple[ir.Value, ir.Value],
        near: tuple[ir.Value, ir.Value],
    ) -> tuple[ir.Value, ir.Value]:
        """Return where the steps begin, in both operands, that tile `number` of a block prefetches.

        `of_next` says how many these are of the next block of k, and the first row. The tiles
        behind those that prefetch all of it prefetch what is `near`, as all do in the last block.
        """
        builder, plan = self._builder, self._plan
        several, row = of_next
        step = builder.add(steps[1], builder.mul(number, several))
        end = builder.add(steps[1], index(plan.block_k))
        is_inside = builder.icmp_signed("<", step, end)
        is_prefetched = builder.and_(is_inside, builder.icmp_signed("<", step, index(plan.k)))
        left, right = self._places.left_at(row, step), self._places.right_at(step, index(0))
        return builder.select(is_prefetched, left, near[0]), builder.select(
            is_prefetched, right, near[1]
        )

    def _part_of_next_block(self, number: ir.Value, steps: Extent, near: ir.Value) -> ir.Value:
        """Return where what tile `number` of a block prefetches begins, in the next block of k.

        One part after the other they prefetch its pixels, then its steps of k of the right; the
        tiles behind these for what is `near`.
        """
        builder, plan = self._builder, self._plan
        pitch = plan.right.row_stride
        is_dense = 0 < pitch <= 2 * plan.columns
        pixels = self._parts(plan.window_pixels * plan.row_run)
        lines = self._parts(plan.block_k * pitch) if is_dense else 0
        part = index(self._part_of_tile)
        begin = self._places.left_at(index(0), steps[1])
        begin = self._stored.address(builder, begin, builder.mul(number, part))
        if lines:
            behind = builder.sub(number, index(pixels))
            second = self._places.right_at(steps[1], index(0))
            second = self._stored.address(builder, second, builder.mul(behind, part))
            is_first = builder.icmp_signed("<", behind, index(0))
            begin = builder.select(is_first, begin, second)
        is_left = builder.icmp_signed("<", number, index(pixels + lines))
        goes_on = builder.icmp_signed("<", steps[1], index(plan.k))
        return builder.select(builder.and_(is_left, goes_on), begin, near)

    def _parts(self, elements: int) -> int:
        """Return how many tiles prefetch so many elements that follow one another."""
        return -(-elements // self._part_of_tile)

    @property
    def _part_of_tile(self) -> int:
        return self._plan.block_k * elements_prefetched(self._stored)
