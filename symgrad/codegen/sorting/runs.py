"""Long rows: runs of keys are sorted in registers, then merged two by two, a vector at a time.

Behind the keys of a row there are keys that nothing comes after, up to a whole number of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import INDEX, POINTER, counted_loop, index
from symgrad.codegen.contract.kernels.kernel_function import kernel_function
from symgrad.codegen.sorting.elements import Item, Items, arranged, call_generated, cleaned, zipped
from symgrad.codegen.sorting.matrix import Matrix, least, restore
from symgrad.codegen.sorting.merges import merge_function
from symgrad.codegen.sorting.networks import comparators
from symgrad.codegen.sorting.selection import Selection
from symgrad.codegen.vectors import splat

# Parts of a row are sorted in so many sizes, each half of the one before.
PART_SIZES = 2


def emit_runs(matrix: Matrix, buffers: Sequence[Item], start: ir.Value, stop: ir.Value) -> None:
    """Sort rows `start` to `stop - 1`; `buffers` are one or two arrays for the keys of a row."""
    builder, plan = matrix.builder, matrix.plan
    with counted_loop(builder, start, stop) as row:
        builder.store(ir.IntType(8)(0), matrix.has_lost)
        keys = _LongRow(matrix, buffers, row)
        given = keys.sort(index(0), plan.runs, plan.levels)
        if plan.selects:
            keys.is_filled = True
            again = partial(keys.sort, index(0), plan.runs, plan.levels)
            Selection(matrix, given, row, again).emit()
        drain(matrix, given, row, index(0), index(matrix.sort.count))
        restore(matrix, row, builder.add(row, index(1)))


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
                fill_run(self._matrix, self._buffers[0], self._row, start)
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


def fill_run(matrix: Matrix, buffer: Item, row: ir.Value, start: ir.Value) -> None:
    """Put the keys of a run into `buffer`, and the greatest ones where the row has ended."""
    builder, sort, plan, items = matrix.builder, matrix.sort, matrix.plan, matrix.items
    end = builder.add(start, index(plan.run))
    stop = least(builder, end, index(sort.length))
    # Runs begin at whole vectors.
    whole = builder.and_(stop, index(-plan.lanes))
    with counted_loop(builder, whole, end, plan.lanes) as at:
        items.store(items.greatest(), buffer, at)
    first = start
    if sort.source.columns == 1:
        with counted_loop(builder, start, whole, plan.lanes) as at:
            items.store(matrix.read_keys(row, at, plan.lanes), buffer, at)
        first = whole
    with counted_loop(builder, first, stop) as at:
        items.store(matrix.read_keys(row, at, 1), buffer, at)


def drain(matrix: Matrix, buffer: Item, row: ir.Value, start: ir.Value, count: ir.Value) -> None:
    """Write `count` sorted keys as the result of a row from `start` on, or what is wanted of them.

    What follows them in the result may be written over, and is to be written later.
    """
    builder, sort, items = matrix.builder, matrix.sort, matrix.items
    lanes = items.plan.lanes
    wanted = builder.sub(index(sort.count), start)
    stop = least(builder, count, wanted)
    first = index(0)
    if sort.result.columns == 1:
        inside = builder.and_(wanted, index(-lanes))
        touched = builder.and_(builder.add(stop, index(lanes - 1)), index(-lanes))
        first = least(builder, inside, touched)
        with counted_loop(builder, index(0), first, lanes) as at:
            value = matrix.keys.decode(items.load(buffer, at))
            matrix.write(value, matrix.result_at(row, builder.add(start, at)))
    with counted_loop(builder, first, stop) as at:
        item = items.load(buffer, at, single=True)
        matrix.write(matrix.keys.decode(item), matrix.result_at(row, builder.add(start, at)))


# ------------------------------------------------------------------------------------------- runs


def sort_part(items: Items, keys: ir.Value, count: ir.Value) -> None:
    """Sort keys that fit a run, in as few vectors as hold them; a run behind them is written to."""
    builder, plan = items.builder, items.plan
    sizes = [max(plan.lines >> i, 1) for i in range(PART_SIZES)]
    after = builder.append_basic_block("sorted")
    for lines in [n for n in sizes[:0:-1] if n < plan.lines]:
        fits = builder.icmp_signed("<=", count, index(lines * plan.lanes))
        with builder.if_then(fits):
            builder.call(_part_function(items, lines), [keys, count])
            builder.branch(after)
    builder.call(_part_function(items, plan.lines), [keys, count])
    builder.branch(after)
    builder.position_at_end(after)


def _part_function(items: Items, lines: int) -> ir.LLVMFunction:
    """Return the function that sorts an array of keys, of some length, in `lines` vectors."""
    plan, module = items.plan, items.builder.module
    name = f"sg.part.{lines}.{items.name}"
    function = module.globals.get(name)
    if function is None:
        function = kernel_function(module, ir.FunctionType(ir.VoidType(), [POINTER, INDEX]), name)
        keys, count = function.args
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        _emit_sort_lines(Items(builder, plan), (keys,), lines, count)
        builder.ret_void()
    return function


def _sort_run(matrix: Matrix, place: Item) -> None:
    """Sort a run in registers: its columns by a network, then the columns into each other."""
    lines = matrix.plan.lines

    def emit(items: Items, inside: Item) -> None:
        _emit_sort_lines(items, inside, lines)

    call_generated(f"sg.run.{lines}", matrix.items, place, emit)


def _emit_sort_lines(items: Items, place: Item, count: int, keys: ir.Value | None = None) -> None:
    """Sort so many lines, or the first `keys` keys of them."""
    lanes = items.plan.lanes
    lines = [items.load(place, index(i * lanes)) for i in range(count)]
    if keys is not None:
        lines = [_padded(items, line, i * lanes, keys) for i, line in enumerate(lines)]
    for low, high in comparators(count):
        lines[low], lines[high] = items.exchange(lines[low], lines[high])
    columns = 1
    while columns < lanes:
        _merge_columns(items, lines, columns)
        columns *= 2
    for position, line in enumerate(_by_columns(items, lines)):
        items.store(line, place, index(position * lanes))


def _padded(items: Items, line: Item, start: int, count: ir.Value) -> Item:
    """Return a line whose first element is the one `start`, with the greatest from `count` on."""
    builder, plan = items.builder, items.plan
    steps = ir.Constant(items.words, list(range(start, start + plan.lanes)))
    end = builder.trunc(count, items.word) if plan.bits < 64 else count
    exists = builder.icmp_signed("<", steps, splat(builder, end, plan.lanes))
    return items.choose(exists, line, items.greatest())


def _merge_columns(items: Items, lines: list[Item], columns: int) -> None:
    """Merge neighbours of `columns` sorted columns each, in the order column by column."""
    lanes, last = items.plan.lanes, len(lines) - 1
    mirrored = [lane ^ (2 * columns - 1) for lane in range(lanes)]
    # Lower columns take the lesser of a pair, upper ones the greater.
    kept = [lane + lanes * bool(lane & columns) for lane in range(lanes)]
    turned = [lane + lanes * (not lane & columns) for lane in mirrored]
    for line in range((last + 2) // 2):
        pair = items.exchange(lines[line], items.permute(lines[last - line], mirrored))
        lines[last - line] = items.shuffle(*pair, turned)
        lines[line] = items.shuffle(*pair, kept)
    _clean_lanes(items, lines, columns // 2)
    distance = len(lines) // 2
    while distance:
        for line in range(len(lines)):
            if not line & distance:
                pair = lines[line], lines[line + distance]
                lines[line], lines[line + distance] = items.exchange(*pair)
        distance //= 2


def _clean_lanes(items: Items, lines: list[Item], distance: int) -> None:
    """Exchange lanes of all lines, two by two, that are `distance` apart, and so on down to 1."""
    lanes = items.plan.lanes
    if not distance:
        return
    for line in range(0, len(lines), 2):
        # An odd one is a pair with itself.
        other = min(line + 1, len(lines) - 1)
        x, y, held = cleaned(items, lines[line], lines[other], distance)
        lines[line] = arranged(items, x, y, held, range(lanes))
        lines[other] = arranged(items, x, y, held, range(lanes, 2 * lanes))


def _by_columns(items: Items, lines: list[Item]) -> list[Item]:
    """Return the elements of `lines` column by column."""
    planes = [list(plane) for plane in zip(*lines, strict=True)]
    for _ in range(len(lines).bit_length() - 1):
        planes = [zipped(items.builder, plane) for plane in planes]
    return list(zip(*planes, strict=True))
