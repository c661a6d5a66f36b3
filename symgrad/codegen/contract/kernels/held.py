"""Register blocking with an operand held in registers: the microkernel of a small right.

    right, held   b[0, :]  b[1, :]  ...  b[k-1, :]      a vector each, transposed as it is read
    left          a[i, 0]  a[i, 1]  ...  a[i, k-1]      each broadcast by a multiply-add

A vector of the right is read once for all rows, and nothing of it is packed: a right whose columns
lie apart is transposed by shuffles between registers, while others still multiply. Rows of sums
are added up some at a time, in the order of the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat, zip_longest

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import (
    INDEX,
    POINTER,
    Elements,
    final_loop,
    index,
    multiply_add,
    prefetch,
    scalar_type,
)
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.kernels.pack import in_registers, transpose
from symgrad.codegen.contract.kernels.prefetching import code_lines, prefetch_code, shared_out
from symgrad.codegen.vectors import splat
from symgrad.cost_model.products import HELD_WRITTEN_OUT, SPARE_OF_HELD
from symgrad.records import dataclass

# What each product prefetches: places, or nothing.
_Prefetching = Iterator[tuple[ir.Value, ...]]


@dataclass(frozen=True, slots=True)
class HeldKernel:
    """What one microkernel of a held right does: `rows` by `columns` sums of `k` products.

    Rows of the left are `left_row` elements apart and its terms `left_k`; terms of the right are
    `right_k` apart and its columns, at most `lanes`, `right_column`: one of these is 1. Rows of the
    tile are `tile_row` apart, and it lies aside (`is_aside`), with whole vectors of `lanes`, or is
    a part of the result. The lines of the right that are `next_right` elements further are
    prefetched meanwhile, and those of the left and of the tile that are `next_sides` further, but
    for 0.
    """

    rows: int
    columns: int
    k: int
    lanes: int
    elements: Elements
    left_row: int
    left_k: int
    right_k: int
    right_column: int
    tile_row: int
    is_aside: bool
    next_right: int = 0
    next_sides: tuple[int, int] = (0, 0)

    @property
    def vector_type(self) -> ir.Type:
        return ir.VectorType(scalar_type(self.elements.compute), self.lanes)

    @property
    def code_lines(self) -> int:
        """Lines of code that are prefetched in turns, one in each call."""
        is_written_out = self.rows * self.k <= HELD_WRITTEN_OUT
        rows = self.rows if is_written_out else sum(set(self.heights))
        shuffles = self.k * (self.right_column != 1) * (self.lanes.bit_length() - 1)
        prefetched = 3 * self.rows if is_written_out else 0
        instructions = rows * (self.k + 1) + shuffles + self.k + prefetched
        return code_lines(self.elements.target, instructions)

    @property
    def heights(self) -> tuple[int, ...]:
        """Rows that are added up at a time, the tall groups first.

        They are as many sums as keep the units busy, and more where that divides rows evenly and
        registers are left. Few rows are one group where the right is transposed, if registers hold
        just these sums: shuffles then delay multiply-adds, and twice the sums leave these time.
        """
        is_turned = self.right_column != 1
        few = min(
            2 * self.elements.target.adds_in_flight, self.elements.target.vector_registers - self.k
        )
        if is_turned and self.rows <= few:
            return (self.rows,)
        target = self.elements.target
        most = target.vector_registers - self.k - SPARE_OF_HELD
        groups = max(self.rows // target.adds_in_flight, -(-self.rows // most))
        height, tall = divmod(self.rows, groups)
        return (height + 1,) * tall + (height,) * (groups - tall)


def emit_held_kernel(module: ir.Module, kernel: HeldKernel) -> ir.LLVMFunction:
    """Emit the function `(left, right, tile, k, resume)` that adds up all products of a tile.

    It is never called with other terms than all, nor to go on with sums.
    """
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, INDEX, ir.IntType(1)])
    function = kernel_function(module, kind, "contract.held")
    left, right, tile, _, _ = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    held = _emit_right(builder, kernel, right)
    prefetched = _places_prefetched(builder, kernel, (left, right, tile))
    if kernel.next_right and kernel.code_lines:
        walk = right, kernel.next_right
        prefetch_code(builder, function, kernel.elements, walk, kernel.code_lines)
    products = kernel.rows * kernel.k
    is_written_out = products <= HELD_WRITTEN_OUT
    if not is_written_out:
        for place in prefetched:
            prefetch(builder, place, is_write=False)
    prefetching: _Prefetching = (
        iter(shared_out(prefetched, products)) if is_written_out else repeat(())
    )
    for start, stop, height in _groups(kernel.heights, is_apart=is_written_out):
        with final_loop(builder, index(start), index(stop), height) as row:
            places = _group_at(builder, kernel, (left, tile), row)
            _emit_rows(builder, kernel, places, height, held, prefetching)
    builder.ret_void()
    return function


def _groups(heights: Sequence[int], *, is_apart: bool) -> list[tuple[int, int, int]]:
    """Return where groups of rows begin and end and how high they are: each, or all as high."""
    starts = [0, *accumulate(heights)]
    if is_apart:
        return list(zip(starts, starts[1:], heights, strict=False))
    tall = heights.count(heights[0])
    runs = [(0, starts[tall], heights[0]), (starts[tall], starts[-1], heights[-1])]
    return [run for run in runs if run[0] < run[1]]


def _emit_right(builder: ir.IRBuilder, kernel: HeldKernel, right: ir.Value) -> list[ir.Value]:
    """Return the terms of the right, which LLVM would read again for each row."""
    elements, lanes = kernel.elements, kernel.lanes
    if kernel.right_column == 1:
        places = (_further(builder, kernel, right, t * kernel.right_k) for t in range(kernel.k))
        held = [elements.load(builder, place, kernel.columns, lanes) for place in places]
        return in_registers(builder, held, elements.target)
    turned: list[ir.Value] = []
    for first in range(0, kernel.k, lanes):
        terms = min(lanes, kernel.k - first)
        lines: list[ir.Value] = [ir.Constant(kernel.vector_type, None)] * lanes
        for column in range(kernel.columns):
            place = _further(builder, kernel, right, column * kernel.right_column + first)
            lines[column] = elements.load(builder, place, terms, lanes)
        sector = 16 // elements.compute.itemsize
        turned += transpose(builder, lines, sector, elements.target)[:terms]
    return in_registers(builder, turned, elements.target)


def _further(builder: ir.IRBuilder, kernel: HeldKernel, place: ir.Value, offset: int) -> ir.Value:
    return kernel.elements.address(builder, place, index(offset))


def _places_prefetched(
    builder: ir.IRBuilder, kernel: HeldKernel, places: tuple[ir.Value, ir.Value, ir.Value]
) -> list[ir.Value]:
    """Return the lines of the next product that are prefetched, of its operands in turns."""
    left, right, tile = places
    line = kernel.elements.target.memory.line_bytes // kernel.elements.stored.itemsize
    prefetched = [[(right, offset) for offset in _lines_prefetched(kernel)]]
    sizes = kernel.rows * kernel.k, kernel.rows * kernel.columns
    for place, start, size in zip((left, tile), kernel.next_sides, sizes, strict=True):
        starts = range(start, start + size, line) if start else ()
        prefetched.append([(place, offset) for offset in starts])
    turns = (at for turn in zip_longest(*prefetched) for at in turn if at is not None)
    return [_further(builder, kernel, place, offset) for place, offset in turns]


def _lines_prefetched(kernel: HeldKernel) -> list[int]:
    """Return how far from the right the lines of the next one are that are prefetched."""
    if not kernel.next_right:
        return []
    line = kernel.elements.target.memory.line_bytes // kernel.elements.stored.itemsize
    across, apart, along = kernel.columns, kernel.right_column, kernel.k
    if kernel.right_column == 1:
        across, apart, along = kernel.k, kernel.right_k, kernel.columns
    return [
        kernel.next_right + number * apart + start
        for start in range(0, along, line)
        for number in range(across)
    ]


def _group_at(
    builder: ir.IRBuilder, kernel: HeldKernel, places: tuple[ir.Value, ir.Value], row: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return where a group of rows that begins with `row` is in the left and in the tile."""
    left, tile = places
    elements = kernel.elements
    return (
        elements.address(builder, left, builder.mul(row, index(kernel.left_row))),
        elements.address(builder, tile, builder.mul(row, index(kernel.tile_row))),
    )


