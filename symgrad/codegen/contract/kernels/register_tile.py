"""Register tile: what a microkernel of a GEMM computes, as data; nothing here emits code."""

from __future__ import annotations

from typing import Literal

from symgrad.codegen import ir
from symgrad.codegen.contract.digits import CountedAxis
from symgrad.codegen.contract.elements import Elements, scalar_type
from symgrad.codegen.contract.operand import NextSteps, PrefetchedLines
from symgrad.codegen.loops.strided import ZeroBorder
from symgrad.cost_model.products import SHORT_PIECE, SPARE_REGISTERS
from symgrad.records import dataclass

# A distance that a microkernel is told: of steps of k or of rows of the left, of rows of the right,
# of rows of the tile, or of lines that it prefetches of what the next panel is packed from.
Told = Literal["left_k", "left_row", "right_k", "tile_row", "source_line"]


@dataclass(frozen=True, slots=True)
class Microkernel:
    """What one microkernel does: `rows` by `columns` sums, in whole vectors of `lanes`.

    The left lies `left_row` and `left_k` elements apart, rows of the right `right_k` apart and its
    columns side by side. Rows of the tile are `tile_row` apart. Of these distances the kernel is
    told those that `told` names, and they are 0 here: operands of any width have one kernel then.
    The tile lies aside, for an epilogue, or is a part of the result, and goes past the caches if it
    `is_streamed` and lies on whole lines. With `resumes` the kernel has a flag that says whether it
    goes on with the sums in the tile. Each sum is the total of `chains` that are added up in turns,
    enough to keep the multiply-add units busy; an iteration of its loop is `unrolled` steps of k,
    at least one of each chain; if it `is_even` it is called with whole iterations, at least one of
    them. Only `piece` steps of k lie evenly where it is given: then the kernel finds the next ones
    by the digits of k. What the processor does not fetch ahead by itself the kernel prefetches,
    `left_ahead` and `right_ahead` steps before it is read; 0 says that nothing is, and one that
    `brings_near` prefetches that of the left into the nearest cache, one that `brings_right_near`
    that of the right, wherever its rows begin in a line. Of a packed right it prefetches into the
    nearest cache what lies `right_near` bytes behind what is read, if these are not 0, and for what
    lies `left_near` behind in a packed left or in rows. With `prefetches_next` the rows of the left
    for the tile or the block of k behind this one are prefetched, a line of each row every so many
    steps, or line after line where rows follow one another (`prefetches_in_order`); with
    `prefetches_panel` lines side by side, as those of the next packed panel or of the next block of
    k, one in so many steps, or as much of rows as `next_steps` or `next_source` says, or
    `right_lines` of them a step, or `next_bytes` of each of what the next product meets, which the
    nearest cache is to have with `brings_next_near`, else the second one; with `steps_a_row` rows
    of `tile_columns` that it is told of, one in so many steps, and in a loop of its own if it
    `prefetches_apart`, or with `prefetches_results` those of its tile. With `inner` borders only
    pieces within the spans it is given are added up. One that `packs` stores each row of the right
    that it reads, in whole vectors one after the other, where others read it, and is told how far
    these are apart.
    """

    rows: int
    columns: int
    lanes: int
    left: Elements
    left_row: int
    left_k: CountedAxis
    right: Elements
    right_k: CountedAxis
    tile_columns: int
    tile_row: int
    is_streamed: bool
    resumes: bool
    is_empty: bool
    chains: int
    unrolled: int
    is_even: bool
    told: tuple[Told, ...] = ()
    piece: int | None = None
    left_ahead: int = 0
    brings_near: bool = False
    right_ahead: int = 0
    brings_right_near: bool = False
    right_near: int = 0
    left_near: int = 0
    prefetches_next: bool = False
    prefetches_in_order: bool = False
    prefetches_panel: bool = False
    next_steps: NextSteps | None = None
    next_source: PrefetchedLines | None = None
    right_lines: int = 0
    next_bytes: tuple[int, ...] = ()
    brings_next_near: bool = True
    steps_a_row: int = 0
    prefetches_apart: bool = False
    prefetches_results: bool = False
    packs: bool = False
    inner: tuple[ZeroBorder, ...] = ()

    @property
    def places_prefetched(self) -> int:
        """Places that the kernel is told of, where what it prefetches begins; Met has its own."""
        if self.next_steps is not None:
            return 2
        if self.packs_next:
            return 3
        is_part = self.prefetches_panel or self.next_source is not None or self.right_lines > 0
        return int(self.prefetches_next or is_part) + len(self.next_bytes)

    @property
    def packs_next(self) -> bool:
        """Whether the kernel packs rows of the next panel.

        It is told where these begin, those that it prefetches meanwhile, where they come to be, and
        before which step of k it does so.
        """
        return self.next_source is not None and self.next_source.packs

    @property
    def is_written_out(self) -> bool:
        """Whether the steps of a piece are no loop: they are few, and registers are left.

        LLVM loads what several steps read before it adds up the first one.
        """
        left = self.left.target.vector_registers - self.rows * self.vectors
        is_short = self.piece is not None and self.piece <= SHORT_PIECE
        is_whole = not (self.joins_pieces or self.cuts_pieces)
        return is_short and is_whole and left >= SPARE_REGISTERS

    @property
    def joins_pieces(self) -> bool:
        """Whether pieces follow one another in both operands as long as an inner border lets them.

        So it is with the pixels of a line that a window takes.
        """
        if self.piece is None or not self.inner or self.cuts_pieces:
            return False
        lines_up = self.left_k.digits[:1] == ((self.piece, self.piece * self.left_k.stride),)
        return lines_up and not self.right_k.digits and self.inner[-1].term_place == self.piece

    @property
    def cuts_pieces(self) -> bool:
        """Whether a border is at the ends of pieces, of which then a part is added up, or nothing.

        So it is with the pixels of a line that a place in a window takes.
        """
        is_inner = self.piece is not None and len(self.inner) > 0
        return is_inner and self.inner[-1].is_along(self.left_k.run)

    @property
    def has_packed_left(self) -> bool:
        """Whether elements of the left follow one another, as they are read."""
        return self.left_row == 1 and "left_k" not in self.told

    @property
    def vectors(self) -> int:
        return -(-self.columns // self.lanes)

    @property
    def vector_type(self) -> ir.Type:
        return ir.VectorType(scalar_type(self.left.compute), self.lanes)
