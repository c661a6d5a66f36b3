"""Threads beside a step that takes long: what they can do, and what has to wait for its end."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.runtime.entry import LockUse
from tests.support.waiting_call import Waiting, in_a_thread

F32 = np.float32
N = 300_000  # elements of which a step takes longer than a brief one


def placeholders() -> tuple[sg.Tensor, sg.Tensor]:
    return sg.placeholder((2,), "int64", name="places"), sg.placeholder((4,), name="x")


def callback(act: Callable[[], Any], kind: Any = ctypes.CFUNCTYPE) -> Any:
    """Return a function of C that runs Python, and fails if that does not return a true value."""

    def run(_x: int, y: int) -> int:
        ctypes.cast(y, ctypes.POINTER(ctypes.c_float))[0] = 1.0
        try:
            return 0 if act() else 7
        except Exception:
            return 8

    return kind(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(run)


def calling(x: sg.Tensor, function: Any) -> sg.Tensor:
    (y,) = sg.extern("back", [x], [((), "float32")], pointer=function)
    return y


# ------------------------------------------------------------------------------ other threads go on


def test_another_thread_runs_python_while_a_step_runs():
    places, _ = placeholders()
    waiting = Waiting()
    step = sg.compile([places], waiting.call(places))
    with in_a_thread(step, waiting) as results:
        ticks = sum(1 for _ in range(100_000))  # instructions between which the lock is asked for
        waiting.tell(ticks)
    assert results == [100_000]


def test_another_thread_runs_python_while_a_step_writes_to_arrays_it_is_given():
    places, x = placeholders()
    waiting = Waiting()
    step = sg.compile([places, x], (waiting.call(places), x + 1))
    out = np.zeros((), np.int64), np.zeros(4, F32)
    with in_a_thread(step, waiting, np.ones(4, F32), out=out):
        waiting.tell(17)
    assert out[0] == 17
    assert out[1].tolist() == [2.0] * 4


def test_another_thread_runs_python_while_a_step_is_profiled_or_traced(tmp_path):
    places, _ = placeholders()
    measures: list[Callable[[sg.Step, Any], Any]] = [
        lambda step, array: step.profile(array, repeat=1),
        lambda step, array: step.trace(tmp_path / "step.json", array),
    ]
    for measure in measures:
        waiting = Waiting()
        step = sg.compile([places], waiting.call(places))

        def run(array: Any, step: Any = step, measure: Any = measure) -> bool:
            measure(step, array)
            return True

        with in_a_thread(run, waiting) as results:
            waiting.tell(sum(1 for _ in range(100_000)))
        assert results == [True]


def test_only_steps_that_may_take_long_give_the_lock_up(tmp_path):
    places, x = placeholders()
    n = sg.placeholder((), "int64", name="n")
    large = sg.placeholder((N,), name="large")
    steps = {
        "brief": (sg.compile([x], x + 1), LockUse.BRIEF),
        "long": (sg.compile([large], sg.exp(large)), LockUse.LONG),
        "loop": (sg.compile([x, n], sg.fori_loop(0, n, lambda i, t: t + 1, x)), LockUse.LONG),
        "short loop": (sg.compile([x], sg.fori_loop(0, 3, lambda i, t: t + 1, x)), LockUse.BRIEF),
        "call": (sg.compile([places], Waiting().call(places)), LockUse.LONG),
        "call from Python": (
            sg.compile([x], calling(x, callback(list, ctypes.PYFUNCTYPE))), LockUse.BOTH,
        ),
    }  # fmt: skip
    found = {name: step.executable._running.lock_use for name, (step, _) in steps.items()}
    assert found == {name: use for name, (_, use) in steps.items()}
    again = sg.compile([large], sg.exp(large))  # found by its graph
    assert again.executable._running.lock_use == LockUse.LONG


# ------------------------------------------------------------------------------ steps are apart


def test_a_brief_step_and_a_read_wait_for_a_step_that_runs():
    places, x = placeholders()
    waiting = Waiting()
    v = sg.variable(np.zeros(4, F32), name="v")
    long = sg.compile([places], (), [(v, v + waiting.call(places).astype("float32"))])
    brief = sg.compile([x], v + x)
    assert brief(np.ones(4, F32)).tolist() == [1.0] * 4
    with ThreadPoolExecutor(2) as others, in_a_thread(long, waiting):
        futures = others.submit(brief, np.ones(4, F32)), others.submit(lambda: v.value)
        while len(others._threads) < 2 or others._work_queue.qsize():
            threading.Event().wait(0.001)
        waiting.tell(5)
    assert futures[0].result().tolist() == [6.0] * 4
    assert futures[1].result().tolist() == [5.0] * 4


@pytest.mark.parametrize("threads", [1, 2])
def test_steps_of_many_threads_give_what_they_give_one_after_another(threads):
    # Sums of integers, so that the order of steps does not matter to the variables.
    x = sg.placeholder((N,), name="x")
    v, w = (sg.variable(np.zeros(N, F32), name=name) for name in "vw")
    both = sg.compile(
        [x], sg.stack([sg.min(v), sg.max(w)]), [(v, v + x), (w, w + x)], threads=threads
    )
    first = sg.compile([x], sg.max(x) - sg.min(x), [(v, v + 2 * x)], threads=threads)
    small = sg.variable(np.zeros(3, F32), name="small")
    brief = sg.compile([], small + 0, [(small, small + 1)])
    ones, rounds = np.ones(N, F32), 12

    def run(_: int) -> list[Any]:
        return [(both(ones).tolist(), float(first(ones)), float(brief()[0])) for _ in range(rounds)]

    with ThreadPoolExecutor(8) as pool:
        found = [row for rows in pool.map(run, range(8)) for row in rows]
    calls = 8 * rounds
    assert set(v.value.tolist()) == {3.0 * calls}
    assert set(w.value.tolist()) == {float(calls)}
    assert sorted(seen[1] for seen, _, _ in found) == list(range(calls))
    assert {zero for _, zero, _ in found} == {0.0}
    assert sorted(count for _, _, count in found) == list(range(calls))


def test_each_thread_is_told_its_own_failure():
    x = sg.placeholder((N,), name="x")
    at = sg.placeholder((2,), "int64", name="at")
    step = sg.compile([x, at], sg.take(sg.exp(x), at))
    array = np.zeros(N, F32)

    def run(number: int) -> str:
        try:
            step(array, np.array([0, N + number]))
        except sg.IndexOutOfRangeError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(8) as pool:
        messages = list(pool.map(run, range(40)))
    assert all(f"index {N + number} " in message for number, message in enumerate(messages))


@pytest.mark.slow
def test_a_profile_and_a_trace_are_apart_from_steps_of_other_threads(tmp_path):
    x = sg.placeholder((N,), name="x")
    v = sg.variable(np.zeros(N, F32), name="v")
    step = sg.compile([x], (), [(v, v + x)])
    seen = sg.compile([], sg.max(v) - sg.min(v))
    is_over, torn = threading.Event(), []

    def watch() -> None:
        while not is_over.is_set():
            torn.append(float(seen()))

    thread = threading.Thread(target=watch)
    thread.start()
    step.profile(np.ones(N, F32), repeat=10)
    step.trace(tmp_path / "step.json", np.ones(N, F32))
    is_over.set()
    thread.join()
    assert set(torn) == {0.0}


# --------------------------------------------------------------------------------------- callbacks


def test_a_callback_calls_other_steps_and_reads_variables():
    _, x = placeholders()
    v = sg.variable(np.ones(4, F32), name="v")
    brief = sg.compile([x], sg.sum(x) * 2)
    large = sg.placeholder((N,), name="large")
    long = sg.compile([large], sg.sum(large))
    seen: list[Any] = []

    def act() -> bool:
        seen.append((float(brief(v.value)), float(long(np.ones(N, F32)))))
        v.value = v.value + 1
        return True

    step = sg.compile([x], calling(x, callback(act)) + sg.sum(x))
    for _ in range(2):
        assert float(step(np.ones(4, F32))) == 5.0
    assert seen == [(8.0, N), (16.0, N)]


def test_a_callback_under_the_lock_calls_other_steps():
    _, x = placeholders()
    brief = sg.compile([x], sg.sum(x) * 2)
    act = callback(lambda: float(brief(np.ones(4, F32))) == 8.0, ctypes.PYFUNCTYPE)
    step = sg.compile([x], calling(x, act) + sg.sum(x))
    assert float(step(np.ones(4, F32))) == 5.0


@pytest.mark.parametrize("kind", [ctypes.CFUNCTYPE, ctypes.PYFUNCTYPE], ids=["free", "under lock"])
def test_a_step_that_a_callback_of_its_own_calls_is_refused(kind):
    _, x = placeholders()
    errors: list[Exception] = []

    def act() -> bool:
        for options in ({}, {"out": np.zeros((), F32)}):
            try:
                step(np.ones(4, F32), **options)
            except sg.GraphError as error:
                errors.append(error)
        return True

    step = sg.compile([x], calling(x, callback(act, kind)) + sg.sum(x))
    for _ in range(2):
        assert float(step(np.ones(4, F32))) == 5.0
    assert len(errors) == 4
    assert "it still runs" in str(errors[0])


def test_callbacks_of_many_threads_take_turns():
    _, x = placeholders()
    inside: list[int] = []
    most: list[int] = []

    def act() -> bool:
        inside.append(1)
        threading.Event().wait(0.001)  # others get the global lock, and no step
        most.append(len(inside))
        inside.pop()
        return True

    step = sg.compile([x], calling(x, callback(act)) + sg.sum(x))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: float(step(np.full(4, n, F32))), range(32)))
    assert found == [1.0 + 4 * n for n in range(32)]
    assert set(most) == {1}


# ------------------------------------------------------------------------------------------ memory


def test_arrays_of_a_step_that_runs_are_kept_and_not_resized():
    places, x = placeholders()
    waiting = Waiting()
    step = sg.compile([places, x], (waiting.call(places), x + 1))
    given, out = np.ones(4, F32), (np.zeros((), np.int64), np.zeros(4, F32))
    before = sys.getrefcount(given), sys.getrefcount(out[1])
    with in_a_thread(step, waiting, given, out=out):
        assert sys.getrefcount(given) > before[0] + 1
        assert sys.getrefcount(out[1]) > before[1]
        for array in (given, out[1]):
            with pytest.raises(ValueError, match="resize"):
                array.resize(1000)
    del array
    assert (sys.getrefcount(given), sys.getrefcount(out[1])) == before
    assert out[1].tolist() == [2.0] * 4


def test_a_step_that_nobody_has_any_more_runs_to_its_end():
    places, _ = placeholders()
    waiting = Waiting()
    steps = [sg.compile([places], waiting.call(places) + 1)]
    with in_a_thread(lambda places: steps.pop()(places), waiting) as results:
        waiting.tell(3)
    assert results == [4]