def _emit_rows(
    builder: ir.IRBuilder,
    kernel: HeldKernel,
    places: tuple[ir.Value, ir.Value],
    height: int,
    held: Sequence[ir.Value],
    prefetching: _Prefetching,
) -> None:
    """Add up a group of rows and store it."""
    (left, tile), elements = places, kernel.elements
    zero: ir.Value = ir.Constant(kernel.vector_type, None)
    # Each sum begins in its register: LLVM would share a zero, and keep a register for it.
    sums = in_registers(builder, [zero] * height, elements.target)
    for term, right in enumerate(held):
        if term:
            # LLVM would load elements of the next terms before, in registers of the right.
            nothing = ir.FunctionType(ir.VoidType(), [])
            builder.asm(nothing, "", "~{memory}", [], side_effect=True)
        for row in range(height):
            place = _further(builder, kernel, left, row * kernel.left_row + term * kernel.left_k)
            item = splat(builder, elements.load(builder, place, 1, 1), kernel.lanes)
            sums[row] = multiply_add(builder, elements.compute, item, right, sums[row])
            for line in next(prefetching):
                prefetch(builder, line, is_write=False)
    for row, total in enumerate(sums):
        place = _further(builder, kernel, tile, row * kernel.tile_row)
        if kernel.is_aside:
            builder.store(total, place, align=elements.target.vector_bytes)
        else:
            elements.store(builder, total, place, kernel.columns)
