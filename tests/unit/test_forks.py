"""What is found once, without a lock that a fork would have to wait for."""

from __future__ import annotations

import threading

from symgrad import forks
from symgrad.forks import cached_property, held_over_forks


class _Found:
    def __init__(self) -> None:
        self.count = 0
        self.waited: threading.Event | None = None

    @cached_property
    def value(self) -> list[int]:
        """What is found."""
        self.count += 1
        if self.waited is not None:
            self.waited.wait(timeout=10)
        return [self.count]


def test_what_is_found_is_kept_and_may_be_given():
    found, given = _Found(), _Found()
    given.value = [7]
    assert found.value is found.value
    assert (found.count, given.value, given.count) == (1, [7], 0)
    assert _Found.value.__doc__ == "What is found."


def test_two_threads_that_find_the_same_have_the_first():
    found, seen = _Found(), []
    found.waited = threading.Event()
    thread = threading.Thread(target=lambda: seen.append(found.value))
    thread.start()
    while not found.count:
        pass
    other = _Found()
    assert other.value == [1]  # no lock is held meanwhile
    waited, found.waited = found.waited, None
    first = found.value
    waited.set()
    thread.join()
    assert seen[0] is first is found.value


def test_a_fork_within_what_another_does_before_lets_go_of_its_own_locks(monkeypatch):
    for name in ("_own", "_foreign"):
        monkeypatch.setattr(forks, name, [])
    lock = held_over_forks()
    forks._take()
    forks._take()
    forks._release()
    tried: list[bool] = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: tried.append(lock.acquire(timeout=0.1)))
        thread.start()
        thread.join()
        if forks._taken.of_forks:
            forks._release()
    assert tried == [False, True]
