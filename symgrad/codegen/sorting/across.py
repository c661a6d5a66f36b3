"""Short rows: as many as a vector has lanes are sorted side by side by one sorting network.

A tile holds the keys of these rows, line j the j-th of each. Where the elements of a row lie side
by side they are transposed in registers on the way in and out. The last tile repeats its last row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import counted_loop, index, prefetch
from symgrad.codegen.sorting.elements import Item, unzipped, zipped
from symgrad.codegen.sorting.matrix import Matrix, least, restore
from symgrad.codegen.sorting.networks import (
    Prefetch,
    comparators,
    emit_network,
    exchange_all,
    half_cleaners,
)
from symgrad.codegen.vectors import shuffled, splat

_I8 = ir.IntType(8)


def emit_across(matrix: Matrix, tile: Item, start: ir.Value, stop: ir.Value) -> None:
    """Sort rows `start` to `stop - 1`; `tile` is scratch memory."""
    builder, lanes = matrix.builder, matrix.plan.lanes
    with counted_loop(builder, start, stop, lanes) as first:
        builder.store(ir.IntType(8)(0), matrix.has_lost)
        ahead = _Ahead(matrix, first).prefetch
        _fill(matrix, tile, first, stop, ahead)
        emit_network(
            matrix.items,
            tile,
            matrix.plan.lines,
            ahead,
            has_sorted_blocks=_sorts_blocks(matrix),
            cleans_last=not _cleans_blocks(matrix),
        )
        _drain(matrix, tile, first, stop)
        end = least(builder, builder.add(first, index(lanes)), stop)
        restore(matrix, first, end)


class _Ahead:
    """What is read next and what is written next, if rows follow each other in memory.

    It is prefetched line by line while a tile is sorted, so that no line waits for another.
    """

    def __init__(self, matrix: Matrix, first: ir.Value) -> None:
        sort, lanes, builder = matrix.sort, matrix.plan.lanes, matrix.builder
        following = builder.add(first, index(lanes))
        self._places: list[tuple[ir.Value, int, bool]] = []
        read = sort.element.itemsize
        if sort.source.columns == 1 and sort.source.rows == sort.length:
            self._add(matrix.source_at(following, index(0)), sort.length * read, is_write=False)
        written = matrix.stored_type.width // 8
        if sort.result.columns == 1 and sort.result.rows == sort.count:
            self._add(matrix.result_at(first, index(0)), sort.count * written, is_write=True)
        self._matrix = matrix
        self._lanes = lanes

    def _add(self, start: ir.Value, row_bytes: int, *, is_write: bool) -> None:
        self._places.append((start, row_bytes, is_write))

    def prefetch(self, line: ir.Value, count: int) -> None:
        """Prefetch what so many lines of the tile, from `line` on, are a part of all of."""
        builder, matrix = self._matrix.builder, self._matrix
        for start, row_bytes, is_write in self._places:
            each = row_bytes * self._lanes // matrix.plan.lines
            place = builder.gep(start, [builder.mul(line, index(each))], source_etype=_I8)
            for offset in range(0, each * count, 64):
                there = builder.gep(place, [index(offset)], source_etype=_I8)
                prefetch(builder, there, is_write=is_write)


def _row(matrix: Matrix, first: ir.Value, lane: ir.Value, stop: ir.Value) -> ir.Value:
    """Return the row in a lane: the last one where there are no more."""
    builder = matrix.builder
    return least(builder, builder.add(first, lane), builder.sub(stop, index(1)))


# ------------------------------------------------------------------------------------ in and out


def _fill(matrix: Matrix, tile: Item, first: ir.Value, stop: ir.Value, ahead: Prefetch) -> None:
    """Put the keys of the rows from `first` on into the tile."""
    if matrix.sort.source.columns == 1 and matrix.sort.length > 1:
        _fill_transposed(matrix, tile, first, stop, ahead)
    else:
        one_by_one = _ByLines(matrix, tile, first, stop)
        one_by_one.emit(matrix.sort.source.rows == 1, one_by_one.fill, matrix.sort.length)


def _drain(matrix: Matrix, tile: Item, first: ir.Value, stop: ir.Value) -> None:
    """Bring the sorted lines of the tile to where they belong."""
    if matrix.sort.result.columns == 1 and matrix.sort.count > 1:
        _drain_transposed(matrix, tile, first, stop)
    else:
        one_by_one = _ByLines(matrix, tile, first, stop)
        one_by_one.emit(matrix.sort.result.rows == 1, one_by_one.drain, matrix.sort.count)


def _width(columns: int, lanes: int) -> int:
    """Return how wide blocks of columns are: a power of two."""
    return min(lanes, 1 << (columns.bit_length() - 1))


def _sorts_blocks(matrix: Matrix) -> bool:
    """Return whether what is transposed at a time is a block of lines, which is sorted then."""
    sort, block = matrix.sort, matrix.plan.block
    is_block = _width(sort.length, matrix.plan.lanes) == block and sort.length % block == 0
    return sort.source.columns == 1 and is_block


def _cleans_blocks(matrix: Matrix) -> bool:
    """Return whether the last rounds of the last merge are made of what is transposed at a time."""
    sort, block = matrix.sort, matrix.plan.block
    is_block = _width(sort.count, matrix.plan.lanes) == block and sort.length % block == 0
    return sort.result.columns == 1 and sort.count == sort.length > block and is_block


def _fill_transposed(
    matrix: Matrix, tile: Item, first: ir.Value, stop: ir.Value, ahead: Prefetch
) -> None:
    builder, lanes, columns = matrix.builder, matrix.plan.lanes, matrix.sort.length
    rows = [_row(matrix, first, index(lane), stop) for lane in range(lanes)]
    width = _width(columns, lanes)
    with counted_loop(builder, index(0), index(columns), width) as at:
        # The last block may overlap the one before.
        start = least(builder, at, index(columns - width))
        loaded = [matrix.read(matrix.source_at(row, start), width) for row in rows]
        vectors = _joined(builder, loaded, lanes)
        for _ in range(width.bit_length() - 1):
            vectors = unzipped(builder, vectors)
        matrix.note(vectors)
        places = [builder.add(start, index(line)) for line in range(width)]
        positions = [splat(builder, matrix.position(column), lanes) for column in places]
        items = [matrix.keys.encode(v, p) for v, p in zip(vectors, positions, strict=True)]
        if _sorts_blocks(matrix):
            exchange_all(matrix.items, items, comparators(width))
            ahead(start, width)
        for column, item in zip(places, items, strict=True):
            matrix.items.store(item, tile, builder.mul(column, index(lanes)))


def _drain_transposed(matrix: Matrix, tile: Item, first: ir.Value, stop: ir.Value) -> None:
    builder, lanes, columns = matrix.builder, matrix.plan.lanes, matrix.sort.count
    rows = [_row(matrix, first, index(lane), stop) for lane in range(lanes)]
    width = _width(columns, lanes)
    with counted_loop(builder, index(0), index(columns), width) as at:
        start = least(builder, at, index(columns - width))
        places = (builder.mul(builder.add(start, index(j)), index(lanes)) for j in range(width))
        loaded = [matrix.items.load(tile, place) for place in places]
        if _cleans_blocks(matrix):
            exchange_all(matrix.items, loaded, half_cleaners(width, width))
        vectors = [matrix.keys.decode(item) for item in loaded]
        for _ in range(width.bit_length() - 1):
            vectors = zipped(builder, vectors)
        for row, part in zip(rows, _split(builder, vectors, width), strict=True):
            matrix.write(part, matrix.result_at(row, start))


def _joined(builder: ir.IRBuilder, vectors: Sequence[ir.Value], width: int) -> list[ir.Value]:
    """Return the elements of `vectors` in vectors of `width` lanes."""
    found = list(vectors)
    while (own := found[0].type.count) < width:
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [shuffled(builder, [a, b], list(range(2 * own))) for a, b in pairs]
    return found


def _split(builder: ir.IRBuilder, vectors: Sequence[ir.Value], width: int) -> list[ir.Value]:
    """Return the elements of `vectors` in vectors of `width` lanes."""
    own = vectors[0].type.count
    if own == width:
        return list(vectors)
    starts = range(0, own, width)
    return [shuffled(builder, [v, v], list(range(s, s + width))) for v in vectors for s in starts]


class _ByLines:
    """A tile whose rows are not side by side: whole lines where these are, else one by one."""

    def __init__(self, matrix: Matrix, tile: Item, first: ir.Value, stop: ir.Value) -> None:
        self._matrix = matrix
        self._tile = tile
        self._first = first
        self._stop = stop

    def emit(
        self, has_lines: bool, move: Callable[[ir.Value, ir.Value | None], None], columns: int
    ) -> None:
        """Emit `move` for each column, with the lane or, if lines are in memory, for all lanes."""
        builder, lanes = self._matrix.builder, self._matrix.plan.lanes
        if not has_lines:
            self._one_by_one(move, columns)
            return
        end = builder.add(self._first, index(lanes))
        is_whole = builder.icmp_signed("<=", end, self._stop)
        with builder.if_else(is_whole) as (whole, partial):
            with whole, counted_loop(builder, index(0), index(columns)) as column:
                move(column, None)
            with partial:
                self._one_by_one(move, columns)

    def _one_by_one(self, move: Callable[[ir.Value, ir.Value | None], None], columns: int) -> None:
        builder, lanes = self._matrix.builder, self._matrix.plan.lanes
        with (
            counted_loop(builder, index(0), index(columns)) as column,
            counted_loop(builder, index(0), index(lanes)) as lane,
        ):
            move(column, lane)

    def fill(self, column: ir.Value, lane: ir.Value | None) -> None:
        matrix, builder, lanes = self._matrix, self._matrix.builder, self._matrix.plan.lanes
        line, position = builder.mul(column, index(lanes)), matrix.position(column)
        if lane is None:
            given = matrix.read(matrix.source_at(self._first, column), lanes)
            item = matrix.encode(given, splat(builder, position, lanes))
        else:
            row = _row(matrix, self._first, lane, self._stop)
            item = matrix.encode(matrix.read(matrix.source_at(row, column), 1), position)
            line = builder.add(line, lane)
        matrix.items.store(item, self._tile, line)

    def drain(self, column: ir.Value, lane: ir.Value | None) -> None:
        matrix, builder = self._matrix, self._matrix.builder
        line = builder.mul(column, index(matrix.plan.lanes))
        row = self._first
        if lane is not None:
            line, row = builder.add(line, lane), _row(matrix, self._first, lane, self._stop)
        item = matrix.items.load(self._tile, line, single=lane is not None)
        matrix.write(matrix.keys.decode(item), matrix.result_at(row, column))
