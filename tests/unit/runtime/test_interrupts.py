"""Ctrl-C ends a native loop: with KeyboardInterrupt, the state as it was, and the step usable."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm import poll
from symgrad.codegen.llvm.module import STEP
from symgrad.codegen.llvm.poll import ASKED_WORD, STOP_WORD, STOPPED
from tests.support.c_programs import needs
from tests.support.foreign_library import address_of, noted

ROOT = Path(__file__).parents[3]

# Each case says it is ready, and is sent a signal some time later.
_HEAD = """
import signal, sys, threading
import numpy as np
import symgrad as sg

# What is started in the background of a shell ignores the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)

x = sg.placeholder(())
n = sg.placeholder((), "int64")
v = sg.variable(np.float32(1), name="v")
FOREVER, SHORT = np.float32(0.5), np.float32(2)

def forever(factor=0.0, limit=1.0):
    return sg.while_loop(lambda t: t < limit, lambda t: (t * factor,), (x,))[0]

def is_interrupted(step, *arguments, **options):
    print("ready", flush=True)
    try:
        step(*arguments, **options)
    except KeyboardInterrupt:
        return True
    return False
"""


def run_and_interrupt(tmp_path: Path, source: str, times: int = 1) -> None:
    """Run a program, and send it SIGINT a while after each line "ready"; it must end well."""
    program = tmp_path / "program.py"
    program.write_text(_HEAD + source)
    with subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    ) as child:  # fmt: skip
        # It runs for ever if it is not ended.
        watchdog = threading.Timer(60, child.kill)
        watchdog.start()
        for _ in range(times):
            _interrupt_once_ready(child)
        _, errors = child.communicate()
        watchdog.cancel()
    assert child.returncode == 0, errors


def _interrupt_once_ready(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    if child.stdout.readline() == "ready\n":
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)


LOOPS = {
    "plain": ("forever()", "[x]", "(FOREVER,)", "(SHORT,)"),
    "recorded on a tape": (
        "sg.gradients(forever(0.5), [x])[0]", "[x]", "(FOREVER,)", "(SHORT,)",
    ),
    "through memory": (
        "sg.sum(sg.while_loop(lambda t: t[0, 0] < 1.0, lambda t: (sg.tanh(t @ t) * 0.0,),"
        " (sg.broadcast_to(x, (40, 40)),))[0])",
        "[x]", "(FOREVER,)", "(SHORT,)",
    ),
    "shared by threads": (
        "sg.sum(sg.while_loop(lambda t: t[0] < 1.0, lambda t: (sg.tanh(t) * 0.0,),"
        " (sg.broadcast_to(x, (300_000,)),))[0])",
        "[x]", "(FOREVER,)", "(SHORT,)",
    ),
    "of a known length": (
        "sg.fori_loop(0, n, lambda i, t: sg.sin(t), x)",
        "[x, n]", "(FOREVER, np.array(1 << 60))", "(SHORT, np.array(3))",
    ),
    "around short ones": (
        "sg.while_loop(lambda t: t < 1.0, lambda t: (sg.fori_loop(0, n, lambda i, u: u * 0.0, t),),"
        " (x,))[0]",
        "[x, n]", "(FOREVER, np.array(3))", "(SHORT, np.array(3))",
    ),
    "within a function": (
        "call_forever(call_forever(x)) + 0.0",
        "[x]", "(FOREVER,)", "(SHORT,)",
    ),
    "around a function": (
        "sg.while_loop(lambda t: t < 1.0, lambda t: (call(call(t)) * 0.0,), (x,))[0]",
        "[x]", "(FOREVER,)", "(SHORT,)",
    ),
}  # fmt: skip

_LOOP = """
@sg.function
def call(t):
    for _ in range(40):
        t = sg.sum(sg.sin(sg.broadcast_to(t, (3,)) * sg.constant([1.0, 2.0, 3.0])))
    return t

@sg.function
def call_forever(t):
    t = sg.while_loop(lambda u: u < 1.0, lambda u: (u * 0.0,), (t,))[0]
    for _ in range(80):
        t = t + sg.sum(sg.sin(sg.broadcast_to(t, (3,)) * sg.constant([1.0, 2.0, 3.0]))) * 0.0
    return t

y = {loop}
w = sg.variable(np.zeros(1000, np.float32), name="w")
step = sg.compile({inputs}, y, [(v, v + y), (w, w + 1)], threads=2)
first = step(*{short})
state = v.value, w.value
assert is_interrupted(step, *{forever})
assert (v.value, w.value.tolist()) == (state[0], state[1].tolist())
out = np.zeros((), np.float32)
assert is_interrupted(step, *{forever}, out=out)
assert step(*{short}) == first and v.value != state[0] and w.value[0] == state[1][0] + 1
"""


_LATER = [pytest.param(name, marks=pytest.mark.slow) for name in LOOPS if name != "plain"]


@pytest.mark.parametrize("name", ["plain", *_LATER])
def test_a_loop_ends_and_leaves_the_state_as_it_was(name, tmp_path):
    loop, inputs, forever, short = LOOPS[name]
    source = _LOOP.format(loop=loop, inputs=inputs, forever=forever, short=short)
    run_and_interrupt(tmp_path, source, times=2)


def test_a_loaded_step_ends(tmp_path):
    run_and_interrupt(
        tmp_path,
        f"""
