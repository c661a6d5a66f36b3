"""The plan of memory: what is alive does not overlap, and neither arena nor work is too large."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symgrad.codegen.program import plan_memory as module
from symgrad.codegen.program.plan_memory import Request, plan_memory
from symgrad.graph.aligned import ALIGNMENT

Lifetime = Callable[[random.Random, int, int], tuple[int, int]]


def requests() -> st.SearchStrategy[list[Request]]:
    step = st.integers(0, 30)
    one = st.tuples(st.integers(0, 1000), step, step)
    return st.lists(one.map(lambda r: Request(r[0], min(r[1:]), max(r[1:]))), max_size=40)


def rounded(size: int) -> int:
    return max(1, -(-size // ALIGNMENT)) * ALIGNMENT


def alive_at(given: list[Request], step: int) -> list[int]:
    return [i for i, r in enumerate(given) if r.first <= step <= r.last]


@given(requests())
def test_requests_alive_together_do_not_overlap(given):
    offsets, _ = plan_memory(given)
    for step in range(31):
        ranges = sorted((offsets[i], offsets[i] + given[i].size) for i in alive_at(given, step))
        for (_, end), (start, _) in itertools.pairwise(ranges):
            assert end <= start


@given(requests())
def test_the_arena_holds_all_that_is_alive_and_no_more_than_the_sum(given):
    offsets, size = plan_memory(given)
    peak = max(sum(rounded(given[i].size) for i in alive_at(given, s)) for s in range(31))
    assert peak <= size <= sum(rounded(r.size) for r in given)
    assert all(o >= 0 and o + r.size <= size for o, r in zip(offsets, given, strict=True))


@pytest.mark.parametrize("size", [1 << 14, 80_000, 1 << 20, (1 << 20) + 256])
def test_large_buffers_beside_each_other_start_at_other_places_of_pages(size):
    offsets, total = plan_memory([Request(size, 0, 1)] * 16)
    assert len({offset % 4096 for offset in offsets}) == 16
    assert total <= 16 * (size + 512)


@given(requests())
def test_every_buffer_starts_at_a_cache_line_and_the_plan_is_always_the_same(given):
    offsets, size = plan_memory(given)
    assert all(offset % ALIGNMENT == 0 for offset in offsets)
    assert plan_memory(given) == (offsets, size)


def test_what_is_dead_is_used_again():
    first, second, third = Request(1000, 0, 1), Request(1000, 1, 2), Request(1000, 2, 3)
    offsets, size = plan_memory([first, second, third])
    assert offsets[2] == offsets[0]
    assert size == 2 * rounded(1000)


def test_the_smallest_gap_that_fits_is_taken():
    held = [Request(64 * n, 0, 0 if n in (2, 8) else 9) for n in (8, 4, 2, 1)]
    offsets, _ = plan_memory([*held, Request(128, 1, 1)])
    assert offsets[4] == offsets[2]


def test_gaps_that_touch_are_one():
    pair = [Request(64, 0, 0), Request(64, 0, 1), Request(64, 0, 9)]
    offsets, size = plan_memory([*pair, Request(128, 2, 2)])
    assert offsets[3] == min(offsets[:2])
    assert size == 192


def test_where_the_order_of_birth_leaves_gaps_other_orders_fill_them():
    short = [Request(64 * size, step, step + 1) for step, size in enumerate((3, 1, 4, 2, 3, 1))]
    given = [*short, Request(64, 1, 6), Request(64, 3, 6)]
    _, size = plan_memory(given)
    assert module._by_birth(given, [r.size for r in given])[1] > size
    assert size == max(sum(given[i].size for i in alive_at(given, s)) for s in range(7))


def test_what_ends_at_the_end_of_an_arena_is_placed_first_the_next_time(monkeypatch):
    lives = [(3, 3, 5), (4, 2, 5), (3, 4, 5), (5, 1, 3), (3, 4, 5)]
    given = [Request(64 * size, first, last) for size, first, last in lives]
    assert plan_memory(given)[1] == max(
        sum(given[i].size for i in alive_at(given, s)) for s in range(6)
    )
    monkeypatch.setattr(module, "_MOST_TRIED", 3)
    assert plan_memory(given)[1] > 64 * 13


def test_no_other_order_is_tried_where_no_arena_could_be_smaller(monkeypatch):
    monkeypatch.setattr(module, "_in_other_orders", pytest.fail)
    assert plan_memory([Request(64 * n, 0, n) for n in range(1, 9)])[1] == 64 * 36


@given(requests())
def test_small_requests_lie_behind_the_large_ones_that_are_compared(given):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_COMPARED", len(given) // 2)
        offsets, size = module._in_other_orders(given, [rounded(r.size) for r in given], 0)
    for step in range(31):
        ranges = sorted((offsets[i], offsets[i] + given[i].size) for i in alive_at(given, step))
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
        assert all(0 <= start <= end <= size for start, end in ranges)


def test_nothing_takes_no_memory():
    assert plan_memory([]) == ([], 0)


LIFETIMES: dict[str, Lifetime] = {
    "short": lambda rng, i, _n: (i, i + rng.randrange(8)),
    "nested": lambda _rng, i, n: (i, 2 * n - i),
    "arbitrary": lambda rng, i, n: (i, i + rng.randrange(n)),
}


def lines_run(count: int, lifetime: Lifetime) -> int:
    """Return how many lines of the module run for `count` requests."""
    rng = random.Random(count)
    given = [Request(rng.randrange(1, 10**6), *lifetime(rng, i, count)) for i in range(count)]
    lines = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != module.__file__:
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        plan_memory(given)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("lifetime", LIFETIMES.values(), ids=LIFETIMES)
def test_the_work_is_linear_in_the_requests(lifetime):
    few, many = lines_run(250, lifetime), lines_run(2000, lifetime)
    assert few > 250
    assert many < 8 * few * 1.25
