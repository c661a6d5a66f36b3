"""Split-k in registers: the microkernel whose lanes are columns, two beside each other for each.

    right   b[k, 0]  b[k+1, 0]  b[k, 1]  b[k+1, 1]  ...      a row of it, packed in pairs of terms
    left    a[i, k]  a[i, k+1]  a[i, k]  a[i, k+1]  ...      a pair of a row, broadcast

A lane adds up the even terms of a sum and the next one the odd terms; in the end both are added.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import (
    INDEX,
    POINTER,
    Elements,
    index,
    multiply_add,
    scalar_type,
)
from symgrad.codegen.contract.kernel_function import kernel_function
from symgrad.codegen.vectors import part_of, shuffled
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class SplitKernel:
    """What one microkernel of split sums does: `rows` by `columns` of them, from zeros on.

    Rows of the left are `left_row` elements apart, and its terms lie together; the right is packed.
    Rows of the tile are `tile_row` apart, and it lies aside (`is_aside`), with whole
    vectors, or is a part of the result.
    """

    rows: int
    columns: int
    lanes: int
    elements: Elements
    left_row: int
    tile_row: int
    is_aside: bool

    @property
    def vectors(self) -> int:
        return -(-2 * self.columns // self.lanes)


def emit_split_kernel(module: ir.Module, kernel: SplitKernel) -> ir.LLVMFunction:
    """Emit the function `(left, right, tile, k, resume)` that adds up `k` products in a tile.

    It is never called to go on with sums.
    """
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, INDEX, ir.IntType(1)])
    function = kernel_function(module, kind, "contract.split")
    left, right, tile, k, _ = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    vector = ir.VectorType(scalar_type(kernel.elements.compute), kernel.lanes)
    before = builder.block
    loop, done = builder.append_basic_block("k"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    step, places = builder.phi(INDEX, "step"), [builder.phi(POINTER), builder.phi(POINTER)]
    sums = [builder.phi(vector) for _ in range(kernel.rows * kernel.vectors)]
    added = _emit_pair(builder, kernel, places, vector, sums)
    following = builder.add(step, index(2), flags=("nuw", "nsw"))
    apart = 2, kernel.vectors * kernel.lanes
    ends = [
        kernel.elements.address(builder, place, index(by))
        for place, by in zip(places, apart, strict=True)
    ]
    zeros: list[ir.Value] = [ir.Constant(vector, None)] * len(sums)
    given = zip(
        (step, *places, *sums), (index(0), left, right, *zeros), (following, *ends, *added),
        strict=True,
    )  # fmt: skip
    for phi, first, value in given:
        phi.add_incoming(first, before)
        phi.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, k), loop, done)
    builder.position_at_end(done)
    _emit_tile(builder, kernel, tile, added)
    builder.ret_void()
    return function


def _emit_pair(
    builder: ir.IRBuilder,
    kernel: SplitKernel,
    operands: Sequence[ir.Value],
    vector: ir.Type,
    sums: Sequence[ir.Value],
) -> list[ir.Value]:
    """Add the products of a pair of terms: that of each row of the left, and a row of the right."""
    left, right = operands
    elements, lanes = kernel.elements, kernel.lanes
    row = [
        builder.load(
            elements.address(builder, right, index(number * lanes)),
            typ=vector,
            align=elements.target.vector_bytes,
        )
        for number in range(kernel.vectors)
    ]
    added = []
    for i in range(kernel.rows):
        place = elements.address(builder, left, index(i * kernel.left_row))
        pair = elements.load(builder, place, 2, 2)
        item = shuffled(builder, [pair], (0, 1) * (lanes // 2))
        for j, values in enumerate(row):
            total = sums[i * kernel.vectors + j]
            added.append(multiply_add(builder, elements.compute, item, values, total))
    return added


def _emit_tile(
    builder: ir.IRBuilder, kernel: SplitKernel, tile: ir.Value, sums: Sequence[ir.Value]
) -> None:
    """Store a tile: of two vectors of split sums the even lanes, each with the next one added.

    They are beside each other in a row; a last one of it is joined with that of the next row.
    """
    lanes, rows = kernel.lanes, range(kernel.rows)
    for row in rows:
        for first in range(0, kernel.vectors - 1, 2):
            some = sums[row * kernel.vectors + first :][:2]
            _store(builder, kernel, tile, (row, first), _joined(builder, some))
    if kernel.vectors % 2 == 0:
        return
    last = sums[kernel.vectors - 1 :: kernel.vectors]
    for row in rows[::2]:
        some = last[row : row + 2]
        total = _joined(builder, some)
        for at in range(len(some)):
            half = part_of(builder, total, at * lanes // 2, lanes // 2)
            _store(builder, kernel, tile, (row + at, kernel.vectors - 1), half)


def _joined(builder: ir.IRBuilder, some: Sequence[ir.Value]) -> ir.Value:
    """Return the sums of one or two vectors whose lanes are two for each of them."""
    lanes = some[0].type.count * len(some)
    even, odd = (shuffled(builder, some, range(first, lanes, 2)) for first in (0, 1))
    return builder.fadd(even, odd)


def _store(
    builder: ir.IRBuilder,
    kernel: SplitKernel,
    tile: ir.Value,
    at: tuple[int, int],
    value: ir.Value,
) -> None:
    """Store sums in a row of the tile, behind those of so many vectors."""
    row, first = at
    place = index(row * kernel.tile_row + first * kernel.lanes // 2)
    width = value.type.count if kernel.is_aside else 1
    align = kernel.elements.compute.itemsize * width
    builder.store(value, kernel.elements.address(builder, tile, place), align=align)
