"""Plan memory: one arena for everything that lives only while a program runs.

Each request is a size and the first and last step at which it is alive. Requests that are alive
together do not overlap. Best fit over the gaps, in the order of birth: simple, linear in practice,
and never more than the sum of what is alive.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from symgrad.graph.types import ALIGNMENT


@dataclass(frozen=True, slots=True)
class Request:
    """`size` bytes, alive from the step `first` to the step `last`, both included."""

    size: int
    first: int
    last: int


def plan_memory(requests: Sequence[Request]) -> tuple[list[int], int]:
    """Return the offset of each request and the size of the arena, in bytes."""
    arena = _Arena()
    offsets = [0] * len(requests)
    dying: list[tuple[int, int]] = []  # (last step, request), soonest first
    order = sorted(range(len(requests)), key=lambda i: (requests[i].first, -requests[i].size))
    for i in order:
        request = requests[i]
        while dying and dying[0][0] < request.first:
            _, dead = heapq.heappop(dying)
            arena.give_back(offsets[dead], _rounded(requests[dead].size))
        offsets[i] = arena.take(_rounded(request.size))
        heapq.heappush(dying, (request.last, i))
    return offsets, arena.size


def _rounded(size: int) -> int:
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT


class _Arena:
    """Gaps between live requests, ordered by address, and what the arena has grown to."""

    def __init__(self) -> None:
        self.size = 0
        self._gaps: list[tuple[int, int]] = []  # (start, size), neither adjacent nor overlapping

    def take(self, size: int) -> int:
        """Return the start of the smallest gap that holds `size`, or grow the arena."""
        fitting = [(gap[1], i) for i, gap in enumerate(self._gaps) if gap[1] >= size]
        if fitting:
            _, i = min(fitting)
            start, gap = self._gaps.pop(i)
            if gap > size:
                self._gaps.insert(i, (start + size, gap - size))
            return start
        start = self.size
        if self._gaps and sum(self._gaps[-1]) == self.size:
            start, _ = self._gaps.pop()
        self.size = start + size
        return start

    def give_back(self, start: int, size: int) -> None:
        """Free a range and join it with the gaps beside it."""
        i = bisect_left(self._gaps, (start, 0))
        if i < len(self._gaps) and start + size == self._gaps[i][0]:
            size += self._gaps.pop(i)[1]
        if i > 0 and sum(self._gaps[i - 1]) == start:
            before, before_size = self._gaps.pop(i - 1)
            start, size = before, before_size + size
        insort(self._gaps, (start, size))
