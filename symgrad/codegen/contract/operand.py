"""Strided operand of a GEMM, as data: where its elements are, and its padding that is in no memory.

Nothing here says how an operand is packed or read.
"""

from __future__ import annotations

from symgrad.codegen.loops.strided import Digit
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class Operand:
    """Where the elements of an operand lie: strides in elements, any integer, 0 included.

    Rows run along m and columns along k for the lhs; along k and n for the rhs. Either may be
    counted in digits, as in `StridedOperand`. The base pointer is known to be aligned to `align`
    bytes.
    """

    row_stride: int
    column_stride: int
    align: int
    row_digits: tuple[Digit, ...] = ()
    column_digits: tuple[Digit, ...] = ()

    @property
    def transposed(self) -> Operand:
        return Operand(
            self.column_stride, self.row_stride, self.align, self.column_digits, self.row_digits
        )


@dataclass(frozen=True, slots=True)
class PrefetchedRows:
    """Rows of an operand `pitch` apart, of which so many `elements` are prefetched at a time."""

    pitch: int
    elements: int


@dataclass(frozen=True, slots=True)
class NextSteps:
    """What a tile prefetches of the next block of k: `steps` of it, each in so many `turns`.

    They are rows of both operands, which follow one another in memory. A turn is a step of k of the
    tile, and of turns there is a power of two.
    """

    steps: int
    turns: int
    left: PrefetchedRows
    right: PrefetchedRows


@dataclass(frozen=True, slots=True)
class PrefetchedLines:
    """A line in so many `steps` of k: of `turns` rows that are `apart` elements apart, in turns.

    Of turns there is a power of two. A tile that `packs` reads the next panel so, a row in so many
    steps, and stores it as it is packed.
    """

    steps: int
    turns: int = 1
    apart: int = 0
    packs: bool = False


@dataclass(frozen=True, slots=True)
class PrefetchedSource:
    """What tiles prefetch of the right that the next panel is packed from: `lines` of a tile.

    They go on `along`. Tile `t` begins `down` elements further than the one before, but every
    `wide`-th tile begins `around` further than the first of those before. Those of matrices that
    the next iteration of a loop around reads are told to the product, and are `of_loop`.
    """

    lines: PrefetchedLines
    along: int
    wide: int
    down: int
    around: int
    tiles: int
    of_loop: bool = False


@dataclass(frozen=True, slots=True)
class LineAxis:
    """An axis of pixels or of lines: how many one step is, how many steps, and their stride.

    Steps from `first` to `stop` are in memory, `stride` elements apart.
    """

    place: int
    count: int
    stride: int
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class PaddedPixels:
    """Pixels of which the padding is in no memory, as they would lie with it: `operand`.

    The lowest axis is a `line`, and lines are counted in those `above`, the lowest first.
    """

    operand: Operand
    line: LineAxis
    above: tuple[LineAxis, ...]
