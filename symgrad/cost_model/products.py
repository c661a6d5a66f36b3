"""The cost model of products: ways to compute a contraction, in cycles of a core.

What differs between tilings, ways of packing and kinds of microkernels; sizes of registers and
caches are in `codegen/target.py`. The prices of all else are in `cost_model/__init__.py`.
"""

from __future__ import annotations

# The estimates only rank the ways to compute a contraction against each other, so they model what
# differs between them: two multiply-adds and two loads a cycle, the price of packing by kind, of a
# tile and of the epilogue. Caches are not modelled; the plan sizes its blocks to them.

# Columns side by side in memory from which on they are those of a product, though others are more.
WIDE_COLUMNS = 32
# Results that no near cache holds, from which on fewer columns are one axis with those beside them:
# with a product for each of these, lines of the result are written several times.
LEAST_RESULTS_COUNTED = 1 << 19
# Columns for each that is left of a row behind whole vectors, up to which all have masks: finding
# those of whole ones takes a nanosecond a vector, a math function of an element four.
MASKED_COLUMNS = 64
# Of an epilogue that is written out for each vector of a row of a tile: a loop over vectors takes
# three cycles for each, and a tile of so many terms a hundred times as long.
MOST_STATEMENTS_WRITTEN_OUT, MOST_VECTORS_WRITTEN_OUT, MOST_TERMS_WRITTEN_OUT = 8, 4, 512
DENSE_COLUMNS = 8  # of a product, side by side in its result: stores are vectors then
# Reads of an element, each from another panel or tile, from which on packing it may pay: of one of
# the left, and of a vector of the right, whose steps of k the processor does not fetch ahead.
MANY_READS = 16
SEVERAL_READS = 8
# Columns and terms from which on a left whose rows or terms share few sets of the first cache is
# packed, where the second one is late: for tiles of which a step of k is a line of it, at the most.
LEAST_COLUMNS_PACKED, LEAST_TERMS_PACKED = 1024, 512
FEW_READS = 4  # below it never pays; from here on where steps of k crowd a few sets of the cache
# Terms that are packed of all tiles of the left at a time, where each term is on another page.
PACKED_TERMS = 16
# Channels and filters from which on windows are packed for a gradient to a kernel, pixels that are
# packed of all channels at a time, and how many there may be for each term, as strides leave out.
LEAST_CHANNELS_PACKED = 64
PACKED_PIXELS = 64
CROWDED_SETS = 4  # lines of a block for each that a near cache keeps of those so far apart
MOST_PIXELS_A_TERM = 8
LEAST_CHANNELS_IN_PLACE = 32  # and those from which on it needs no padding in memory
MOST_STRIDES = 4  # of all axes, where the padding of such pixels is in no memory
# Terms of such a sum that are added up at once, if these are all; else a block has.
SUM_AT_ONCE = 2048
WINDOW_TERMS = 800
LEAST_TERMS = 64
LONG_SUM = 8  # blocks of k from which on a sum is long
LONG_SUM_ACROSS = 2  # and where rows of the left lie side by side: panels are in the first cache
SHARE_OF_LINES = 0.25  # of the first cache, for lines of a left that one tile leaves to the next
PANEL_SHARE = 0.75  # of the first cache, for the panel beside which lines come from the second
# Terms of a sum between which it pays to bring a tile to memory and back, at the least.
SHORT_BLOCK = 192
# Steps of k that an iteration of a microkernel takes, if its loop has at least so many and at most
# so many, and the product takes so many cycles: the exit of a short loop is mispredicted, that of a
# long one costs little, and more code takes time to compile.
UNROLLED_STEPS = 4
LEAST_UNROLLED = 8
LEAST_FILLED = 24  # with AVX2, without a register that is free: four iterations of four are slower
SHORT_LOOP = 1024
COUNTED_LOOP = 48  # of any product, where a processor issues few instructions: longer ones vary
UNROLLED_CYCLES = 2**20
TOLD_ROWS = range(2, 10)  # of a tile, whose distance a microkernel is told: three have a register
SHORT_PIECE = 8  # steps of k of a piece that are written out, at the most
# Of so many a microkernel finds where the next piece begins before it adds one up.
EARLY_PIECES = range(64, 128)
SPARE_REGISTERS = 8  # beside those of the sums, for what LLVM loads ahead then
CODE_BYTES = 8  # of an instruction of a microkernel
NEAR_STEPS = 4  # of k before it is read, in which a line comes from the second-level cache
STEPS_A_LINE = 4  # of k, in which a microkernel prefetches a line of the next packed panel
# Of k at most, in which a tile packs a row of the next panel, and how many rows ahead it
# prefetches.
MOST_STEPS_A_PACKED_ROW, ROWS_PREFETCHED = 16, 4
CACHES_STREAMED = 4  # times the shared cache: larger results are stored past it
LEAST_STEPS_A_ROW = 4  # of k for a row: in fewer, lines come no sooner than those of a whole row
STEPS_A_ROW = 16  # and at most for a row of what the next epilogue meets, if that is not much
# A tile prefetches where it is stored, by a branch in its loop, if it has so few for each line
# there.
MOST_STEPS_A_LINE, MOST_STEPS_A_RIGHT_LINE = 24, 2
# Of a tile, from which on what is between two of them is not worth the time LLVM takes for it.
LEAST_CYCLES_WALKED = 1024
FEW_PANELS = 4  # that read a block of the left: for the first of more it is brought near
# Of ways that cost hardly more than the cheapest one, panels of one width are taken, if so many.
NEARLY_CHEAPEST = 1.05
MANY_PANELS = 8
SPARE_OF_BLOCK = 0.25  # of its cache that a block may have more, rather than leave a small one
# Lanes along k read the longer operand once for each tile of the shorter, so one must be short.
SHORT_OPERAND = 8
SHARE_OF_KEPT_ROWS = 0.25  # of the second-level cache, for sums until an epilogue has whole rows
FEW_STREAMS = 2  # a result, or what it replaces and a bias: fewer than an optimizer has
# What a loop reads in each iteration is packed before it, in panels of so many bytes unless tiles
# are narrow: where rows of a weight are several such, a sum has so many bytes of terms, so many
# rows of results are read for, and the loop runs so often.
PANEL_BYTES = 256
PACKED_STEP_BYTES = 512
PACKED_TERM_BYTES = 256
PACKED_ROWS = 4
LEAST_PACKED_TRIPS = 4
# Packing an element: a copy moves vectors, a transpose shuffles them, the others go one by one.
_PACKING = {
    "none": 0.0, "copy": 0.15, "transpose": 0.5, "gather": 1.5, "lines": 1.5, "pairs": 0.2,
    "windows": 0.75, "split": 0.05, "held": 0.1,
}  # fmt: skip
_LOOKING = 1.0  # copying an element to see whether it is finite: others wait for it
# A product is told of zeros beside a diagonal of an operand that leave out so much of its terms; a
# right is looked through for inf and nan if a row of it has so few vectors, each in so many cycles;
# and a mask of so few elements is computed to see where it holds.
LEAST_OF_TRIANGLE, MOST_LOOKED_THROUGH, LARGEST_MASK, _LOOKED_THROUGH = 1 / 32, 32, 1 << 21, 1.0
# A product has microkernels of fewer vectors where so many of all vectors are read by nothing; a
# tile chooses among them in so many cycles.
LEAST_UNREAD, _CHOOSING = 1 / 32, 8.0
# An element of an operand that comes from no near cache.
_READING = 0.25
# A line that comes late from the second-level cache, of a panel or a packed left.
_LATE_LINE = 0.4
# A step of k of the left whose elements lie on another page than those of the step before; a line
# that the nearest cache does not keep, and one that it may.
_WAITING = {"page": 6.0, "line": 1.0, "near line": 0.5}
_RESUMED = 1.0  # a vector of sums that is stored, and loaded again by the next block of k
_ROW = 2.0  # of a tile: it begins on another line of the result
_PIECE = 6.0  # finding the next terms of a sum that are counted in digits, in both operands
# Rows of one pixel, in so many images, are worth tiles of their own where so much more of a
# convolution is products with padding that such tiles leave out.
LEAST_ROWS_BESIDE, LEAST_LEFT_OUT = 6, 0.015
# Then padding is in no memory, where pixels of the operand and of the result have so many channels,
# which a product reads where they lie since they need no wider dtype.
LEAST_CHANNELS_BESIDE, LEAST_BITS_IN_PLACE = 16, 32
# Setting up a tile, and bringing one vector of it to the epilogue and through it.
_TILE = 12.0
_VECTOR = 2.0
_SCATTERED = 4.0  # an element of a vector whose lanes are stored apart
# Split sums: products of fewer vectors of columns and so many terms; adding up lanes of a vector.
MOST_SPLIT_VECTORS, SPLIT_TERMS, _JOINED = 3, range(16, 1025), 0.25
# A held right: rows of a tile, columns, registers beside it and the sums, products written out.
MOST_HELD_ROWS, LEAST_HELD_COLUMNS, SPARE_OF_HELD, HELD_WRITTEN_OUT = 64, 3, 2, 300
# Rows and terms of one that is transposed in parts, anew for each group of rows.
MOST_TURNED_ROWS, MOST_TURNED_TERMS = 32, 64
# A matrix unit: before its first product and behind its last, the products of two squares, and
# storing one of sums.
_CONFIGURING = 170.0
_SQUARE = 16.0
_SQUARE_STORED = 32.0
_HORIZONTAL = 7.0  # the sum over the lanes of one accumulator


