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

QUIET_SECONDS, BUSY_SHARE = 0.002, 0.1  # for so long threads work less than such a share


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
    settle: Callable[[], object] | None = None,
) -> dict[str, Times]:
    """Return the time of one call of each contestant, measured in `rounds` turns.

    A turn is as many calls as take `seconds`, at least one. The first turn only warms up. With
    `time.thread_time` other programs count less, but so do other threads of the contestant. What is
    to be waited for before a turn, which does not count, is done by `settle`.
    """
    counts = {name: _calls_in(call, seconds, clock) for name, call in contestants.items()}
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, call in contestants.items():
            if settle is not None:
                settle()
            spent = time_calls(call, counts[name], clock) / counts[name]
            if turn:
                found[name].append(spent)
    return {name: Times(tuple(spent)) for name, spent in found.items()}


def wait_for_threads(seconds: float = 0.2) -> bool:
    """Wait until no other thread of this process works, for so long at most; return whether so.

    Threads of a contestant may go on behind its results, as those that free its memory do: on one
    core they would take the time of the next one.
    """
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        before = time.process_time() - time.thread_time()
        time.sleep(QUIET_SECONDS)
        if time.process_time() - time.thread_time() - before < BUSY_SHARE * QUIET_SECONDS:
            return True
    return False


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
