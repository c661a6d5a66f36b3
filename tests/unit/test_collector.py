"""The garbage collector rests while a step is compiled, and runs again afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.collector import paused_collector
from symgrad.errors import SymgradError
from symgrad.runtime.executable import Executable
from symgrad.runtime.function import compile


def test_the_collector_rests_in_the_block_and_runs_after_it():
    assert gc.isenabled()
    with paused_collector():
        assert not gc.isenabled()
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with paused_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def printed(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


MADE_IN_A_PAUSE = """
import gc
from symgrad import collector
made = collector.LEAST_SETTLED + 1_000

def make():
    with collector.paused_collector():
        return [[number] for number in range(made)]

def are_among(items, *generations):
    there = {id(item) for generation in generations for item in gc.get_objects(generation)}
    return len(there & set(map(id, items))) >= made

gc.collect()
"""


def test_what_was_made_in_a_block_is_old_at_once():
    program = (
        "kept = make(); print(are_among(kept, 2), gc.get_count()[0] < made, gc.get_freeze_count())"
    )
    assert printed(MADE_IN_A_PAUSE + program).split() == ["True", "True", "0"]


def test_there_is_a_bound_on_what_is_old_unseen():
    program = (
        "collector.MOST_SETTLED = made * 3 // 2\n"
        "for full in (False, False, True):\n"
        "    if full: gc.collect()\n"
        "    print(are_among(make(), 2))"
    )
    assert printed(MADE_IN_A_PAUSE + program).split() == ["True", "False", "True"]


def test_there_is_a_bound_on_how_many_blocks_are_old_unseen():
    program = (
        "for _ in range(collector.MOST_BLOCKS): print(are_among(make(), 2))\n"
        "print(are_among(make(), 2)); gc.collect(); print(are_among(make(), 2))"
    )
    *old, beyond, after = printed(MADE_IN_A_PAUSE + program).split()
    assert {*old, after} == {"True"}
    assert beyond == "False"


def test_what_a_block_makes_is_left_alone_where_a_host_has_frozen_objects():
    program = "gc.freeze(); kept = make(); print(gc.get_freeze_count() > 0, are_among(kept, 2))"
    assert printed(MADE_IN_A_PAUSE + program).split() == ["True", "False"]


def test_it_looks_through_nothing_that_is_imported():
    program = (
        "import gc, numpy; seen = []\n"
        "gc.callbacks.append(lambda phase, about: seen.append(about['generation']))\n"
        "import symgrad; symgrad.compile; print(seen.count(2), gc.isenabled())"
    )
    assert printed(program).split() == ["0", "True"]


def test_it_runs_after_an_import_that_fails():
    program = (
        "import gc, sys; sys.modules['symgrad.optim.adam'] = None\n"
        "try: import symgrad\n"
        "except ImportError: print(gc.isenabled())"
    )
    assert printed(program).split() == ["True"]


def test_objects_that_a_host_has_frozen_stay_so():
    program = "import gc; gc.freeze(); import symgrad; print(gc.get_freeze_count() > 0)"
    assert printed(program).split() == ["True"]


def test_it_runs_after_a_compilation_that_fails():
    x = sg.placeholder((None,), name="x")
    step = compile([x], sg.reshape(x, (2, 3)))
    with pytest.raises(SymgradError):
        step(np.zeros(5, np.float32))
    assert gc.isenabled()


def test_it_rests_while_a_step_is_compiled(monkeypatch):
    seen: list[bool] = []

    def compiled(*arguments: Any) -> Executable:
        seen.append(gc.isenabled())
        return Executable(*arguments)

    monkeypatch.setattr("symgrad.runtime.step.Executable", compiled)
    x = sg.placeholder((4,))
    np.testing.assert_array_equal(compile([x], x + 1)(np.ones(4, np.float32)), np.full(4, 2))
    assert seen == [False]
    assert gc.isenabled()
