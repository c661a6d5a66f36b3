"""Overlapping last vectors: which loops compute elements twice, and what that comes to."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.codegen.llvm.module import emit_module
from symgrad.codegen.llvm.similar_kernels import SIMILAR
from symgrad.codegen.loops.language import For
from symgrad.codegen.loops.parse import parse_kernel
from symgrad.codegen.program.language import Program
from symgrad.codegen.schedule.last_vectors import repeats_elements
from symgrad.codegen.schedule.parallelize import Threads
from symgrad.codegen.target import Target, target_named
from symgrad.compiler import CompileOptions, lower_graph
from symgrad.cost_model import LEAST_EMITTED_ONCE, MIN_SIMILAR_KERNELS
from symgrad.graph.graph import Graph
from symgrad.graph.node import Tensor

TARGETS = ("x86-64-v3", "x86-64-v4", "aarch64")


def loop_of(body: str, extent: int, marks: str = "", stored: str = "out y") -> For:
    """Return a loop over vectors of 16, four of them at a time."""
    text = (
        f"kernel @k(in x: f32[{2 * extent}], {stored}: f32[{extent}])"
        f"{{ for i in 0..{extent} vector(16) interleave(4) {marks} {{ {body} }} }}"
    )
    (loop,) = parse_kernel(text).body
    assert isinstance(loop, For)
    return loop


def in_a_row(calls: int, op: str = "tanh") -> str:
    steps = "".join(f"t{n + 1}: f32 = {op}(t{n}) " for n in range(calls))
    return f"t0: f32 = x[i] {steps} y[i] = t{calls}"


def repeats(body: str, extent: int, width: int = 64, *, calls: bool = True, **given: str) -> bool:
    return repeats_elements(loop_of(body, extent, **given), width, calls=calls)


def test_a_step_says_what_it_takes_once_more() -> None:
    x = sg.placeholder((1000,), name="x")
    step = sg.compile([x], chain(x, x, 12)[0], threads=1)
    assert any(
        "of them once more" in reason for kernel in step.kernels for reason in kernel.reasons
    )


def test_a_chain_of_calls_ends_with_as_many_vectors_as_it_takes_at_a_time():
    assert repeats(in_a_row(12), 1000)
    assert repeats(in_a_row(12), 64 * 60 + 8)


def test_nothing_is_repeated_where_nothing_is_left_over_or_there_are_too_few():
    assert not repeats(in_a_row(12), 1024)
    assert not repeats(in_a_row(12), 40)


def test_where_a_vector_does_for_what_is_left_over_more_are_not_taken():
    assert not repeats(in_a_row(12), 72)
    assert repeats(in_a_row(12), 72, 16)


def test_a_long_body_is_emitted_once_if_that_adds_little():
    long = in_a_row(LEAST_EMITTED_ONCE, "neg")
    assert repeats(long, 16 * 10_000 + 1, calls=False)
    assert not repeats(long, 16 * 100 + 1, calls=False)
    assert repeats(long, 16 * 100 + 1, 16, calls=False)
    assert not repeats(in_a_row(LEAST_EMITTED_ONCE // 2, "neg"), 16 * 10_000 + 1, calls=False)


@pytest.mark.parametrize(
    ("old", "new", "marks"),
    [
        ("x[i]", "y[i]", ""),
        ("y[i]", "y[i] = t0 y[2*i]", ""),
        ("x[i]", "x[i // 4]", ""),
        ("y[i]", "y[i]", "prefetches"),
    ],
    ids=["in place", "apart", "divided", "prefetches"],
)
def test_what_is_written_over_or_found_by_places_is_not_repeated(
    old: str, new: str, marks: str
) -> None:
    body, stored = in_a_row(12).replace(old, new), "inout y"
    assert not repeats(body, 1000, marks=marks, stored=stored)
    assert not repeats(body, 1000, 16, marks=marks, stored=stored)
    assert repeats(in_a_row(12), 1000, stored=stored)


def chain(x: Tensor, w: Tensor, ops: int) -> list[Tensor]:
    h = x
    for _ in range(ops):
        h = sg.tanh(h * w + x)
    y = sg.sum(h)
    return [h, y, *sg.gradients(y, [x, w])]


@pytest.mark.parametrize("target", TARGETS)
def test_a_chain_of_calls_has_one_copy_of_each_function(target: str) -> None:
    x, w = (sg.placeholder((1000,), name=name) for name in "xw")
    graph = Graph([chain(x, w, 12)[0]], [x, w])
    options = CompileOptions(target_named(target), 3, False, False, Threads(1))
    program = lower_graph(graph, options).program
    assert _defined(program, options.target, ".outlined") == 1


def _defined(program: Program, target: Target, part: str) -> int:
    """Return how many functions are emitted that have this part in their names."""
    lines = str(emit_module(program, target)).split("\n")
    return sum(line.startswith("define") and part in line for line in lines)


def test_chains_of_many_sizes_are_one_kernel() -> None:
    sizes = [1000 + 3 * n for n in range(2 * MIN_SIMILAR_KERNELS)]
    given = [sg.placeholder((size,), name=f"x{size}") for size in sizes if size % 64]
    graph = Graph([chain(x, x, 12)[0] for x in given], given)
    target = target_named("x86-64-v4")
    options = CompileOptions(target, 3, False, False, Threads(1))
    program = lower_graph(graph, options).program
    assert _defined(program, target, SIMILAR) == 1
    assert _defined(program, target, '@"k') == 0


@pytest.mark.parametrize("count", [1, 40, 65, 100, 129, 999, 1000, 1001, 4095])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_those_of_elements_by_themselves(count: int, dtype: str) -> None:
    random = np.random.default_rng(count)
    given = [random.standard_normal(4096).astype(dtype) for _ in range(2)]
    x, w = (sg.placeholder((4096,), dtype, name=name) for name in "xw")
    whole = sg.compile([x, w], chain(x, w, 20), threads=1)(*given)
    x, w = (sg.placeholder((count,), dtype, name=name) for name in "xw")
    part = sg.compile([x, w], chain(x, w, 20), threads=1)(*(a[:count].copy() for a in given))
    for at in (0, 2, 3):
        np.testing.assert_array_equal(part[at], whole[at][:count])


def test_variables_are_updated_in_place_once():
    start = np.linspace(-1, 1, 1000, dtype=np.float32)
    w, expected = sg.variable(start.copy(), name="w"), start.copy()
    h = sg.tanh(w * 1.5 + 0.25)
    for _ in range(19):
        h = sg.tanh(h * 1.5 + 0.25)
    step = sg.compile([], [], updates=[(w, w - h)])
    step()
    for _ in range(20):
        start = np.tanh(start * np.float32(1.5) + np.float32(0.25))
    np.testing.assert_allclose(sg.run(w), expected - start, rtol=1e-5, atol=1e-5)