def step_cycles(rows: float, vectors: int, of_line: float = 0.0) -> float:
    """Return the cycles of one step of k for `rows` by `vectors` accumulators.

    Each row loads an element of the left, each vector one of the right. The last term prefers tiles
    that load less, vectors twice as much, for they may come from the second-level cache. Where that
    is late, and a packed left has `of_line` of a line for each row, lines are counted.
    """
    multiplied = max(rows * vectors, rows + vectors) / 2
    if of_line:
        return multiplied + _LATE_LINE * (vectors + rows * of_line)
    return multiplied + (rows + 2 * vectors) / 10


def tiling_cycles(
    rows: int,
    vectors: int,
    highest: int,
    tile_vectors: int,
    k: int,
    pieces: int = 0,
    *,
    of_line: float = 0.0,
) -> float:
    """Return the cycles of the microkernels over `rows` by `vectors`, in tiles of one shape.

    The sums over `k` may be in `pieces`, each of which begins somewhere else. Rows of a packed left
    that comes late are `of_line` in each step.
    """
    tiles = -(-rows // highest)
    high = rows / tiles
    across, edge = divmod(vectors, tile_vectors)
    around = _TILE + _ROW * high + _PIECE * pieces
    cycles = tiles * across * (around + k * step_cycles(high, tile_vectors, of_line))
    if edge:
        cycles += tiles * (around + k * step_cycles(high, edge, of_line))
    return cycles


def dotting_cycles(
    rows: int, columns: int, tile_rows: int, tile_columns: int, k_vectors: int
) -> float:
    """Return the cycles of the microkernels whose lanes run along k."""
    tiles = -(-rows // tile_rows) * -(-columns // tile_columns)
    step = step_cycles(tile_rows, tile_columns)
    return tiles * (_TILE + k_vectors * step) + rows * columns * _HORIZONTAL


def joining_cycles(vectors: int) -> float:
    """Return the cycles of adding up the lanes of split sums beside each other, in `vectors`."""
    return _JOINED * vectors


def matrix_cycles(squares: int, chunks: int, blocks: int) -> float:
    """Return the cycles of a matrix unit for sums in `squares`, of so many chunks of terms."""
    return _CONFIGURING + squares * (chunks * _SQUARE + blocks * _SQUARE_STORED)


def packing_cycles(how: str, elements: int) -> float:
    """Return the cycles of packing `elements` of an operand."""
    return _PACKING[how] * elements


def reading_cycles(elements: int) -> float:
    """Return the cycles of bringing `elements` of an operand near once."""
    return _READING * elements


def looking_cycles(elements: int) -> float:
    """Return the cycles of packing `elements`, in vectors, to see whether they are finite."""
    return _LOOKING * elements


def looking_through_cycles(vectors: int) -> float:
    """Return the cycles of looking through `vectors` where they are for what is not finite."""
    return _LOOKED_THROUGH * vectors


def choosing_cycles(tiles: int) -> float:
    """Return the cycles in which `tiles` choose microkernels of as many vectors as are read."""
    return _CHOOSING * tiles


def waiting_cycles(what: str, steps: float) -> float:
    """Return the cycles of waiting for the left, in `steps` that each meet what is waited for."""
    return _WAITING[what] * steps


def resuming_cycles(vectors: int) -> float:
    """Return the cycles of bringing `vectors` of unfinished sums to memory and back."""
    return _RESUMED * vectors


def epilogue_cycles(rows: int, columns: int, width: int, stride: int) -> float:
    """Return the cycles of handing on rows of results in vectors whose lanes are `stride` apart."""
    calls = rows * (columns // width + columns % width)
    scattered = rows * columns * _SCATTERED if abs(stride) != 1 else 0.0
    return calls * _VECTOR + scattered
