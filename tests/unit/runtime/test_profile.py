"""A profile counts how often each call ran, and knows the rates of calls that ran in loops."""

import re
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.program.language import launches_of
from symgrad.codegen.program.registers import timed_as_one
from symgrad.runtime.inspection import profile
from symgrad.runtime.inspection.profile import ProfileRow
from symgrad.runtime.limits import Limits


def rows_of(step: sg.Step, *arrays: Any, repeat: int) -> dict[str, ProfileRow]:
    return {row.kernel.label: row for row in step.profile(*arrays, repeat=repeat).rows}


def test_a_call_outside_of_loops_runs_once():
    x = sg.placeholder((8, 8))
    step = sg.compile([x], sg.tanh(x @ x))
    rows = step.profile(np.eye(8, dtype=np.float32), repeat=2).rows
    assert {row.runs for row in rows} == {1}


def test_a_call_in_a_loop_runs_as_often_as_the_loop_does():
    x, n = sg.placeholder((64, 64)), sg.placeholder((), "int64")
    product = sg.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y @ x), (0, x))[1]
    step = sg.compile([x, n], product)
    for trips in (7, 30):
        found = step.profile(np.eye(64, dtype=np.float32), trips, repeat=4)
        row = max(found.rows, key=lambda r: r.kernel.flops)
        assert row.runs == trips
        assert row.gflops == pytest.approx(trips * 2 * 64**3 / row.seconds / 1e9)
        assert row.gbytes == pytest.approx(trips * row.kernel.bytes / row.seconds / 1e9)


def test_a_branch_that_is_not_taken_does_not_run():
    x = sg.placeholder((4,))
    step = sg.compile([x], sg.cond(sg.sum(x) > 0, lambda: sg.sin(x), lambda: sg.cos(x)))
    rows = rows_of(step, np.ones(4, np.float32), repeat=3)
    assert rows["sin"].runs == 1
    assert rows["cos"].runs == 0
    assert rows["cos"].gflops == 0.0


def test_the_table_has_a_column_of_runs():
    x = sg.placeholder((3, 4))
    step = sg.compile([x], sg.scan(lambda c, row: (c + row, c * row), sg.zeros((4,)), x))
    printed = str(step.profile(np.ones((3, 4), np.float32), repeat=3))
    assert re.search(r"kernel +computes +runs +us +share +GFLOP/s +GB/s +of limit", printed)
    assert re.search(r"(?m)^k\d+ .* 3 +[\d.]+ +[\d.]+%", printed)


def test_a_row_says_how_much_of_the_limit_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits({"float32": 10.0, "float64": 5.0}, {1 << 20: 1.0})
    monkeypatch.setattr(profile, "machine_limits", lambda: limits)
    for dtype, gflops in (("float32", 10), ("float64", 5)):
        a, b = sg.placeholder((64, 64), dtype), sg.placeholder((64, 64), dtype)
        step = sg.compile([a, b], a @ b)
        arrays = [np.ones((64, 64), dtype)] * 2
        (row,) = step.profile(*arrays, repeat=2).rows
        # 2 * 64**3 operations; the traffic, 3 * 64**2 elements at 1 GB/s, takes less.
        assert row.least_seconds == pytest.approx(2 * 64**3 / gflops / 1e9)
        assert row.of_limit == pytest.approx(row.least_seconds / row.seconds)
    x = sg.placeholder((1000,))
    (row,) = sg.compile([x], x + 1).profile(np.ones(1000, np.float32), repeat=2).rows
    assert row.least_seconds == pytest.approx(8000 / 1e9)


def test_a_loop_in_registers_is_timed_as_a_whole_and_divided_among_its_kernels():
    x, n = sg.placeholder((64,)), sg.placeholder((), "int64")
    start = (sg.constant(0, "int64"), x)
    last = sg.while_loop(lambda i, _: i < n, lambda i, v: (i + 1, v * 0.5 + 0.1), start)[1]
    step = sg.compile([x, n], last)
    executable, arrays = step.executable, [np.ones(64, np.float32), np.array(500)]
    (loop,) = timed_as_one(executable.program.instrs)
    inside = [call.label for call in launches_of([loop])]
    called = profile._measured(executable, arrays, 3, whole_loops=False)
    whole = profile._measured(executable, arrays, 3, whole_loops=True)
    numbers = [i for i, call in enumerate(executable.program.launches) if call.label in inside]
    first, *others = numbers
    assert called[first, 1] == 501
    assert called[others, 1].tolist() == [500] * len(others)
    assert whole[first, 1] == 1
    assert not whole[others].any()
    rows = rows_of(step, *arrays, repeat=3)
    assert rows[inside[0]].runs == 501
    assert all(rows[label].seconds > 0 for label in inside)
