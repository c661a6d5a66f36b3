"""Long rows: runs of keys are sorted in registers, then merged two by two, a vector at a time.

Behind the keys of a row there are keys that nothing comes after, up to a whole number of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from llvmlite import ir

from symgrad.codegen.contract.elements import counted_loop, index
from symgrad.codegen.sorting.elements import Item, Items, call_generated, zipped
from symgrad.codegen.sorting.matrix import Matrix, restore_zeros
from symgrad.codegen.sorting.merges import merge_function
from symgrad.codegen.sorting.networks import comparators
from symgrad.codegen.sorting.selection import Selection


def emit_runs(matrix: Matrix, buffers: Sequence[Item], start: ir.Value, stop: ir.Value) -> None:
    """Sort rows `start` to `stop - 1`; `buffers` are one or two arrays for the keys of a row."""
    builder, plan = matrix.builder, matrix.plan
    with counted_loop(builder, start, stop) as row:
        builder.store(ir.IntType(8)(0), matrix.has_zeros)
        keys = _LongRow(matrix, buffers, row)
        given = keys.sort(index(0), plan.runs, plan.levels)
        if plan.selects:
            keys.is_filled = True
            again = partial(keys.sort, index(0), plan.runs, plan.levels)
            Selection(matrix, given, row, again).emit()
        _drain(matrix, given, row)
        restore_zeros(matrix, row, builder.add(row, index(1)))


class _LongRow:
    """The keys of one row, in `buffers`; they are put there first if it is not filled."""

    def __init__(self, matrix: Matrix, buffers: Sequence[Item], row: ir.Value) -> None:
        self._matrix = matrix
        self._buffers = buffers
        self._row = row
        self.is_filled = False

    def sort(self, start: ir.Value, runs: int, levels: int) -> Item:
        """Sort so many runs from the key `start` on, and return the array that then has them.

        There are at most `2**levels`. What fits a cache is sorted there before anything else is.
        """
        builder, plan = self._matrix.builder, self._matrix.plan
        if levels == 0:
            if not self.is_filled:
                _fill(self._matrix, self._buffers[0], self._row, start)
            _sort_run(self._matrix, self._matrix.items.at(self._buffers[0], start))
            return self._buffers[0]
        inner = max(level for level in (0, *plan.cached) if level < levels)
        size = plan.run << inner
        rest = runs % (1 << inner)
        end = builder.add(start, index((runs - rest) * plan.run))
        given = self._buffers[inner % 2]
        if runs > rest:
            with counted_loop(builder, start, end, size) as first:
                self.sort(first, 1 << inner, inner)
        if rest:
            self.sort(end, rest, inner)
        for level in range(inner, levels):
            self._merge_pairs(start, runs, level)
        return self._buffers[levels % 2] if levels > inner else given

    def _merge_pairs(self, start: ir.Value, runs: int, level: int) -> None:
        """Merge neighbours of `2**level` runs; the last of all may have fewer, or no neighbour."""
        builder, plan = self._matrix.builder, self._matrix.plan
        length = plan.run << level
        whole, rest = runs >> level, (runs % (1 << level)) * plan.run
        end = builder.add(start, index((whole - whole % 2) * length))
        if whole > 1:
            with counted_loop(builder, start, end, 2 * length) as first:
                self._merge(first, length, length, level)
        if whole % 2:
            self._merge(end, length, rest, level)
        elif rest:
            self._merge(end, rest, 0, level)

    def _merge(self, first: ir.Value, length: int, other_length: int, level: int) -> None:
        """Merge two neighbours into the other array; where there is but one, move it there."""
        builder, items = self._matrix.builder, self._matrix.items
        given, into = (self._buffers[(level + side) % 2] for side in (0, 1))
        if other_length:
            arguments = (*items.at(given, first), *items.at(into, first))
            lengths = index(length), index(other_length)
            builder.call(merge_function(items), (*arguments, *lengths))
            return
        end = builder.add(first, index(length))
        with counted_loop(builder, first, end, items.plan.lanes) as at:
            items.store(items.load(given, at), into, at)


# ------------------------------------------------------------------------------------ in and out


def _whole_vectors(count: int, lanes: int, stride: int) -> int:
    """Return how many of `count` elements are moved in vectors."""
    return count - count % lanes if stride == 1 else 0


def _fill(matrix: Matrix, buffer: Item, row: ir.Value, start: ir.Value) -> None:
    """Put the keys of a run into `buffer`, and the greatest ones where the row has ended."""
    builder, sort, plan, items = matrix.builder, matrix.sort, matrix.plan, matrix.items
    end = builder.add(start, index(plan.run))
    is_inside = builder.icmp_signed("<", end, index(sort.length))
    stop = builder.select(is_inside, end, index(sort.length))
    # Runs begin at whole vectors.
    whole = builder.and_(stop, index(-plan.lanes))
    with counted_loop(builder, whole, end, plan.lanes) as at:
        items.store(items.greatest(), buffer, at)
    first = start
    if sort.source.columns == 1:
        steps = ir.Constant(items.vector, list(range(plan.lanes)))
        with counted_loop(builder, start, whole, plan.lanes) as at:
            given = matrix.read(matrix.source_at(row, at), plan.lanes)
            position = builder.add(_spread(matrix, matrix.position(at)), steps)
            items.store(matrix.encode(given, position), buffer, at)
        first = whole
    with counted_loop(builder, first, stop) as at:
        given = matrix.read(matrix.source_at(row, at), 1)
        items.store(matrix.encode(given, matrix.position(at)), buffer, at)


def _spread(matrix: Matrix, scalar: ir.Value) -> ir.Value:
    builder, kind = matrix.builder, matrix.items.vector
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.IntType(32)(0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, first, lanes)


def _drain(matrix: Matrix, buffer: Item, row: ir.Value) -> None:
    builder, sort, plan, items = matrix.builder, matrix.sort, matrix.plan, matrix.items
    whole = _whole_vectors(sort.count, plan.lanes, sort.result.columns)
    with counted_loop(builder, index(0), index(whole), plan.lanes) as at:
        matrix.write(matrix.keys.decode(items.load(buffer, at)), matrix.result_at(row, at))
    with counted_loop(builder, index(whole), index(sort.count)) as at:
        item = items.load(buffer, at, single=True)
        matrix.write(matrix.keys.decode(item), matrix.result_at(row, at))


# ------------------------------------------------------------------------------------------- runs


def _sort_run(matrix: Matrix, place: Item) -> None:
    """Sort a run in registers: its columns by a network, then the columns into each other."""
    name = f"sg.run.{matrix.plan.lines}"
    call_generated(name, matrix.items, place, _emit_sort_run)


def _emit_sort_run(items: Items, place: Item) -> None:
    plan, lanes = items.plan, items.plan.lanes
    lines = [items.load(place, index(i * lanes)) for i in range(plan.lines)]
    for low, high in comparators(plan.lines):
        lines[low], lines[high] = items.exchange(lines[low], lines[high])
    columns = 1
    while columns < lanes:
        _merge_columns(items, lines, columns)
        columns *= 2
    for position, line in enumerate(_by_columns(items, lines)):
        items.store(line, place, index(position * lanes))


def _merge_columns(items: Items, lines: list[Item], columns: int) -> None:
    """Merge neighbours of `columns` sorted columns each, in the order column by column."""
    lanes, last = items.plan.lanes, len(lines) - 1
    mirrored = [lane ^ (2 * columns - 1) for lane in range(lanes)]
    is_upper = [bool(lane & columns) for lane in range(lanes)]
    for line in range((last + 2) // 2):
        low, high = items.exchange(lines[line], items.permute(lines[last - line], mirrored))
        lines[last - line] = items.permute(_blended(items, is_upper, low, high), mirrored)
        lines[line] = _blended(items, is_upper, high, low)
    distance = columns // 2
    while distance:
        lines[:] = [_exchanged_lanes(items, line, distance) for line in lines]
        distance //= 2
    distance = len(lines) // 2
    while distance:
        for line in range(len(lines)):
            if not line & distance:
                pair = lines[line], lines[line + distance]
                lines[line], lines[line + distance] = items.exchange(*pair)
        distance //= 2


def _blended(items: Items, takes: Sequence[bool], a: Item, b: Item) -> Item:
    """Return the lanes of `a` that `takes` says, the others of `b`."""
    lanes = items.plan.lanes
    return items.shuffle(b, a, [lane + lanes * take for lane, take in enumerate(takes)])


def _exchanged_lanes(items: Items, line: Item, distance: int) -> Item:
    """Put lanes `distance` apart in order."""
    lanes = range(items.plan.lanes)
    low, high = items.exchange(line, items.permute(line, [lane ^ distance for lane in lanes]))
    return _blended(items, [bool(lane & distance) for lane in lanes], high, low)


def _by_columns(items: Items, lines: list[Item]) -> list[Item]:
    """Return the elements of `lines` column by column."""
    planes = [list(plane) for plane in zip(*lines, strict=True)]
    for _ in range(len(lines).bit_length() - 1):
        planes = [zipped(items.builder, plane) for plane in planes]
    return list(zip(*planes, strict=True))