step = sg.compile([x], forever(), [(v, v + 1)], name="run")
step.export({str(tmp_path / "net")!r})
library = sg.load({str(tmp_path / "net")!r})
library(SHORT)
assert is_interrupted(library, FOREVER)
assert library.variables["v"] == 2
assert library(SHORT) == 2 and library.variables["v"] == 3
""",
    )


_HANDLED = """
took = []
step = sg.compile([x, n], sg.fori_loop(0, n, lambda i, t: sg.sin(t + 1), x), [(v, v + 1)])
count = np.array(1000)
wanted = step(SHORT, count)
v.value = np.float32(1)
signal.signal(signal.SIGINT, lambda *_: took.append(1))
import time
while True:  # until it takes long enough
    start = time.perf_counter()
    wanted = step(SHORT, count)
    if time.perf_counter() - start > 0.6:
        break
    count = count * 2
v.value = np.float32(1)
"""


@pytest.mark.slow
def test_a_handler_that_raises_nothing_has_the_step_run_again(tmp_path):
    source = """
assert not is_interrupted(lambda: results.append(step(SHORT, count)))
assert results == [wanted] and took == [1] and v.value == 2
"""
    run_and_interrupt(tmp_path, f"{_HANDLED}results = []\n{source}")


@pytest.mark.slow
def test_a_signal_that_is_ignored_ends_nothing(tmp_path):
    source = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
assert not is_interrupted(lambda: results.append(step(SHORT, count)))
assert results == [wanted] and not took and v.value == 2
"""
    run_and_interrupt(tmp_path, f"{_HANDLED}results = []\n{source}")


_CALLS = """
import ctypes
from tests.support.foreign_library import address_of, noted

def note(number):
    (y,) = sg.extern("note", [number], [((), "int64")], pointer=address_of("note"), pure=False)
    return y

begun = x + sg.astype(note(sg.constant(3, "int64")), "float32")
repeated = sg.fori_loop(0, n, lambda i, t: sg.sin(t + 1), begun)
"""


