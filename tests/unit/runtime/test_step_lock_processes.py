"""Processes with a step that runs in a thread: what is loaded, what forks, how they end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run_program(source: str) -> str:
    """Run a program in another process, which must end well; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


_HEAD = """
import os, sys, threading, time, numpy as np, symgrad as sg
from tests.support.waiting_call import Waiting, in_a_thread
places = sg.placeholder((2,), "int64")
waiting = Waiting()
v = sg.variable(np.zeros(300_000, np.float32), name="v")
word = waiting.call(places).astype("float32")
"""


def test_a_loaded_step_lets_other_threads_run(tmp_path):
    # The C library waits: whoever is not let go on never ends it.
    source = f"""
import ctypes, threading, numpy as np, symgrad as sg
x = sg.placeholder((4,), "int64", name="x")
(y,) = sg.extern("sem_wait", [x], [((), "int32")])
sg.compile([x], 0 * y).export({str(tmp_path / "waits")!r})
step = sg.load({str(tmp_path / "waits")!r})
words = np.zeros(4, np.int64)
place, c = ctypes.c_void_p(words.ctypes.data), ctypes.CDLL(None)
assert c.sem_init(place, 0, 0) == 0
found = []
thread = threading.Thread(target=lambda: found.append(step(words)))
thread.start()
assert c.sem_post(place) == 0
thread.join()
assert found == [0]
"""
    run_program(source)


def test_a_process_is_forked_between_two_steps():
    source = """
step = sg.compile([places], (), [(v, v + word)], threads=2)
count = sg.compile([], sg.stack([sg.min(v), sg.max(v)]), [(v, v + 1)], threads=2)
with in_a_thread(step, waiting):
    threading.Timer(0.3, waiting.tell, [5]).start()
    child = os.fork()
    if not child:
        os._exit(int(count().tolist() != [5.0, 5.0] or v.value[0] != 6.0))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert count().tolist() == [5.0, 5.0]
"""
    run_program(_HEAD + source)


def test_a_process_that_is_forked_while_another_thread_compiles_can_compile():
    source = """
import signal
from llvmlite.binding import ffi
from symgrad.codegen.native import known_groups, known_leaves
begun, x = threading.Event(), sg.placeholder((3, 3))

def compile():
    with ffi.lib._lock, known_groups._lock, known_leaves._lock:
        begun.set()
        time.sleep(0.5)

thread = threading.Thread(target=compile)
sg.compile([x], x @ x + 1)
thread.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(60)
    assert all(known._lock.acquire(timeout=5) for known in (known_groups, known_leaves))
    step = sg.compile([x], x @ x + 2, cache=False)
    os._exit(int(step(np.ones((3, 3), np.float32))[0, 0]) - 5)
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    run_program(_HEAD + source)


def test_a_process_that_is_forked_has_each_lock_of_the_compiler():
    source = """
from symgrad.codegen.contract.plans import products
from symgrad.codegen.native import known_groups, known_leaves, machine_code

def hold(lock, begun):
    with lock:
        begun.set()
        time.sleep(0.3)

for module in (known_groups, known_leaves, machine_code, products):
    begun = threading.Event()
    thread = threading.Thread(target=hold, args=(module._lock, begun))
    thread.start()
    begun.wait()
    child = os.fork()
    if not child:
        os._exit(not module._lock.acquire(timeout=5))
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, module
"""
    run_program(_HEAD + source)


def test_a_process_that_is_forked_while_another_thread_lowers_can_compile():
    source = """
import signal
from symgrad.runtime import executable
lower, begun, x = executable.lower_graph, threading.Event(), sg.placeholder((3, 3))

def lower_later(*arguments, **options):
    begun.set()
    time.sleep(1)
    return lower(*arguments, **options)

sg.compile([x], x @ x + 1)
executable.lower_graph = lower_later
thread = threading.Thread(target=sg.compile, args=([x], x @ x + 2), kwargs={"cache": False})
thread.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    executable.lower_graph = lower
    step = sg.compile([x], x @ x + 3, cache=False)
    os._exit(int(step(np.ones((3, 3), np.float32))[0, 0]) - 6)
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    run_program(_HEAD + source)


