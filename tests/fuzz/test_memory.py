"""Memory that programs may touch: memcheck and guard pages see what is beyond, and nothing is."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program import build as build_program
from symgrad.config import override
from symgrad.graph.graph import Graph
from tests.fuzz.test_three_oracles import ROOT, fuzz
from tests.support.c_programs import needs
from tests.support.memcheck_worker import run_all, run_programs, write_program, wrong_results

ROWS = sg.placeholder((6, 8), name="rows")
_INPUTS = [np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8)]


def _scanned() -> Graph:
    return Graph(sg.scan(lambda c, x: (c + x, c * x), sg.zeros((8,)), ROWS), [ROWS])


@needs("valgrind")
def test_memcheck_sees_nothing_wrong_in_a_program_that_is_right(tmp_path):
    write_program(tmp_path, 7, _scanned(), _INPUTS)
    assert run_programs(tmp_path, [7]) == {}
    assert wrong_results(tmp_path / "7.out", _scanned(), _INPUTS, 1.0) == ""
    assert wrong_results(tmp_path / "7.out", _scanned(), [_INPUTS[0] + 1], 1.0)


@needs("valgrind")
def test_memcheck_names_the_program_that_reads_and_writes_beyond_its_memory(tmp_path, monkeypatch):
    right = build_program._slices

    def too_far_apart(*given: Any) -> list[Any]:
        wider = (16,)
        return [replace(s, type=s.type.with_shape(wider)) for s in right(*given)]

    write_program(tmp_path, 7, _scanned(), _INPUTS)
    monkeypatch.setattr(build_program, "_slices", too_far_apart)
    with override(verify=False):  # which says that slices do not fill their stack
        write_program(tmp_path, 8, _scanned(), _INPUTS)
    found = run_programs(tmp_path, [7, 8])
    assert list(found) == [8]
    assert "Invalid read of size" in found[8]
    assert "Invalid write of size" in found[8]


@needs("valgrind")
def test_programs_behind_one_that_crashes_run_too(tmp_path, monkeypatch):
    right = build_program._slices

    def out_of_all_memory(*given: Any) -> list[Any]:
        return [replace(s, type=s.type.with_shape((1 << 40,))) for s in right(*given)]

    write_program(tmp_path, 8, _scanned(), _INPUTS)
    monkeypatch.setattr(build_program, "_slices", out_of_all_memory)
    with override(verify=False):
        write_program(tmp_path, 7, _scanned(), _INPUTS)
    found = run_all(tmp_path, dict.fromkeys((7, 8), (_scanned(), _INPUTS)))
    assert list(found) == [7]
    assert "SIGSEGV" in found[7]
    assert wrong_results(tmp_path / "8.out", _scanned(), _INPUTS, 1.0) == ""


@needs("valgrind")
@pytest.mark.parametrize("family", ["control", "recurrences"])
def test_memcheck_sees_nothing_wrong_in_random_programs(family):
    assert not fuzz("--programs", 3, "--family", family, "--jobs", 1, "--memcheck")


@needs("valgrind")
@pytest.mark.slow
def test_memcheck_sees_nothing_wrong_in_2000_more():
    assert not fuzz("--programs", 2000, "--first", 100, "--memcheck")


_TOUCH = """
import ctypes, sys
import numpy as np
from tests.support.guard_pages import guarded_empty
array = guarded_empty((5,), np.dtype(np.float32), sys.argv[1])
ctypes.memset(array.ctypes.data, 1, array.nbytes)
print("inside", flush=True)
ctypes.memset(array.ctypes.data + int(sys.argv[2]), 1, 1)
"""


@pytest.mark.parametrize(("side", "beyond"), [("end", "20"), ("start", "-1")])
def test_one_byte_beyond_a_guarded_array_ends_the_process(side, beyond):
    command = [sys.executable, "-c", _TOUCH, side, beyond]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout == "inside\n"
    assert found.returncode == -signal.SIGSEGV


_REACH = """
from dataclasses import replace
import numpy as np
import symgrad as sg
from symgrad.codegen.program import build as build_program
from tests.support.floors import Memory, compile_for, run_between_guards
rows = sg.placeholder((6, 8))
graph = sg.Graph(sg.scan(lambda c, x: (c + x, c * x), sg.zeros((8,)), rows), [rows])
inputs = [np.ones((6, 8), np.float32)]
run_between_guards(compile_for(graph), inputs, Memory("end"))
print("inside", flush=True)
right = build_program._slices
build_program._slices = lambda *given: [
    replace(s, type=s.type.with_shape((4096,))) for s in right(*given)
]
run_between_guards(compile_for(graph), inputs, Memory("end"))
"""


def test_a_loop_whose_slices_are_too_far_apart_ends_the_process(monkeypatch):
    monkeypatch.setenv("SYMGRAD_VERIFY", "0")
    command = [sys.executable, "-c", _REACH]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout == "inside\n"
    assert found.returncode == -signal.SIGSEGV


@needs("valgrind")
def test_a_choice_of_one_double_reads_no_second_one(tmp_path):
    """Code of no optimization, too, selects what it has loaded, and does not load to select."""
    x, y = (sg.placeholder((3, 2), "float64", name=name) for name in "xy")
    m = sg.placeholder((3, 1), "float64", name="m")
    given = [np.arange(6.0).reshape(3, 2), np.ones((3, 2)), np.array([[1.0], [2.0], [5.0]])]
    write_program(tmp_path, 7, Graph(sg.sum(sg.where(x == m, y, 0.0), axis=1), [x, y, m]), given)
    assert run_programs(tmp_path, [7]) == {}
