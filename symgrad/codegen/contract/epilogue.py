"""Epilogue of a GEMM tile: its sums are handed to the caller's code in vectors.

Nothing here writes to the result; only the epilogue knows where it is and what else is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import final_loop, index, scalar_type
from symgrad.codegen.contract.plans.plan import ContractPlan
from symgrad.codegen.vectors import first_lanes, masked_load, vector_type
from symgrad.cost_model.products import (
    MASKED_COLUMNS,
    MOST_TERMS_WRITTEN_OUT,
    MOST_VECTORS_WRITTEN_OUT,
)
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class TileElements:
    """The finished sums of `width` elements along the plan's vector axis, from (row, column) on.

    Where there is a `mask`, only the lanes in it are elements of the result.
    """

    row: ir.Value
    column: ir.Value
    width: int
    value: ir.Value
    mask: ir.Value | None = None


@dataclass(frozen=True, slots=True)
class RowForm:
    """What the code of an epilogue may be: `is_masked`, run for some lanes of a vector.

    One that `is_short` may be written out for each vector of a row: LLVM then computes once what is
    the same for all of them, such as the reciprocal that a row is multiplied by.
    """

    is_masked: bool = False
    is_short: bool = False


LONG = RowForm()
# epilogue(builder, elements): does what is to be done with finished sums.
Epilogue = Callable[[ir.IRBuilder, TileElements], None]
# apart(builder, passed, emit): emits a call of a function; `emit` is given the builder of that, its
# arguments for what it is `passed`, and an epilogue for it.
EmitRows = Callable[[ir.IRBuilder, Sequence[ir.Value], Epilogue], None]
Apart = Callable[[ir.IRBuilder, Sequence[ir.Value], EmitRows], None]
# result_at(builder, row, column): the address of that element of the result.
ResultAt = Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]


class TileEpilogue:
    """Hands the rows of a tile to an epilogue: whole vectors, then what is left one by one.

    With `apart` that is done in a function of its own. If the `form` of the epilogue is masked,
    what is left is a vector too, of which it is told the lanes.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        plan: ContractPlan,
        epilogue: Epilogue,
        apart: Apart | None = None,
        form: RowForm = LONG,
    ) -> None:
        self._builder = builder
        self._plan = plan
        self._epilogue = epilogue
        self._apart = apart
        self._form = form

    def emit(
        self, tile: ir.Value, row: ir.Value, column: ir.Value, rows: ir.Value, is_edge: ir.Value
    ) -> None:
        """Emit the epilogue for `rows` rows of sums of `tile`, whose first is (row, column).

        `is_edge` says whether the tile lies in the last panel, which is not full.
        """
        self.hand_over((tile, row, column, rows, is_edge), self._emit_rows)

    def hand_over(self, passed: Sequence[ir.Value], emit: EmitRows) -> None:
        """Have `emit` hand sums to the epilogue, here or in a function that is `passed` these."""
        if self._apart is None:
            emit(self._builder, passed, self._epilogue)
        else:
            self._apart(self._builder, passed, emit)

    def within(self, builder: ir.IRBuilder, epilogue: Epilogue) -> TileEpilogue:
        """Return what hands sums to `epilogue` in the function that `builder` is in."""
        return TileEpilogue(builder, self._plan, epilogue, form=self._form)

    def _emit_rows(
        self, builder: ir.IRBuilder, passed: Sequence[ir.Value], epilogue: Epilogue
    ) -> None:
        tile, row, column, rows, is_edge = passed
        plan, of_rows = self._plan, self.within(builder, epilogue)
        with final_loop(builder, index(0), rows) as i:
            start = builder.mul(i, index(plan.tile_columns))
            line = builder.gep(tile, [start], source_etype=scalar_type(plan.compute))
            of_rows.emit_row(line, builder.add(row, i), column, is_edge)

    def emit_row(self, line: ir.Value, row: ir.Value, column: ir.Value, is_edge: ir.Value) -> None:
        """Emit the epilogue for one row of a tile, whose sums are at `line`."""
        builder, plan = self._builder, self._plan
        width = plan.vector_width
        sizes = [plan.tile_columns] if plan.column_run >= plan.tile_columns else []
        sizes += [plan.edge_columns] if plan.edge_columns else []
        if self._form.is_short and _are_written_out(plan, sizes):
            for offset in range(0, sizes[0], width):
                self._hand(line, row, column, index(offset), width)
            return
        left = max(size % width for size in sizes)
        if self._form.is_masked and plan.column_run <= MASKED_COLUMNS * left:
            stop = self._of_tile(sizes, is_edge)
            with final_loop(builder, index(0), stop, width) as j:
                mask = first_lanes(builder, builder.sub(stop, j), width)
                self._hand(line, row, column, j, width, mask)
            return
        whole = self._of_tile([size // width * width for size in sizes], is_edge)
        if max(sizes) >= width:
            with final_loop(builder, index(0), whole, width) as j:
                self._hand(line, row, column, j, width)
        if any(size % width for size in sizes):
            stop = self._of_tile(sizes, is_edge)
            with final_loop(builder, whole, stop) as j:
                self._hand(line, row, column, j, 1)

    def _of_tile(self, sizes: list[int], is_edge: ir.Value) -> ir.Value:
        """Return the last of `sizes` for a tile at the edge, else the first."""
        if len(sizes) == 1:
            return index(sizes[0])
        return self._builder.select(is_edge, index(sizes[1]), index(sizes[0]))

    def _align(self, width: int) -> int:
        """Return the alignment of a vector in the tile; rows of a "dot" tile have any length."""
        is_aligned = self._plan.tile_columns % width == 0
        return self._plan.compute.itemsize * (width if is_aligned else 1)

    def _hand(
        self,
        line: ir.Value,
        row: ir.Value,
        column: ir.Value,
        offset: ir.Value,
        width: int,
        mask: ir.Value | None = None,
    ) -> None:
        builder, plan = self._builder, self._plan
        place = builder.gep(line, [offset], source_etype=scalar_type(plan.compute))
        kind = vector_type(scalar_type(plan.compute), width)
        if mask is None:
            value = builder.load(place, typ=kind, align=self._align(width))
        else:
            value = masked_load(builder, kind, place, mask)
        if plan.accumulate != plan.compute and plan.accumulate.is_integer:
            value = builder.trunc(value, vector_type(scalar_type(plan.accumulate), width))
        at = builder.add(column, offset)
        m, n = (row, at) if plan.vector_axis == "n" else (at, row)
        self._epilogue(builder, TileElements(m, n, width, value, mask))


def _are_written_out(plan: ContractPlan, sizes: Sequence[int]) -> bool:
    """Return whether rows are a few whole vectors, of tiles beside which a loop takes time."""
    (first, *others), width = sizes, plan.vector_width
    is_whole = first % width == 0 and not others
    is_few = first <= MOST_VECTORS_WRITTEN_OUT * width
    return is_whole and is_few and plan.k <= MOST_TERMS_WRITTEN_OUT
