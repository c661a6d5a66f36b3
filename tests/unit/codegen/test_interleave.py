"""Loop interleaving: which loops take several vectors at a time, and what they leave over."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.loops.language import For
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.schedule.interleave import interleave, live_values
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import target_named
from symgrad.cost_model import VECTORS_IN_FLIGHT
from symgrad.graph.graph import Graph
from tests.support.floors import compile_for, run_native
from tests.support.schedules import interleaved

TARGET = target_named("x86-64-v3")
LONG = """
    t0: f32 = x[i]
    t1: f32 = tanh(t0)
    t2: f32 = mul(t0, t1)
    y[i] = t2
"""


def marked(body: str, extent: int = 1 << 20) -> int:
    """Return how many vectors are interleaved in a loop with this body."""
    text = (
        f"kernel @k(in x: f32[{2 * extent}], out y: f32[{extent}])"
        f"{{ for i in 0..{extent} vector(8) {{ {body} }} }}"
    )
    (loop,) = interleave(parse_kernel(text), TARGET).body
    assert isinstance(loop, For)
    return loop.interleave


def test_a_long_chain_of_operations_is_interleaved():
    assert marked(LONG) == 4


def test_few_operations_are_not():
    assert marked("t0: f32 = x[i] t1: f32 = mul(t0, t0) y[i] = t1") == 1


def test_a_short_loop_is_less_or_not():
    assert marked(LONG, VECTORS_IN_FLIGHT[4] // 100) == 2
    assert marked(LONG, VECTORS_IN_FLIGHT[2] // 100) == 1


def test_elements_that_are_gathered_are_not():
    assert marked(LONG.replace("x[i]", "x[2*i]")) == 1


def test_more_values_than_registers_are_for_are_interleaved_less():
    loads = "".join(f"t{n}: f32 = x[i + {n}] u{n}: f32 = tanh(t{n}) " for n in range(24))
    sums = "".join(f"s{n + 1}: f32 = add(s{n}, u{n}) " for n in range(24))
    assert marked(f"{loads} s0: f32 = x[i] {sums} y[i] = s24") == 2


def test_live_values_are_counted_from_the_first_to_the_last_use():
    text = f"kernel @k(in x: f32[8], out y: f32[8]) {{ for i in 0..8 {{ {LONG} }} }}"
    (loop,) = parse_kernel(text).body
    assert isinstance(loop, For)
    assert live_values(loop) == 2


@pytest.mark.parametrize("size", [64, 101, 127, 128, 207, 259])
@pytest.mark.parametrize("threads", [1, 3])
def test_results_are_those_of_single_vectors(size, threads):
    x = sg.placeholder((size,))
    graph = Graph([sg.sin(x) * x, sg.astype(x > 0.5, "int8")], [x])
    given = np.linspace(-3, 3, size, dtype=np.float32)
    found = []
    for vectors in (1, 4):
        with interleaved(vectors):
            step = compile_for(graph, "x86-64", threads=Threads(threads, least_cycles=0))
        text = str(step.program.kernels)
        assert ("interleave=4" in text) == (vectors == 4)
        found.append([a.tobytes() for a in run_native(step, [given]).outputs])
    assert found[0] == found[1]
