"""A trace is a timeline of one step: calls in order, parts within calls, threads as rows."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad as sg

F32 = np.float32
SLACK = 2e-3  # microseconds: times are whole nanoseconds, written in microseconds


def trace_of(step: sg.Step, path: Path, *arrays: Any) -> dict[str, Any]:
    step.trace(path, *arrays)
    page: dict[str, Any] = json.loads(path.read_text())
    return page


def events_of(page: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [e for e in page["traceEvents"] if e["ph"] == "X" and e["cat"] == kind]


def check_format(page: dict[str, Any]) -> None:
    """Check what the trace event format asks of an event, and Perfetto of a row: slices nest."""
    assert page["displayTimeUnit"] == "ns"
    named = {e["tid"] for e in page["traceEvents"] if e["name"] == "thread_name"}
    rows: dict[int, list[tuple[float, float]]] = {}
    for event in page["traceEvents"]:
        assert {"name", "ph", "pid", "tid"} <= event.keys()
        assert event["ph"] in ("X", "M")
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            rows.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    assert rows.keys() <= named
    for row in rows.values():
        open_ends: list[float] = []
        for begin, end in sorted(row, key=lambda times: (times[0], -times[1])):
            while open_ends and open_ends[-1] <= begin + SLACK:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + SLACK
            open_ends.append(end)


def training(threads: int | None = None) -> sg.Step:
    x = sg.placeholder((256, 256), name="x")
    w = sg.variable(np.eye(256, dtype=F32), name="w")
    with sg.name_scope("layer"):
        loss = sg.sum(sg.square(sg.tanh(x @ w)))
    updates = sg.optim.SGD(0.1).minimize(loss)
    return sg.compile([x], loss, updates, name="train", threads=threads, opt_level=1)


def test_each_call_is_one_event_in_order_and_the_state_stays(tmp_path: Path) -> None:
    step = training()
    before = [u.variable.value for u in step.graph.updates]
    page = trace_of(step, tmp_path / "t.json", np.ones((256, 256), F32))
    check_format(page)
    calls = events_of(page, "kernel")
    assert [e["args"]["call"] for e in calls] == list(range(len(step.kernels)))
    for event, record in zip(calls, step.kernels, strict=True):
        assert event["name"] == f"{record.name} {record.label}"
        assert event["args"]["flops"] == record.flops
    for earlier, later in itertools.pairwise(calls):
        assert earlier["ts"] + earlier["dur"] <= later["ts"] + SLACK
    assert any(e["args"]["name scopes"] == "layer" for e in calls)
    assert page["otherData"]["events left out"] == 0
    assert page["otherData"]["CPU"]
    for update, value in zip(step.graph.updates, before, strict=True):
        np.testing.assert_array_equal(update.variable.value, value)


def test_the_parts_of_a_shared_kernel_lie_within_its_call(tmp_path: Path) -> None:
    step = training(threads=2)
    page = trace_of(step, tmp_path / "t.json", np.ones((256, 256), F32))
    check_format(page)
    calls = {e["args"]["call"]: e for e in events_of(page, "kernel")}
    parts: Counter[int] = Counter()
    for event in events_of(page, "part"):
        args = event["args"]
        parts[args["call"]] += args["last"] - args["first"] + 1
    shared = {i: record.parts for i, record in enumerate(step.kernels) if record.parts > 1}
    assert shared
    assert parts == shared
    for part in events_of(page, "part"):
        call = calls[part["args"]["call"]]
        assert part["ts"] >= call["ts"] - SLACK
        assert part["ts"] + part["dur"] <= call["ts"] + call["dur"] + SLACK


def test_a_call_in_a_loop_has_an_event_for_each_iteration(tmp_path: Path) -> None:
    x, n = sg.placeholder((64, 64), name="x"), sg.placeholder((), "int64", name="n")
    last = sg.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, sg.tanh(y @ x)), (0, x))[1]
    step = sg.compile([x, n], last, opt_level=1)
    page = trace_of(step, tmp_path / "t.json", np.eye(64, dtype=F32), 7)
    check_format(page)
    product = next(i for i, record in enumerate(step.kernels) if "einsum" in record.ops)
    assert sum(e["args"]["call"] == product for e in events_of(page, "kernel")) == 7


def test_a_loop_in_registers_is_one_event(tmp_path: Path) -> None:
    x = sg.placeholder((8,), name="x")
    step = sg.compile([x], sg.fori_loop(0, 50, lambda _i, v: v * 1.5 + 1, x), opt_level=1)
    page = trace_of(step, tmp_path / "t.json", np.ones(8, F32))
    check_format(page)
    (loop,) = events_of(page, "loop")
    names = set(loop["args"]["kernels"].split(", "))
    assert names <= {record.name for record in step.kernels}


def test_a_trace_raises_what_a_call_raises(tmp_path: Path) -> None:
    x, at = sg.placeholder((8,), name="x"), sg.placeholder((3,), "int64", name="at")
    step = sg.compile([x, at], sg.take(x, at), opt_level=1)
    with pytest.raises(sg.IndexOutOfRangeError):
        step.trace(tmp_path / "t.json", np.ones(8, F32), np.array([0, 1, 9]))
    assert not (tmp_path / "t.json").exists()
