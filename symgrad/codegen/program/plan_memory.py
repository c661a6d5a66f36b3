"""Arena memory planning: a linear scan of lifetimes, best fit, for what only a run needs.

Each request is a size and the first and last instruction at which it is alive. Requests that are
alive together do not overlap. Best fit over the gaps, in the order of birth: n log n, and never
more than the sum of all requests.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

from symgrad.cost_model import BYTES_APART, LEAST_BYTES_APART, SPARE_OF_ARENA
from symgrad.graph.types import ALIGNMENT
from symgrad.records import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """A live range: `size` bytes, from the instruction `first` to `last`, both included."""

    size: int
    first: int
    last: int


def plan_memory(requests: Sequence[Request]) -> tuple[list[int], int]:
    """Return the offset of each request and the size of the arena, in bytes.

    Large pieces beside each other begin at other places of pages, unless that takes much memory, as
    where four pieces would fill what one of four times their size leaves.
    """
    close = _planned(requests, _rounded)
    if all(request.size < LEAST_BYTES_APART for request in requests):
        return close
    apart = _planned(requests, _apart)
    return apart if apart[1] <= (1 + SPARE_OF_ARENA) * close[1] else close


def _planned(requests: Sequence[Request], taken: Callable[[int], int]) -> tuple[list[int], int]:
    """Return the offsets and the size of an arena in which a piece of `size` has `taken(size)`."""
    arena = _Arena()
    offsets = [0] * len(requests)
    dying: list[tuple[int, int]] = []  # (last instruction, request), soonest first
    order = sorted(range(len(requests)), key=lambda i: (requests[i].first, -requests[i].size))
    for i in order:
        request = requests[i]
        while dying and dying[0][0] < request.first:
            _, dead = heapq.heappop(dying)
            arena.give_back(offsets[dead], taken(requests[dead].size))
        offsets[i] = arena.take(taken(request.size))
        heapq.heappush(dying, (request.last, i))
    return offsets, arena.size


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
