"""Packing of windows: the pixels that a block of k reads, each once, and the zeros around images.

Some pixels of all channels are packed at a time, which brings each line of memory near once.
"""

from __future__ import annotations

from symgrad.codegen import ir
from symgrad.codegen.contract.calls import call_one
from symgrad.codegen.contract.digits import CountedAxis
from symgrad.codegen.contract.elements import Elements, final_loop, index, scalar_type
from symgrad.codegen.contract.operand import PaddedPixels
from symgrad.codegen.contract.places import Extent, TilePlaces
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.contract.variants import Variants


class PixelPacking:
    """Packs the pixels of blocks of k, for those tiles of a run that a block of tiles has."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        plan: ContractPlan,
        places: TilePlaces,
        variants: Variants,
        stored: Elements,
    ) -> None:
        self._builder = builder
        self._plan = plan
        self._places = places
        self._variants = variants
        self._stored = stored

    def emit(self, channels: Extent, first_step: ir.Value) -> None:
        """Pack the pixels of a block of k that begins with `first_step`."""
        builder, plan = self._builder, self._plan
        if plan.padding is not None:
            self._emit_lines(plan.padding, channels, first_step)
            return
        with final_loop(builder, index(0), index(plan.window_pixels), plan.packed_terms) as start:
            stop = self._at_most(builder.add(start, index(plan.packed_terms)), plan.window_pixels)
            offset = builder.mul(start, index(plan.row_run))
            with final_loop(builder, *channels) as i:
                source = self._stored.address(builder, self._channels_at(i, first_step), offset)
                panel = self._places.packed_tile(builder.sub(i, channels[0]))
                self._emit_copy(i, source, self._pixel(panel, start), builder.sub(stop, start))

    def _channels_at(self, tile: ir.Value, step: ir.Value) -> ir.Value:
        """Return where the channels of a tile of each run are, in the pixel of a step of k."""
        row, _, _ = self._places.rows_of(self._builder.mul(tile, index(self._plan.runs)))
        return self._places.left_at(row, step)

    def _pixel(self, panel: ir.Value, pixel: ir.Value) -> ir.Value:
        offset = self._builder.mul(pixel, index(self._plan.packed_rows))
        return self._builder.gep(panel, [offset], source_etype=scalar_type(self._plan.compute))

    def _emit_copy(
        self, tile: ir.Value, source: ir.Value, target: ir.Value, count: ir.Value
    ) -> None:
        first = self._builder.mul(tile, index(self._plan.runs))
        _, _, is_short = self._places.rows_of(first)
        arguments = source, target, count
        call_one(self._builder, self._variants.left_packers, is_short, arguments)

    def _emit_lines(self, padding: PaddedPixels, channels: Extent, first_step: ir.Value) -> None:
        """Pack line by line: zeros, what of it is in memory, and zeros."""
        builder, plan = self._builder, self._plan
        length, pixels = index(padding.line.count), padding.operand
        along = CountedAxis(pixels.column_stride, pixels.column_digits, plan.k)
        begin = builder.udiv(along.offset(builder, first_step), index(plan.row_run))
        end = builder.add(begin, index(plan.window_pixels))
        first_line = builder.udiv(begin, length)
        behind = builder.udiv(builder.add(end, index(padding.line.count - 1)), length)
        with final_loop(builder, first_line, behind) as line:
            at = builder.mul(line, length)
            offset, is_inside = self._line(padding, line)
            stop = self._least(builder.add(at, length), end)
            with final_loop(builder, self._most(at, begin), stop, plan.packed_terms) as start:
                some = start, self._least(builder.add(start, index(plan.packed_terms)), stop)
                read = self._read(padding, at, is_inside, some)
                offset_of = builder.add(
                    offset, builder.mul(builder.sub(read[0], at), index(plan.pixel_stride))
                )
                with final_loop(builder, *channels) as i:
                    panel = self._places.packed_tile(builder.sub(i, channels[0]))
                    self._emit_zeros(panel, begin, (some[0], read[0]))
                    source = self._channels_at(i, index(0))
                    source = self._stored.address(builder, source, offset_of)
                    target = self._pixel(panel, builder.sub(read[0], begin))
                    self._emit_copy(i, source, target, builder.sub(read[1], read[0]))
                    self._emit_zeros(panel, begin, (read[1], some[1]))

    def _line(self, padding: PaddedPixels, line: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return how far the first pixel of a line is from that of all, and whether it is read."""
        builder = self._builder
        offset = index(0)
        is_inside: ir.Value = ir.Constant(ir.IntType(1), 1)
        for axis in padding.above:
            at = builder.udiv(line, index(axis.place))
            if axis is not padding.above[-1]:
                at = builder.urem(at, index(axis.count))
            offset = builder.add(offset, builder.mul(at, index(axis.stride)))
            is_behind = builder.icmp_signed(">=", at, index(axis.first))
            is_before = builder.icmp_signed("<", at, index(axis.stop))
            is_inside = builder.and_(is_inside, builder.and_(is_behind, is_before))
        return offset, is_inside

    def _read(
        self, padding: PaddedPixels, line: ir.Value, is_inside: ir.Value, some: Extent
    ) -> Extent:
        """Return which of `some` pixels of a line that begins at `line` are in memory."""
        builder = self._builder
        first, stop = (
            self._least(self._most(builder.add(line, index(end)), some[0]), some[1])
            for end in (padding.line.first, padding.line.stop)
        )
        return (
            builder.select(is_inside, first, some[1]),
            builder.select(is_inside, stop, some[1]),
        )

    def _emit_zeros(self, panel: ir.Value, begin: ir.Value, pixels: Extent) -> None:
        """Store zeros for pixels, counted from `begin`: as with others, the next overwrite some."""
        builder, plan = self._builder, self._plan
        zeros = ir.Constant(ir.VectorType(scalar_type(plan.compute), plan.lanes), None)
        with final_loop(builder, *pixels) as pixel:
            place = self._pixel(panel, builder.sub(pixel, begin))
            for start in range(0, plan.packed_rows, plan.lanes):
                at = builder.gep(place, [index(start)], source_etype=scalar_type(plan.compute))
                builder.store(zeros, at, align=plan.compute.itemsize)

    def _least(self, a: ir.Value, b: ir.Value) -> ir.Value:
        builder = self._builder
        return builder.select(builder.icmp_signed("<", a, b), a, b)

    def _most(self, a: ir.Value, b: ir.Value) -> ir.Value:
        builder = self._builder
        return builder.select(builder.icmp_signed("<", a, b), b, a)

    def _at_most(self, value: ir.Value, bound: int) -> ir.Value:
        return self._least(value, index(bound))
