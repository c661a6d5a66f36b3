"""Memory that programs may touch: memcheck and guard pages see what is beyond, and nothing is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program import build as build_program
from symgrad.codegen.program.slices import slices_of
from symgrad.config import override
from symgrad.graph.graph import Graph
from tests.fuzz.test_three_oracles import ROOT, fuzz
from tests.support.c_programs import needs
from tests.support.control_strategies import copied
from tests.support.fuzz_families import FAMILIES, Program
from tests.support.memcheck_worker import run_all, write_program, wrong_results

ROWS = sg.placeholder((6, 8), name="rows")
_INPUTS = [np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8)]

# The programs that memcheck runs. The second one ends the process, and those behind it run in
# another: so memory that is lost, which is told at the end, is not lost by what is wrong.
_REACHES_BEYOND, _CRASHES, _RIGHT, _CHOOSES, _CALLS, _CONTROL, _RECURRENCE = range(7)
_FAMILIES = {_CONTROL: FAMILIES["control"], _RECURRENCE: FAMILIES["recurrences"]}


def _scanned() -> Graph:
    return Graph(sg.scan(lambda c, x: (c + x, c * x), sg.zeros((8,)), ROWS), [ROWS])


def _chosen() -> Program:
    """Return a choice of one double: code of no optimization is to load no second one for it."""
    x, y = (sg.placeholder((3, 2), "float64", name=name) for name in "xy")
    m = sg.placeholder((3, 1), "float64", name="m")
    given = [np.arange(6.0).reshape(3, 2), np.ones((3, 2)), np.array([[1.0], [2.0], [5.0]])]
    return Graph(sg.sum(sg.where(x == m, y, 0.0), axis=1), [x, y, m]), given


def _calling() -> Program:
    """Return a program that calls a function of C, whose address it is given."""
    return Graph([copied(ROWS, way=0, is_pure=True) + 1.0], [ROWS]), _INPUTS


@contextmanager
def _slices_as_wide_as(width: int) -> Iterator[None]:
    """Have loops take slices as far apart as if they were wider than they are."""

    def too_far_apart(*given: Any) -> list[Any]:
        return [replace(s, type=s.type.with_shape((width,))) for s in slices_of(*given)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_program, "slices_of", too_far_apart)
        with override(verify=False):  # which says that slices do not fill their stack
            yield


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Return what memcheck says of each program, and whether its results are wrong.

    One valgrind runs all of them, since it takes longer to start than to run one.
    """
    folder = tmp_path_factory.mktemp("memcheck")
    programs = dict.fromkeys((_REACHES_BEYOND, _CRASHES, _RIGHT), (_scanned(), _INPUTS))
    programs[_CHOOSES] = _chosen()
    programs[_CALLS] = _calling()
    programs |= {seed: family.program(2) for seed, family in _FAMILIES.items()}
    for seed, (graph, inputs) in programs.items():
        wide = {_REACHES_BEYOND: 16, _CRASHES: 1 << 40}.get(seed)
        with _slices_as_wide_as(wide) if wide else nullcontext():
            write_program(folder, seed, graph, inputs)
    said = run_all(folder, programs)

    def wrong(seed: int, changed: float = 0.0) -> str:
        graph, inputs = programs[seed]
        slack = _FAMILIES[seed].slack if seed in _FAMILIES else 1.0
        given = [a + changed if changed else a for a in inputs]
        return wrong_results(folder / f"{seed}.out", graph, given, slack)

    return said, wrong


@needs("valgrind")
def test_memcheck_sees_nothing_wrong_in_a_program_that_is_right(checked):
    said, wrong = checked
    assert _RIGHT not in said
    assert wrong(_RIGHT) == ""
    assert wrong(_RIGHT, changed=1)


@needs("valgrind")
def test_memcheck_names_the_program_that_reads_and_writes_beyond_its_memory(checked):
    said, _ = checked
    assert list(said) == [_REACHES_BEYOND, _CRASHES]
    assert "Invalid read of size" in said[_REACHES_BEYOND]
    assert "Invalid write of size" in said[_REACHES_BEYOND]


