"""The team of threads: who runs the parts, in which order, and what holds whoever does."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.native import machine_code, team
from symgrad.codegen.native.cores import usable_cores
from symgrad.codegen.native.objects import object_of
from symgrad.codegen.native.team import Team, link_team, team_symbols
from symgrad.codegen.target import target_named
from symgrad.codegen.team import sharing, worker
from symgrad.codegen.team.state import I64

ROOT = Path(__file__).parents[3]
X = sg.placeholder((300_000,), name="x")
A = np.linspace(-1, 1, 300_000, dtype=np.float32)
AT = sg.placeholder((300_000,), "int64", name="at")
CORES = usable_cores()

_PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_PARTS_OF = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_FORK = ctypes.CFUNCTYPE(None, _PART, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_FORK_OF_STEPS = ctypes.PYFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)

# From a number of parts to the ranges that are run, one after the other.
Order = Callable[[int], Sequence[tuple[int, int]]]


class OrderedTeam:
    """A team of one that runs the parts as an order says; `asked` is for how many parts it was."""

    def __init__(self, order: Order) -> None:
        self.asked: list[tuple[int, int]] = []
        self._order = order
        self._function = _FORK_OF_STEPS(self._run)

    @property
    def fork(self) -> int:
        return ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _run(self, run: int, shared: int, parts: int, threads: int) -> None:
        self.asked.append((parts, threads))
        for first, stop in self._order(parts):
            _PARTS_OF(run)(shared, first, stop)


ORDERS: dict[str, Order] = {
    "alone": lambda parts: [(0, parts)],
    "one after the other": lambda parts: [(i, i + 1) for i in range(parts)],
    "backwards": lambda parts: [(i, i + 1) for i in reversed(range(parts))],
    "in two ranges": lambda parts: [(parts // 2, parts), (0, parts // 2)],
}
in_any_order = pytest.mark.parametrize("order", ORDERS)


def use(monkeypatch: pytest.MonkeyPatch, made: object) -> None:
    """Link what is compiled from here on to a team."""
    monkeypatch.setattr(team, "process_team", lambda: made)
    monkeypatch.setattr(machine_code, "_loaded", type(machine_code._loaded)())


def step_of(threads: int) -> sg.Step:
    y = sg.tanh(X)
    return sg.compile([X], [y, sg.sum(y), sg.sort(sg.reshape(y, (3000, 100)))], threads=threads)


def bits(step: sg.Step) -> list[bytes]:
    return [array.tobytes() for array in step(A)]


# ------------------------------------------------------------------------------ whoever runs them


@in_any_order
def test_parts_compute_the_same_bits_in_any_order(order, monkeypatch):
    wanted = bits(step_of(1))
    made = OrderedTeam(ORDERS[order])
    use(monkeypatch, made)
    assert bits(step_of(5)) == wanted
    assert set(made.asked) == {(5, 5)}


@in_any_order
def test_the_first_index_out_of_range_is_the_one_reported(order, monkeypatch):
    made = OrderedTeam(ORDERS[order])
    use(monkeypatch, made)
    step = sg.compile([X, AT], sg.take(X, AT), threads=4)
    at = np.arange(300_000)
    np.testing.assert_array_equal(step(A, at), A)
    at[[80_000, 160_000, 299_999]] = 300_001, -300_002, 300_003
    with pytest.raises(sg.IndexOutOfRangeError, match="index 300001 is out of range"):
        step(A, at)
    at[80_000] = 0
    with pytest.raises(sg.IndexOutOfRangeError, match="index -300002 is out of range"):
        step(A, at)
    assert made.asked == [(4, 4)] * 3


def test_kernels_say_into_how_many_parts_they_are_cut_and_how_many_threads_take_them():
    assert {(r.parts, r.threads) for r in step_of(3).kernels} == {(3, min(3, CORES))}
    assert {(r.parts, r.threads) for r in step_of(1).kernels} == {(1, 1)}


def test_auto_is_as_many_threads_as_there_are_cores():
    step = sg.compile([X], sg.tanh(X), threads="auto")
    assert {r.parts for r in step.kernels} == {CORES}


def test_code_that_does_not_fork_asks_for_no_team(monkeypatch):
    def refuse() -> Team:
        raise AssertionError("a team was asked for")

    one, two = (object_of(step_of(n).executable.llvm, target_named("native"), 1) for n in (1, 2))
    monkeypatch.setattr(team, "process_team", refuse)
    assert team_symbols([one]) == {}
    with pytest.raises(AssertionError, match="a team was asked for"):
        team_symbols([one, two])


# ----------------------------------------------------------------------------------- a team alone


@pytest.fixture
def own() -> Iterator[Team]:
    """Make a team, which is closed at the end."""
    made = link_team()
    yield made
    made.close()


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    """Make a team whose threads do not know their cores, so that no worker declines."""
    yield from team_on_core(monkeypatch, -1)


def team_on_core(monkeypatch: pytest.MonkeyPatch, core: int) -> Iterator[Team]:
    for module in (sharing, worker):
        monkeypatch.setattr(module, "this_core", lambda builder: I64(core))
    made = link_team()
    yield made
    made.close()


class Runs:
    """What parts record: which were run, and which of them by the thread that forks."""

    def __init__(self, made: Team, during: Callable[[int], None] = lambda part: None) -> None:
        self.parts: list[int] = []
        self.is_own: list[bool] = []
        self._fork = _FORK(made.fork)
        self._caller = threading.get_ident()
        self._part = _PART(self._run)
        self._during = during

    def _run(self, _shared: int, first: int, stop: int) -> None:
        for part in range(first, stop):
            self.parts.append(part)
            self.is_own.append(threading.get_ident() == self._caller)
            self._during(part)

    def fork(self, parts: int, threads: int) -> list[int]:
        """Fork, and return the parts that were run, sorted."""
        self.parts.clear()
        self.is_own.clear()
        self._fork(self._part, None, parts, threads)
        return sorted(self.parts)


def threads_now() -> set[str]:
    return {thread.name for thread in Path("/proc/self/task").iterdir()}


on_linux = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks Linux")
on_two_cores = pytest.mark.skipif(CORES < 2, reason="one core")


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_each_part_is_run_once(own, threads):
    runs = Runs(own)
    for parts in (1, 2, 3, 5, 16) * 5:
        assert runs.fork(parts, threads) == list(range(parts))


@on_two_cores
def test_a_worker_takes_parts_while_the_caller_is_at_one(apart):
    assert is_helped(Runs(apart, during=lambda part: time.sleep(0.001)))


@on_two_cores
def test_who_forks_takes_what_nobody_has_begun(own):
    def during(_part: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.05)

    runs = Runs(own, during)
    runs.fork(2, 2)
    assert runs.fork(64, 2) == list(range(64))
    assert sum(runs.is_own) > 32


def test_a_part_that_forks_runs_its_parts_alone(own):
    inner = Runs(own)
    found: list[list[int]] = []
    runs = Runs(own, during=lambda part: found.append(inner.fork(3, 2)))
    assert runs.fork(4, 2) == [0, 1, 2, 3]
    assert len(found) == 4


def test_callers_in_several_threads_each_get_all_parts(own):
    wrong: list[object] = []

    def call() -> None:
        runs = Runs(own)
        for _ in range(200):
            found = runs.fork(7, 4)
            if found != list(range(7)):
                wrong.append(found)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@on_linux
def test_no_thread_is_started_for_a_quota_of_one_core(own):
    before = threads_now()
    own.set_quota(1)
    runs = Runs(own)
    assert runs.fork(8, 4) == list(range(8))
    assert all(runs.is_own)
    assert threads_now() == before


@on_linux
@on_two_cores
def test_no_thread_is_started_on_one_core(own):
    before, cores = threads_now(), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert Runs(own).fork(8, 4) == list(range(8))
        assert threads_now() == before
    finally:
        os.sched_setaffinity(0, cores)


@on_linux
@on_two_cores
def test_workers_take_no_signals_and_end_when_the_team_is_closed(own):
    before = threads_now()
    runs = Runs(own)
    runs.fork(8, 2)
    (thread,) = threads_now() - before
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
    assert all(blocked >> number - 1 & 1 for number in (signal.SIGINT, signal.SIGTERM))
    own.close()
    assert wait_until(lambda: threads_now() == before)
    assert runs.fork(8, 2) == list(range(8))
    assert all(runs.is_own)


@on_linux
@on_two_cores
def test_a_team_without_work_takes_no_time(own):
    before = threads_now()
    Runs(own).fork(8, 2)
    (thread,) = threads_now() - before
    ran = Path(f"/proc/self/task/{thread}/schedstat")
    time.sleep(0.05)
    spent = int(ran.read_text().split()[0])
    time.sleep(0.2)
    assert int(ran.read_text().split()[0]) == spent


@on_two_cores
def test_a_worker_on_the_core_of_the_caller_declines(monkeypatch):
    for made in team_on_core(monkeypatch, 3):
        runs = Runs(made, during=lambda part: time.sleep(0.001))
        for _ in range(50):
            assert runs.fork(2, 2) == [0, 1]
            assert all(runs.is_own)


@on_two_cores
def test_a_worker_that_costs_more_than_it_saves_is_given_nothing_for_a_while(apart):
    def during(_part: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.02)

    runs = Runs(apart, during)
    assert is_helped(runs)
    helped: list[bool] = []
    for _ in range(200):
        assert runs.fork(2, 2) == [0, 1]
        helped.append(not all(runs.is_own))
        time.sleep(0.0002)
    assert sum(helped) < 20


def is_helped(runs: Runs) -> bool:
    """Fork until a worker has run a part: other programs may keep it from that for a while."""

    def helps() -> bool:
        assert runs.fork(2, 2) == [0, 1]
        return not all(runs.is_own)

    return wait_until(helps)


def wait_until(holds: Callable[[], bool]) -> bool:
    """Return whether something comes to hold before long."""
    for _ in range(5000):
        if holds():
            return True
        time.sleep(0.001)
    return False


# ----------------------------------------------------------------------------------- processes

_FORKED = """
import os, signal, sys
import numpy as np
import symgrad as sg

def threads():
    return len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 0

cores = int(sys.argv[1])
x = sg.placeholder((300_000,))
step = sg.compile([x], sg.sum(sg.tanh(x)), threads=2)
a = np.linspace(0, 1, 300_000, dtype=np.float32)
wanted = step(a)
child = os.fork()
if child == 0:
    signal.alarm(30)  # ends a child that waits for threads it does not have
    before = threads()
    is_same = all(step(a) == wanted for _ in range(100))
    has_worker = threads() == before + (cores > 1) or not before
    sys.exit(0 if is_same and has_worker else 1)
_, status = os.waitpid(child, 0)
sys.exit(1 if status or step(a) != wanted else 0)
"""


def test_a_forked_process_has_threads_of_its_own():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORKED, str(CORES)],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
