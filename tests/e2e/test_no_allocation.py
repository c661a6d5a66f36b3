"""A step allocates nothing and calls nothing: counted from outside, in a process of its own.

The process runs with a small library before all others that counts allocations while steps run,
in a loop that is part of the library, so that no Python is in between. It takes `cc` and `nm`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.native.jit import emit_object, optimize
from symgrad.codegen.target import target_named
from symgrad.graph import dtypes
from symgrad.graph.graph import Graph
from tests.support.floors import program_for
from tests.support.networks import random_network
from tests.support.optimizers import RULES

ROOT = Path(__file__).resolve().parents[2]

_COUNTER = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static _Thread_local int is_counting;
static _Thread_local long allocations;

static void count(void) { allocations += is_counting; }

void *malloc(size_t size) { count(); return __libc_malloc(size); }
void *calloc(size_t n, size_t size) { count(); return __libc_calloc(n, size); }
void *realloc(void *old, size_t size) { count(); return __libc_realloc(old, size); }
void *memalign(size_t align, size_t size) { count(); return __libc_memalign(align, size); }
void *aligned_alloc(size_t align, size_t size) { count(); return __libc_memalign(align, size); }
int posix_memalign(void **place, size_t align, size_t size) {
    count();
    *place = __libc_memalign(align, size);
    return *place ? 0 : ENOMEM;
}
void *mmap(void *at, size_t size, int protect, int flags, int file, off_t offset) {
    count();
    return (void *)syscall(SYS_mmap, at, size, protect, flags, file, offset);
}

typedef int step_function(void **inputs, void **outputs, void **state);

/* Runs a step many times; returns how often memory was asked for, -1 if the step failed. */
long count_in_step(step_function *step, void **inputs, void **outputs, void **state, int times) {
    int failed = 0;
    allocations = 0;
    is_counting = 1;
    for (int i = 0; i < times; i++) failed |= step(inputs, outputs, state);
    is_counting = 0;
    return failed ? -1 : allocations;
}

typedef struct _object PyObject;
extern PyObject *PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *)
    __attribute__((weak));

/* Calls a function of Python that returns None many times; the same for objects of Python. */
long count_in_call(PyObject *function, PyObject *const *args, size_t n, PyObject *none, int times) {
    int failed = 0;
    allocations = 0;
    is_counting = 1;
    for (int i = 0; i < times; i++) failed |= PyObject_Vectorcall(function, args, n, 0) != none;
    is_counting = 0;
    return failed ? -1 : allocations;
}

static void *volatile kept;
int allocating_step(void **inputs, void **outputs, void **state) {
    kept = malloc(8);
    kept = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return 0;
}
"""

_PROGRAM = """
import ctypes
import sys
import numpy as np
import symgrad as sg
from symgrad.runtime.executable import Executable
from tests.support.optimizers import RULES

counter = ctypes.PyDLL(sys.argv[1])  # which keeps the lock that calls of Python need
counter.count_in_step.restype = counter.count_in_call.restype = ctypes.c_long

def address(function):
    return ctypes.cast(function, ctypes.c_void_p)

def training_step():
    x, labels = sg.placeholder((32, 40), name="x"), sg.placeholder((32,), "int64", name="labels")
    rng = np.random.default_rng(0)
    weights, h = [], x
    for fan_in, fan_out in ((40, 70), (70, 33), (33, 10)):
        w = sg.variable((rng.standard_normal((fan_in, fan_out)) / 6).astype(np.float32))
        b = sg.variable(np.zeros(fan_out, np.float32))
        weights += [w, b]
        h = h @ w + b
        h = sg.nn.relu(h) if fan_out != 10 else h
    loss = sg.nn.cross_entropy(h, labels)
    updates = []
    for w, g in zip(weights, sg.gradients(loss, weights)):
        m, v = (sg.variable(np.zeros_like(w.value)) for _ in range(2))
        new_m, new_v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        updates += [(m, new_m), (v, new_v), (w, w - 0.01 * new_m / (sg.sqrt(new_v) + 1e-7))]
    return sg.compile([x, labels], [loss, h], updates)

def every_update():
    g, updates = sg.placeholder((19, 37), name="g"), []
    rules = list(RULES.values())[:int(sys.argv[2])]
    for make in [*rules, lambda: sg.optim.Accumulate(sg.optim.Adam(), 3)]:
        w = sg.variable(np.ones((19, 37), np.float32), name="w")
        clipped = sg.optim.clip_by_global_norm([g], 1.0)
        updates += make().apply_gradients(zip(clipped, [w]))
    updates = sg.optim.ExponentialMovingAverage(0.9).apply(updates)
    return sg.compile([g], [], updates)

def table(arrays):
    return np.array([a.ctypes.data for a in arrays], np.int64)

update = every_update()
gradient = np.ones((19, 37), np.float32)
tables = table([gradient]), table([gradient]), update.executable.table
pointers = [ctypes.c_void_p(t.ctypes.data) for t in tables]
raw = ctypes.c_void_p(update.executable.code.address("step"))
print("updates", counter.count_in_step(raw, *pointers, 200))

step = training_step()
program = step.executable
rng = np.random.default_rng(1)
inputs = [rng.standard_normal((32, 40)).astype(np.float32), rng.integers(0, 10, 32)]
outputs = [np.empty((), np.float32), np.empty((32, 10), np.float32)]
tables = table(inputs), table(outputs), program.table
pointers = [ctypes.c_void_p(t.ctypes.data) for t in tables]

before = float(step(*inputs)[0])
raw = ctypes.c_void_p(program.code.address("step"))
print("step", counter.count_in_step(raw, *pointers, 200))
print("learnt", float(outputs[0]) < before / 2)

entry = step._compiled[()][1]
arguments = (ctypes.py_object * 4)(*inputs, *outputs)
print("call", counter.count_in_call(
    ctypes.py_object(entry.into), arguments, ctypes.c_size_t(4), ctypes.py_object(None), 200))
print("allocating", counter.count_in_step(address(counter.allocating_step), *pointers, 7))
"""


