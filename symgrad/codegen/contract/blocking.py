"""Cache blocking of a GEMM: the loops of a contraction around its microkernels.

Blocks of columns, then of k, then of rows are walked so that what is packed once is used often and
what is used often stays in cache. Finished tiles meet the epilogue while they are in the
first-level cache. The order depends on the plan alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from symgrad.codegen import ir
from symgrad.codegen.contract.border import (
    Terms,
    emit_is_finite,
    emit_terms,
    emit_zero_products,
)
from symgrad.codegen.contract.calls import call_one
from symgrad.codegen.contract.diagonal import emit_is_right_finite, emit_span
from symgrad.codegen.contract.elements import (
    Elements,
    emit_streamed,
    final_loop,
    index,
    scalar_type,
)
from symgrad.codegen.contract.epilogue import LONG, Apart, Epilogue, ResultAt, RowForm, TileEpilogue
from symgrad.codegen.contract.kernels.matrix import using_matrix_unit
from symgrad.codegen.contract.lifted import (
    Lift,
    can_lift,
    most_tile_elements,
    plan_sizes,
    shifted,
    unlifted,
)
from symgrad.codegen.contract.pixel_packing import PixelPacking
from symgrad.codegen.contract.places import Extent, TilePlaces
from symgrad.codegen.contract.plans.packing import packs_within
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.plans.scratch import scratch_bytes
from symgrad.codegen.contract.plans.sharing import TileRegion, whole_region
from symgrad.codegen.contract.rows_met import Meets, RowsMet, TilePlace
from symgrad.codegen.contract.tile_prefetching import PrefetchedMatrix, TileOfBlock, TilePrefetching
from symgrad.codegen.contract.unread import emit_read_vectors
from symgrad.codegen.contract.variants import Variants, emit_variants
from symgrad.codegen.target import Target
from symgrad.records import replace


def emit_contract(
    builder: ir.IRBuilder,
    plan: ContractPlan,
    lhs: ir.Value,
    rhs: ir.Value,
    scratch: ir.Value | None,
    target: Target,
    epilogue: Epilogue,
    region: TileRegion | None = None,
    meets: Meets | None = None,
    result_at: ResultAt | None = None,
    lift: Lift = unlifted,
    apart: Apart | None = None,
    form: RowForm = LONG,
    *,
    shift: ir.Value | None = None,
    matrices: Sequence[PrefetchedMatrix] = (),
) -> None:
    """Emit the contraction at the builder's position, which is after it in the end.

    The operands are only read, and only their elements. `scratch` holds `scratch_bytes(plan)`,
    aligned to 64. The epilogue alone writes results; it gets every element once. With `region`
    only that part of the result is computed, in the same way. What the epilogue `meets` in memory
    for a tile is prefetched in the tile before, as are the next `matrices` of a loop. A plan with a
    `result_row` is given where results are, `result_at`, and has no epilogue. What other products
    with these loops have others of is passed to the function, if it can `lift` it. With `apart` the
    epilogue of a tile is a function, whose code has a `form`. Diagonals lie `shift` further on.
    """
    if plan.m == 0 or plan.n == 0:
        return
    assert scratch is not None or scratch_bytes(plan) == 0, "this plan needs scratch memory"
    left, right = (lhs, rhs) if plan.vector_axis == "n" else (rhs, lhs)
    lift = lift if region is None and can_lift(plan) else unlifted
    variants = emit_variants(builder.module, plan, target, is_shared=region is not None)
    nest = _LoopNest(
        builder, plan, left, right, scratch, target, variants.lifted(lift), epilogue, meets,
        result_at, lift, apart, form, shift=shift, matrices=matrices,
    )  # fmt: skip
    nest.emit(region)
    if plan.is_streamed:
        emit_streamed(builder, target)


class _LoopNest:
    """The loops of one contraction; panels are counted across and tiles down the result."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        plan: ContractPlan,
        left: ir.Value,
        right: ir.Value,
        scratch: ir.Value | None,
        target: Target,
        variants: Variants,
        epilogue: Epilogue,
        meets: Meets | None,
        result_at: ResultAt | None,
        lift: Lift,
        apart: Apart | None,
        form: RowForm,
        *,
        shift: ir.Value | None,
        matrices: Sequence[PrefetchedMatrix],
    ) -> None:
        self._builder = builder
        self._plan = plan
        self._stored = Elements(plan.dtype, plan.compute, target)
        sizes = plan_sizes(plan, lift)
        self._sizes = sizes if shift is None else shifted(builder, sizes, shift)
        most = None if lift is unlifted else most_tile_elements(plan, target)
        self._places = TilePlaces(builder, plan, left, right, scratch, self._sizes, most)
        self._variants = variants
        self._pixels = PixelPacking(builder, plan, self._places, self._variants, self._stored)
        self._epilogue = TileEpilogue(builder, plan, epilogue, apart, form)
        self._result_at = result_at
        self._prefetching = TilePrefetching(builder, plan, self._places, self._stored, matrices)
        results = replace(self._stored, stored=plan.compute)
        meets = None if plan.prefetches_results else meets
        self._met = RowsMet(builder, plan, results, meets) if meets is not None else None
        if plan.sees_zeros:
            with builder.goto_entry_block():
                self._lanes = ir.VectorType(scalar_type(plan.compute), plan.lanes)
                self._zeros = builder.alloca(self._lanes)
                self._zeros.align = 64

    def emit(self, region: TileRegion | None) -> None:
        """Emit the loops over a region, or over all of the result."""
        plan, k = self._plan, self._sizes.k
        region = region or whole_region(plan, self._sizes.row_tiles)
        if plan.read is not None and self._result_at is None:
            self._places.emit_zero_tile()  # an epilogue is given all of a tile
        if plan.diagonal is not None:
            places, sizes, builder = self._places, self._sizes, self._builder
            last_row, _, _ = places.rows_of(builder.sub(sizes.row_tiles, index(1)))
            self._is_zero_left_out = emit_is_right_finite(
                builder, plan, places.right_at, sizes, last_row
            )
        with (
            using_matrix_unit(self._builder) if plan.method == "matrix" else nullcontext(),
            self._blocks(region.tiles, plan.row_tiles, plan.band_tiles) as band,
            self._blocks(region.panels, plan.panels, plan.block_panels) as panels,
            self._blocks((index(0), k), plan.k, plan.block_k) as steps,
        ):
            self._is_finite: ir.Value = ir.Constant(ir.IntType(1), 1)
            if plan.pack_right != "none" and not plan.packs_late:
                self._emit_right_packing(panels, steps)
            with self._blocks(band, plan.band_tiles, plan.block_tiles) as tiles:
                if plan.pack_left == "windows":
                    self._pixels.emit(self._places.packed_channels(tiles), steps[0])
                elif plan.pack_left != "none":
                    self._emit_left_packing(tiles, steps)
                self._emit_block(band, panels, tiles, steps)

    @contextmanager
    def _blocks(self, whole: Extent, most: int, size: int) -> Iterator[Extent]:
        """Loop over `whole`, which has at most `most` parts, in blocks of `size` and yield each."""
        if most <= size:
            yield whole
            return
        builder = self._builder
        with final_loop(builder, *whole, size) as start:
            stop = builder.add(start, index(size))
            is_inside = builder.icmp_signed("<", stop, whole[1])
            yield start, builder.select(is_inside, stop, whole[1])

    def _emit_right_packing(self, panels: Extent, steps: Extent) -> None:
        builder, plan = self._builder, self._plan
        seen = (self._zeros,) if plan.sees_zeros else ()
        if plan.sees_zeros:
            builder.store(ir.Constant(self._lanes, None), self._zeros, 64)
        with final_loop(builder, *panels) as j:
            self._emit_panel_packing(j, panels, steps, seen)
        if plan.sees_zeros:
            zeros = builder.load(self._zeros, typ=self._lanes, align=64)
            self._is_finite = emit_is_finite(builder, zeros)

    def _emit_panel_packing(
        self, j: ir.Value, panels: Extent, steps: Extent, seen: tuple[ir.Value, ...] = ()
    ) -> None:
        builder = self._builder
        column = self._places.column_of(j)
        packed = self._places.packed_panel(builder.sub(j, panels[0]))
        is_edge = self._places.is_edge(j)
        with self._pieces(steps, packed, self._across(is_edge)) as (step, count, target):
            source = self._places.right_at(step, column)
            arguments = (source, target, count, *seen, *self._variants.right_apart)
            call_one(builder, self._variants.right_packers, is_edge, arguments)

    def _across(self, is_edge: ir.Value) -> ir.Value:
        """Return how many elements of a packed panel of the right one step of k is."""
        plan = self._plan
        return self._builder.select(
            is_edge,
            index(plan.whole_vectors(plan.edge_columns)),
            index(plan.whole_vectors(plan.tile_columns)),
        )

    def _emit_left_packing(self, tiles: Extent, steps: Extent) -> None:
        """Pack tile by tile, or some steps of k of all tiles before the next steps."""
        builder, plan = self._builder, self._plan
        across = index(plan.packed_rows)
        with (
            self._blocks(steps, plan.block_k, plan.packed_terms) as some,
            final_loop(builder, *tiles) as i,
        ):
            row, _, is_short = self._places.rows_of(i)
            packed = self._places.packed_tile(builder.sub(i, tiles[0]))
            offset = builder.mul(builder.sub(some[0], steps[0]), across)
            packed = builder.gep(packed, [offset], source_etype=scalar_type(plan.compute))
            with self._pieces(some, packed, across) as (step, count, target):
                source = self._places.left_at(row, step)
                arguments = (source, target, count, *self._variants.left_apart)
                call_one(builder, self._variants.left_packers, is_short, arguments)

    @contextmanager
    def _pieces(
        self, steps: Extent, packed: ir.Value, across: ir.Value
    ) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
        """Loop over the pieces of a block of k that lie evenly.

        Yield where each begins, its size, and where in the packed panel it comes.
        """
        builder, plan = self._builder, self._plan
        if not plan.has_pieces:
            yield steps[0], builder.sub(steps[1], steps[0]), packed
            return
        with final_loop(builder, *steps, plan.k_piece) as step:
            offset = builder.mul(builder.sub(step, steps[0]), across)
            place = builder.gep(packed, [offset], source_etype=scalar_type(plan.compute))
            yield step, index(plan.k_piece), place

    def _emit_block(self, band: Extent, panels: Extent, tiles: Extent, steps: Extent) -> None:
        builder, plan = self._builder, self._plan
        outer, inner = (tiles, panels) if plan.rows_first else (panels, tiles)
        with final_loop(builder, *outer) as first:
            with final_loop(builder, *inner) as second:
                i, j = (first, second) if plan.rows_first else (second, first)
                self._emit_tile((i, j), band, panels, tiles, steps)
            if plan.keeps_rows:
                self._emit_kept_rows(first, panels)

    def _emit_kept_rows(self, tile: ir.Value, panels: Extent) -> None:
        """Emit the epilogue of the rows of a tile, one after the other through all panels."""
        row, rows, _ = self._places.rows_of(tile)
        passed = row, rows, *panels, self._places.kept_sums
        self._epilogue.hand_over(passed, self._emit_rows_through)

    def _emit_rows_through(
        self, builder: ir.IRBuilder, passed: Sequence[ir.Value], epilogue: Epilogue
    ) -> None:
        row, rows, first, last, sums = passed
        places = self._places.within(builder, sums)
        of_rows = self._epilogue.within(builder, epilogue)
        with final_loop(builder, index(0), rows) as i, final_loop(builder, first, last) as j:
            line = places.row_at(i, builder.sub(j, first))
            at = builder.add(row, i)
            of_rows.emit_row(line, at, places.column_of(j), places.is_edge(j))

    def _emit_tile(
        self,
        at: tuple[ir.Value, ir.Value],
        band: Extent,
        panels: Extent,
        tiles: Extent,
        steps: Extent,
    ) -> None:
        """Emit the sums of a tile of a panel, and their epilogue unless that goes by rows."""
        (i, j), (step, last_step) = at, steps
        builder, plan = self._builder, self._plan
        row, rows, is_short = self._places.rows_of(i)
        column = self._places.column_of(j)
        is_edge = self._places.is_edge(j)
        panel = builder.sub(j, panels[0])
        terms = self._terms((row, rows), steps)
        first, last = terms.span
        # Where k is in pieces, the microkernel finds each of them itself.
        start = index(0) if plan.has_pieces else step
        start = first if plan.diagonal is not None else start
        left = self._places.left_at(row, start)
        if plan.pack_left == "windows":
            left = self._places.packed_window(i, tiles, steps)
        elif plan.pack_left != "none":
            left = self._places.packed_tile(builder.sub(i, tiles[0]))
        right = source = self._places.right_at(start, column)
        if plan.pack_right != "none":
            right = self._places.packed_panel(panel)
        is_first = self._prefetching.is_packing(builder.sub(i, band[0]), panel, is_edge)
        if plan.packs_late and not packs_within(plan):
            with builder.if_then(is_first):
                self._emit_panel_packing(j, panels, steps)
        packed = right
        if plan.borders:
            left_out = builder.mul(builder.sub(first, step), self._across(is_edge))
            right = builder.gep(right, [left_out], source_etype=scalar_type(plan.compute))
        sums = self._sums_at((builder.sub(i, band[0]), panel), (row, column))
        resumes = builder.icmp_signed(">", step, index(0))
        arguments: tuple[ir.Value, ...] = (sums, builder.sub(last, first))
        arguments += (resumes, first) if plan.walks_pieces else (resumes,)
        number = TileOfBlock(i, panel, band, tiles, panels, steps)
        arguments += self._variants.told
        is_stored = plan.prefetches_product and self._result_at is not None
        result = self._sums_at((i, j), (index(0), index(0))) if is_stored else None
        arguments += self._prefetching.places(number, (left, right), result, arguments[1])
        is_finished: ir.Value = ir.Constant(ir.IntType(1), 1)
        if plan.k_blocks > 1:
            is_finished = builder.icmp_signed("==", last_step, self._sizes.k)
        arguments += self._emit_met(i, (row, column, rows), is_finished)
        arguments += tuple(itertools.chain(*terms.within))
        shape, place = (is_short, is_edge), (row, rows, column)
        self._call_kernel(is_first, shape, place, (left, source, right), arguments)
        if plan.lacks_padding and plan.sees_zeros:
            with builder.if_then(builder.not_(self._is_finite)):
                operands = packed, self._across(is_edge)
                emit_zero_products(builder, plan, operands, (sums, row, rows), steps)
        if self._result_at is None and not plan.keeps_rows:
            with builder.if_then(is_finished):
                self._epilogue.emit(sums, row, column, rows, is_edge)

    def _terms(self, rows: tuple[ir.Value, ir.Value], steps: Extent) -> Terms:
        """Return which terms of a block a tile needs, given its first row and how many it has."""
        builder, plan = self._builder, self._plan
        if plan.diagonal is not None:
            return Terms(emit_span(builder, self._sizes, rows, self._is_zero_left_out), ())
        if plan.borders:
            return emit_terms(builder, plan, rows[0], steps, self._is_finite)
        return Terms(steps, ())

    def _call_kernel(
        self,
        is_first: ir.Value,
        shape: tuple[ir.Value, ir.Value],
        place: tuple[ir.Value, ir.Value, ir.Value],
        operands: tuple[ir.Value, ir.Value, ir.Value],
        others: tuple[ir.Value, ...],
    ) -> None:
        """Call the microkernel of a tile, given the left, and the right as it is and as packed.

        That of the first tile of a panel packs it, if it is packed by none before. Of a tile that
        is not all read, given its first row, its rows and its first column, the kernel is that of
        the vectors which are.
        """
        builder, call = self._builder, self._variants.call_kernel
        left, source, right = operands
        if self._plan.read is not None:
            row, rows, column = place
            columns = column, self._across(shape[1])
            begin, vectors = emit_read_vectors(
                builder, self._plan, self._sizes, (row, rows), columns
            )
            right, sums = (
                builder.gep(first, [begin], source_etype=scalar_type(self._plan.compute))
                for first in (right, others[0])
            )
            call(builder, *shape, (left, right, sums, *others[1:]), vectors=vectors)
            return
        if not packs_within(self._plan):
            call(builder, *shape, (left, right, *others))
            return
        apart = index(self._plan.right.row_stride)
        with builder.if_else(is_first) as (packing, packed):
            with packing:
                call(builder, *shape, (left, source, *others, right, apart), packs=True)
            with packed:
                call(builder, *shape, (left, right, *others))

    def _sums_at(
        self, tile: tuple[ir.Value, ir.Value], place: tuple[ir.Value, ir.Value]
    ) -> ir.Value:
        """Return where a tile is stored, given which of its band it is and where in the result."""
        if self._result_at is None:
            return self._places.tile_at(*tile)
        row, column = place
        m, n = (row, column) if self._plan.vector_axis == "n" else (column, row)
        return self._result_at(self._builder, m, n)

    def _emit_met(
        self, tile: ir.Value, place: tuple[ir.Value, ir.Value, ir.Value], is_finished: ir.Value
    ) -> tuple[ir.Value, ...]:
        """Prefetch what the next epilogue meets, or return what the microkernel is to prefetch."""
        if self._met is None:
            return ()
        row, column, rows = place
        below = self._builder.add(row, rows)
        if self._plan.pack_left == "windows":
            below = self._places.rows_of(self._builder.add(tile, index(1)))[0]
        return self._met.emit(TilePlace(row, column, rows, below), is_finished)
