"""What the native entry owns, releases and shares: memory, cycles, threads."""

from __future__ import annotations

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from symgrad.graph import dtypes
from symgrad.runtime.entry import ArraySpec, NativeEntry, build_entry
from tests.support.copy_step import (
    F64,
    Array,
    StepError,
    build_copy,
    copy_step,
    echo,
    fail,
    values,
)

CALLS = 100_000


def test_functions_outlive_the_entry_and_own_what_they_need():
    class Owner:
        pass

    owner = Owner()
    is_alive = weakref.ref(owner)
    code = copy_step()
    state = np.array([0, 1, F64.nbytes])
    entry = build_entry(
        name="owned",
        step_address=code.address("step"),
        state_address=state.ctypes.data,
        inputs=[F64],
        outputs=[F64],
        single=True,
        slow_path=echo,
        on_failure=fail,
        owner=owner,
    )
    call, into = entry.call, entry.into
    del entry, owner
    gc.collect()
    assert (call.__name__, call.__module__) == ("owned", "symgrad")
    np.testing.assert_array_equal(call(np.arange(4.0)), np.arange(4.0))
    del call
    assert is_alive() is not None
    del into
    assert is_alive() is None


def test_a_cycle_through_the_handlers_is_collected():
    @dataclass(eq=False)
    class Step:
        entry: NativeEntry | None = None

        def convert(self, *args: object) -> object:
            return self, args

    step = Step()
    step.entry = build_copy([F64], slow_path=step.convert)
    is_alive = weakref.ref(step)
    del step
    gc.collect()
    assert is_alive() is None


def test_many_entries_live_and_die():
    specs = [ArraySpec("x", (size,), dtypes.float32) for size in range(200)]
    entries = [build_copy([spec], single=True) for spec in specs]
    del entries[::2]
    gc.collect()
    for spec, entry in zip(specs[1::2], entries, strict=True):
        np.testing.assert_array_equal(entry.call(values(spec)), values(spec))


def test_threads_may_call_at_once():
    entry = build_copy([F64, F64])

    def work(number: int) -> bool:
        a, b = np.full(4, number, np.float64), np.full(4, -number, np.float64)
        results = (entry.call(a, b) for _ in range(2000))
        return all(y[0] == number and z[3] == -number for y, z in results)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(4), timeout=60))
    finally:
        sys.setswitchinterval(interval)


def test_a_call_that_the_garbage_collector_makes_in_between_does_no_harm():
    # Python keeps tuples of up to 20 items for reuse; it has to allocate a longer one.
    entry = build_copy([F64] * 21)
    x, other = np.full(4, 1.0), np.full(4, 2.0)
    inner_calls = 0

    def call_again(phase: str, _counts: dict[str, int]) -> None:
        nonlocal inner_calls
        inner_calls += 1
        entry.call(*[other] * 21)

    thresholds = gc.get_threshold()
    gc.callbacks.append(call_again)
    gc.set_threshold(1)
    try:
        results = [entry.call(*[x] * 21) for _ in range(100)]
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(call_again)
    assert inner_calls > 100
    assert all(y[0] == 1 for ys in results for y in ys)


def fast(entry: NativeEntry, x: Array) -> None:
    entry.call(x)


def given(entry: NativeEntry, x: Array) -> None:
    entry.into(x, GIVEN)


def slow(entry: NativeEntry, x: Array) -> None:
    entry.call(x, x)


def caught(entry: NativeEntry, x: Array) -> None:
    try:
        entry.call(x)
    except StepError:
        return
    raise AssertionError("the step did not fail")


def refused(entry: NativeEntry, x: Array) -> None:
    try:
        entry.call(x)
    except MemoryError:
        return
    raise AssertionError("there was memory")


GIVEN = np.zeros(4)
HUGE = ArraySpec("huge", (2**50,), dtypes.float64)

PATHS = {
    "single": (fast, build_copy([F64], single=True)),
    "tuple": (fast, build_copy([F64])),
    "list": (fast, build_copy([F64], as_list=True)),
    "into": (given, build_copy([F64])),
    "slow path": (slow, build_copy([F64])),
    "slow path with a result begun": (fast, build_copy([replace(F64, shape=(5,))])),
    "failure of a single": (caught, build_copy([F64], status=1000, single=True)),
    "failure of a tuple": (caught, build_copy([F64], status=1000)),
    "failure of a list": (caught, build_copy([F64], status=1000, as_list=True)),
    "failure of none": (caught, build_copy([F64], status=1000, outputs=())),
    "no memory for a list": (refused, build_copy([F64], outputs=[F64, HUGE], as_list=True)),
    "no memory": (refused, build_copy([F64], outputs=[F64, HUGE])),
    "no memory for a single": (refused, build_copy([F64], outputs=[HUGE], single=True)),
}


_AT_ONCE = ("single", "slow path", "failure of a tuple", "no memory")
_LATER = [pytest.param(path, marks=pytest.mark.slow) for path in PATHS if path not in _AT_ONCE]


@pytest.mark.parametrize("path", [*_AT_ONCE, *_LATER])
def test_no_path_leaks(path):
    call, entry = PATHS[path]
    x = values(F64)
    shared = (x, GIVEN, x.dtype, None, np.ndarray, echo, fail)
    for _ in range(100):
        call(entry, x)
    gc.collect()
    counts = [sys.getrefcount(item) for item in shared]
    blocks, pages = sys.getallocatedblocks(), resident_pages()
    for _ in range(CALLS):
        call(entry, x)
    gc.collect()
    # The test itself holds a few objects more at the end; a leak would be of 100,000.
    assert sys.getallocatedblocks() - blocks < 100
    # Elements are not in Python's blocks: 32 bytes of each call would be 780 pages.
    assert resident_pages() - pages < 300
    for item, count in zip(shared, counts, strict=True):
        assert abs(sys.getrefcount(item) - count) < 100


def resident_pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


def test_a_fresh_output_is_referred_to_once():
    x = values(F64)
    y = build_copy([F64], single=True).call(x)
    (z,) = build_copy([F64]).call(x)
    w = np.empty(4)
    assert sys.getrefcount(y) == sys.getrefcount(z) == sys.getrefcount(w)
