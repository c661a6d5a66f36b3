"""Arena memory planning: a linear scan of lifetimes, best fit, for what only a run needs.

Each request is a size and the first and last instruction at which it is alive. Requests that are
alive together do not overlap. Best fit over the gaps, in the order of birth: n log n, and never
more than the sum of all requests.

Where that takes more than what is alive at once, the largest requests are placed in other orders
as well, each at the lowest place that is free for as long as it lives (offline dynamic storage
allocation, first fit), some of which are repaired, until an arena is small enough. There are few
enough of those for each to be compared with all others.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from symgrad.cost_model import BYTES_APART, LEAST_BYTES_APART, SPARE_OF_ARENA
from symgrad.graph.aligned import ALIGNMENT
from symgrad.records import dataclass

_MOST_COMPARED = 256  # requests, each with all others: a millisecond an order
_MOST_TRIED = 10  # orders, three of them and repaired ones
Places = tuple[list[int], int]  # the offset of each request, and the size of the arena


@dataclass(frozen=True, slots=True)
class Request:
    """A live range: `size` bytes, from the instruction `first` to `last`, both included."""

    size: int
    first: int
    last: int


def plan_memory(requests: Sequence[Request]) -> Places:
    """Return the offset of each request and the size of the arena, in bytes.

    Large pieces beside each other begin at other places of pages, unless that takes much memory, as
    where four pieces would fill what one of four times their size leaves.
    """
    sizes = [_rounded(request.size) for request in requests]
    places = _by_birth(requests, sizes)
    if any(request.size >= LEAST_BYTES_APART for request in requests):
        apart = [_apart(request.size) for request in requests]
        places_apart = _by_birth(requests, apart)
        if places_apart[1] <= (1 + SPARE_OF_ARENA) * places[1]:
            sizes, places = apart, places_apart
    enough = (1 + SPARE_OF_ARENA) * _most_alive(requests, sizes)
    if places[1] <= enough:
        return places
    return min(places, _in_other_orders(requests, sizes, enough), key=lambda found: found[1])


def _most_alive(requests: Sequence[Request], sizes: Sequence[int]) -> int:
    """Return the bytes that are alive at once at the most: no arena is smaller."""
    changes: dict[int, int] = defaultdict(int)
    for request, size in zip(requests, sizes, strict=True):
        changes[request.first] += size
        changes[request.last + 1] -= size
    return max(accumulate(changes[step] for step in sorted(changes)), default=0)


def _by_birth(requests: Sequence[Request], sizes: Sequence[int]) -> Places:
    """Return places for all requests, each of which takes the smallest gap when it is born."""
    arena = _Arena()
    offsets = [0] * len(requests)
    dying: list[tuple[int, int]] = []  # (last instruction, request), soonest first
    for i in sorted(range(len(requests)), key=lambda i: (requests[i].first, -requests[i].size)):
        request = requests[i]
        while dying and dying[0][0] < request.first:
            _, dead = heapq.heappop(dying)
            arena.give_back(offsets[dead], sizes[dead])
        offsets[i] = arena.take(sizes[i])
        heapq.heappush(dying, (request.last, i))
    return offsets, arena.size


def _in_other_orders(requests: Sequence[Request], sizes: Sequence[int], enough: float) -> Places:
    """Return the smallest arena by first fit of the largest requests; others lie behind them.

    No order is the best in all programs. That of birth is repaired until an arena is small
    `enough`: what ends at its end comes first the next time.
    """
    by_size = sorted(range(len(requests)), key=lambda i: -sizes[i])
    large, small = by_size[:_MOST_COMPARED], sorted(by_size[_MOST_COMPARED:])
    behind, size_behind = _by_birth([requests[i] for i in small], [sizes[i] for i in small])
    *orders, order = _orders(requests, sizes, large)
    found = [_first_fit(requests, sizes, other) for other in (*orders, order)]
    while len(found) < _MOST_TRIED and min(size for _, size in found) + size_behind > enough:
        offsets, size = found[-1]
        order.sort(key=lambda i: offsets[i] + sizes[i] < size)
        found.append(_first_fit(requests, sizes, order))
    offsets, size = min(found, key=lambda places: places[1])
    for i, offset in zip(small, behind, strict=True):
        offsets[i] = size + offset
    return offsets, size + size_behind


def _orders(
    requests: Sequence[Request], sizes: Sequence[int], large: Sequence[int]
) -> Iterator[list[int]]:
    """Yield orders in which first fit often finds a small arena: by size, by area, by birth."""
    life = [request.last - request.first + 1 for request in requests]
    yield sorted(large, key=lambda i: (-sizes[i], -life[i]))
    yield sorted(large, key=lambda i: -sizes[i] * life[i])
    yield sorted(large, key=lambda i: (requests[i].first, -life[i]))


def _first_fit(requests: Sequence[Request], sizes: Sequence[int], order: Iterable[int]) -> Places:
    """Return places for the requests of `order`, which find the lowest gap one after the other."""
    offsets, arena = [0] * len(requests), 0
    placed: list[tuple[int, int, int, int]] = []  # (start, end, first, last), the lowest first
    for i in order:
        first, last, place = requests[i].first, requests[i].last, 0
        for start, end, other_first, other_last in placed:
            if other_first > last or other_last < first:
                continue
            if start - place >= sizes[i]:
                break
            if end > place:
                place = end
        offsets[i] = place
        insort(placed, (place, place + sizes[i], first, last))
        arena = max(arena, place + sizes[i])
    return offsets, arena


def _rounded(size: int) -> int:
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT


def _apart(size: int) -> int:
    """Return the bytes for `size`, with which the next large piece is at another place of pages.

    A processor takes two accesses at one place of two pages for one, until it has compared more
    than that: arrays that are walked through side by side would wait for each other.
    """
    if size < LEAST_BYTES_APART:
        return _rounded(size)
    return (-(-size // BYTES_APART) | 1) * BYTES_APART


class _Arena:
    """Gaps between live requests, and what the arena has grown to."""

    def __init__(self) -> None:
        self.size = 0
        # The same gaps in two orders; they neither overlap nor touch.
        self._by_start: list[tuple[int, int]] = []  # (start, size)
        self._by_size: list[tuple[int, int]] = []  # (size, start)

    def take(self, size: int) -> int:
        """Return the start of the smallest gap that holds `size`, or grow the arena."""
        i = bisect_left(self._by_size, (size, 0))
        if i < len(self._by_size):
            gap, start = self._by_size[i]
            self._remove(start, gap)
            if gap > size:
                self._add(start + size, gap - size)
            return start
        start = self.size
        if self._by_start and sum(self._by_start[-1]) == self.size:
            start, gap = self._by_start[-1]
            self._remove(start, gap)
        self.size = start + size
        return start

    def give_back(self, start: int, size: int) -> None:
        """Free a range and join it with the gaps beside it."""
        i = bisect_left(self._by_start, (start, 0))
        beside = self._by_start[max(i - 1, 0) : i + 1]
        for gap_start, gap in beside:
            if start + size == gap_start or gap_start + gap == start:
                self._remove(gap_start, gap)
                start, size = min(start, gap_start), size + gap
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        insort(self._by_start, (start, size))
        insort(self._by_size, (size, start))

    def _remove(self, start: int, size: int) -> None:
        del self._by_start[bisect_left(self._by_start, (start, size))]
        del self._by_size[bisect_left(self._by_size, (size, start))]
