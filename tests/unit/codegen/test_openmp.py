"""The OpenMP runtime: how it is found, what takes its place, and processes that fork."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm.parallel import FORK, OPENMP, THREAD_COUNT, THREAD_NUMBER
from symgrad.codegen.native import machine_code, openmp
from symgrad.codegen.native.objects import object_of
from symgrad.codegen.native.openmp import OpenMP, link_runtime, runtime_symbols
from symgrad.codegen.target import target_named
from symgrad.runtime.inspection import kernels as inspection

ROOT = Path(__file__).parents[3]
X = sg.placeholder((300_000,), name="x")
A = np.linspace(-1, 1, 300_000, dtype=np.float32)
AT = sg.placeholder((300_000,), "int64", name="at")

_TEAM = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_FORK = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)
_NUMBER = ctypes.PYFUNCTYPE(ctypes.c_int32)


class Teams:
    """A runtime that plays all threads of a team in turn, the last one first.

    A team has at most `most` threads, whatever is asked for; `asked` is what was.
    """

    def __init__(self, most: int) -> None:
        self.asked: list[int] = []
        self._most = most
        self._thread, self._threads = 0, 1
        self._functions = {
            FORK: _FORK(self._fork),
            THREAD_NUMBER: _NUMBER(lambda: self._thread),
            THREAD_COUNT: _NUMBER(lambda: self._threads),
        }

    @property
    def addresses(self) -> dict[str, int]:
        functions = self._functions.items()
        return {s: ctypes.cast(f, ctypes.c_void_p).value or 0 for s, f in functions}

    def _fork(self, team: int, shared: int, threads: int, _flags: int) -> None:
        self.asked.append(threads)
        self._threads = min(threads, self._most)
        for thread in reversed(range(self._threads)):
            self._thread = thread
            _TEAM(team)(shared)


def use(monkeypatch: pytest.MonkeyPatch, runtime: OpenMP) -> None:
    """Link what is compiled from here on to `runtime`."""
    monkeypatch.setattr(openmp, "openmp", lambda: runtime)
    monkeypatch.setattr(inspection, "openmp", lambda: runtime)
    monkeypatch.setattr(machine_code, "_loaded", type(machine_code._loaded)())


def step_of(threads: int) -> sg.Step:
    y = sg.tanh(X)
    return sg.compile([X], [y, sg.sum(y)], threads=threads)


def bits(step: sg.Step) -> list[bytes]:
    return [array.tobytes() for array in step(A)]


# --------------------------------------------------------------------------- teams of all sizes


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_a_team_may_be_smaller_than_asked_for(most, monkeypatch):
    wanted = bits(step_of(1))
    teams = Teams(most)
    use(monkeypatch, link_runtime("teams", teams.addresses))
    assert bits(step_of(5)) == wanted
    assert set(teams.asked) == {5}


@pytest.mark.parametrize("most", [1, 2, 4])
def test_the_first_index_out_of_range_is_the_one_reported(most, monkeypatch):
    teams = Teams(most)
    use(monkeypatch, link_runtime("teams", teams.addresses))
    step = sg.compile([X, AT], sg.take(X, AT), threads=4)
    at = np.arange(300_000)
    np.testing.assert_array_equal(step(A, at), A)
    at[[80_000, 160_000, 299_999]] = 300_001, -300_002, 300_003
    with pytest.raises(sg.IndexOutOfRangeError, match="index 300001 is out of range"):
        step(A, at)
    at[80_000] = 0
    with pytest.raises(sg.IndexOutOfRangeError, match="index -300002 is out of range"):
        step(A, at)
    assert teams.asked == [4, 4, 4]


# ---------------------------------------------------------------------------------- no runtime


def test_without_a_runtime_one_thread_does_the_same(monkeypatch):
    wanted = bits(step_of(1))
    use(monkeypatch, link_runtime(None, {}))
    step = step_of(3)
    assert bits(step) == wanted
    assert {(r.parts, r.threads) for r in step.kernels} == {(3, 1)}
    assert str(step.kernels).endswith(
        "No OpenMP runtime was found: one thread takes all parts of a kernel."
    )
    assert sum(row.runs for row in step.profile(A, repeat=2).rows) == len(step.kernels)


def test_with_a_runtime_each_part_has_a_thread(monkeypatch):
    use(monkeypatch, link_runtime("teams", Teams(3).addresses))
    kernels = step_of(3).kernels
    assert {(r.parts, r.threads) for r in kernels} == {(3, 3)}
    assert "OpenMP" not in str(kernels)
    assert {(r.parts, r.threads) for r in step_of(1).kernels} == {(1, 1)}


def test_a_library_that_lacks_a_function_is_no_runtime():
    assert openmp._functions("libm.so.6") is None
    assert openmp._functions("no such library") is None


def test_the_runtime_is_one_that_has_all_functions_or_none():
    found = openmp.openmp()
    assert set(found.addresses) == set(OPENMP)
    assert (found.fork.value != 0) == (found.name is not None)
    assert openmp.openmp() is found


def test_code_that_does_not_fork_asks_for_no_runtime(monkeypatch):
    def refuse() -> OpenMP:
        raise AssertionError("a runtime was asked for")

    native = target_named("native")
    one, two = (object_of(step_of(threads).executable.llvm, native, 1) for threads in (1, 2))
    monkeypatch.setattr(openmp, "openmp", refuse)
    assert runtime_symbols([one]) == {}
    with pytest.raises(AssertionError, match="a runtime was asked for"):
        runtime_symbols([one, two])


# ----------------------------------------------------------------------------------- processes

_FORKED = """
import os, signal, sys
import numpy as np
import symgrad as sg

x = sg.placeholder((300_000,))
step = sg.compile([x], sg.sum(sg.tanh(x)), threads=2)
a = np.linspace(0, 1, 300_000, dtype=np.float32)
wanted = step(a)
child = os.fork()
if child == 0:
    signal.alarm(30)  # ends a child that waits for threads it does not have
    os._exit(0 if step(a) == wanted else 1)
_, status = os.waitpid(child, 0)
sys.exit(1 if status or step(a) != wanted else 0)
"""


def test_a_forked_process_waits_for_no_thread_of_its_parent():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORKED],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
