"""How one contraction will be computed, decided as data: tile, blocks, packing, vector axis.

A plan depends on shapes, strides, dtypes and the target, never on values: equal plans add up each
result in the same order. Nothing here emits code.

The generated code knows one form only: a product of a `left` (rows by k) and a `right` (k by
columns) whose columns lie along vector lanes. With `vector_axis == "n"` that is the contraction
itself; with "m" it is its transpose, where rhs transposed is the left and lhs transposed the right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from symgrad.codegen.llvm.target import Target
from symgrad.graph import dtypes
from symgrad.graph.dtypes import DType

Axis = Literal["n", "m"]
# How a panel of an operand is brought to the order the microkernel reads it in: not at all, by
# copying vectors that lie along the panel, by transposing blocks that lie along k, or by element.
Packing = Literal["none", "copy", "transpose", "gather"]

# Caches every core of the last decade has at least.
_L2_BYTES = 512 * 1024
_PAGE_BYTES = 4096
_LINE_BYTES = 64
# Accumulators that must be in flight to keep two multiply-add units of latency 4 busy.
_IN_FLIGHT = 8


@dataclass(frozen=True, slots=True)
class Operand:
    """Where the elements of an operand lie: strides in elements, any integer, 0 included.

    Rows run along m and columns along k for the lhs; along k and n for the rhs. The base pointer
    is known to be aligned to `align` bytes.
    """

    row_stride: int
    column_stride: int
    align: int

    @property
    def transposed(self) -> Operand:
        return Operand(self.column_stride, self.row_stride, self.align)


@dataclass(frozen=True, slots=True)
class ContractPlan:
    """All decisions about one contraction; `str(plan)` is one line.

    The microkernel computes `tile_rows` rows of `tile_vectors` vectors of `lanes` elements. Tiles
    are evenly high: all have `tile_rows` rows or one less. `block_tiles` tiles and `block_panels`
    panels (columns of tiles) make a block, for which `block_k` terms of the sums are added at once.
    The epilogue gets vectors of `vector_width` elements. `compute` is the dtype of the registers.
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
    tile_rows: int
    tile_vectors: int
    block_tiles: int
    block_panels: int
    block_k: int
    pack_left: Packing
    pack_right: Packing

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
    def row_tiles(self) -> int:
        return -(-self.rows // self.tile_rows)

    @property
    def tall_tiles(self) -> int:
        """Tiles of `tile_rows` rows, the first ones; the others have one row less."""
        return self.rows - self.row_tiles * (self.tile_rows - 1)

    @property
    def panel_columns(self) -> int:
        return self.tile_vectors * self.lanes

    @property
    def panels(self) -> int:
        return -(-self.columns // self.panel_columns)

    @property
    def edge_columns(self) -> int:
        """Columns of the last panel if it is not full, else 0."""
        return self.columns % self.panel_columns

    @property
    def k_blocks(self) -> int:
        return max(1, -(-self.k // self.block_k))

    @property
    def tile_elements(self) -> int:
        """Elements of a stored tile; its rows are `panel_columns` apart."""
        return self.tile_rows * self.panel_columns

    @property
    def packed_rows(self) -> int:
        """Rows of a packed panel of the left: whole vectors of them."""
        return -(-self.tile_rows // self.lanes) * self.lanes

    @property
    def packed_left_bytes(self) -> int:
        if self.pack_left == "none":
            return 0
        return self.block_tiles * self.block_k * self.packed_rows * self.compute.itemsize

    @property
    def packed_right_bytes(self) -> int:
        if self.pack_right == "none":
            return 0
        return self.block_panels * self.block_k * self.panel_columns * self.compute.itemsize

    @property
    def partial_bytes(self) -> int:
        """Bytes for the tiles between two blocks of k."""
        if self.k_blocks == 1:
            return 0
        tiles = self.row_tiles * self.block_panels
        return tiles * self.tile_elements * self.compute.itemsize

    @property
    def scratch_bytes(self) -> int:
        """Scratch memory the kernel needs, to be aligned to 64 bytes."""
        parts = (self.packed_left_bytes, self.packed_right_bytes, self.partial_bytes)
        return sum(_whole_lines(part) for part in parts)

    @property
    def partial_offset(self) -> int:
        return _whole_lines(self.packed_left_bytes) + _whole_lines(self.packed_right_bytes)

    @property
    def packed_right_offset(self) -> int:
        return _whole_lines(self.packed_left_bytes)

    def __str__(self) -> str:
        across = min(self.block_panels * self.panel_columns, self.columns)
        high = min(self.block_tiles * self.tile_rows, self.rows)
        m, n = (high, across) if self.vector_axis == "n" else (across, high)
        first, second = ("lhs", "rhs") if self.vector_axis == "n" else ("rhs", "lhs")
        packed = [
            f"{name}: {how}"
            for name, how in ((first, self.pack_left), (second, self.pack_right))
            if how != "none"
        ]
        return (
            f"tile({self.tile_rows}x{self.panel_columns}) along {self.vector_axis}"
            f" block(m={m}, n={n}, k={min(self.block_k, self.k)}) pack({', '.join(packed)})"
        )


def plan_contract(
    m: int,
    n: int,
    k: int,
    dtype: DType,
    lhs: Operand,
    rhs: Operand,
    result: Operand,
    target: Target,
) -> ContractPlan:
    """Decide how to compute the `m` by `n` sums of `k` products of `lhs` and `rhs`.

    `result` has the strides the epilogue will mostly store with.
    """
    assert min(m, n, k) >= 0, f"sizes of a contraction are not negative: {m}, {n}, {k}"
    assert dtype.is_float or dtype.is_integer, f"no contraction of {dtype}"
    lhs, rhs = _canonical(lhs, m, k), _canonical(rhs, k, n)
    axis = _choose_axis(m, n, lhs, rhs, _canonical(result, m, n))
    rows, columns = (m, n) if axis == "n" else (n, m)
    left, right = (lhs, rhs) if axis == "n" else (rhs.transposed, lhs.transposed)
    compute = _computing_dtype(dtype)
    lanes = target.lanes(compute.itemsize)
    tile_rows, tile_vectors = _choose_tile(rows, columns, lanes, target)
    row_tiles = max(1, -(-rows // tile_rows))
    panels = max(1, -(-columns // (tile_vectors * lanes)))
    return ContractPlan(
        m=m,
        n=n,
        k=k,
        dtype=dtype,
        accumulate=dtypes.float32 if dtype.is_half else dtype,
        lhs=lhs,
        rhs=rhs,
        vector_axis=axis,
        vector_width=_choose_width(columns, lanes),
        compute=compute,
        lanes=lanes,
        tile_rows=tile_rows,
        tile_vectors=tile_vectors,
        block_tiles=min(row_tiles, max(1, 168 // tile_rows)),
        block_panels=min(panels, max(1, 1024 // (tile_vectors * lanes))),
        block_k=_choose_block_k(k, lanes),
        pack_left=_choose_left_packing(left, panels, dtype),
        pack_right=_choose_right_packing(right, row_tiles, k * columns, dtype),
    )


def _whole_lines(size: int) -> int:
    return -(-size // _LINE_BYTES) * _LINE_BYTES


def _canonical(operand: Operand, rows: int, columns: int) -> Operand:
    """Give an axis of one element the stride 1: any is right and 1 is easiest to serve."""
    row = operand.row_stride if rows > 1 else 1
    column = operand.column_stride if columns > 1 else 1
    return Operand(row, column, operand.align)


def _choose_axis(m: int, n: int, lhs: Operand, rhs: Operand, result: Operand) -> Axis:
    along_n, along_m = result.column_stride == 1, result.row_stride == 1
    if along_n != along_m:
        return "n" if along_n else "m"
    if (n == 1) != (m == 1):
        return "m" if n == 1 else "n"
    return "m" if lhs.row_stride == 1 and rhs.column_stride != 1 else "n"


def _computing_dtype(dtype: DType) -> DType:
    if dtype.is_half:
        return dtypes.float32
    if dtype.is_integer and dtype.bits < 32:
        return dtypes.int32
    return dtype


def _choose_width(columns: int, lanes: int) -> int:
    """Return the width that needs the fewest calls of the epilogue, leftover columns included."""
    widths = [1 << i for i in range(lanes.bit_length())]
    return min(reversed(widths), key=lambda width: columns // width + columns % width)


def _choose_tile(rows: int, columns: int, lanes: int, target: Target) -> tuple[int, int]:
    """Return the rows and vectors of the tile that needs the fewest cycles for a step of k."""
    vectors = max(1, -(-columns // lanes))
    # Registers for a row of the right, for one element of the left, and for a product where
    # multiplication and addition are two instructions.
    spare = 1 if target.has_fma else 2
    best, least = (1, 1), float("inf")
    for width in range(1, min(vectors, 8) + 1):
        highest = (target.vector_registers - width - spare) // width
        if highest < 1:
            break
        row_tiles = max(1, -(-rows // highest))
        height = max(1, -(-rows // row_tiles))
        cycles = row_tiles * sum(
            _tile_cycles(height, wide) for wide in (width,) * (vectors // width)
        )
        if vectors % width:
            cycles += row_tiles * _tile_cycles(height, vectors % width)
        if cycles < least:
            best, least = (height, width), cycles
    return best


def _tile_cycles(rows: int, vectors: int) -> float:
    arithmetic = rows * vectors / 2
    loads = (rows + vectors) / 2
    return max(arithmetic, loads, _IN_FLIGHT / 2)


def _choose_block_k(k: int, lanes: int) -> int:
    blocks = max(1, -(-k // 512))
    evenly = -(-k // blocks)
    return max(lanes, -(-evenly // lanes) * lanes)


def _panel_packing(across: int, along: int) -> Packing:
    if across == 1:
        return "copy"
    return "transpose" if along == 1 else "gather"


def _choose_left_packing(left: Operand, panels: int, dtype: DType) -> Packing:
    how = _panel_packing(left.row_stride, left.column_stride)
    if dtype != _computing_dtype(dtype):
        return how
    conflicts = abs(left.row_stride) * dtype.itemsize % _PAGE_BYTES == 0
    if how == "transpose":
        return how if conflicts and panels >= 8 else "none"
    return how if panels >= 4 else "none"


def _choose_right_packing(right: Operand, row_tiles: int, size: int, dtype: DType) -> Packing:
    how = _panel_packing(right.column_stride, right.row_stride)
    if how != "copy":
        return how
    if dtype != _computing_dtype(dtype):
        return how if row_tiles > 1 else "none"
    return how if row_tiles >= 4 and size * dtype.itemsize > _L2_BYTES else "none"
