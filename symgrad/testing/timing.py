"""Benchmark timing: contestants take turns, so that whatever disturbs one disturbs all.

What is compared are the medians of rounds that lie side by side in time, and their ratios; the best
round is kept beside the median, since it is what the code does on a machine without other work.
Nothing here knows what is measured or how it is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import repeat

import numpy as np

from symgrad.records import dataclass

Contestant = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds a call took in each round."""

    rounds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.rounds)

    @property
    def median(self) -> float:
        return float(np.median(self.rounds))

    def ratio(self, other: Times) -> float:
        """Return how many times as long as `other` this took: the median over the rounds."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return float(np.median([mine / theirs for mine, theirs in pairs]))


def interleave(
    contestants: Mapping[str, Contestant],
    *,
    rounds: int,
    seconds: float = 0.002,
    clock: Clock = time.perf_counter,
) -> dict[str, Times]:
    """Return the time of one call of each contestant, measured in `rounds` turns.

    A turn is as many calls as take `seconds`, at least one. The first turn only warms up. With
    `time.thread_time` other programs count less, but so do other threads of the contestant.
    """
    counts = {name: _calls_in(call, seconds, clock) for name, call in contestants.items()}
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, call in contestants.items():
            spent = time_calls(call, counts[name], clock) / counts[name]
            if turn:
                found[name].append(spent)
    return {name: Times(tuple(spent)) for name, spent in found.items()}


def time_calls(call: Contestant, count: int, clock: Clock = time.perf_counter) -> float:
    """Return the seconds that `count` calls take, with the few nanoseconds of the loop around them.

    They are the same for every contestant, and taking them off would make noise of them.
    """
    begun = clock()
    for _ in repeat(None, count):
        call()
    return max(clock() - begun, 1e-12)


def _calls_in(call: Contestant, seconds: float, clock: Clock) -> int:
    call()  # the first call may be the one that compiles
    count = 1
    while (spent := time_calls(call, count, clock)) < seconds / 4:
        count *= 4
    return max(1, round(count * seconds / spent))
