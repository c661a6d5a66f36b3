"""Cost model of GEMM plans, in cycles of a machine like any of the last decade.

The estimates only rank the ways against each other, so they model what differs between them: two
multiply-adds and two loads a cycle, the price of packing by kind, of a tile and of the epilogue.
Caches are not modelled; the plan sizes its blocks to them.
"""

from __future__ import annotations

# Accumulators that must be in flight to keep two multiply-add units of latency 4 busy; a kernel
# with fewer keeps several partial sums of each result.
IN_FLIGHT = 8
# Packing an element: a copy moves vectors, a transpose shuffles them, the others go one by one.
_PACKING = {"none": 0.0, "copy": 0.15, "transpose": 0.5, "gather": 1.5, "lines": 1.5}
# A row of a tile begins on another line of the result.
_ROW = 2.0
# Setting up a tile, and bringing one vector of it to the epilogue and through it.
_TILE = 12.0
_VECTOR = 2.0
# An element of a vector whose lanes are stored apart.
_SCATTERED = 4.0
# The sum over the lanes of one accumulator.
_HORIZONTAL = 7.0


def step_cycles(rows: float, vectors: int) -> float:
    """Return the cycles of one step of k for `rows` by `vectors` accumulators.

    Each row loads an element of the left, each vector one of the right. The last term prefers tiles
    that load less, vectors twice as much, for they may come from the second-level cache.
    """
    return max(rows * vectors, rows + vectors) / 2 + (rows + 2 * vectors) / 10


def tiling_cycles(rows: int, vectors: int, highest: int, tile_vectors: int, k: int) -> float:
    """Return the cycles of the microkernels over `rows` by `vectors`, in tiles of one shape."""
    tiles = -(-rows // highest)
    high = rows / tiles
    across, edge = divmod(vectors, tile_vectors)
    around = _TILE + _ROW * high
    cycles = tiles * across * (around + k * step_cycles(high, tile_vectors))
    if edge:
        cycles += tiles * (around + k * step_cycles(high, edge))
    return cycles


def dotting_cycles(
    rows: int, columns: int, tile_rows: int, tile_columns: int, k_vectors: int
) -> float:
    """Return the cycles of the microkernels whose lanes run along k."""
    tiles = -(-rows // tile_rows) * -(-columns // tile_columns)
    step = step_cycles(tile_rows, tile_columns)
    return tiles * (_TILE + k_vectors * step) + rows * columns * _HORIZONTAL


def packing_cycles(how: str, elements: int) -> float:
    """Return the cycles of packing `elements` of an operand."""
    return _PACKING[how] * elements


def epilogue_cycles(rows: int, columns: int, width: int, stride: int) -> float:
    """Return the cycles of handing on rows of results in vectors whose lanes are `stride` apart."""
    calls = rows * (columns // width + columns % width)
    scattered = rows * columns * _SCATTERED if abs(stride) != 1 else 0.0
    return calls * _VECTOR + scattered
