"""Turns of contestants, and what is waited for between them."""

from __future__ import annotations

import threading

from symgrad.testing.timing import interleave, wait_for_threads


def test_what_is_waited_for_is_before_each_turn_and_not_counted():
    calls: list[str] = []
    now = [0.0]

    def clock() -> float:
        return now[0]

    def work() -> None:
        calls.append("work")
        now[0] += 1.0

    def settle() -> None:
        calls.append("settle")
        now[0] += 100.0

    found = interleave({"a": work, "b": work}, rounds=2, seconds=0.5, clock=clock, settle=settle)
    assert calls.count("settle") == 6  # two contestants, a turn that warms up and two that count
    assert found["a"].rounds == (1.0, 1.0)


def test_threads_are_waited_for_until_they_have_nothing_to_do():
    assert wait_for_threads(10.0)
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        assert not wait_for_threads(0.1)
    finally:
        stop.set()
        thread.join()
    assert wait_for_threads(10.0)
