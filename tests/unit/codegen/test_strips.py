"""Loop strip mining: which while loops run in strips, and that they end where they should."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm.module import STEP
from symgrad.codegen.llvm.poll import ASKED_WORD, CYCLES_WORD, STOPPED
from symgrad.codegen.program.language import WhileInstr
from symgrad.codegen.program.strips import Strip, strip_of
from symgrad.cost_model import POLL_PERIOD

START, BOUND, OTHER = (sg.placeholder((), "int64") for _ in range(3))
LIMIT = sg.placeholder(())
INPUTS = [START, BOUND, LIMIT, OTHER]


def compiled(condition: Any, body: Any) -> sg.Step:
    last = sg.while_loop(condition, body, (START, sg.constant(0.0)))
    return sg.compile(INPUTS, [last[0], last[1]])


def loop_of(step: sg.Step) -> WhileInstr:
    (loop,) = (i for i in step.executable.program.instrs if isinstance(i, WhileInstr))
    return loop


def cycles_left(step: sg.Step) -> int:
    return int(step.executable._watch[CYCLES_WORD])


def counted(step: int = 1) -> sg.Step:
    return compiled(
        lambda i, t: sg.logical_and(i < BOUND, t < LIMIT), lambda i, t: (i + step, t + 1.0)
    )


COUNTED, BY_THREE = counted(), counted(3)
TOP = 2**63 - 1


RUNS = [
    (0, 0, 9, 1), (0, 10, 3, 1), (0, 10, 3, 3), (0, 3, 10, 3), (5, 2, 9, 1), (-7, -2, 9, 3),
    (-7, 100, 0, 1), (0, 99, np.nan, 1), (0, 200_003, np.inf, 1), (0, 200_003, np.inf, 3),
    (0, 300_000, 123_457, 1), (-200_000, TOP, 150_000, 3), (0, TOP, 70_001, 1),
    (TOP - 100_000, TOP, np.inf, 1), (-(2**63), TOP, 60_000, 3), (TOP - 2, TOP, np.inf, 1),
]  # fmt: skip


@pytest.mark.parametrize(("start", "bound", "limit", "by"), RUNS)
def test_a_loop_in_strips_ends_where_its_condition_says(start, bound, limit, by):
    needed = max(0, -(-(bound - start) // by))
    trips = int(min(needed, limit)) if limit > 0 else 0
    step = COUNTED if by == 1 else BY_THREE
    cycles = step.executable.program.polled[loop_of(step).number]
    before = cycles_left(step)
    last, total = step(np.int64(start), np.int64(bound), np.float32(limit), np.int64(0))
    assert (int(last), float(total)) == (start + trips * by, trips)
    # A strip is what the cycles left are enough for, and a poll behind it gives a new period.
    first, other = max(1, before // cycles), POLL_PERIOD // cycles
    if trips < first or trips == first == needed:
        assert cycles_left(step) == max(0, before - trips * cycles)
    elif trips > first:
        assert cycles_left(step) == POLL_PERIOD - ((trips - first - 1) % other + 1) * cycles


def test_a_loop_within_a_loop_has_strips_of_its_own():
    def inner(t: sg.Tensor) -> sg.Tensor:
        _, last = sg.while_loop(
            lambda i, u: sg.logical_and(i < BOUND, u < LIMIT),
            lambda i, u: (i + 1, u + 1.0),
            (START, t),
        )
        assert isinstance(last, sg.Tensor)
        return last

    last = sg.while_loop(
        lambda j, t: j < OTHER, lambda j, t: (j + 1, inner(t)), (0, sg.constant(0.0))
    )
    step = sg.compile(INPUTS, last[1])
    assert len(set(re.findall(r"strip\.\d+", step.ir("llvm")))) == 1
    assert float(step(np.int64(0), np.int64(70_000), np.float32(np.inf), np.int64(3))) == 210_000


def test_strips_are_of_loops_that_count():
    strip = strip_of(loop_of(COUNTED))
    assert strip is not None
    assert (strip.bound.place, strip.bound.number, strip.step) == ("input", 1, 1)
    assert strip_of(loop_of(BY_THREE)) == Strip(strip.counter, strip.bound, 3)


REFUSED = {
    "it counts down": (lambda i, t: i < BOUND, lambda i, t: (i - 1, t)),
    "what it adds is data": (lambda i, t: i < BOUND, lambda i, t: (i + OTHER, t)),
    "it adds nothing": (lambda i, t: i < BOUND, lambda i, t: (i + 0, t + 1.0)),
    "any of two conditions": (
        lambda i, t: sg.logical_or(i < BOUND, t < LIMIT), lambda i, t: (i + 1, t + 1.0),
    ),
    "the bound is read twice": (
        lambda i, t: sg.logical_and(i < BOUND, sg.astype(BOUND - i, "float32") < LIMIT),
        lambda i, t: (i + 1, t),
    ),
    "the comparison is used twice": (
        lambda i, t: sg.logical_and(i < BOUND, sg.logical_or(t < LIMIT, sg.logical_not(i < BOUND))),
        lambda i, t: (i + 1, t),
    ),
    "a number with a point": (lambda i, t: t < LIMIT, lambda i, t: (i, t + 1.0)),
    "the bound is the counter": (lambda i, t: i < i + OTHER, lambda i, t: (i + 1, t)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_loops_count_in_each_iteration(name):
    assert strip_of(loop_of(compiled(*REFUSED[name]))) is None


@pytest.mark.parametrize("in_memory", ["counter", "counter and bound"])
def test_a_counter_or_bound_that_a_called_kernel_reads_is_in_no_strip(in_memory):
    x = sg.placeholder((40, 40))

    def body(i: sg.Tensor, t: sg.Tensor, y: sg.Tensor) -> tuple[sg.Tensor, ...]:
        scale = sg.astype(i if in_memory == "counter" else BOUND - i, "float32")
        return i + 1, t + 1.0, sg.tanh(y @ y) * scale

    last = sg.while_loop(
        lambda i, t, y: sg.logical_and(i < BOUND, t < LIMIT), body, (START, sg.constant(0.0), x)
    )
    step = sg.compile([START, BOUND, LIMIT, x], list(last))
    assert loop_of(step).registers
    assert "strip.0" not in step.ir("llvm")
    ones = np.ones((40, 40), np.float32)
    found = step(np.int64(2), np.int64(9), np.float32(5), ones)
    assert [float(v) for v in found[:2]] == [7, 5]


def test_a_strip_polls_before_the_next_and_can_be_stopped():
    step = counted()
    executable = step.executable
    prefetches: list[int] = []

    def prefetched() -> int:
        prefetches.append(1)
        return len(prefetches) == 3

    callback = ctypes.CFUNCTYPE(ctypes.c_int32)(prefetched)
    executable._watch[ASKED_WORD] = ctypes.cast(callback, ctypes.c_void_p).value or 0
    run = ctypes.PYFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(executable.code.address(STEP))
    arrays: list[np.ndarray] = [
        np.array(0),
        np.array(10**15),
        np.array(np.inf, np.float32),
        np.array(0),
    ]
    outputs: list[np.ndarray] = [np.zeros((), np.int64), np.zeros((), np.float32)]
    tables = [np.array([a.ctypes.data for a in group]) for group in (arrays, outputs)]
    assert run(*(t.ctypes.data for t in (*tables, executable.table))) == STOPPED
    assert len(prefetches) == 3
