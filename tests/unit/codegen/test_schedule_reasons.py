"""The words for a schedule: each kind of loop, fold and product says why it is as it is."""

from __future__ import annotations

import re

import symgrad as sg
from symgrad.codegen.loops.language import For
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.schedule.reasons import schedule_reasons
from symgrad.codegen.schedule.vectorize import element_cost
from symgrad.codegen.target import target_named
from symgrad.cost_model import SHARING_CYCLES
from symgrad.graph.graph import Graph
from tests.support.floors import program_for
from tests.support.programs import schedule_kernel


def reasons(step: sg.Step) -> dict[str, tuple[str, ...]]:
    return {record.label: record.reasons for record in step.kernels}


def test_vectors_are_explained_by_what_an_element_costs():
    x = sg.placeholder((64,))
    step = sg.compile([x], sg.sqrt(x) + x, target="x86-64-v3")
    (kernel,) = step.executable.program.kernels
    (loop,) = kernel.body
    assert isinstance(loop, For)
    assert loop.vector == 8
    (text,) = reasons(step)["sqrt add"]
    beside, alone = element_cost(loop.body, loop.var, 8), element_cost(loop.body, None, 1)
    assert text == (
        f"vectors along i0: an element costs {beside:.2f} operations there, {alone:.2f} one by one"
    )
    assert beside < alone


def test_vectors_beside_each_other_are_explained_by_the_calls_they_share():
    x = h = sg.placeholder((1_000,))
    for _ in range(6):
        h = sg.tanh(h + x)
    ((text,),) = reasons(sg.compile([x], h, target="x86-64-v3")).values()
    assert text.endswith(
        "; 4 of them at a time, which are no more code: its 6 calls of math functions are of one "
        "copy of each; the last 32 iterations are taken together, 24 of them once more"
    )


def test_partial_results_are_explained_by_the_shape():
    step = sg.compile([x := sg.placeholder((784,))], sg.sum(x))
    assert reasons(step)["sum"] == (
        "32 partial results: for 784 elements of float32 these are the cheapest, "
        "whatever the machine: 94 steps",
    )


def test_a_product_is_explained_by_its_sizes():
    a, b = sg.placeholder((64, 32)), sg.placeholder((32, 48))
    step = sg.compile([a, b], a @ b, target="x86-64-v3")
    (text,) = reasons(step)["einsum"]
    assert text.startswith("a tile of ")
    assert text.endswith("the cheapest way for 64 by 48 sums of 32")
    assert re.search(r"packed: at [\d,]+ cycles the cheapest", text)


def test_elements_that_lie_apart_are_computed_one_by_one():
    kernel = parse_kernel("""
        kernel @k(in x: f32[40], out y: f32[24]) {
          for i in 0..8 {
            t: f32 = x[5*i]
            y[3*i] = t
          }
        }
    """)
    (text,) = schedule_reasons(schedule_kernel(kernel, 32), target_named("x86-64-v3"))
    assert text == "i one by one: no loop has as many elements side by side as a vector"


def test_a_short_fold_within_vectors_says_so():
    x = sg.placeholder((3, 3))
    (texts,) = reasons(sg.compile([x], sg.sum(x[:, :2], axis=1))).values()
    assert "i1 one by one: its loop has the vectors, or 2 elements are few" in texts


def test_threads_are_explained_by_cycles():
    x = sg.placeholder((1_000_000,))
    step = sg.compile([x], sg.tanh(x), threads=2)
    (found,) = reasons(step).values()
    (text,) = (text for text in found if "2 threads: it takes " in text)
    assert text.endswith(f" cycles, and sharing pays from {SHARING_CYCLES:,} on")
    (alone,) = reasons(sg.compile([x], sg.tanh(x))).values()
    assert not any("threads" in text for text in alone)


def test_equal_parts_of_a_product_are_explained_by_where_tiles_begin_anew():
    a, b = sg.placeholder((3136, 256)), sg.placeholder((3136, 64))
    step = sg.compile([a, b], sg.matrix_transpose(a) @ b, threads=2, target="x86-64-v4")
    (found,) = reasons(step).values()
    (text,) = (text for text in found if "2 threads: it takes " in text)
    assert text.endswith(", in equal parts: tiles begin anew every 128 along m")


def test_reasons_are_in_the_table():
    x = sg.placeholder((64,))
    kernels = sg.compile([x], sg.tanh(x)).kernels
    assert "vectors along i0" in str(kernels)
    assert all(record.reasons for record in kernels)


def test_each_nest_in_a_loop_has_a_reason_of_its_own():
    x, kernel = sg.placeholder((2, 8, 10, 32)), sg.placeholder((3, 3, 1, 32))
    y = sg.nn.conv2d(x, kernel, padding="SAME", groups=32)
    (scheduled,) = program_for(Graph([y])).kernels
    reasons = schedule_reasons(scheduled, target_named("native"))
    assert len(reasons) == 9
    assert all(reason.startswith("vectors along") for reason in reasons)