def test_a_callback_may_fork():
    source = """
import ctypes
x = sg.placeholder((4,))
other = sg.compile([x], x + 1)
children = []

@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
def act(_x, y):
    ctypes.cast(y, ctypes.POINTER(ctypes.c_float))[0] = 1
    children.append(os.fork())
    return int(other(np.ones(4, np.float32))[0]) - 2

(y,) = sg.extern("back", [x], [((), "float32")], pointer=act)
step = sg.compile([x], y + 1)
for _ in range(2):
    assert step(np.ones(4, np.float32)) == 2 and other(np.ones(4, np.float32))[0] == 2
    threads = [threading.Thread(target=other, args=[np.ones(4, np.float32)]) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
if 0 in children:
    os._exit(0)
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    run_program(_HEAD + source)


def test_a_daemon_in_a_callback_does_not_keep_the_interpreter_from_ending():
    source = """
import ctypes
x = sg.placeholder((4,))
act = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2)(lambda *_: time.sleep(3600))
(y,) = sg.extern("back", [x], [((), "float32")], pointer=act)
step = sg.compile([x], y + 1)
brief, long = sg.compile([x], x + 1), sg.compile([], (), [(v, sg.sin(v))])

class Last:
    def __del__(self, write=os.write, steps=(brief, long), given=np.ones(4, np.float32), v=v):
        for act in (lambda: steps[0](given), steps[1], lambda: v.value):
            try:
                act()
            except RuntimeError as error:
                write(1, str(error).encode() + b"; ")

sys.modules["kept until the end"] = Last()
threading.Thread(target=step, args=[np.ones(4, np.float32)], daemon=True).start()
time.sleep(0.3)
"""
    assert run_program(_HEAD + source).count("the interpreter ends while") == 3


_AT_EXIT = {
    "a call": "step, given = sg.compile([places], (), [(v, v + word)]), waiting.places",
    "a loop": """
x = sg.placeholder((), "float32")
y = sg.while_loop(lambda t: t < 1.0, lambda t: (t * 0.5,), (x,))[0]
step, given = sg.compile([x], (), [(v, v + y)], threads=2), np.float32(0.5)
""",
    "a loop on a tape": """
x = sg.placeholder((), "float32")
y = sg.while_loop(lambda t: t < 1.0, lambda t: (t * 0.5,), (x,))[0]
step, given = sg.compile([x], sg.gradients(y, [x])), np.float32(0.5)
""",
    "steps": "step, given = sg.compile([], (), [(v, sg.sin(v) + 1)], threads=2), None",
}


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] * (k != "a loop")) for k in _AT_EXIT]
)
def test_the_interpreter_ends_while_a_daemon_runs(kind):
    source = """
def run():
    while True:
        step(*([] if given is None else [given]))

threading.Thread(target=run, daemon=True).start()
time.sleep(0.3)
"""
    run_program(_HEAD + _AT_EXIT[kind] + source)


@pytest.mark.parametrize("is_first", [True, False], ids=["before", "after"])
def test_a_brief_step_that_is_given_outputs_waits_whether_it_was_made_before_or_after(is_first):
    # Each is the first of its kind in the process: what a brief step goes on in is made by then.
    made = "b = brief(); s = long()" if is_first else "s = long(); b = brief()"
    source = f"""
x, out = sg.placeholder((4,), name="x"), np.empty(4, np.float32)
def brief():
    step = sg.compile([x], x + 1)
    step(np.ones(4, np.float32), out=out)
    return step
def long():
    return sg.compile([places], (), [(v, v + word)])
{made}
with in_a_thread(s, waiting):
    thread = threading.Thread(target=lambda: b(np.full(4, 2, np.float32), out=out))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive() and out[0] == 2.0
    waiting.tell(5)
thread.join()
assert out.tolist() == [3.0] * 4 and v.value[0] == 5.0
"""
    run_program(_HEAD + source)


def test_no_code_is_made_for_outputs_that_are_given_before_some_are():
    source = """
from symgrad.runtime import entry
with in_a_thread(sg.compile([places], (), [(v, v + word)]), waiting):
    waiting.tell(5)
assert entry._loaded == {"call", "call_locked"}
count = sg.compile([places], v[0])
count(waiting.places, out=np.empty((), np.float32))
assert entry._loaded == {"call", "call_locked", "into", "into_locked"}
"""
    run_program(_HEAD + source)
