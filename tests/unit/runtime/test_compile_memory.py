"""Memory that compiling leaves behind, each stage measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

MEASURE = """
import ctypes
import gc

class Allocated(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "free_chunks", "fast_chunks", "mapped_chunks", "mapped", "unused", "fast",
        "in_use", "free", "top",
    )]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Allocated

def allocated_kb():
    gc.collect()
    found = mallinfo()  # unlike resident memory, without what is free between what is in use
    return (found.in_use + found.mapped) / 1024

def left_by(work, times, warm_up):
    for number in range(warm_up):
        work(number)
    before = allocated_kb()
    for number in range(warm_up, warm_up + times):
        work(number)
    return (allocated_kb() - before) / times
"""

STAGES = """
from symgrad.codegen.target import target_named
from symgrad.codegen.native.jit import emit_object, load_object, optimize

native = target_named("native")
text = "define i32 @seven() {\\n  ret i32 7\\n}\\n"
image = emit_object(optimize(text, native, 3), native, 3)
print(left_by(lambda _: optimize(text, native, 3), 64, 16))
print(left_by(lambda _: load_object(image, ["seven"]), 64, 16))
"""

PROGRAMS = """
import symgrad as sg

def compile_one(number):
    x = sg.placeholder((3 + number % 5, 4))
    y = sg.sum(sg.tanh(x * float(number)))
    sg.compile([x], [y, *sg.gradients(y, x)], cache=False)

print(left_by(compile_one, 100, 150))
"""


def left_kb(program: str) -> list[float]:
    command = [sys.executable, "-c", MEASURE + program]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    return [float(line) for line in run.stdout.split()]


def test_what_optimizing_and_linking_take_is_given_back():
    # 48 and 9 KB as long as neither pass managers nor linkers were disposed of.
    optimizing, linking = left_kb(STAGES)
    assert optimizing < 2
    assert linking < 2


@pytest.mark.slow
def test_what_hundreds_of_compiles_take_is_given_back():
    (compiling,) = left_kb(PROGRAMS)  # 140 KB before
    assert compiling < 4
