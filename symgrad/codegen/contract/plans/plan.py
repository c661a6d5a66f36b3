"""GEMM plan: how one contraction will be computed, as data: tile, blocks, packing, vector axis.

A plan depends on shapes, strides, dtypes and the target, never on values: equal plans add up each
result in the same order. What is decided is in `planning`; nothing here emits code.

The generated code knows one form only: a product of a `left` (rows by k) and a `right` (k by
columns) whose result has its columns along vector lanes. With `vector_axis == "n"` that is the
contraction itself; with "m" it is its transpose, where rhs transposed is the left and lhs
transposed the right.
"""

from __future__ import annotations

import math

from symgrad.codegen.contract.digits import CountedAxis, scaled
from symgrad.codegen.contract.methods import Axis, GoesOn, Method, Packing
from symgrad.codegen.contract.operand import NextSteps, Operand, PaddedPixels, PrefetchedSource
from symgrad.codegen.loops.strided import Diagonals, ZeroBorder, run_of, tiles_along, walk
from symgrad.cost_model.products import MOST_STEPS_A_LINE, STEPS_A_ROW
from symgrad.graph.aligned import ALIGNMENT
from symgrad.graph.dtypes import DType
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class ContractPlan:
    """All decisions about one contraction; `str(plan)` is one line.

    The microkernel computes `tile_rows` by `tile_columns` results. Tiles are evenly high: all have
    `tile_rows` rows or one less. `block_tiles` tiles and `block_panels` panels (columns of tiles)
    make a block, for which `block_k` terms are added at once. A band of `band_tiles` tiles is
    finished before the next begins, which bounds the memory for unfinished sums. Of the left
    `packed_terms` of all tiles of a block are packed before the next ones. With `rows_first` the
    tiles of a block follow one another along its rows, else down its columns; of one that
    `keeps_rows` the epilogue goes through row after row, each through all panels. It gets vectors
    of `vector_width` elements. Terms with the zeros of `borders` of the left are left out, as long
    as what is packed of the right is finite; so are those with zeros beside a `diagonal`. Of a tile
    the vectors are computed that have diagonals that are `read`, all if it is None. What is packed
    of windows has the zeros of `padding`, which are in no memory. With `prefetches_next` a tile
    prefetches its rows of the left in the next block of k, in the last one for those of the next
    tile; with `prefetches_panel` it prefetches a part of the next packed panel, with
    `prefetches_block` a part of what both operands have in the next block of k, and others the
    rest; so it is with `next_steps` where rows of both are steps of k, and with `next_source` for
    what the next panel is packed from, where that is packed late and no near cache has it. The next
    product of a loop around may begin behind all rows, columns or steps of k of this one, as
    `goes_on` says: then what that one reads, and its epilogue touches, is prefetched. An epilogue
    meets `met` elements for each one of the result that are in memory and no near cache: the next
    are prefetched. The right of the next product of a loop around begins `next_right` elements
    behind this one, left and result `next_sides`: each is prefetched where this one is packed or
    read, but for 0, or by all tiles of one that `prefetches_product`. A panel of the right that
    `packs_late` is packed when its first tile reads it, not before all. Where nothing is done with
    results a tile is stored where they are, rows `result_row` apart, past the caches with
    `is_streamed`. Panels begin anew every `part_columns` columns, or tiles every `part_rows` rows,
    where threads have as many each. Registers hold `lanes` elements of `compute`. It is estimated
    to take `cycles`, the least of all ways.
    """

    m: int
    n: int
    k: int
    dtype: DType
    accumulate: DType
    lhs: Operand
    rhs: Operand
    vector_axis: Axis
    vector_width: int
    compute: DType
    lanes: int
    method: Method
    tile_rows: int
    tile_columns: int
    band_tiles: int
    block_tiles: int
    block_panels: int
    block_k: int
    pack_left: Packing
    pack_right: Packing
    packed_terms: int
    rows_first: bool
    cycles: float = 0.0
    prefetches_next: bool = False
    prefetches_panel: bool = False
    prefetches_block: bool = False
    next_steps: NextSteps | None = None
    next_source: PrefetchedSource | None = None
    goes_on: GoesOn | None = None
    met: int = 0
    next_right: int = 0
    next_sides: tuple[int, int] = (0, 0)
    prefetches_product: bool = False
    result_row: int = 0
    is_streamed: bool = False
    keeps_rows: bool = False
    packs_late: bool = False
    part_columns: int = 0
    part_rows: int = 0
    borders: tuple[ZeroBorder, ...] = ()
    diagonal: ZeroBorder | None = None
    read: Diagonals | None = None
    padding: PaddedPixels | None = None

    @property
    def has_panel(self) -> bool:
        """Whether the right is one panel as it lies, as what is packed before a loop around is."""
        across, down = self.right.column_stride, self.right.row_stride
        is_plain = self.pack_right == "none" and not (
            self.right.row_digits or self.right.column_digits
        )
        return is_plain and across == 1 and down == self.columns == self.tile_columns

    @property
    def rows(self) -> int:
        return self.m if self.vector_axis == "n" else self.n

    @property
    def columns(self) -> int:
        return self.n if self.vector_axis == "n" else self.m

    @property
    def left(self) -> Operand:
        return self.lhs if self.vector_axis == "n" else self.rhs.transposed

    @property
    def right(self) -> Operand:
        return self.rhs if self.vector_axis == "n" else self.lhs.transposed

    @property
    def pixels(self) -> Operand:
        """Where the elements of packed windows would lie if their padding were in memory."""
        return self.left if self.padding is None else self.padding.operand

    @property
    def row_run(self) -> int:
        """Rows that are evenly apart: all, those of a step of the second digit, or of a thread."""
        return self.part_rows or run_of(self.left.row_digits, self.rows)

    @property
    def column_run(self) -> int:
        """Columns that are evenly apart, as `row_run` says it of rows, or those of a thread."""
        return self.part_columns or run_of(self.right.column_digits, self.columns)

    @property
    def k_run(self) -> int:
        """Terms of the sums that are evenly apart in both operands."""
        return run_of(self.left.column_digits, self.k)

    @property
    def tiles_of_run(self) -> int:
        return -(-self.row_run // self.tile_rows)

    @property
    def row_tiles(self) -> int:
        if self.part_rows:
            return self.rows // self.part_rows * self.tiles_of_run
        return tiles_along(self.left.row_digits, self.rows, self.tile_rows)

    @property
    def tall_tiles(self) -> int:
        """Tiles of `tile_rows` rows, the first ones of a run; the others have one row less."""
        return self.row_run - self.tiles_of_run * (self.tile_rows - 1)

    @property
    def panels_of_run(self) -> int:
        return -(-self.column_run // self.tile_columns)

    @property
    def panels(self) -> int:
        if self.part_columns:
            return self.columns // self.part_columns * self.panels_of_run
        return tiles_along(self.right.column_digits, self.columns, self.tile_columns)

    @property
    def tiles_of_part(self) -> int:
        """Tiles of a panel that a thread may have: all of them, or those of its rows."""
        return self.tiles_of_run if self.part_rows else self.row_tiles

    @property
    def panels_of_part(self) -> int:
        """Panels that a thread may have: all of them, or those of its columns."""
        return self.panels_of_run if self.part_columns else self.panels

    def tiles_across(self, axis: Axis) -> int:
        """Return how many tiles the result has along `axis`; those along vectors are panels."""
        return self.panels if axis == self.vector_axis else self.row_tiles

    @property
    def edge_columns(self) -> int:
        """Columns of the last panel of a run if it is not full, else 0."""
        return self.column_run % self.tile_columns

    def columns_of(self, panels: int) -> int:
        """Return how many columns the first `panels` have."""
        runs, rest = divmod(panels, self.panels_of_run)
        return runs * self.column_run + min(rest * self.tile_columns, self.column_run)

    @property
    def has_pieces(self) -> bool:
        """Whether the terms of the sums are counted in digits."""
        return bool(self.left.column_digits)

    @property
    def walks_pieces(self) -> bool:
        """Whether a microkernel finds where terms go on: packed, they lie evenly."""
        return self.has_pieces and not {"none", "windows"}.isdisjoint(
            (self.pack_left, self.pack_right)
        )

    @property
    def walked_terms(self) -> CountedAxis:
        """How a microkernel that `walks_pieces` finds the terms of the left.

        Those of a packed right lie evenly, so only the left and borders tell where pieces end.
        """
        along = CountedAxis(self.left.column_stride, self.left.column_digits, self.k)
        if self.pack_left == "windows":
            _, along = self.packed_windows
        if self.pack_right == "none":
            return along
        kept = {border.term_place for border in self.borders}
        kept |= {b.term_count for b in self.borders if b.is_along(self.k_run)}
        return along.joined(frozenset(kept))

    @property
    def walked_piece(self) -> int:
        """Terms that are evenly apart for a microkernel, in which it adds up a block of k."""
        return math.gcd(self.walked_terms.run, self.block_k)

    @property
    def runs(self) -> int:
        """Runs of rows; of packed windows each is one place in a window, for all channels."""
        return self.row_tiles // self.tiles_of_run

    @property
    def packed_elements(self) -> tuple[int, int]:
        """Elements of the left and of the right that are packed, if they are."""
        left = self.rows * self.k
        if self.pack_left == "windows":
            left = self.window_pixels * self.row_run * self.k_blocks
        return left, self.k * self.columns

    @property
    def packed_windows(self) -> tuple[CountedAxis, CountedAxis]:
        """How the runs of rows, and the terms of the sums, lie in a panel of packed windows.

        Such a panel has the pixels of a block of k as they are in memory, `tile_rows` channels of
        each: so all is as far apart as there, in pixels.
        """
        scale = self.packed_rows, self.row_run
        pixels = self.pixels
        rows, columns = pixels.row_digits, pixels.column_digits
        (_, first), *further = rows or ((self.row_run, self.row_run),)
        above = tuple((place // self.row_run, scaled(by, scale)) for place, by in further)
        along = tuple((place, scaled(by, scale)) for place, by in columns)
        return (
            CountedAxis(scaled(first, scale), above, self.runs),
            CountedAxis(scaled(pixels.column_stride, scale), along, self.k),
        )

    @property
    def window_pixels(self) -> int:
        """Pixels from the first to the last one that a block of k reads."""
        left = self.pixels
        across = walk(left.row_stride, left.row_digits, self.rows)[1:]
        along = walk(left.column_stride, left.column_digits, self.k)
        reach = sum((size - 1) * by for _, size, by in across)
        reach += sum(
            (min(size, self.block_k // place) - 1) * by
            for place, size, by in along
            if place < self.block_k
        )
        return reach // self.row_run + 1

    @property
    def pixel_stride(self) -> int:
        """Elements from a pixel of windows that are packed to the next one in memory."""
        return self.row_run if self.padding is None else self.padding.line.stride

    @property
    def lacks_padding(self) -> bool:
        """Whether the left has no elements at its borders."""
        return any(border.absent for border in self.borders)

    @property
    def has_pixels_in_place(self) -> bool:
        """Whether steps of k are pixels that all places in a window read where they lie."""
        return self.lacks_padding and self.left.row_stride == 1

    @property
    def sees_zeros(self) -> bool:
        """Whether packing has to find out that 0 times an element of the right is 0."""
        return bool(self.borders) and self.compute.is_float

    @property
    def kept_panels(self) -> int:
        """Packed panels of the right in memory: one, or that and the next, if each is read once."""
        is_read_once = self.packs_late and self.block_tiles >= self.band_tiles
        kept = 2 if self.next_source is not None and self.next_source.lines.packs else 1
        return kept if is_read_once and not self.rows_first else self.block_panels

    @property
    def k_piece(self) -> int:
        """Terms of the sums that are evenly apart; blocks of k are made of these."""
        return math.gcd(self.k_run, self.block_k)

    def whole_vectors(self, columns: int) -> int:
        return -(-columns // self.lanes) * self.lanes

    @property
    def k_blocks(self) -> int:
        return max(1, -(-self.k // self.block_k))

    @property
    def tile_elements(self) -> int:
        """Elements of a tile that is stored for an epilogue; its rows are `tile_columns` apart.

        A matrix unit stores whole squares.
        """
        rows = self.packed_rows if self.method == "matrix" else self.tile_rows
        return rows * self.tile_columns

    @property
    def tile_row(self) -> int:
        """Elements from a row of a stored tile to the next one."""
        if self.keeps_rows:
            return self.block_panels * self.tile_columns
        return self.result_row or self.tile_columns

    @property
    def multiplies_pairs(self) -> bool:
        """Whether pairs of terms are what is packed and multiplied."""
        return self.method in ("pairs", "matrix")

    @property
    def has_dense_rows(self) -> bool:
        """Whether rows of the left follow one another, each with all terms of its sums."""
        is_whole = self.k_blocks == 1 and not (self.left.row_digits or self.left.column_digits)
        return is_whole and (self.left.row_stride, self.left.column_stride) == (self.k, 1)

    @property
    def prefetches_results(self) -> bool:
        """Whether a tile prefetches where it is stored, as its sums are short beside its lines."""
        lines = self.tile_rows * -(-self.tile_columns * self.compute.itemsize // ALIGNMENT)
        steps = self.walked_piece if self.walks_pieces else self.k
        is_short = self.tile_rows <= steps and self.k <= MOST_STEPS_A_LINE * lines
        return is_short and self.result_row > 0 and self.met > 0

    @property
    def steps_a_row(self) -> int:
        """Steps of k in which a microkernel prefetches a row of its tile, or of what is met next.

        It is a power of two. 0 says that all of them are prefetched at once: where the steps of a
        block are too few for the rows, or are not counted from its start.
        """
        steps, rows = min(self.k, self.block_k), self.met * self.tile_rows
        if self.walks_pieces:
            steps = self.walked_piece if self.prefetches_results else 0
        if self.method != "tile" or not 0 < rows <= steps:
            return 0
        return min(STEPS_A_ROW, 1 << ((steps // rows).bit_length() - 1))

    @property
    def packed_steps(self) -> int:
        """Elements along k of a packed panel, each of which is a pair if these are multiplied."""
        return self.block_k // 2 if self.multiplies_pairs else self.block_k

    @property
    def packed_rows(self) -> int:
        """Elements across a packed panel of the left.

        If one vector holds them its spare lanes are overwritten by the next step of k, so that the
        panel is dense; else they are padded to whole vectors.
        """
        is_dense = self.tile_rows <= self.lanes and not self.multiplies_pairs
        if self.pack_left == "lines" or is_dense:
            return self.tile_rows
        return -(-self.tile_rows // self.lanes) * self.lanes

    @property
    def packed_tile_elements(self) -> int:
        """Elements from one packed panel of the left to the next.

        Where several are packed at a time, spare lanes behind one must not be on the next.
        """
        if self.pack_left == "windows":
            return self.window_pixels * self.packed_rows + self.lanes
        panel = self.packed_steps * self.packed_rows
        return panel if self.packed_terms >= self.block_k else panel + self.lanes

    def __str__(self) -> str:
        across = min(self.block_panels * self.tile_columns, self.columns)
        high = min(self.block_tiles * self.tile_rows, self.rows)
        m, n = (high, across) if self.vector_axis == "n" else (across, high)
        names = ("lhs", "rhs") if self.vector_axis == "n" else ("rhs", "lhs")
        ways = zip(names, (self.pack_left, self.pack_right), strict=True)
        packed = ", ".join(f"{name}: {how}" for name, how in ways if how != "none")
        return (
            f"{self.method}({self.tile_rows}x{self.tile_columns}) along {self.vector_axis}"
            f" block(m={m}, n={n}, k={min(self.block_k, self.k)}) pack({packed})"
        )
