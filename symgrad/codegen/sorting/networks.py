"""Sorting networks: which lines are compared and exchanged, whatever they hold.

Batcher's merge exchange (Knuth, The Art of Computer Programming, volume 3, algorithm 5.2.2M) sorts
any number of lines in registers. More lines are blocks of these, merged by bitonic merges (the same
book, section 5.3.4) in memory; what is compared with a line that does not exist stays where it is,
as if that line held what comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from symgrad.codegen import ir
from symgrad.codegen.contract.elements import counted_loop, index
from symgrad.codegen.sorting.elements import Item, Items, call_generated

Comparator = tuple[int, int]
# Called with a line of a tile and how many from there on a block has.
Prefetch = Callable[[ir.Value, int], None]


def comparators(lines: int) -> Iterator[Comparator]:
    """Yield pairs of lines, the lower first, whose elements are put in order one after another."""
    if lines < 2:
        return
    top = 1 << ((lines - 1).bit_length() - 1)
    step = top
    while step > 0:
        reach, parity, distance = top, 0, step
        while True:
            yield from ((i, i + distance) for i in range(lines - distance) if i & step == parity)
            if reach == step:
                break
            distance, parity, reach = reach - step, step, reach // 2
        step //= 2


def half_cleaners(lines: int, most: int) -> Iterator[Comparator]:
    """Yield the pairs that sort a bitonic sequence of `most` lines, of which there are `lines`."""
    distance = most // 2
    while distance:
        yield from ((i, i + distance) for i in range(lines - distance) if not i & distance)
        distance //= 2


def exchange_all(items: Items, lines: list[Item], network: Iterable[Comparator]) -> None:
    """Put pairs of lines in registers in order, one pair after another."""
    for low, high in network:
        lines[low], lines[high] = items.exchange(lines[low], lines[high])


def emit_network(
    items: Items,
    tile: Item,
    lines: int,
    prefetch: Prefetch,
    *,
    has_sorted_blocks: bool = False,
    cleans_last: bool = True,
) -> None:
    """Sort the lanes of a tile of `lines` vectors in memory.

    On the way `prefetch` is called for each block, with its first line and how many lines it has.
    What is read and written block by block may be sorted in blocks before (`has_sorted_blocks`),
    where `prefetch` was called too, and made complete afterwards: unless the network `cleans_last`,
    the rounds within blocks of the last merge are left.
    """
    _TileNetwork(items, tile, lines, prefetch).emit(has_sorted_blocks, cleans_last)


class _TileNetwork:
    def __init__(self, items: Items, tile: Item, lines: int, prefetch: Prefetch) -> None:
        self._prefetch = prefetch
        self._items = items
        self._tile = tile
        self._lines = lines
        self._block = items.plan.block

    def emit(self, has_sorted_blocks: bool, cleans_last: bool) -> None:
        if not has_sorted_blocks:
            self._blocks("lines", comparators)
        half = self._block
        while half < self._lines:
            self._merges(half)
            half *= 2
            if cleans_last or half < self._lines:
                self._blocks("clean", lambda lines: half_cleaners(lines, self._block))

    def _blocks(self, name: str, network: Callable[[int], Iterator[Comparator]]) -> None:
        """Apply a network to each block of lines in registers."""
        builder, lanes = self._items.builder, self._items.plan.lanes
        rest = self._lines % self._block
        whole = (self._lines - rest) * lanes
        if whole:
            with counted_loop(builder, index(0), index(whole), self._block * lanes) as at:
                self._call(name, self._block, network, at)
                if name == "lines":
                    self._prefetch(builder.sdiv(at, index(lanes)), self._block)
        if rest > 1:
            self._call(name, rest, network, index(whole))

    def _call(
        self, name: str, lines: int, network: Callable[[int], Iterator[Comparator]], at: ir.Value
    ) -> None:
        items = self._items

        def emit(inside: Items, place: Item) -> None:
            _emit_in_registers(inside, place, network(lines), lines)

        call_generated(f"sg.{name}.{lines}", items, items.at(self._tile, at), emit)

    def _merges(self, half: int) -> None:
        """Merge neighbours of `half` lines; the last of all may have fewer, or no neighbour."""
        rest = self._lines % (2 * half)
        whole = self._lines - rest
        if whole:
            with counted_loop(self._items.builder, index(0), index(whole), 2 * half) as base:
                self._merge(base, half, half)
        if rest > half:
            self._merge(index(whole), half, rest - half)

    def _merge(self, base: ir.Value, half: int, others: int) -> None:
        """Merge `half` lines and the `others` behind them, down to distances within a block.

        Some rounds are made at once: what a line meets in these is a step away, or several, and
        so few lines are in registers meanwhile. Only in the first of all rounds they are mirrored.
        """
        builder, most = self._items.builder, self._block.bit_length() - 1
        rounds = (half // self._block).bit_length()
        step = half >> (rounds - 1) % most
        self._mirrored(base, half, step, others)
        total = half + others
        while step > self._block:
            span, step = step, max(self._block, step >> most)
            rest = total % span
            end = builder.add(base, index(total - rest))
            if total > rest:
                with counted_loop(builder, base, end, span) as start:
                    self._evenly(start, step, span)
            self._evenly(end, step, rest, span)

    def _mirrored(self, base: ir.Value, half: int, step: int, others: int) -> None:
        """Exchange lines with those of the other half in reverse order, then within each half."""
        count = half // step
        for begin, end, there in _ranges(others, step):
            pairs = [(i, 2 * count - 1 - i) for i in range(count) if count - 1 - i < there]
            pairs += half_cleaners(count, count)
            pairs += ((count + i, count + j) for i, j in half_cleaners(there, count))
            # The others count from the end of a step, so that their partners do from its beginning.
            with self._each(begin, end) as at:
                builder = self._items.builder
                first = builder.add(base, builder.sub(index(step - 1), at))
                second = builder.add(builder.add(base, index(half)), at)
                low = [builder.add(first, index(i * step)) for i in range(count)]
                high = [builder.add(second, index(i * step)) for i in range(there)]
                self._exchange([*low, *high], pairs)

    def _evenly(self, start: ir.Value, step: int, lines: int, span: int | None = None) -> None:
        """Exchange lines half of `span` apart first, and `step` apart last, from `start` on."""
        builder = self._items.builder
        count = (span or lines) // step
        for begin, end, there in _ranges(lines, step):
            with self._each(begin, end) as at:
                first = builder.add(start, at)
                places = [builder.add(first, index(i * step)) for i in range(there)]
                self._exchange(places, half_cleaners(there, count))

    def _each(self, begin: int, end: int) -> AbstractContextManager[ir.Value]:
        return counted_loop(self._items.builder, index(begin), index(end))

    def _exchange(self, lines: Sequence[ir.Value], pairs: Iterable[Comparator]) -> None:
        """Load lines, exchange pairs of them one after another, and store them."""
        items, lanes = self._items, self._items.plan.lanes
        places = [items.builder.mul(line, index(lanes)) for line in lines]
        loaded = [items.load(self._tile, place) for place in places]
        exchange_all(items, loaded, pairs)
        for item, place in zip(loaded, places, strict=True):
            items.store(item, self._tile, place)


def _ranges(lines: int, step: int) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of places within a step, and how many of `lines` are so far behind a step."""
    whole, rest = divmod(lines, step)
    if rest:
        yield 0, rest, whole + 1
    if whole:
        yield rest, step, whole


def _emit_in_registers(items: Items, tile: Item, network: Iterator[Comparator], lines: int) -> None:
    places = [index(line * items.plan.lanes) for line in range(lines)]
    loaded = [items.load(tile, place) for place in places]
    exchange_all(items, loaded, network)
    for line, place in zip(loaded, places, strict=True):
        items.store(line, tile, place)
