"""Split vectors: the microkernel whose lanes are columns, two beside each other for each.

    of terms   right   b[k, 0]  b[k+1, 0]  b[k, 1]  b[k+1, 1]  ...      two steps of k in turns
               left    a[i, k]  a[i, k+1]  a[i, k]  a[i, k+1]  ...      a pair of a row, broadcast

    of rows    right   b[k, 0]  b[k, 0]    b[k, 1]  b[k, 1]    ...      each element of a step twice
               left    a[i, k]  a[i+1, k]  a[i, k]  a[i+1, k]  ...      a pair of a step, broadcast

Of pairs of terms a lane adds up the even terms of a sum and the next one the odd terms (split-k in
a register), which are added in the end. Of pairs of rows each lane is a sum. Where these read the
right as it lies, two of their vectors are woven: the one has the even columns of a whole vector and
the other one the odd columns, so each is a load that doubles (`vmovsldup`), and no shuffle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import (
    INDEX,
    POINTER,
    Elements,
    index,
    multiply_add,
    prefetch,
    scalar_type,
)
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.kernels.pack import in_registers
from symgrad.codegen.vectors import part_of, shuffled, splat
from symgrad.records import dataclass

# What lanes beside each other differ in.
Pairs = Literal["terms", "rows"]


# Where a line begins that is prefetched, and whether it will be written.
_PrefetchedLine = tuple[ir.Value, bool]


@dataclass(frozen=True, slots=True)
class SplitKernel:
    """What one microkernel of split vectors does: `rows` by `columns` sums, from zeros on.

    Rows of the left are `left_row` elements apart and its terms `left_k`: pairs of the latter or of
    the former lie together. Of a right that is packed in pairs of terms `right_k` is None; else its
    terms are so far apart, by 0 where all are one. Rows of the tile are `tile_row` apart, and it
    lies aside (`is_aside`), with whole vectors, or is a part of the result; of that a pair of terms
    prefetches `prefetched` elements more, if it is not 0. Each term prefetches `right_lines` of the
    next right, or `next_bytes` of each operand of the next product.
    """

    pairs: Pairs
    rows: int
    columns: int
    lanes: int
    elements: Elements
    left_row: int
    left_k: int
    right_k: int | None
    tile_row: int
    is_aside: bool
    prefetched: int = 0
    right_lines: int = 0
    next_bytes: tuple[int, ...] = ()

    @property
    def places_prefetched(self) -> int:
        """Places that the kernel is told of, where what it prefetches begins."""
        return int(self.right_lines > 0) + len(self.next_bytes)

    @property
    def vectors(self) -> int:
        return -(-2 * self.columns // self.lanes)

    @property
    def sums(self) -> int:
        """Vectors of sums."""
        return self.vectors * (self.rows if self.pairs == "terms" else -(-self.rows // 2))

    def is_woven(self, number: int) -> bool:
        """Return whether a vector of a pair of rows has every other column of two vectors."""
        return self.right_k is not None and number // 2 * 2 + 1 < self.vectors

    @property
    def right_pair(self) -> int:
        """Elements from a pair of terms of the right to the next one."""
        return self.vectors * self.lanes if self.right_k is None else 2 * self.right_k


def emit_split_kernel(module: ir.Module, kernel: SplitKernel) -> ir.LLVMFunction:
    """Emit the function `(left, right, tile, k, resume)` that adds up `k` products in a tile.

    It is never called to go on with sums. One that prefetches what is next is told where, too.
    """
    kinds = [POINTER, POINTER, POINTER, INDEX, ir.IntType(1)]
    kind = ir.FunctionType(ir.VoidType(), kinds + [POINTER] * kernel.places_prefetched)
    function = kernel_function(module, kind, "contract.split")
    left, right, tile, k, _, *next_places = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    vector = ir.VectorType(scalar_type(kernel.elements.compute), kernel.lanes)
    before = builder.block
    loop, done = builder.append_basic_block("k"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    step, places = builder.phi(INDEX, "step"), [builder.phi(POINTER), builder.phi(POINTER)]
    sums = [builder.phi(vector) for _ in range(kernel.sums)]
    lines = _prefetched_lines(builder, kernel, (tile, *next_places), step)
    added = _emit_pair(builder, kernel, places, sums, lines)
    following = builder.add(step, index(2), flags=("nuw", "nsw"))
    apart = 2 * kernel.left_k, kernel.right_pair
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
    if kernel.pairs == "terms":
        _emit_tile_of_terms(builder, kernel, tile, added)
    else:
        _emit_tile_of_rows(builder, kernel, tile, added)
    builder.ret_void()
    return function


def _prefetched_lines(
    builder: ir.IRBuilder, kernel: SplitKernel, places: Sequence[ir.Value], step: ir.Value
) -> list[_PrefetchedLine]:
    """Return what a pair of terms prefetches: of the tile, the next right or both operands."""
    line = kernel.elements.target.memory.line_bytes
    sizes = [kernel.prefetched // 2 * kernel.elements.stored.itemsize]
    sizes += [kernel.right_lines * line] if kernel.right_lines else kernel.next_bytes
    lines: list[_PrefetchedLine] = []
    for place, nbytes in zip(places, sizes, strict=True):
        begin = builder.mul(step, index(nbytes))
        for start in range(0, 2 * nbytes, line):
            offset = builder.add(begin, index(start))
            further = builder.gep(place, [offset], source_etype=ir.IntType(8))
            lines.append((further, place is places[0]))
    return lines


def interleaved_steps(
    builder: ir.IRBuilder, elements: Elements, steps: Sequence[ir.Value], count: int, lanes: int
) -> ir.Value:
    """Return `count` elements of two steps of k in turns, of which each is where `steps` say.

    LLVM would load each half to both halves of a vector, which takes a shuffle more on some cores.
    """
    half = lanes // 2
    lines = [elements.load(builder, step, count, half) for step in steps]
    lines = in_registers(builder, lines, elements.target)
    order = [lane for pair in enumerate(range(half, lanes)) for lane in pair]
    return shuffled(builder, lines, order)


def _emit_pair(
    builder: ir.IRBuilder,
    kernel: SplitKernel,
    operands: Sequence[ir.Value],
    sums: Sequence[ir.Value],
    lines: Sequence[_PrefetchedLine],
) -> list[ir.Value]:
    """Add the products of a pair of terms, at once or one after the other, and prefetch `lines`."""
    if kernel.pairs == "terms":
        row = [_pair_of_terms(builder, kernel, operands[1], at) for at in range(kernel.vectors)]
        return _emit_products(builder, kernel, (operands[0], row), sums, lines)
    left, right = operands
    for term in (0, 1):
        if term:
            # LLVM would keep what both terms are taken from, in registers of the sums.
            builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)
        row = [_doubled(builder, kernel, right, term, at) for at in range(kernel.vectors)]
        place = kernel.elements.address(builder, left, index(term * kernel.left_k))
        sums = _emit_products(builder, kernel, (place, row), sums, lines[term::2])
    return list(sums)


def _emit_products(
    builder: ir.IRBuilder,
    kernel: SplitKernel,
    operands: tuple[ir.Value, Sequence[ir.Value]],
    sums: Sequence[ir.Value],
    lines: Sequence[_PrefetchedLine],
) -> list[ir.Value]:
    """Add the products of pairs of the left, each of them broadcast, and a row of the right.

    Lines are prefetched evenly between them, for a burst is more than can be on its way.
    """
    (left, row), elements = operands, kernel.elements
    added: list[ir.Value] = []
    starts = range(0, kernel.rows, 1 if kernel.pairs == "terms" else 2)
    for number, i in enumerate(starts):
        now = [at * len(lines) // len(starts) for at in (number, number + 1)]
        for prefetched, is_write in lines[slice(*now)]:
            prefetch(builder, prefetched, is_write=is_write)
        place = elements.address(builder, left, index(i * kernel.left_row))
        if kernel.pairs == "rows" and i + 1 == kernel.rows:
            item = splat(builder, elements.load(builder, place, 1, 1), kernel.lanes)
        else:
            pair = elements.load(builder, place, 2, 2)
            item = shuffled(builder, [pair], (0, 1) * (kernel.lanes // 2))
        for values in row:
            total = sums[len(added)]
            added.append(multiply_add(builder, elements.compute, item, values, total))
    return added


def _pair_of_terms(
    builder: ir.IRBuilder, kernel: SplitKernel, right: ir.Value, number: int
) -> ir.Value:
    """Return a vector of a pair of terms of the right: both of each column beside each other."""
    half = kernel.lanes // 2
    if kernel.right_k is None:
        return _packed(builder, kernel, right, number)
    at = number * half, number * half + kernel.right_k
    steps = [kernel.elements.address(builder, right, index(offset)) for offset in at]
    count = min(half, kernel.columns - number * half)
    return interleaved_steps(builder, kernel.elements, steps, count, kernel.lanes)


def _doubled(
    builder: ir.IRBuilder, kernel: SplitKernel, right: ir.Value, term: int, number: int
) -> ir.Value:
    """Return a vector of a term of the right, of a pair of them, with each column twice."""
    lanes, elements = kernel.lanes, kernel.elements
    if kernel.right_k is None:
        pairs = _packed(builder, kernel, right, number)
        return shuffled(builder, [pairs], [lane // 2 * 2 + term for lane in range(lanes)])
    is_woven = kernel.is_woven(number)
    first = number // 2 * lanes if is_woven else number * lanes // 2
    width = lanes if is_woven else lanes // 2
    place = elements.address(builder, right, index(term * kernel.right_k + first))
    if is_woven and number % 2 and elements.target.architecture == "x86_64":
        # LLVM would load once for both vectors, and shuffle what it has.
        same = ir.FunctionType(POINTER, [POINTER])
        place = builder.asm(same, "", "=r,0", [place], side_effect=False)
    values = elements.load(builder, place, min(width, kernel.columns - first), width)
    from_lane = [lane // 2 * 2 + number % 2 if is_woven else lane // 2 for lane in range(lanes)]
    return shuffled(builder, [values], from_lane)


def _packed(builder: ir.IRBuilder, kernel: SplitKernel, right: ir.Value, number: int) -> ir.Value:
    """Load a vector of a packed pair of terms."""
    elements = kernel.elements
    vector = ir.VectorType(scalar_type(elements.compute), kernel.lanes)
    place = elements.address(builder, right, index(number * kernel.lanes))
    return builder.load(place, typ=vector, align=elements.target.vector_bytes)


def _emit_tile_of_terms(
    builder: ir.IRBuilder, kernel: SplitKernel, tile: ir.Value, sums: Sequence[ir.Value]
) -> None:
    """Store a tile: of two vectors of split sums the even lanes, each with the next one added.

    They are beside each other in a row; a last one of it is joined with that of the next row.
    """
    lanes, rows = kernel.lanes, range(kernel.rows)
    for row in rows:
        for first in range(0, kernel.vectors - 1, 2):
            some = sums[row * kernel.vectors + first :][:2]
            _store(builder, kernel, tile, (row, first), builder.fadd(*_apart(builder, some)))
    if kernel.vectors % 2 == 0:
        return
    last = sums[kernel.vectors - 1 :: kernel.vectors]
    for row in rows[::2]:
        some = last[row : row + 2]
        total = builder.fadd(*_apart(builder, some))
        for at in range(len(some)):
            half = part_of(builder, total, at * lanes // 2, lanes // 2)
            _store(builder, kernel, tile, (row + at, kernel.vectors - 1), half)


def _emit_tile_of_rows(
    builder: ir.IRBuilder, kernel: SplitKernel, tile: ir.Value, sums: Sequence[ir.Value]
) -> None:
    """Store a tile: the even lanes of two vectors in a row, and the odd ones in the next one."""
    for row in range(0, kernel.rows, 2):
        line = sums[row // 2 * kernel.vectors :][: kernel.vectors]
        for first in range(0, kernel.vectors, 2):
            apart = _unwoven if kernel.is_woven(first) else _apart
            both = apart(builder, line[first : first + 2])
            for at, values in enumerate(both[: kernel.rows - row]):
                _store(builder, kernel, tile, (row + at, first), values)


def _apart(builder: ir.IRBuilder, some: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Return the even and the odd lanes of one or two vectors."""
    lanes = some[0].type.count * len(some)
    even, odd = (shuffled(builder, some, range(first, lanes, 2)) for first in (0, 1))
    return even, odd


def _unwoven(builder: ir.IRBuilder, both: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Return the even lanes of two vectors in turns, and the odd ones."""
    lanes = both[0].type.count
    order = [lane for at in range(lanes) for lane in (at, lanes + at)]
    even, odd = (
        shuffled(builder, both, [lane for lane in order if lane % 2 == first]) for first in (0, 1)
    )
    return even, odd


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
