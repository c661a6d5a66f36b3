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


def two_layers() -> sg.Step:
    x = sg.placeholder((64, 64))
    hidden = x
    for number in range(2):
        with sg.name_scope(f"layer{number}"):
            hidden = sg.tanh(hidden @ sg.variable(np.eye(64, dtype=np.float32)))
    return sg.compile([x], hidden, opt_level=1)


def test_equal_kernels_are_one_row_with_a_count():
    step = two_layers()
    found = step.profile(np.eye(64, dtype=np.float32), repeat=2)
    (merged,) = found.by_kernel
    assert merged.calls == merged.runs == 2
    assert merged.seconds == pytest.approx(found.seconds)
    assert merged.gflops == pytest.approx(2 * merged.kernel.flops / found.seconds / 1e9)
    assert re.search(rf"(?m)^{merged.kernel.name} x2 +einsum tanh +2 ", str(found))


def test_time_is_divided_among_lines_and_name_scopes():
    found = two_layers().profile(np.eye(64, dtype=np.float32), repeat=2)
    assert {group.name for group in found.by_scope} == {"layer0", "layer1"}
    (line,) = found.by_line
    assert "test_profile.py" in line.name
    for groups in (found.by_scope, found.by_line):
        assert sum(group.seconds for group in groups) == pytest.approx(found.seconds)
        assert sum(group.share for group in groups) == pytest.approx(1.0)


def test_a_gradient_counts_for_the_scope_of_what_it_is_of():
    x = sg.placeholder((64, 64))
    w = sg.variable(np.eye(64, dtype=np.float32))
    with sg.name_scope("model"):
        loss = sg.sum(sg.square(x @ w))
    step = sg.compile([x], sg.gradients(loss, [w]), opt_level=1)
    assert {scope for record in step.kernels for scope in record.scopes} == {"model"}


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_table_is_as_wide_as_it_may_be_and_names_the_dearest(width: int) -> None:
    x = sg.placeholder((16, 16))
    hidden = x
    for size in range(1, 8):  # kernels that are all different
        hidden = sg.concat([sg.sin(sg.cos(sg.exp(sg.tanh(hidden @ x)))) * size, x[:size]])[:16]
    found = sg.compile([x], hidden, opt_level=1).profile(np.eye(16, dtype=np.float32), repeat=1)
    assert len(found.by_kernel) > 3
    text = found.text(top=3, width=width)
    # What the columns of numbers need, which have as many digits as the times that were measured.
    narrowest = max(map(len, found.text(top=3, width=1).splitlines()))
    assert 60 < narrowest < 80
    assert max(map(len, text.splitlines())) <= max(width, narrowest)
    assert f"{len(found.by_kernel) - 3} more" in text
    assert "more" not in found.text(top=None)
