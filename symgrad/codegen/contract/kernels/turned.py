"""Transposition in registers: the microkernel of a right in parts, of two vectors of columns.

    columns of the right   b[0, j]  b[1, j]  b[2, j]  b[3, j]     half a vector of units of 8 bytes
    units, transposed      b[t, 0]  b[t, 1]  ...                  two vectors for each of four
    left                   a[i, t]  a[i, t]  ...                  a unit, broadcast for both vectors

A unit is an element of float64, or two of float32: then it is two terms of the right, and two rows
of the left, so that even lanes of a sum are one row and odd lanes the next. An element of the left
is loaded for two multiply-adds and not for one, and nothing is packed. All parts run through the
same few instructions: what is written out for each product may be pushed out of an inclusive cache
by what products read. Where shuffles have one unit only, the first of several groups of rows keeps
what it transposes, and the others read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import (
    INDEX,
    POINTER,
    Elements,
    as_it_is,
    counted_loop,
    index,
    multiply_add,
    prefetch,
    scalar_type,
)
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.contract.kernels.pack import in_registers
from symgrad.codegen.contract.kernels.prefetching import code_lines, prefetch_code, shared_out
from symgrad.codegen.vectors import shuffled, splat
from symgrad.records import dataclass

UNIT_BYTES, UNITS = 8, 8  # of a unit, and units of a vector
PART = UNITS // 2  # units of each column that are transposed at a time
VECTORS = 2  # of columns
MOST_LINES = 8  # of sums: with two vectors each, half of 32 registers
# Columns whose halves are read to one vector, by their places in a vector of the result: the two
# stages of shuffles leave them in order.
_HALVES = ((0, 2), (1, 3), (4, 6), (5, 7))


@dataclass(frozen=True, slots=True)
class TurnedKernel:
    """What one microkernel of such a right does: `rows` by `columns` sums of `k` products.

    `unit` is how many elements 8 bytes are: with two, rows of the left lie side by side. Rows of
    the left are `left_row` elements apart and its terms `left_k`; terms of the right lie side by
    side and its columns are `right_column` apart. Rows of the tile are `tile_row` apart, and it
    lies aside (`is_aside`), with whole vectors, or is a part of the result. The lines of right,
    left and tile that are `nexts` elements further are prefetched meanwhile, but for 0; so is a
    line of the code itself in each call, of `code_lines` if the target says that these get lost.
    """

    unit: int
    rows: int
    columns: int
    k: int
    lanes: int
    elements: Elements
    left_row: int
    left_k: int
    right_column: int
    tile_row: int
    is_aside: bool
    nexts: tuple[int, int, int]

    @property
    def vector_type(self) -> ir.Type:
        return ir.VectorType(scalar_type(self.elements.compute), self.lanes)

    @property
    def lines(self) -> int:
        """Lines of sums, of a row each, or of two."""
        return self.rows // self.unit

    @property
    def code_lines(self) -> int:
        """Lines of code prefetched in turns: those of a part, mostly, and of the stores."""
        products = VECTORS * min(self.lines, MOST_LINES) * PART * self.unit
        shuffles = VECTORS * (UNITS + PART * self.unit)
        return code_lines(self.elements.target, products * 3 // 2 + 2 * shuffles + 2 * self.rows)

    @property
    def parts(self) -> int:
        """Parts of k, of which the last one may have less than the others."""
        return -(-self.k // (PART * self.unit))

    @property
    def groups(self) -> int:
        """Groups of lines, whose sums are in registers at a time."""
        return -(-self.lines // MOST_LINES)

    @property
    def keeps(self) -> bool:
        """Whether the first of several groups keeps what it transposes for the others.

        That is more code, but shuffles that have one unit only take turns with multiply-adds.
        """
        return self.groups > 1 and self.elements.target.shuffles_singly

    @property
    def kept_type(self) -> ir.Type:
        return ir.ArrayType(self.vector_type, self.k // self.unit * VECTORS)


class _Places(NamedTuple):
    """Where the rows of a group begin in the left, and where operands and tile do.

    The first of several groups keeps what it transposes, and others read it there.
    """

    rows: ir.Value
    left: ir.Value
    right: ir.Value
    tile: ir.Value
    kept: ir.Value | None
    is_first: bool


def emit_turned_kernel(module: ir.Module, kernel: TurnedKernel) -> ir.LLVMFunction:
    """Emit the function `(left, right, tile, k, resume)` that adds up all products of a tile.

    It is never called with other terms than all, nor to go on with sums.
    """
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, POINTER, INDEX, ir.IntType(1)])
    function = kernel_function(module, kind, "contract.turned")
    left, right, tile, _, _ = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    kept = builder.alloca(kernel.kept_type) if kernel.keeps else None
    if kernel.nexts[1] and kernel.code_lines:
        walk = right, kernel.nexts[1]
        prefetch_code(builder, function, kernel.elements, walk, kernel.code_lines)
    low, tall = divmod(kernel.lines, kernel.groups)
    spans = [(0, tall, low + 1), (tall, kernel.groups, low)]
    if kept is not None:
        highest = low + (tall > 0)
        spans = [(0, 1, highest), (min(tall, 1), tall, low + 1), (max(tall, 1), kernel.groups, low)]
    for first, stop, height in spans:
        if first == stop:
            continue
        with counted_loop(builder, index(first), index(stop), is_final=True) as group:
            before = builder.mul(group, index(height * kernel.unit))
            row = builder.add(before, index(tall * kernel.unit if height == low else 0))
            at = _further(builder, kernel, left, builder.mul(row, index(kernel.left_row)))
            places = _Places(at, left, right, tile, kept, kept is None or first == 0)
            sums = _emit_parts(builder, kernel, places, (group, height))
            place = _further(builder, kernel, tile, builder.mul(row, index(kernel.tile_row)))
            _emit_stores(builder, kernel, place, sums)
    builder.ret_void()
    return function


def _further(
    builder: ir.IRBuilder, kernel: TurnedKernel, place: ir.Value, offset: ir.Value
) -> ir.Value:
    return kernel.elements.address(builder, place, offset)


def _emit_parts(
    builder: ir.IRBuilder,
    kernel: TurnedKernel,
    places: _Places,
    span: tuple[ir.Value, int],
) -> list[ir.Value]:
    """Return the sums of a group of lines: a `span` of its number and how many these are."""
    group, height = span
    whole, rest = divmod(kernel.k // kernel.unit, PART)
    zero: ir.Value = ir.Constant(kernel.vector_type, None)
    sums = [zero] * (height * VECTORS)
    turns = builder.mul(group, index(kernel.parts))
    if whole > 1:
        before, loop = builder.block, builder.append_basic_block("part")
        after = builder.append_basic_block("rest")
        builder.branch(loop)
        builder.position_at_end(loop)
        part, carried = builder.phi(INDEX, "part"), [builder.phi(kernel.vector_type) for _ in sums]
        prefetched = _places_prefetched(builder, kernel, places, builder.add(turns, part))
        added = _emit_part(builder, kernel, places, (part, PART), carried, prefetched)
        following = as_it_is(builder, builder.add(part, index(1), flags=("nuw", "nsw")))
        for phi, start, value in zip(
            (part, *carried), (index(0), *sums), (following, *added), strict=True
        ):
            phi.add_incoming(start, before)
            phi.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, index(whole)), loop, after)
        builder.position_at_end(after)
        sums = added
    for number, units in [(0, PART)] * (whole == 1) + [(whole, rest)] * (rest > 0):
        prefetched = _places_prefetched(builder, kernel, places, builder.add(turns, index(number)))
        sums = _emit_part(builder, kernel, places, (index(number), units), sums, prefetched)
    return sums


def _places_prefetched(
    builder: ir.IRBuilder,
    kernel: TurnedKernel,
    places: _Places,
    turn: ir.Value,
) -> list[ir.Value]:
    """Return the lines of the next product that have their turn, of what it meets in turns."""
    sizes = kernel.rows * kernel.k, kernel.k * kernel.columns, kernel.rows * kernel.columns
    line = kernel.elements.target.memory.line_bytes // kernel.elements.stored.itemsize
    bases = places.left, places.right, places.tile
    prefetched: list[list[ir.Value]] = []
    for base, size, distance in zip(bases, sizes, kernel.nexts, strict=True):
        lines = -(-size // (line * kernel.groups * kernel.parts)) if distance else 0
        first = builder.add(builder.mul(turn, index(lines * line)), index(distance))
        begin = _further(builder, kernel, base, first)
        prefetched.append([_further(builder, kernel, begin, index(n * line)) for n in range(lines)])
    longest = max(map(len, prefetched))
    return list(chain.from_iterable(some[n : n + 1] for n in range(longest) for some in prefetched))


def _emit_part(
    builder: ir.IRBuilder,
    kernel: TurnedKernel,
    places: _Places,
    span: tuple[ir.Value, int],
    sums: Sequence[ir.Value],
    prefetched: Sequence[ir.Value],
) -> list[ir.Value]:
    """Add the products of a part of k, a `span` of its number and of how many units it has."""
    part, units = span
    first = builder.mul(part, index(PART * kernel.unit))
    right = _further(builder, kernel, places.right, first)
    left = _further(builder, kernel, places.rows, builder.mul(first, index(kernel.left_k)))
    vectors = []
    if places.is_first:
        vectors = [_turned(builder, kernel, right, number, units) for number in range(VECTORS)]
        _keep(builder, kernel, places, part, vectors)
    terms = units * kernel.unit
    products = terms * len(sums) // VECTORS
    added, prefetching = list(sums), iter(shared_out(prefetched, products))
    for term in range(terms):
        # LLVM would load elements of the next terms before, in registers of the sums.
        nothing = ir.FunctionType(ir.VoidType(), [])
        builder.asm(nothing, "", "~{memory}", [], side_effect=True)
        if places.is_first:
            pair = [some[term // kernel.unit] for some in vectors]
        else:
            pair = _kept(builder, kernel, places, part, term // kernel.unit)
        values = [_of_term(builder, kernel, unit, term) for unit in pair]
        for line in range(len(sums) // VECTORS):
            offset = line * kernel.unit * kernel.left_row + term * kernel.left_k
            item = _broadcast(builder, kernel, _further(builder, kernel, left, index(offset)))
            for number, value in enumerate(values):
                at = line * VECTORS + number
                added[at] = multiply_add(builder, kernel.elements.compute, item, value, added[at])
            for place in next(prefetching):
                prefetch(builder, place, is_write=False)
    return added


def _turned(
    builder: ir.IRBuilder, kernel: TurnedKernel, right: ir.Value, number: int, units: int
) -> list[ir.Value]:
    """Return the units of a part of k, each of all columns of a vector."""
    target, unit = kernel.elements.target, kernel.unit
    lines = []
    for columns in _HALVES:
        halves = [_half(builder, kernel, right, _column(unit, number, at), units) for at in columns]
        lines.append(shuffled(builder, halves, range(kernel.lanes)))
    lines = in_registers(builder, lines, target)
    beside = [place + vector * UNITS for place in range(0, UNITS, 2) for vector in (0, 1)]
    pairs = [
        shuffled(builder, lines[at : at + 2], _lanes(unit, [place + odd for place in beside]))
        for odd in (0, 1)
        for at in (0, 2)
    ]
    pairs = in_registers(builder, pairs, target)
    sectors = (0, 1, 4, 5, 8, 9, 12, 13), (2, 3, 6, 7, 10, 11, 14, 15)
    turned = [
        shuffled(builder, pairs[2 * odd : 2 * odd + 2], _lanes(unit, some))
        for some in sectors
        for odd in (0, 1)
    ]
    return in_registers(builder, turned[:units], target)


def _lanes(unit: int, order: Sequence[int]) -> list[int]:
    """Return the lanes of units."""
    return [at * unit + lane for at in order for lane in range(unit)]


def _column(unit: int, number: int, at: int) -> int:
    """Return which column is at a place of a vector.

    Where a row is the even lanes of both vectors, these are in order within each 128 bits.
    """
    return number * UNITS + at if unit == 1 else at // 2 * 4 + number * 2 + at % 2


def _half(
    builder: ir.IRBuilder, kernel: TurnedKernel, right: ir.Value, column: int, units: int
) -> ir.Value:
    """Return some units of a column, in half a vector."""
    half = kernel.lanes // 2
    if column >= kernel.columns:
        return ir.Constant(ir.VectorType(scalar_type(kernel.elements.compute), half), None)
    place = _further(builder, kernel, right, index(column * kernel.right_column))
    return kernel.elements.load(builder, place, units * kernel.unit, half)


def _keep(
    builder: ir.IRBuilder,
    kernel: TurnedKernel,
    places: _Places,
    part: ir.Value,
    vectors: Sequence[Sequence[ir.Value]],
) -> None:
    """Store the units of a part of k for further groups, if there are some."""
    if places.kept is None:
        return
    for at, pair in enumerate(zip(*vectors, strict=True)):
        for place, value in zip(_pair_kept(builder, kernel, places, part, at), pair, strict=True):
            builder.store(value, place, align=kernel.elements.target.vector_bytes)


def _kept(
    builder: ir.IRBuilder, kernel: TurnedKernel, places: _Places, part: ir.Value, unit: int
) -> list[ir.Value]:
    """Return a unit of a part of k, of all columns, as it was kept."""
    pair, align = (
        _pair_kept(builder, kernel, places, part, unit),
        kernel.elements.target.vector_bytes,
    )
    return [builder.load(place, typ=kernel.vector_type, align=align) for place in pair]


def _pair_kept(
    builder: ir.IRBuilder, kernel: TurnedKernel, places: _Places, part: ir.Value, unit: int
) -> list[ir.Value]:
    """Return where the vectors of a unit of a part are kept."""
    assert places.kept is not None, "one group keeps nothing"
    first = builder.mul(part, index(PART * VECTORS))
    ats = [builder.add(first, index(unit * VECTORS + number)) for number in range(VECTORS)]
    return [builder.gep(places.kept, [at], source_etype=kernel.vector_type) for at in ats]


def _of_term(builder: ir.IRBuilder, kernel: TurnedKernel, unit: ir.Value, term: int) -> ir.Value:
    """Return the columns of a term: where a unit has two each of them is there twice."""
    if kernel.unit == 1:
        return unit
    order = [lane // 2 * 2 + term % 2 for lane in range(kernel.lanes)]
    return shuffled(builder, [unit], order)


def _broadcast(builder: ir.IRBuilder, kernel: TurnedKernel, place: ir.Value) -> ir.Value:
    """Return a unit of the left, in all lanes."""
    item = kernel.elements.load(builder, place, kernel.unit, kernel.unit)
    if kernel.unit == 1:
        return splat(builder, item, kernel.lanes)
    return shuffled(builder, [item], (0, 1) * (kernel.lanes // 2))


def _emit_stores(
    builder: ir.IRBuilder, kernel: TurnedKernel, tile: ir.Value, sums: Sequence[ir.Value]
) -> None:
    """Store a group of sums; two rows of a line are the even and the odd lanes of both vectors."""
    lanes = kernel.lanes
    for line in range(len(sums) // VECTORS):
        both = sums[line * VECTORS :][:VECTORS]
        for at in range(VECTORS):
            if kernel.unit == 1:
                _store(builder, kernel, tile, (line, at * lanes), both[at])
                continue
            order = [
                vector * lanes + sector + lane + at
                for sector in range(0, lanes, 4)
                for vector in range(VECTORS)
                for lane in (0, 2)
            ]
            _store(builder, kernel, tile, (2 * line + at, 0), shuffled(builder, both, order))


def _store(
    builder: ir.IRBuilder,
    kernel: TurnedKernel,
    tile: ir.Value,
    at: tuple[int, int],
    value: ir.Value,
) -> None:
    """Store a vector of sums at a row and a column of the tile."""
    row, column = at
    place = _further(builder, kernel, tile, index(row * kernel.tile_row + column))
    if kernel.is_aside:
        builder.store(value, place, align=kernel.elements.target.vector_bytes)
    else:
        kernel.elements.store(builder, value, place, min(kernel.lanes, kernel.columns - column))