@needs("cc")
@pytest.mark.parametrize("is_loaded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_step_with_calls_is_run_once_where_a_handler_raises_nothing(tmp_path, is_loaded):
    source = f"""
import signal, time
step = sg.compile([x, n], repeated, [(v, v + 1)], name="run")
took = []
signal.signal(signal.SIGINT, lambda *_: took.append(1))
count = np.array(1_000_000)
if {is_loaded}:
    from tests.support.foreign_library import library_path
    ctypes.CDLL(str(library_path()), ctypes.RTLD_GLOBAL)
    step.export({str(tmp_path / "net")!r})
    step = sg.load({str(tmp_path / "net")!r})
while True:  # until it takes long enough
    start = time.perf_counter()
    step(SHORT, count)
    if time.perf_counter() - start > 0.6:
        break
    count = count * 2
noted()
print("ready", flush=True)
step(SHORT, count)
assert noted() == [3], "the call was made again"
assert took == [1]
signal.signal(signal.SIGINT, signal.default_int_handler)
assert is_interrupted(step, SHORT, np.array(1 << 60))
assert noted() == [3]
"""
    run_and_interrupt(tmp_path, _CALLS + source, times=2)


def test_what_a_handler_raises_comes_from_the_step(tmp_path):
    source = """
def handle(*_):
    raise TimeoutError("enough")

step = sg.compile([x], forever(), [(v, v + 1)])
step(SHORT)
signal.signal(signal.SIGINT, handle)
try:
    is_interrupted(step, FOREVER)
except TimeoutError:
    assert v.value == 2
else:
    raise AssertionError
"""
    run_and_interrupt(tmp_path, source)


def test_a_step_in_another_thread_ends_too(tmp_path):
    source = """
step = sg.compile([x], forever(), [(v, v + 1)])
found, has_ended = [], threading.Event()

def run():
    found.append(is_interrupted(step, FOREVER))
    has_ended.set()

thread = threading.Thread(target=run)
try:
    thread.start()
    thread.join()
except KeyboardInterrupt:
    found.append("main")
has_ended.wait()  # an interrupted join counts as one that has succeeded in Python 3.11
assert sorted(map(str, found)) == ["True", "main"] and v.value == 1, found
"""
    run_and_interrupt(tmp_path, source)


def test_a_step_that_waits_for_that_of_another_thread_is_interrupted(tmp_path):
    source = """
step = sg.compile([x], forever(), [(v, v + 1)])
count = sg.compile([], v + 0, [(v, v + 1)])
found, has_ended = [], threading.Event()

def run():
    found.append(is_interrupted(step, FOREVER))
    has_ended.set()

threading.Thread(target=run).start()
import time
time.sleep(0.1)
assert is_interrupted(count)
has_ended.wait()
assert found == [True] and v.value == 1 and count() == 1 and v.value == 2
"""
    run_and_interrupt(tmp_path, source)


@pytest.mark.slow
def test_an_interrupt_from_before_a_step_does_not_end_it(tmp_path):
    source = """
import time
step = sg.compile([x, n], sg.fori_loop(0, n, lambda i, t: sg.sin(t), x))
step(SHORT, np.array(10_000_000))
assert is_interrupted(time.sleep, 60)
found = []
thread = threading.Thread(target=lambda: found.append(step(SHORT, np.array(10_000_000))))
thread.start()
thread.join()
assert len(found) == 1
"""
    run_and_interrupt(tmp_path, source)


# ------------------------------------------------------------------------------ without signals


def a_training_step() -> tuple[sg.Step, list[np.ndarray]]:
    """Return a step with loops, branches, tapes and updates, and what to call it with."""
    x, n = sg.placeholder((4,)), sg.placeholder((), "int64")
    w = sg.variable(np.linspace(0.1, 0.4, 4, dtype=np.float32), name="w")
    _, settled = sg.while_loop(
        lambda i, t: i < n, lambda i, t: (i + 1, sg.tanh(t * w + x)), (sg.constant(0, "int64"), x)
    )
    carry, rows = sg.scan(lambda c, r: (c * r, c + r), settled, sg.stack([x, w, x]))
    loss = sg.sum(sg.cond(sg.sum(carry) > 0.0, lambda: rows * carry, lambda: rows))
    updates = sg.optim.Adam(0.1).minimize(loss)
    arrays = [np.linspace(0.2, 1, 4, dtype=np.float32), np.array(8)]
    return sg.compile([x, n], loss, updates, cache=False), arrays


def test_a_step_that_stops_at_any_poll_leaves_the_state_as_it_was(monkeypatch):
    step, arrays = a_training_step()
    wanted = step(*arrays)
    monkeypatch.setattr(poll, "POLL_PERIOD", 0)  # every iteration polls
    step, arrays = a_training_step()
    executable, variables = step.executable, step.graph.variables
    before = [v.value.tobytes() for v in variables]
    polls = [0, 0]  # how many there were, and at which to stop

    def asked() -> int:
        polls[0] += 1
        return polls[0] == polls[1]

    callback = ctypes.CFUNCTYPE(ctypes.c_int32)(asked)
    executable._watch[ASKED_WORD] = ctypes.cast(callback, ctypes.c_void_p).value or 0
    run = ctypes.PYFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(executable.code.address(STEP))
    outputs = [np.zeros((), np.float32)]
    tables = [np.array([a.ctypes.data for a in arrays]), np.array([outputs[0].ctypes.data])]
    pointers = [t.ctypes.data for t in (*tables, executable.table)]
    for stop in range(1, 100):
        polls[:] = 0, stop
        status = run(*pointers)
        if not status:
            break
        assert status == STOPPED
        assert [v.value.tobytes() for v in variables] == before, f"stopped at poll {stop}"
    assert polls[0] >= 10
    assert outputs[0] == wanted


def test_a_step_that_is_stopped_for_nothing_runs_again():
    step, arrays = a_training_step()
    twin, _ = a_training_step()
    step.executable._watch[STOP_WORD] = 1
    assert step(*arrays) == twin(*arrays)
    assert step.executable._watch[STOP_WORD] == 0
    step.executable._watch[STOP_WORD] = 1
    assert step(*arrays, out=np.zeros((), np.float32)) == twin(*arrays)
    for mine, other in zip(step.graph.variables, twin.graph.variables, strict=True):
        np.testing.assert_array_equal(mine.value, other.value)


@needs("cc")
def test_a_step_with_calls_that_is_stopped_for_nothing_is_not_run_again():
    three, results = sg.constant(3, "int64"), [((), "int64")]
    (y,) = sg.extern("note", [three], results, pointer=address_of("note"), pure=False)
    n = sg.placeholder((), "int64")
    step = sg.compile([n], sg.fori_loop(0, n, lambda i, t: sg.sin(t), sg.astype(y, "float32")))
    noted()
    step.executable._watch[STOP_WORD] = 1
    with pytest.raises(KeyboardInterrupt):
        step(np.array(1 << 24))
    assert noted() == [3]


def test_an_index_out_of_range_in_a_loop_is_still_that():
    i = sg.placeholder((), "int64")
    table = sg.variable(np.arange(3, dtype=np.float32))
    last = sg.while_loop(
        lambda k: k < i, lambda k: (k + sg.astype(table[k], "int64") + 1,), (i - 9,)
    )
    step = sg.compile([i], last[0])
    with pytest.raises(IndexError):
        step(np.array(12))