@needs("valgrind")
def test_programs_behind_one_that_crashes_run_too(checked):
    said, wrong = checked
    assert "SIGSEGV" in said[_CRASHES]
    assert wrong(_RIGHT) == ""


@needs("valgrind")
def test_a_choice_of_one_double_reads_no_second_one(checked):
    said, wrong = checked
    assert _CHOOSES not in said
    assert wrong(_CHOOSES) == ""


@needs("valgrind")
def test_a_program_that_calls_a_function_of_c_finds_it(checked):
    said, wrong = checked
    assert _CALLS not in said
    assert wrong(_CALLS) == ""


@needs("valgrind")
@pytest.mark.parametrize("seed", _FAMILIES, ids=lambda seed: _FAMILIES[seed].name)
def test_memcheck_sees_nothing_wrong_in_a_random_program(checked, seed):
    said, wrong = checked
    assert seed not in said
    assert wrong(seed) == ""


@needs("valgrind")
@pytest.mark.slow
@pytest.mark.parametrize("family", ["control", "recurrences"])
def test_memcheck_sees_nothing_wrong_in_random_programs(family):
    assert not fuzz("--programs", 3, "--family", family, "--jobs", 1, "--memcheck")


@needs("valgrind")
@pytest.mark.slow
def test_memcheck_sees_nothing_wrong_in_2000_more():
    assert not fuzz("--programs", 2000, "--first", 100, "--memcheck")


# A process of its own, since to start one takes most of a second: what is to end by a fault does so
# in copies of it, and then it runs random programs.
_BETWEEN_GUARDS = """
import ctypes, os
from dataclasses import replace
import numpy as np
import symgrad as sg
from symgrad.codegen.program import build as build_program
from symgrad.codegen.program.slices import slices_of
from symgrad.config import override
from tests.support.floors import Memory, compile_for, run_between_guards
from tests.support.guard_pages import guarded_empty
from tests.support.fuzz_worker import main

def inside():
    os.write(1, b"inside ")

def touch(side, beyond):
    array = guarded_empty((5,), np.dtype(np.float32), side)
    ctypes.memset(array.ctypes.data, 1, array.nbytes)
    inside()
    ctypes.memset(array.ctypes.data + beyond, 1, 1)

def reach():
    rows = sg.placeholder((6, 8))
    graph = sg.Graph(sg.scan(lambda c, x: (c + x, c * x), sg.zeros((8,)), rows), [rows])
    inputs = [np.ones((6, 8), np.float32)]
    run_between_guards(compile_for(graph), inputs, Memory("end"))
    inside()
    # The second slice, a kilobyte further on, is in the page behind the array: what is behind that
    # page may be mapped.
    build_program.slices_of = lambda *given: [
        replace(s, type=s.type.with_shape((256,))) for s in slices_of(*given)
    ]
    with override(verify=False):
        run_between_guards(compile_for(graph), inputs, Memory("end"))

def end(name, work, *given):
    print(name, end=" ", flush=True)
    process = os.fork()
    if process == 0:
        work(*given)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)

end("behind", touch, "end", 20)
end("before", touch, "start", -1)
end("loop", reach)
for family in ("ops", "control", "recurrences", "layers"):
    main(family, "3", "4", "--in-turn")
"""


@pytest.fixture(scope="module")
def between_guards():
    """Return the lines that the process above prints."""
    command = [sys.executable, "-c", _BETWEEN_GUARDS]
    environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
    found = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout.splitlines()


@pytest.mark.parametrize("side", ["behind", "before"])
def test_one_byte_beyond_a_guarded_array_ends_the_process(side, between_guards):
    assert f"{side} inside {-signal.SIGSEGV}" in between_guards


def test_a_loop_whose_slices_are_too_far_apart_ends_the_process(between_guards):
    assert f"loop inside {-signal.SIGSEGV}" in between_guards


def test_some_random_programs_agree_between_guard_pages(between_guards):
    assert between_guards[3:] == ["run 3", "done"] * 4