@pytest.mark.parametrize("rules", [2, pytest.param(len(RULES), marks=pytest.mark.slow)])
def test_a_training_step_allocates_nothing(rules, tmp_path):
    source, library, program = (tmp_path / n for n in ("counter.c", "counter.so", "program.py"))
    source.write_text(_COUNTER)
    program.write_text(_PROGRAM)
    subprocess.run(
        ["cc", "-O1", "-fPIC", "-shared", "-fno-builtin", str(source), "-o", str(library)],
        check=True,
        timeout=60,
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LD_PRELOAD": str(library),
        "PYTHONMALLOC": "malloc",  # objects of Python are counted too
    }
    done = subprocess.run(
        [sys.executable, str(program), str(library), str(rules)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = dict(line.split() for line in done.stdout.splitlines())
    assert found == {
        "updates": "0", "step": "0", "learnt": "True", "call": "0", "allocating": "14"
    }  # fmt: skip


# What LLVM may make of a loop that copies or fills, and what the linker adds.
_ALLOWED = {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}


def undefined_symbols(graph: Graph, target: str, folder: Path) -> set[str]:
    """Return what the object file of a step takes from outside."""
    machine = target_named(target)
    text = str(emit_module(program_for(graph, target), machine))
    image = emit_object(optimize(text, machine, 2), machine, 2)
    path = folder / "step.o"
    path.write_bytes(image)
    listed = subprocess.run(
        ["nm", "-u", str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    return {line.split()[-1] for line in listed.stdout.splitlines()}


def every_function(dtype: str) -> Graph:
    x = sg.placeholder((100,), dtype, name="x")
    functions = (
        sg.exp, sg.expm1, sg.log, sg.log1p, sg.sqrt, sg.rsqrt, sg.sin, sg.cos, sg.tanh, sg.sigmoid,
        sg.erf, sg.floor, sg.ceil, sg.round, sg.abs, sg.sign,
    )  # fmt: skip
    results = [f(x) for f in functions]
    results += [sg.pow(x, x), x % 3, x // 3, x / (x + 7), sg.maximum(x, 1), x.astype("int64")]
    return Graph([*results, sg.prod(x), sg.argmax(x), sg.concat([x, x]), sg.zeros((1000,))], [x])


def test_the_rarer_functions_take_nothing_from_outside(tmp_path):
    x = sg.placeholder((100,), name="x")
    results = [
        f(x)
        for f in (
            *(sg.exp2, sg.log2, sg.log10, sg.cbrt, sg.tan, sg.asin, sg.acos, sg.atan, sg.sinh),
            *(sg.cosh, sg.asinh, sg.acosh, sg.atanh, sg.sinc, sg.trunc),
        )
    ]
    results += [f(x, x + 1) for f in (sg.atan2, sg.hypot, sg.logaddexp, sg.fmod, sg.nextafter)]
    # The plainest machine, which LLVM would help out with calls.
    assert undefined_symbols(Graph(results, [x]), "x86-64", tmp_path) <= _ALLOWED


every_target = pytest.mark.parametrize(
    "target",
    ["native", *(pytest.param(t, marks=pytest.mark.slow) for t in ("x86-64-v3", "x86-64"))],
)


@every_target
@pytest.mark.parametrize("number", [0, 1])
def test_every_function_takes_nothing_from_outside(target, number, tmp_path):
    dtypes_of = ("bfloat16", "float64") if target == "native" else ("float16", "float32")
    assert undefined_symbols(every_function(dtypes_of[number]), target, tmp_path) <= _ALLOWED


@every_target
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2))]
)
def test_a_step_takes_nothing_from_outside(target, seed, tmp_path):
    graph, _ = random_network(np.random.default_rng(seed), dtypes.float32)
    assert undefined_symbols(graph, target, tmp_path) <= _ALLOWED


def test_arithmetic_of_integers_takes_nothing_from_outside(tmp_path):
    for dtype in ("int8", "uint16", "int32", "uint64"):
        x = sg.placeholder((100,), dtype, name="x")
        y = sg.placeholder((100,), dtype, name="y")
        results = [x // y, x % y, sg.pow(x, y), x * y - x, x / y, sg.sum(x), sg.max(x)]
        graph = Graph([*results, x.reshape(10, 10) @ y.reshape(10, 10)], [x, y])
        assert undefined_symbols(graph, "x86-64", tmp_path) <= _ALLOWED
