"""Sorting networks: which lines are compared and exchanged, whatever they hold.

Batcher's merge exchange (Knuth, The Art of Computer Programming, volume 3, algorithm 5.2.2M) sorts
any number of lines in registers. More lines are blocks of these, merged by bitonic merges (the same
book, section 5.3.4) in memory; what is compared with a line that does not exist stays where it is,
as if that line held what comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from llvmlite import ir

from symgrad.codegen.contract.elements import INDEX, counted_loop, index
from symgrad.codegen.sorting.elements import Item, Items, call_generated

Comparator = tuple[int, int]


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


def emit_network(items: Items, tile: Item, lines: int) -> None:
    """Sort the lanes of a tile of `lines` vectors in memory."""
    _TileNetwork(items, tile, lines).emit()


class _TileNetwork:
    def __init__(self, items: Items, tile: Item, lines: int) -> None:
        self._items = items
        self._tile = tile
        self._lines = lines
        self._block = items.plan.block

    def emit(self) -> None:
        self._blocks("lines", comparators)
        half = self._block
        while half < self._lines:
            for base in range(0, self._lines - half, 2 * half):
                self._merge(base, half)
            self._blocks("clean", lambda lines: half_cleaners(lines, self._block))
            half *= 2

    def _blocks(self, name: str, network: Callable[[int], Iterator[Comparator]]) -> None:
        """Apply a network to each block of lines in registers."""
        builder, lanes = self._items.builder, self._items.plan.lanes
        rest = self._lines % self._block
        whole = (self._lines - rest) * lanes
        if whole:
            with counted_loop(builder, index(0), index(whole), self._block * lanes) as at:
                self._call(name, self._block, network, at)
        if rest > 1:
            self._call(name, rest, network, index(whole))

    def _call(
        self, name: str, lines: int, network: Callable[[int], Iterator[Comparator]], at: ir.Value
    ) -> None:
        items = self._items

        def emit(inside: Items, place: Item) -> None:
            _emit_in_registers(inside, place, network(lines), lines)

        call_generated(f"sg.{name}.{lines}", items, items.at(self._tile, at), emit)

    def _merge(self, base: int, half: int) -> None:
        """Compare the lines of two sorted halves, down to distances within a block."""
        middle, stop = base + half, min(base + 2 * half, self._lines)
        # Line middle - 1 - i with middle + i.
        self._exchange(middle - 1, middle, stop - middle, -1)
        distance = half // 2
        while distance >= self._block:
            for first in range(base, stop - distance, 2 * distance):
                count = min(distance, stop - distance - first)
                self._exchange(first, first + distance, count, 1)
            distance //= 2

    def _exchange(self, low: int, high: int, count: int, step: int) -> None:
        """Exchange `count` lines from `low` on, upwards or downwards, with those from `high` on."""
        items, lanes = self._items, self._items.plan.lanes
        with counted_loop(items.builder, index(0), index(count * lanes), lanes) as offset:
            moved = items.builder.mul(offset, INDEX(step))
            first = items.builder.add(index(low * lanes), moved)
            second = items.builder.add(index(high * lanes), offset)
            pair = items.load(self._tile, first), items.load(self._tile, second)
            lesser, greater = items.exchange(*pair)
            items.store(lesser, self._tile, first)
            items.store(greater, self._tile, second)


def _emit_in_registers(items: Items, tile: Item, network: Iterator[Comparator], lines: int) -> None:
    places = [index(line * items.plan.lanes) for line in range(lines)]
    loaded = [items.load(tile, place) for place in places]
    for low, high in network:
        loaded[low], loaded[high] = items.exchange(loaded[low], loaded[high])
    for line, place in zip(loaded, places, strict=True):
        items.store(line, tile, place)
