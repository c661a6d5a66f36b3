"""The garbage collector rests while a step is compiled, and runs again afterwards."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradError
from symgrad.runtime.collector import paused_collector
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
